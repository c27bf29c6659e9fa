//! The command line of `hammer`.

use std::path::PathBuf;
use std::time::Duration;

use axum::http::{HeaderName, HeaderValue, Method};
use clap::builder::RangedU64ValueParser;
use clap::{Args, Parser};
use reqwest::Url;

use super::count::Source;
use super::plan::{Mix, Plan};
use super::request::{Request, field};
use super::retry::Patience;
use super::{Settings, Unusable};

/// Loads an operation that takes idempotency keys, as clients on a bad network do, and counts its effects.
///
/// Each key's request is sent in one of these courses: `once`; `replays`, again after its success; `together`, several at once;
/// `lost`, with answers that the client does not get; `disconnects`, with connections that are closed at any moment; `changed`,
/// with another body after its success, which must be refused. Then it is retried until it ends, as a client should: with a growing
/// random wait, and no sooner than `Retry-After`. Keys that were given up are tried once more when all others have ended.
///
/// There must be one effect for each key that ended in success, and no other. In `--url`, `--header` and `--body`, `{number}` is the
/// number of the key, from 0, and `{key}` the key. If effects hold their keys, `--by-key` names those that are lost or doubled.
///
/// The report goes to standard output, progress to standard error. Exit codes: 0 right; 1 effects are lost or doubled, or answers
/// wrong; 2 asked for wrongly, or it can't be run; 3 nothing is wrong, but keys did not end, or none with success.
#[derive(Debug, Parser)]
#[command(name = "hammer", verbatim_doc_comment, after_help = EXAMPLE)]
pub struct Arguments {
    /// The operation, over http, on this machine. Repeated for each process of the service: requests go to each in turn.
    #[arg(long = "url", value_name = "URL", required = true)]
    urls: Vec<String>,
    #[arg(long, default_value = "POST")]
    method: Method,
    /// A field line, `name: value`. May be repeated.
    #[arg(long = "header", short = 'H', value_name = "FIELD", value_parser = field)]
    headers: Vec<(HeaderName, String)>,
    /// The content, JSON unless a field says otherwise.
    #[arg(long, short = 'd', value_name = "TEXT")]
    body: Option<String>,
    /// What is sent in place of it once the key is used, and must be refused. Otherwise another key's body, or the object with a
    /// member more.
    #[arg(long, value_name = "TEXT")]
    changed_body: Option<String>,
    /// With what it must be refused.
    #[arg(long, value_name = "STATUS", default_value_t = 422)]
    changed_status: u16,
    /// The field that the key is sent in.
    #[arg(long, value_name = "NAME", default_value = "idempotency-key")]
    key_header: HeaderName,
    /// Sends the key without quotation marks.
    #[arg(long)]
    bare_key: bool,
    /// A field line that the first attempt with some keys has, such as a fault to inject. May be repeated.
    #[arg(long, value_name = "FIELD", value_parser = field)]
    sometimes: Vec<(HeaderName, String)>,
    #[command(flatten)]
    count: Count,
    #[command(flatten)]
    amount: Amount,
    #[command(flatten)]
    tries: Tries,
    /// Decides keys, what is sent with each, and when. A new one unless it's given; for a run again, empty the database.
    #[arg(long)]
    seed: Option<u64>,
    /// How often each course is taken. What is not named is not.
    #[arg(
        long,
        value_name = "COURSES",
        default_value = "once=2,replays=2,together=2,lost=1,disconnects=2,changed=1"
    )]
    mix: Mix,
    /// Sends to other machines, too.
    #[arg(long)]
    allow_remote: bool,
    /// Prints the report as JSON.
    #[arg(long)]
    pub json: bool,
}

const EXAMPLE: &str = "\
Example:
  hammer --url http://127.0.0.1:3000/orders -H 'authorization: Bearer alice-token' \\
    -d '{\"item\": \"book\", \"quantity\": 1}' \\
    --count-sql \"$DATABASE_URL\" 'SELECT count(*) FROM orders'";

/// Where the effects are seen.
#[derive(Debug, Args)]
struct Count {
    #[command(flatten)]
    source: Sources,
    /// Where in the document of `--count-url` the array or number is (a JSON pointer), as `/rows`.
    #[arg(
        long,
        value_name = "POINTER",
        default_value = "",
        hide_default_value = true
    )]
    count_pointer: String,
    /// A field line for `--count-url`, in place of those of the operation. May be repeated.
    #[arg(long, value_name = "FIELD", value_parser = field)]
    count_header: Vec<(HeaderName, String)>,
    /// Effects hold their keys: rows that are a text, elements, lines. Those of others are not counted.
    #[arg(long)]
    by_key: bool,
    /// How many effects a key has.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = RangedU64ValueParser::<u32>::new().range(1..))]
    effects_per_key: u32,
    /// How long effects may come after the last answer.
    #[arg(long, value_name = "TIME", default_value = "2s", value_parser = time)]
    settle: Duration,
}

#[derive(Debug, Args)]
#[group(required = true, multiple = false)]
struct Sources {
    /// Effects are an array in a JSON document, or a number.
    #[arg(long, value_name = "URL")]
    count_url: Option<Url>,
    /// Effects are counted in a database: `postgres://…`, `mysql://…` or `sqlite:FILE`.
    #[arg(long, num_args = 2, value_names = ["DATABASE", "QUERY"])]
    count_sql: Option<Vec<String>>,
    /// Effects are the lines of a file.
    #[arg(long, value_name = "FILE")]
    count_file: Option<PathBuf>,
    /// Effects are a number that a shell's command prints.
    #[arg(long, value_name = "COMMAND")]
    count_command: Option<String>,
}

/// How much is sent.
#[derive(Debug, Args)]
struct Amount {
    /// No more keys than this.
    #[arg(long, value_name = "N", default_value_t = 1000, value_parser = RangedU64ValueParser::<u64>::new().range(1..=10_000_000))]
    keys: u64,
    /// No new key after so long.
    #[arg(long, value_name = "TIME", default_value = "10m", value_parser = time)]
    duration: Duration,
    /// How many keys are under way at a time.
    #[arg(long, value_name = "N", default_value_t = 16, value_parser = RangedU64ValueParser::<u32>::new().range(1..=4096))]
    concurrency: u32,
    /// No more new keys in a second than this.
    #[arg(long, value_name = "KEYS", value_parser = rate)]
    rate: Option<f64>,
}

/// How each key is tried.
#[derive(Debug, Args)]
struct Tries {
    /// A client's requests with one key, before it gives up.
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = RangedU64ValueParser::<u32>::new().range(1..))]
    attempts: u32,
    /// How long a client tries one key.
    #[arg(long, value_name = "TIME", default_value = "2m", value_parser = time)]
    give_up: Duration,
    /// What the first wait between two attempts is at most; it doubles with each.
    #[arg(long, value_name = "TIME", default_value = "500ms", value_parser = time)]
    backoff: Duration,
    /// What any wait is at most.
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = time)]
    longest_backoff: Duration,
    /// How long a request may take.
    #[arg(long, value_name = "TIME", default_value = "45s", value_parser = time)]
    timeout: Duration,
    /// Disconnects come within so long. Otherwise within twice what the operation takes in the median.
    #[arg(long, value_name = "TIME", value_parser = time)]
    disconnect_within: Option<Duration>,
    /// The most bytes of an answer.
    #[arg(long, value_name = "BYTES", default_value_t = 1 << 20)]
    max_answer: usize,
}

impl Arguments {
    /// What they decide.
    ///
    /// # Errors
    ///
    /// When parts of them do not fit together.
    pub fn settings(&self) -> Result<Settings, Unusable> {
        let [first, others @ ..] = self.urls.as_slice() else {
            return Err(Unusable("no URL is given".to_owned()));
        };
        let mut request = Request::new(self.method.clone(), first);
        for url in others {
            request = request.also_at(url);
        }
        for (name, value) in &self.headers {
            request = request.header(name.clone(), value);
        }
        request = request.key_header(self.key_header.clone(), self.bare_key);
        if let Some(body) = &self.body {
            request = request.body(body);
        }
        if let Some(body) = &self.changed_body {
            request = request.changed_body(body);
        }
        if self.count.by_key && !request.names_key() {
            let why = "--by-key: put {key} into the request, where the operation stores it";
            return Err(Unusable(why.to_owned()));
        }
        let sometimes = self.sometimes.iter().map(|(name, value)| {
            let value = HeaderValue::from_str(value).expect("it was parsed as a field line");
            (name.clone(), value)
        });
        Ok(Settings {
            request,
            plan: Plan {
                seed: self.seed.unwrap_or_else(|| fastrand::u64(..1 << 32)),
                mix: self.mix.clone(),
                sometimes: self.sometimes.len(),
            },
            sometimes: sometimes.collect(),
            keys: self.amount.keys,
            duration: self.amount.duration,
            concurrency: usize::try_from(self.amount.concurrency).unwrap_or(usize::MAX),
            rate: self.amount.rate,
            patience: Patience {
                attempts: self.tries.attempts,
                give_up: self.tries.give_up,
                backoff: self.tries.backoff,
                longest: self.tries.longest_backoff,
            },
            timeout: self.tries.timeout,
            max_answer: self.tries.max_answer,
            disconnect_within: self.tries.disconnect_within,
            mismatch_status: self.changed_status,
            allow_remote: self.allow_remote,
        })
    }

    /// Where effects are counted.
    ///
    /// # Errors
    ///
    /// When the operation's fields can't be sent.
    pub fn source(&self, settings: &Settings) -> Result<Source, Unusable> {
        let Sources {
            count_url,
            count_sql,
            count_file,
            count_command,
        } = &self.count.source;
        if let Some(url) = count_url {
            let mut headers = settings.request.plain_headers(&settings.plan.key(0))?;
            if !self.count.count_header.is_empty() {
                headers.clear();
            }
            for (name, value) in &self.count.count_header {
                let value = HeaderValue::from_str(value).expect("it was parsed as a field line");
                headers.append(name.clone(), value);
            }
            return Ok(Source::Url {
                url: url.clone(),
                pointer: self.count.count_pointer.clone(),
                headers,
                allow_remote: self.allow_remote,
            });
        }
        match (count_sql.as_deref(), count_file, count_command) {
            (Some([database, query]), _, _) => Ok(Source::Sql {
                database: database.clone(),
                query: query.clone(),
            }),
            (_, Some(path), _) => Ok(Source::File(path.clone())),
            (_, _, Some(command)) => Ok(Source::Command(command.clone())),
            _ => Err(Unusable(
                "nothing says where effects are counted".to_owned(),
            )),
        }
    }

    /// Whether effects hold their keys.
    pub fn by_key(&self) -> bool {
        self.count.by_key
    }

    /// How many effects a key has.
    pub fn effects_per_key(&self) -> u32 {
        self.count.effects_per_key
    }

    /// How long effects may come after the last answer.
    pub fn settle(&self) -> Duration {
        self.count.settle
    }
}

fn rate(text: &str) -> Result<f64, String> {
    let rate = text.parse().ok();
    let rate = rate.filter(|rate: &f64| rate.is_finite() && *rate >= 0.001);
    rate.ok_or_else(|| "keys in a second, such as 50 or 0.5".to_owned())
}

/// As in the attribute: `250ms`, `5s`, `2m`, `48h`.
fn time(text: &str) -> Result<Duration, String> {
    let digits = text.trim_end_matches(|letter: char| letter.is_ascii_alphabetic());
    let wrong = || format!("{text:?} is no time: 250ms, 5s, 2m, 48h");
    let number: u32 = digits.parse().map_err(|_| wrong())?;
    let seconds = match &text[digits.len()..] {
        "ms" => return Ok(Duration::from_millis(number.into())),
        "s" => 1,
        "m" => 60,
        "h" => 3600,
        _ => return Err(wrong()),
    };
    Ok(Duration::from_secs(u64::from(number) * seconds))
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    fn parse(line: &str) -> Result<Arguments, clap::Error> {
        let words = line.split_whitespace();
        Arguments::try_parse_from(std::iter::once("hammer").chain(words))
    }

    #[test]
    fn the_command_line_is_consistent() {
        Arguments::command().debug_assert();
    }

    #[test]
    fn one_source_of_effects_is_needed_and_no_more() {
        let url = "--url http://127.0.0.1/";
        assert!(parse(url).is_err());
        assert!(parse(&format!("{url} --count-file a --count-command b")).is_err());
        assert!(parse(&format!("{url} --count-file a")).is_ok());
        assert!(parse(&format!("{url} --count-sql sqlite:a SELECT")).is_ok());
        assert!(parse(&format!("{url} --count-sql sqlite:a")).is_err());
    }

    #[test]
    fn effects_that_are_to_name_their_keys_must_be_told_them() {
        let line = "--url http://127.0.0.1/ --count-file a --by-key";
        let settings = parse(line).expect("arguments").settings();
        assert!(settings.is_err());
        let line = format!("{line} --body {{key}}");
        assert!(parse(&line).expect("arguments").settings().is_ok());
    }

    #[test]
    fn the_default_mix_is_that_of_the_plan() {
        let arguments = parse("--url http://127.0.0.1/ --count-file a").expect("arguments");
        assert_eq!(arguments.mix, Mix::default());
    }

    #[test]
    fn a_time_has_a_unit() {
        assert_eq!(time("250ms"), Ok(Duration::from_millis(250)));
        assert_eq!(time("2m"), Ok(Duration::from_secs(120)));
        for wrong in ["", "5", "s", "-1s", "5 s", "1d", "99999999999s"] {
            assert!(time(wrong).is_err(), "{wrong:?}");
        }
    }
}
