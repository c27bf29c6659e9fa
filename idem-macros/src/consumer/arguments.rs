//! What is written in `#[consumer(..)]`: tokens to checked values, every error at once.

use std::time::Duration;

use proc_macro2::{Ident, Span, TokenStream, TokenTree};
use syn::Type;

use crate::{
    args::parts, errors::Errors, paths::CratePath, rules, suggest::nearest, values::Argument,
};

/// Every argument, with values to show in advice.
const ARGUMENTS: [(&str, &[&str]); 7] = [
    ("source", &["\"orders\""]),
    ("name", &["\"ledger\""]),
    ("ttl", &["\"7d\"", "\"48h\""]),
    ("id", &["\"event_id\"", "\"broker\""]),
    ("timeout", &["\"30s\"", "\"2m\""]),
    ("state", &["AppState"]),
    ("crate", &["\"::idem_runtime\""]),
];

/// Where a message's id is found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Id {
    Broker,
    /// A JSON pointer.
    Field(String),
}

/// The attribute's arguments. `None` is "not given" (the defaults hold), or given and refused.
#[derive(Clone, Default)]
pub(crate) struct Arguments {
    pub(super) source: Option<String>,
    pub(super) name: Option<String>,
    pub(super) ttl: Option<Duration>,
    pub(super) id: Option<Id>,
    pub(super) timeout: Option<Duration>,
    pub(super) state: Option<Type>,
    /// `None` when what was given is refused: then nothing of the runtime can be named.
    pub(super) runtime: Option<CratePath>,
}

impl Arguments {
    pub(crate) fn parse(tokens: TokenStream, errors: &mut Errors) -> Arguments {
        let mut reader = Reader::default();
        let mut arguments = Arguments {
            runtime: Some(CratePath::default()),
            ..Arguments::default()
        };
        for part in parts(tokens) {
            if let Some(argument) = reader.read(part, errors) {
                arguments.value(&argument, errors);
            }
        }
        if !reader.tries_source {
            errors.at_span(
                Span::call_site(),
                "missing `source`: write `#[consumer(source = \"orders\")]`, naming the source whose messages these are",
            );
        }
        arguments
    }

    fn value(&mut self, argument: &Argument, errors: &mut Errors) {
        match argument.name.to_string().as_str() {
            "source" => self.source = name(argument, errors),
            "name" => self.name = name(argument, errors),
            "ttl" => self.ttl = argument.duration(errors),
            "timeout" => self.timeout = argument.duration(errors),
            "id" => self.id = id(argument, errors),
            "state" => self.state = argument.type_name(errors),
            "crate" => match CratePath::parse(argument.value.clone()) {
                Ok(path) => self.runtime = Some(path),
                Err(error) => {
                    errors.push(error);
                    self.runtime = None;
                }
            },
            unknown => unreachable!("the reader lets no `{unknown}` through"),
        }
    }
}

fn name(argument: &Argument, errors: &mut Errors) -> Option<String> {
    let literal = argument.string(errors)?;
    let example = argument.examples[0].trim_matches('"');
    let name = literal.value();
    match rules::consumer_name(&argument.name.to_string(), example, &name) {
        Ok(()) => Some(name),
        Err(fault) => {
            errors.at(literal, fault);
            None
        }
    }
}

fn id(argument: &Argument, errors: &mut Errors) -> Option<Id> {
    let literal = argument.string(errors)?;
    match literal.value().as_str() {
        "broker" => Some(Id::Broker),
        field => match rules::id_field(field) {
            Ok(pointer) => Some(Id::Field(pointer)),
            Err(fault) => {
                errors.at(literal, fault);
                None
            }
        },
    }
}

/// Reads one argument after the other, and knows what came before.
#[derive(Default)]
struct Reader {
    given: Vec<Ident>,
    /// There is a `source`, if a misspelt one or one without a value: that is one mistake, not two.
    tries_source: bool,
}

impl Reader {
    /// An argument that is known, given once, and has a value; every other is an error.
    fn read(&mut self, part: Vec<TokenTree>, errors: &mut Errors) -> Option<Argument> {
        let mut part = part.into_iter();
        let name = match part.next()? {
            TokenTree::Ident(name) => name,
            other => {
                self.tries_source |= matches!(&other, TokenTree::Literal(_));
                errors.at(
                    other,
                    "write arguments as `name = value`, such as `source = \"orders\"`",
                );
                return None;
            }
        };
        let Some((_, examples)) = ARGUMENTS.iter().find(|(known, _)| name == known) else {
            self.unknown(&name, errors);
            return None;
        };
        self.tries_source |= name == "source";
        let equals = matches!(part.next(), Some(TokenTree::Punct(sign)) if sign.as_char() == '=');
        let value: TokenStream = part.collect();
        if self.given.contains(&name) {
            errors.at(&name, format!("`{name}` is given twice"));
            return None;
        }
        self.given.push(name.clone());
        if !equals || value.is_empty() {
            let example = examples[0];
            errors.at(
                &name,
                format!("`{name}` needs a value: write `{name} = {example}`"),
            );
            return None;
        }
        Some(Argument {
            name,
            value,
            examples,
        })
    }

    fn unknown(&mut self, name: &Ident, errors: &mut Errors) {
        let names = ARGUMENTS.iter().map(|(known, _)| *known);
        let near = nearest(&name.to_string(), names.clone());
        self.tries_source |= near == Some("source");
        let message = match near {
            Some(near) => format!("unknown argument `{name}`; did you mean `{near}`?"),
            None => {
                let all: Vec<_> = names.map(|name| format!("`{name}`")).collect();
                format!("unknown argument `{name}`; there are {}", all.join(", "))
            }
        };
        errors.at(name, message);
    }
}
