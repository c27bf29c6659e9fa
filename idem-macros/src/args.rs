//! What is written in `#[idempotent(..)]`: tokens to checked values, every error at once.

use std::time::Duration;

use proc_macro2::{Ident, Span, TokenStream, TokenTree};
use syn::{Path, Type};

use crate::{
    errors::Errors,
    paths::CratePath,
    rules,
    scope::ScopePath,
    suggest::nearest,
    values::{Argument, Choice, Choices},
};

/// Every argument, with values to show in advice.
const ARGUMENTS: [(&str, &[&str]); 20] = [
    ("scope", &["\"account\""]),
    ("ttl", &["\"48h\"", "\"7d\""]),
    ("errors", &["\"store\""]),
    ("in_flight", &["\"reject\""]),
    ("wait", &["\"5s\"", "\"250ms\""]),
    ("expired", &["\"reject\""]),
    ("tombstone", &["\"30d\"", "\"72h\""]),
    ("timeout", &["\"30s\"", "\"2m\""]),
    ("max_body", &["\"2MiB\"", "\"64KiB\""]),
    ("max_response", &["\"1MiB\"", "\"64KiB\""]),
    ("fingerprint_headers", &["[\"x-api-version\"]"]),
    ("fingerprint_ignore", &["[\"/sent_at\", \"?utm_source\"]"]),
    ("key_space", &["\"operation\""]),
    ("authorize", &["may_create"]),
    ("replay_with", &["rebuild"]),
    ("operation", &["\"orders.create\""]),
    ("definition", &["2"]),
    ("key", &["\"optional\""]),
    ("state", &["AppState"]),
    ("crate", &["\"::idem_runtime\""]),
];

const ERRORS: Choices = Choices {
    kind: "Errors",
    options: [("release", "Release"), ("store", "Store")],
};
const IN_FLIGHT: Choices = Choices {
    kind: "InFlight",
    options: [("wait", "Wait"), ("reject", "Reject")],
};
const EXPIRED: Choices = Choices {
    kind: "Expired",
    options: [("execute", "Execute"), ("reject", "Reject")],
};
const KEY_SPACE: Choices = Choices {
    kind: "KeySpace",
    options: [("scope", "Scope"), ("operation", "Operation")],
};
const KEY: Choices = Choices {
    kind: "KeyRequirement",
    options: [("required", "Required"), ("optional", "Optional")],
};

/// The attribute's arguments. `None` is "not given" (the router's defaults hold), or given and refused.
#[derive(Clone, Default)]
pub(crate) struct Args {
    pub(crate) scope: Option<ScopePath>,
    pub(crate) operation: Option<String>,
    /// The version of a handler's steps.
    pub(crate) definition: Option<u16>,
    pub(crate) ttl: Option<Duration>,
    pub(crate) wait: Option<Duration>,
    pub(crate) tombstone: Option<Duration>,
    pub(crate) timeout: Option<Duration>,
    pub(crate) errors: Option<Choice>,
    pub(crate) in_flight: Option<Choice>,
    pub(crate) expired: Option<Choice>,
    pub(crate) key_space: Option<Choice>,
    pub(crate) key: Option<Choice>,
    /// Bytes.
    pub(crate) max_body: Option<u32>,
    /// Bytes.
    pub(crate) max_response: Option<u32>,
    /// In lower case.
    pub(crate) fingerprint_headers: Vec<String>,
    pub(crate) fingerprint_ignore: Vec<String>,
    pub(crate) authorize: Option<Path>,
    pub(crate) replay_with: Option<Path>,
    pub(crate) state: Option<Type>,
    /// The names of all that is given, with the tokens to blame.
    pub(crate) given: Vec<(String, TokenStream)>,
    /// `None` when what was given is refused: then nothing of the runtime can be named.
    pub(crate) runtime: Option<CratePath>,
}

impl Args {
    pub(crate) fn parse(tokens: TokenStream, errors: &mut Errors) -> Args {
        let Written {
            arguments,
            tries_scope,
        } = Written::split(tokens, errors);
        let mut args = Args {
            runtime: Some(CratePath::default()),
            ..Args::default()
        };
        for argument in &arguments {
            args.read(argument, errors);
            let name = argument.name.to_string();
            args.given.push((name, argument.value.clone()));
        }
        let given = |name: &str| arguments.iter().find(|argument| argument.name == name);
        if !tries_scope {
            errors.at_span(
                Span::call_site(),
                "missing `scope`: write `#[idempotent(scope = \"account\")]`, naming whose keys these are",
            );
        }
        if let (Some(argument), Some(ttl), Some(wait)) = (given("ttl"), args.ttl, args.wait)
            && ttl <= wait
        {
            errors.at(&argument.value, "`ttl` must be longer than `wait`");
        }
        let rejects = args
            .expired
            .is_some_and(|expired| expired.variant == "Reject");
        let refused = given("expired").is_some() && args.expired.is_none();
        if let Some(argument) = given("tombstone")
            && !rejects
            && !refused
        {
            errors.at(
                &argument.name,
                "`tombstone` is how long an expired key is still refused: it needs `expired = \"reject\"`",
            );
            args.tombstone = None;
        }
        args
    }

    /// The value of an argument, to blame.
    pub(crate) fn value(&self, name: &str) -> Option<&TokenStream> {
        let given = self.given.iter().find(|(given, _)| given == name);
        given.map(|(_, value)| value)
    }

    fn read(&mut self, argument: &Argument, errors: &mut Errors) {
        match argument.name.to_string().as_str() {
            "scope" => {
                self.scope = argument
                    .string(errors)
                    .and_then(|literal| ScopePath::parse(literal, errors));
            }
            "operation" => {
                self.operation = argument.string(errors).and_then(|literal| {
                    let fault = rules::operation_name(&literal.value()).err();
                    match fault {
                        None => Some(literal.value()),
                        Some(fault) => {
                            errors.at(literal, fault);
                            None
                        }
                    }
                });
            }
            "definition" => self.definition = argument.number(errors),
            "ttl" => self.ttl = argument.duration(errors),
            "wait" => self.wait = argument.duration(errors),
            "tombstone" => self.tombstone = argument.duration(errors),
            "timeout" => self.timeout = argument.duration(errors),
            "errors" => self.errors = argument.choice(&ERRORS, errors),
            "in_flight" => self.in_flight = argument.choice(&IN_FLIGHT, errors),
            "expired" => self.expired = argument.choice(&EXPIRED, errors),
            "key_space" => self.key_space = argument.choice(&KEY_SPACE, errors),
            "key" => self.key = argument.choice(&KEY, errors),
            "max_body" => self.max_body = argument.size(errors),
            "max_response" => self.max_response = argument.size(errors),
            "fingerprint_headers" => {
                self.fingerprint_headers = argument.list(rules::header_name, errors);
            }
            "fingerprint_ignore" => {
                self.fingerprint_ignore = argument.list(rules::ignored_member, errors);
            }
            "authorize" => self.authorize = argument.path(errors),
            "replay_with" => self.replay_with = argument.path(errors),
            "state" => self.state = argument.type_name(errors),
            "crate" => match CratePath::parse(argument.value.clone()) {
                Ok(path) => self.runtime = Some(path),
                Err(error) => {
                    errors.push(error);
                    self.runtime = None;
                }
            },
            unknown => unreachable!("`split` lets no `{unknown}` through"),
        }
    }
}

/// The arguments that are known, given once, and have a value; every other is an error.
struct Written {
    arguments: Vec<Argument>,
    /// There is a `scope`, if a misspelt one or one without a value: that is one mistake, not two.
    tries_scope: bool,
}

impl Written {
    fn split(tokens: TokenStream, errors: &mut Errors) -> Written {
        let mut written = Written {
            arguments: Vec::new(),
            tries_scope: false,
        };
        for part in parts(tokens) {
            written.read(part, errors);
        }
        written
    }

    fn read(&mut self, part: Vec<TokenTree>, errors: &mut Errors) {
        let mut part = part.into_iter();
        let name = match part.next() {
            Some(TokenTree::Ident(name)) => name,
            Some(other) => {
                self.tries_scope |= matches!(&other, TokenTree::Literal(_));
                return errors.at(
                    other,
                    "write arguments as `name = value`, such as `scope = \"account\"`",
                );
            }
            None => return,
        };
        let Some(examples) = examples(&name) else {
            let near = nearest(&name.to_string(), names());
            self.tries_scope |= near == Some("scope");
            return errors.at(&name, unknown(&name, near));
        };
        self.tries_scope |= name == "scope";
        let equals = matches!(part.next(), Some(TokenTree::Punct(sign)) if sign.as_char() == '=');
        let value: TokenStream = part.collect();
        if self.arguments.iter().any(|other| other.name == name) {
            errors.at(&name, format!("`{name}` is given twice"));
        } else if !equals || value.is_empty() {
            let example = examples[0];
            errors.at(
                &name,
                format!("`{name}` needs a value: write `{name} = {example}`"),
            );
        } else {
            self.arguments.push(Argument {
                name,
                value,
                examples,
            });
        }
    }
}

/// Splits at the commas outside of `<..>`; those in brackets are already groups.
pub(crate) fn parts(tokens: TokenStream) -> Vec<Vec<TokenTree>> {
    let mut parts = vec![Vec::new()];
    let (mut depth, mut arrow) = (0_i32, false);
    for token in tokens {
        let sign = match &token {
            TokenTree::Punct(punct) => punct.as_char(),
            _ => ' ',
        };
        match sign {
            '<' => depth += 1,
            '>' if !arrow => depth -= 1,
            _ => {}
        }
        arrow = sign == '-';
        if sign == ',' && depth <= 0 {
            parts.push(Vec::new());
        } else if let Some(part) = parts.last_mut() {
            part.push(token);
        }
    }
    parts
}

fn examples(name: &Ident) -> Option<&'static [&'static str]> {
    let known = ARGUMENTS.iter().find(|(known, _)| name == known);
    known.map(|(_, examples)| *examples)
}

fn names() -> impl Iterator<Item = &'static str> {
    ARGUMENTS.iter().map(|(known, _)| *known)
}

fn unknown(name: &Ident, near: Option<&str>) -> String {
    match near {
        Some(near) => format!("unknown argument `{name}`; did you mean `{near}`?"),
        None => {
            let all: Vec<_> = names().map(|name| format!("`{name}`")).collect();
            format!("unknown argument `{name}`; there are {}", all.join(", "))
        }
    }
}
