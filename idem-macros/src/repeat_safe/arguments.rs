//! What is written in `#[repeat_safe(..)]`: tokens to checked values, every error at once.

use proc_macro2::{Ident, Span, TokenStream, TokenTree};

use crate::{
    args::parts, errors::Errors, paths::CratePath, rules, suggest::nearest, values::Argument,
};

/// What makes a repeat harmless.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Design {
    ClientId,
    Conditional,
    Precondition,
}

impl Design {
    const ALL: [Design; 3] = [Design::ClientId, Design::Conditional, Design::Precondition];

    /// As it is written in the attribute.
    fn word(self) -> &'static str {
        match self {
            Design::ClientId => "client_id",
            Design::Conditional => "conditional",
            Design::Precondition => "precondition",
        }
    }

    /// The runtime's variant.
    pub(super) fn variant(self) -> &'static str {
        match self {
            Design::ClientId => "ClientId",
            Design::Conditional => "Conditional",
            Design::Precondition => "Precondition",
        }
    }
}

/// The arguments with a value, with one to show in advice.
const NAMED: [(&str, &[&str]); 3] = [
    ("why", &["\"the client chooses the order's id\""]),
    ("operation", &["\"orders.put\""]),
    ("crate", &["\"::idem_runtime\""]),
];

const MISSING_DESIGN: &str = "say what makes a repeat harmless: `client_id` (the client chooses the id), `conditional` (`UPDATE .. WHERE status = 'open'`) or `precondition` (`If-Match`)";

/// The attribute's arguments. `None` is "not given", or given and refused.
#[derive(Clone, Default)]
pub(crate) struct Arguments {
    pub(super) design: Option<Design>,
    pub(super) why: Option<String>,
    pub(super) operation: Option<String>,
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
            reader.read(part, &mut arguments, errors);
        }
        if !reader.tries_design {
            errors.at_span(Span::call_site(), MISSING_DESIGN);
        }
        if !reader.tries_why {
            errors.at_span(
                Span::call_site(),
                "missing `why`: say in a sentence why a repeat is harmless, as `why = \"the client chooses the order's id\"`",
            );
        }
        arguments
    }

    fn value(&mut self, argument: &Argument, errors: &mut Errors) {
        match argument.name.to_string().as_str() {
            "why" => {
                self.why = argument.string(errors).and_then(|literal| {
                    let why = literal.value().trim().to_owned();
                    if why.is_empty() {
                        errors.at(
                            literal,
                            "`why` is empty: say in a sentence why a repeat is harmless, for whoever reviews it",
                        );
                        return None;
                    }
                    Some(why)
                });
            }
            "operation" => {
                self.operation = argument.string(errors).and_then(|literal| {
                    match rules::operation_name(&literal.value()) {
                        Ok(()) => Some(literal.value()),
                        Err(fault) => {
                            errors.at(literal, fault);
                            None
                        }
                    }
                });
            }
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

/// Reads one argument after the other, and knows what came before.
#[derive(Default)]
struct Reader {
    given: Vec<Ident>,
    /// There is a design, if a misspelt one: that is one mistake, not two.
    tries_design: bool,
    tries_why: bool,
}

impl Reader {
    fn read(&mut self, part: Vec<TokenTree>, arguments: &mut Arguments, errors: &mut Errors) {
        let mut part = part.into_iter();
        let name = match part.next() {
            Some(TokenTree::Ident(name)) => name,
            Some(other) => {
                self.tries_why |= matches!(&other, TokenTree::Literal(_));
                return errors.at(
                    other,
                    "write a design and a reason, as `#[repeat_safe(client_id, why = \"the client chooses the order's id\")]`",
                );
            }
            None => return,
        };
        let equals = part.next();
        let value: TokenStream = part.collect();
        if let Some(design) = Design::ALL.into_iter().find(|design| name == design.word()) {
            self.tries_design = true;
            return Self::design(design, &name, equals.as_ref(), arguments, errors);
        }
        let Some((_, examples)) = NAMED.iter().find(|(known, _)| name == known) else {
            return self.unknown(&name, errors);
        };
        self.tries_why |= name == "why";
        let has_value = matches!(&equals, Some(TokenTree::Punct(sign)) if sign.as_char() == '=')
            && !value.is_empty();
        if self.given.contains(&name) {
            return errors.at(&name, format!("`{name}` is given twice"));
        }
        self.given.push(name.clone());
        if !has_value {
            let example = examples[0];
            return errors.at(
                &name,
                format!("`{name}` needs a value: write `{name} = {example}`"),
            );
        }
        let argument = Argument {
            name,
            value,
            examples,
        };
        arguments.value(&argument, errors);
    }

    fn design(
        design: Design,
        name: &Ident,
        more: Option<&TokenTree>,
        arguments: &mut Arguments,
        errors: &mut Errors,
    ) {
        if more.is_some() {
            errors.at(
                name,
                format!(
                    "`{name}` has no value: write `{name}` alone, and the reason as `why = \"..\"`"
                ),
            );
        }
        match arguments.design {
            None => arguments.design = Some(design),
            Some(first) if first == design => {
                errors.at(name, format!("`{name}` is given twice"));
            }
            Some(first) => errors.at(
                name,
                format!(
                    "a handler has one design, and `{}` is given; remove one",
                    first.word()
                ),
            ),
        }
    }

    fn unknown(&mut self, name: &Ident, errors: &mut Errors) {
        let designs = Design::ALL.map(Design::word);
        let names = NAMED.map(|(name, _)| name);
        let near = nearest(&name.to_string(), designs.into_iter().chain(names));
        self.tries_design |= near.is_some_and(|near| designs.contains(&near));
        self.tries_why |= near == Some("why");
        let message = match near {
            Some(near) => format!("unknown argument `{name}`; did you mean `{near}`?"),
            None => {
                let all = designs.into_iter().chain(names);
                let all: Vec<_> = all.map(|name| format!("`{name}`")).collect();
                format!("unknown argument `{name}`; there are {}", all.join(", "))
            }
        };
        errors.at(name, message);
    }
}
