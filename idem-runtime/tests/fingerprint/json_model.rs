//! JSON values as the contract compares them, and the many ways to write each.

use fastrand::Rng;
use proptest::prelude::*;

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Json {
    Null,
    Bool(bool),
    /// An integer, not divisible by ten unless it is zero, and a power of ten.
    Number(i64, i32),
    Text(String),
    Array(Vec<Json>),
    /// Sorted by name, each name once.
    Object(Vec<(String, Json)>),
}

impl Json {
    pub(crate) fn number(mut integer: i64, mut exponent: i32) -> Json {
        while integer != 0 && integer % 10 == 0 {
            integer /= 10;
            exponent += 1;
        }
        Json::Number(integer, if integer == 0 { 0 } else { exponent })
    }

    pub(crate) fn object(members: impl IntoIterator<Item = (String, Json)>) -> Json {
        let members: std::collections::BTreeMap<String, Json> = members.into_iter().collect();
        Json::Object(members.into_iter().collect())
    }

    /// Writes the value in one of its spellings: half of the time as a program would, each record like the one before.
    pub(crate) fn write(&self, random: &mut Rng) -> String {
        let mut written = String::new();
        let mut writer = Writer {
            is_tidy: random.bool(),
            break_at: if random.bool() { "\n  " } else { "" },
            random,
        };
        writer.blanks(&mut written);
        self.write_to(&mut writer, &mut written);
        writer.blanks(&mut written);
        written
    }

    fn write_to(&self, writer: &mut Writer<'_>, into: &mut String) {
        match self {
            Json::Null => into.push_str("null"),
            Json::Bool(value) => into.push_str(if *value { "true" } else { "false" }),
            Json::Number(integer, exponent) => number(*integer, *exponent, writer.random, into),
            Json::Text(value) => text(value, writer.random.u8(..4) == 0, writer.random, into),
            Json::Array(elements) => {
                into.push('[');
                for (index, element) in elements.iter().enumerate() {
                    writer.separate(index, into);
                    element.write_to(writer, into);
                }
                writer.blanks(into);
                into.push(']');
            }
            Json::Object(members) => {
                let mut members: Vec<_> = members.iter().collect();
                if writer.is_tidy {
                    members.reverse();
                } else if writer.random.bool() {
                    writer.random.shuffle(&mut members);
                }
                into.push('{');
                for (index, (name, value)) in members.into_iter().enumerate() {
                    writer.separate(index, into);
                    let is_escaped = !writer.is_tidy && writer.random.u8(..4) == 0;
                    text(name, is_escaped, writer.random, into);
                    writer.blanks(into);
                    into.push(':');
                    writer.blanks(into);
                    value.write_to(writer, into);
                }
                writer.blanks(into);
                into.push('}');
            }
        }
    }
}

struct Writer<'a> {
    is_tidy: bool,
    /// What a tidy writer puts before each member and element.
    break_at: &'static str,
    random: &'a mut Rng,
}

impl Writer<'_> {
    fn separate(&mut self, index: usize, into: &mut String) {
        self.blanks(into);
        if index > 0 {
            into.push(',');
            self.blanks(into);
        }
        if self.is_tidy {
            into.push_str(self.break_at);
        }
    }

    fn blanks(&mut self, into: &mut String) {
        // A tidy writer slips now and then, so that records break their pattern.
        let one_in = if self.is_tidy { 200 } else { 4 };
        if self.random.u8(..one_in) == 0 {
            let count = self.random.usize(..20);
            into.extend((0..count).map(|_| [' ', '\t', '\n', '\r'][self.random.usize(..4)]));
        }
    }
}

/// Any split of `integer * 10^exponent` into digits, a point among or around them, and an exponent.
fn number(integer: i64, exponent: i32, random: &mut Rng, into: &mut String) {
    let mut digits = integer.unsigned_abs().to_string();
    let mut exponent = if integer == 0 {
        random.i32(-9..9)
    } else {
        exponent
    };
    let zeros = if random.bool() { 0 } else { random.usize(..40) };
    digits.push_str(&"0".repeat(zeros));
    exponent -= zeros as i32;
    if integer < 0 || (integer == 0 && random.bool()) {
        into.push('-');
    }
    // How many digits stand behind the point; more than there are means zeros before them.
    let places = match random.u8(..3) {
        0 => 0,
        1 => random.usize(..digits.len() + 20),
        _ => usize::try_from(-exponent).unwrap_or(0).min(60),
    };
    exponent += places as i32;
    let padded = format!(
        "{}{digits}",
        "0".repeat((places + 1).saturating_sub(digits.len()))
    );
    let (whole, fraction) = padded.split_at(padded.len() - places);
    let whole = match whole.trim_start_matches('0') {
        "" => "0",
        trimmed => trimmed,
    };
    into.push_str(whole);
    if places > 0 {
        into.push('.');
        into.push_str(fraction);
    }
    if exponent != 0 || random.bool() {
        into.push(if random.bool() { 'e' } else { 'E' });
        if exponent < 0 {
            into.push('-');
        } else if random.bool() {
            into.push('+');
        }
        into.push_str(&"0".repeat(random.usize(..3)));
        into.push_str(&exponent.unsigned_abs().to_string());
    }
}

fn text(value: &str, escaping: bool, random: &mut Rng, into: &mut String) {
    into.push('"');
    for character in value.chars() {
        let must = character < ' ' || character == '"' || character == '\\';
        let short = "\"\\/bfnrt"
            .chars()
            .zip("\"\\/\u{8}\u{c}\n\r\t".chars())
            .find(|(_, plain)| *plain == character);
        match short {
            Some((escape, _)) if (must || escaping) && random.bool() => into.extend(['\\', escape]),
            _ if must || (escaping && random.bool()) => {
                for unit in character.encode_utf16(&mut [0; 2]) {
                    let digits = if random.bool() {
                        format!("{unit:04x}")
                    } else {
                        format!("{unit:04X}")
                    };
                    into.push_str("\\u");
                    into.push_str(&digits);
                }
            }
            _ => into.push(character),
        }
    }
    into.push('"');
}

/// Values from a domain so small that two of them are often equal or nearly so.
pub(crate) fn any_json() -> impl Strategy<Value = Json> {
    let scalar = prop_oneof![
        Just(Json::Null),
        any::<bool>().prop_map(Json::Bool),
        (-30_i64..30, -3..3).prop_map(|(integer, exponent)| Json::number(integer, exponent)),
        (any::<i64>(), -400..400).prop_map(|(integer, exponent)| Json::number(integer, exponent)),
        any_text().prop_map(Json::Text),
    ];
    let record = (
        any_text(),
        prop::collection::vec(scalar.clone(), 24..40),
        any_text(),
    )
        .prop_map(|(name, values, inner)| {
            let records = values.chunks_exact(4).map(|values| {
                let price = Json::object([
                    (inner.clone(), values[0].clone()),
                    ("b".to_owned(), values[1].clone()),
                ]);
                Json::object([
                    (name.clone(), price),
                    ("x".to_owned(), values[2].clone()),
                    ("a".to_owned(), values[3].clone()),
                ])
            });
            Json::Array(records.collect())
        });
    // Lists of records of a few kinds, with lists in them.
    let mixed = (
        prop::collection::vec(prop::collection::vec(any_text(), 0..4), 3),
        prop::collection::vec(
            (0_usize..3, prop::collection::vec(scalar.clone(), 4)),
            0..24,
        ),
    )
        .prop_map(|(kinds, elements)| {
            let records = elements.into_iter().map(|(kind, values)| {
                let list = Json::Array(values[3..].to_vec());
                let values = [list].into_iter().chain(values);
                Json::object(kinds[kind].iter().cloned().zip(values))
            });
            Json::Array(records.collect())
        });
    prop_oneof![4 => scalar, 1 => record, 1 => mixed].prop_recursive(4, 24, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..6).prop_map(Json::Array),
            prop::collection::vec((any_text(), inner.clone()), 0..6).prop_map(Json::object),
            // Records: the same names again and again.
            (
                prop::collection::vec(any_text(), 1..5),
                prop::collection::vec(inner, 12)
            )
                .prop_map(|(names, values)| {
                    let records = values.chunks_exact(names.len());
                    Json::Array(
                        records
                            .map(|values| Json::object(names.iter().cloned().zip(values.to_vec())))
                            .collect(),
                    )
                }),
        ]
    })
}

fn any_text() -> impl Strategy<Value = String> {
    prop_oneof![
        3 => "[ab]{0,3}",
        2 => "[a-c\"\\\\/\n\u{0}\u{e9}\u{1f600}]{0,5}",
        2 => "[a-z]{5,40}",
        1 => "[a-z\u{e9}\"]{60,200}",
        1 => any::<String>(),
    ]
}
