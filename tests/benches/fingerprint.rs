//! How fast a fingerprint is, beside SHA-256 alone and beside parsing and canonicalising with general-purpose crates.
//!
//! `cargo bench -p idem-tests --bench fingerprint`. The contenders take turns within one run, so that a change in the
//! machine's speed meets them all; what is printed are the least time, the median, and medians of the ratios in each turn.

use std::{
    hint::black_box,
    time::{Duration, Instant},
};

use axum::http::{HeaderMap, HeaderValue, Method, Uri, header};
use idem_runtime::fingerprint::{Fingerprint, FingerprintInput, FingerprintOptions};
use sha2::{Digest, Sha256};

const TURNS: usize = 301;
const CALLS: u32 = 40;
const BODY_LENGTH: usize = 10 * 1024;

type Contender<'a> = (&'static str, Box<dyn Fn(&[u8]) -> [u8; 32] + 'a>);

fn main() {
    let headers = HeaderMap::from_iter([(
        header::CONTENT_TYPE,
        HeaderValue::from_static("application/json"),
    )]);
    let uri = Uri::from_static("/orders");
    let options = FingerprintOptions::default();
    let ignoring = FingerprintOptions {
        ignore: &["/sent_at"],
        ..options
    };
    let fingerprint = |body: &[u8], options: &FingerprintOptions<'_>| {
        *Fingerprint::compute(&FingerprintInput {
            method: &Method::POST,
            uri: &uri,
            headers: &headers,
            body,
            options,
        })
        .digest()
    };
    let contenders: [Contender<'_>; 5] = [
        (
            "SHA-256 alone",
            Box::new(|body| Sha256::digest(body).into()),
        ),
        ("idem", Box::new(|body| fingerprint(body, &options))),
        (
            "idem, one member ignored",
            Box::new(|body| fingerprint(body, &ignoring)),
        ),
        (
            "serde_json, serde_jcs, SHA-256",
            Box::new(|body| {
                let value: serde_json::Value =
                    serde_json::from_slice(body).expect("the body is JSON");
                Sha256::digest(serde_jcs::to_vec(&value).expect("a value can be written")).into()
            }),
        ),
        (
            "serde_json, serde_json_canonicalizer, SHA-256",
            Box::new(|body| {
                let value: serde_json::Value =
                    serde_json::from_slice(body).expect("the body is JSON");
                Sha256::digest(
                    serde_json_canonicalizer::to_vec(&value).expect("a value can be written"),
                )
                .into()
            }),
        ),
    ];
    for (name, body) in bodies() {
        compare(name, body.as_bytes(), &contenders);
    }
}

fn bodies() -> [(&'static str, String); 8] {
    [
        ("an order, members unsorted, compact", order(false)),
        ("the same, indented", indented()),
        ("an order, members sorted, compact", order(true)),
        ("long texts", texts()),
        ("events of three kinds", events()),
        ("lists in records of a list", baskets()),
        ("no two objects alike", settings()),
        (
            "a payment",
            r#"{"amount":1250,"currency":"EUR","to":"DE0012345678901234"}"#.to_owned(),
        ),
    ]
}

fn compare(name: &str, body: &[u8], contenders: &[Contender<'_>]) {
    let mut times = vec![Vec::with_capacity(TURNS); contenders.len()];
    for turn in 0..TURNS {
        for step in 0..contenders.len() {
            // Each turn begins with another one, so that none always follows the same.
            let at = (turn + step) % contenders.len();
            let begin = Instant::now();
            for _ in 0..CALLS {
                black_box((contenders[at].1)(black_box(body)));
            }
            times[at].push(begin.elapsed() / CALLS);
        }
    }
    println!("\n{name}: {} bytes", body.len());
    println!(
        "{:<48}{:>10}{:>10}{:>10}{:>16}{:>12}",
        "", "least us", "us", "MB/s", "x SHA-256 speed", "idem is x"
    );
    for (at, (contender, _)) in contenders.iter().enumerate() {
        let least = times[at].iter().min().map_or(0.0, Duration::as_secs_f64);
        let time = median(times[at].iter().map(Duration::as_secs_f64));
        let to_sha = median(
            (0..TURNS).map(|turn| times[0][turn].as_secs_f64() / times[at][turn].as_secs_f64()),
        );
        let to_idem = median(
            (0..TURNS).map(|turn| times[at][turn].as_secs_f64() / times[1][turn].as_secs_f64()),
        );
        println!(
            "{contender:<48}{:>10.2}{:>10.2}{:>10.0}{to_sha:>16.2}{to_idem:>12.2}",
            least * 1e6,
            time * 1e6,
            body.len() as f64 / time / 1e6
        );
    }
}

fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// About a hundred line items of differing texts and numbers, as an object mapper or a map would write them.
fn order(sorted: bool) -> String {
    let mut random = fastrand::Rng::with_seed(7);
    let mut items = String::new();
    let mut count = 0;
    while items.len() < BODY_LENGTH - 420 {
        let sku = format!(
            "{}-{:05}",
            ["BOOK", "TEA", "CHAIR", "LAMP"][random.usize(..4)],
            random.u32(..100_000)
        );
        let title = [
            "Green tea, 250 g",
            "Chair \\\"Oslo\\\"",
            "Lamp",
            "Les Mis\u{e9}rables",
            "Notes\\non paper",
        ][random.usize(..5)];
        let quantity = random.u32(1..30);
        let amount = format!("{}.{:02}", random.u32(1..500), random.u32(..100));
        let gift = random.bool();
        let comma = if count == 0 { "" } else { "," };
        items += comma;
        items += &if sorted {
            format!(
                r#"{{"gift":{gift},"price":{{"amount":{amount},"currency":"EUR"}},"quantity":{quantity},"sku":"{sku}","title":"{title}"}}"#
            )
        } else {
            format!(
                r#"{{"sku":"{sku}","title":"{title}","quantity":{quantity},"price":{{"currency":"EUR","amount":{amount}}},"gift":{gift}}}"#
            )
        };
        count += 1;
    }
    let customer = r#"{"id":"c_81723","name":"Zo\u00eb Example","email":"zoe@example.org"}"#;
    let address = r#"{"street":"1 Long Street","city":"Gr\u00f6nk\u00f6ping","postal_code":"00-123","country":"SE"}"#;
    if sorted {
        format!(
            r#"{{"address":{address},"customer":{customer},"items":[{items}],"order_id":"o_1","total":123456.5}}"#
        )
    } else {
        format!(
            r#"{{"order_id":"o_1","customer":{customer},"total":123456.5,"items":[{items}],"address":{address},"sent_at":"2031-01-01T00:00:00Z"}}"#
        )
    }
}

/// An order written with line breaks and two spaces a level, cut to fewer items so that it is as long.
fn indented() -> String {
    let mut value: serde_json::Value =
        serde_json::from_str(&order(false)).expect("the order is JSON");
    loop {
        let text = serde_json::to_string_pretty(&value).expect("a value can be written");
        if text.len() <= BODY_LENGTH {
            return text;
        }
        value["items"]
            .as_array_mut()
            .expect("items is an array")
            .pop();
    }
}

fn texts() -> String {
    let sentence = "The quick brown fox jumps over the lazy dog, then rests; na\u{ef}ve r\u{e9}sum\u{e9}s do not. ";
    let paragraph = sentence.repeat(8);
    let mut body = String::from(r#"{"title":"Foxes","paragraphs":["#);
    while body.len() < BODY_LENGTH - paragraph.len() {
        body += &format!("\"{}\",", paragraph.trim_end());
    }
    body + r#""The end.\n"],"author":"A. N. Other"}"#
}

/// A list of records that differ in their names, in any order.
fn events() -> String {
    let mut random = fastrand::Rng::with_seed(3);
    list(|| {
        let at = random.u32(..);
        match random.u8(..3) {
            0 => format!(
                r#"{{"type":"click","at":{at},"x":{},"y":{}}}"#,
                random.u8(..),
                random.u8(..)
            ),
            1 => format!(
                r#"{{"type":"key","at":{at},"code":"{}"}}"#,
                random.lowercase()
            ),
            _ => format!(
                r#"{{"type":"view","at":{at},"page":"/articles/{}","referrer":null}}"#,
                random.u16(..)
            ),
        }
    })
}

fn baskets() -> String {
    let mut random = fastrand::Rng::with_seed(5);
    list(|| {
        let [id, name, first, second] = [(); 4].map(|()| random.u16(..));
        format!(
            r#"{{"id":{id},"name":"n{name}","tags":["a","b"],"lines":[{{"sku":"s{first}","n":1}},{{"sku":"s{second}","n":2}}]}}"#
        )
    })
}

fn list(mut element: impl FnMut() -> String) -> String {
    let mut elements = Vec::new();
    let mut length = 0;
    while length < BODY_LENGTH - 60 {
        elements.push(element());
        length += elements[elements.len() - 1].len() + 1;
    }
    format!("[{}]", elements.join(","))
}

/// The worst case for what the fingerprint counts on: every name occurs once.
fn settings() -> String {
    let mut random = fastrand::Rng::with_seed(11);
    let mut word = |length: usize| {
        std::iter::repeat_with(|| random.lowercase())
            .take(length)
            .collect::<String>()
    };
    let mut body = String::from("{");
    while body.len() < BODY_LENGTH - 120 {
        let [group, one, two, three] = [7, 9, 6, 11].map(&mut word);
        body += &format!(
            r#""{group}":{{"{one}":"{}","{two}":17,"{three}":true}},"#,
            word(12)
        );
    }
    body + r#""end":null}"#
}
