//! The value of one argument, read as the kind of thing it must be. Every reader blames the value's own tokens.

use std::time::Duration;

use proc_macro2::{TokenStream, TokenTree};
use syn::{
    Ident, LitInt, LitStr, Path, Token, Type,
    parse::{Parse, Parser},
    punctuated::Punctuated,
};

use crate::{errors::Errors, units};

/// `name = value`, the value unread.
pub(crate) struct Argument {
    pub(crate) name: Ident,
    pub(crate) value: TokenStream,
    /// Values to show in advice, as they are written in source.
    pub(crate) examples: &'static [&'static str],
}

/// What an argument with a fixed set of words can be: as written, and the runtime's variant.
pub(crate) struct Choices {
    pub(crate) kind: &'static str,
    pub(crate) options: [(&'static str, &'static str); 2],
}

/// One of the [`Choices`]: `kind::variant` in the runtime.
#[derive(Clone, Copy)]
pub(crate) struct Choice {
    pub(crate) kind: &'static str,
    pub(crate) variant: &'static str,
}

impl Argument {
    fn is(&self, what: &str) -> String {
        let Argument { name, examples, .. } = self;
        format!("`{name}` {what}: write `{name} = {}`", examples[0])
    }

    pub(crate) fn string(&self, errors: &mut Errors) -> Option<LitStr> {
        let literal = syn::parse2(self.value.clone());
        if literal.is_err() {
            errors.at(&self.value, self.is("takes a string"));
        }
        literal.ok()
    }

    pub(crate) fn duration(&self, errors: &mut Errors) -> Option<Duration> {
        let name = &self.name;
        let Ok(literal) = syn::parse2::<LitStr>(self.value.clone()) else {
            errors.at(&self.value, self.is("takes a number and a unit, in quotes"));
            return None;
        };
        match units::duration(&literal.value()) {
            Ok(Duration::ZERO) => {
                errors.at(literal, format!("`{name}` must be longer than zero"));
                None
            }
            Ok(duration) => Some(duration),
            Err(fault) => {
                errors.at(
                    literal,
                    format!(
                        "invalid `{name}`: {fault}; write a number and a unit, as {}",
                        self.examples.join(" or ")
                    ),
                );
                None
            }
        }
    }

    /// Bytes.
    pub(crate) fn size(&self, errors: &mut Errors) -> Option<u32> {
        let name = &self.name;
        let size = if let Ok(literal) = syn::parse2::<LitStr>(self.value.clone()) {
            units::size(&literal.value())
        } else if let Ok(literal) = syn::parse2::<LitInt>(self.value.clone()) {
            match literal.suffix() {
                "" => units::size(literal.base10_digits()),
                suffix => Err(format!("`{suffix}` needs quotes")),
            }
        } else {
            errors.at(
                &self.value,
                self.is("takes a number of bytes, or a size in quotes"),
            );
            return None;
        };
        match size {
            Ok(0) => {
                errors.at(&self.value, format!("`{name}` must be larger than zero"));
                None
            }
            Ok(bytes) => Some(bytes),
            Err(fault) => {
                errors.at(
                    &self.value,
                    format!(
                        "invalid `{name}`: {fault}; write a size, as {}, or a number of bytes",
                        self.examples.join(" or ")
                    ),
                );
                None
            }
        }
    }

    /// From 1.
    pub(crate) fn number(&self, errors: &mut Errors) -> Option<u16> {
        let literal = syn::parse2::<LitInt>(self.value.clone());
        let number = literal.and_then(|literal| literal.base10_parse::<u16>());
        match number {
            Ok(number) if number > 0 => Some(number),
            _ => {
                errors.at(&self.value, self.is("takes a whole number from 1 to 65535"));
                None
            }
        }
    }

    pub(crate) fn choice(&self, choices: &Choices, errors: &mut Errors) -> Option<Choice> {
        let written = syn::parse2::<LitStr>(self.value.clone()).map(|literal| literal.value());
        let chosen = choices
            .options
            .iter()
            .find(|(word, _)| written.as_ref().is_ok_and(|written| written == word));
        if let Some((_, variant)) = chosen {
            return Some(Choice {
                kind: choices.kind,
                variant,
            });
        }
        let name = &self.name;
        let [(first, _), (second, _)] = choices.options;
        errors.at(
            &self.value,
            format!("unknown `{name}`: write `{name} = \"{first}\"` or `{name} = \"{second}\"`"),
        );
        None
    }

    /// A list of different strings, each of which `check` accepts, or says what is wrong with it.
    pub(crate) fn list(
        &self,
        check: impl Fn(&str) -> Result<String, String>,
        errors: &mut Errors,
    ) -> Vec<String> {
        let parser = |input: syn::parse::ParseStream<'_>| {
            let content;
            syn::bracketed!(content in input);
            Punctuated::<LitStr, Token![,]>::parse_terminated(&content)
        };
        let Ok(literals) = parser.parse2(self.value.clone()) else {
            errors.at(&self.value, self.is("takes a list of strings"));
            return Vec::new();
        };
        if literals.is_empty() {
            errors.at(
                &self.value,
                format!(
                    "`{}` is empty: leave it out, or name what it is for",
                    self.name
                ),
            );
        }
        let mut list = Vec::new();
        for literal in &literals {
            match check(&literal.value()) {
                Ok(item) if list.contains(&item) => {
                    errors.at(literal, format!("`{item}` is listed twice"));
                }
                Ok(item) => list.push(item),
                Err(fault) => errors.at(literal, fault),
            }
        }
        list
    }

    /// The path of a function.
    pub(crate) fn path(&self, errors: &mut Errors) -> Option<Path> {
        self.unquoted("the function's path", errors)
    }

    pub(crate) fn type_name(&self, errors: &mut Errors) -> Option<Type> {
        self.unquoted("a type", errors)
    }

    fn unquoted<T: Parse>(&self, what: &str, errors: &mut Errors) -> Option<T> {
        let parsed = syn::parse2(self.value.clone());
        for word in self.value.clone() {
            // in the expansion it would be another type
            if matches!(&word, TokenTree::Ident(word) if word == "Self") {
                errors.at(
                    word,
                    "`Self` doesn't reach into an idempotent handler; write the type's name",
                );
            }
        }
        if parsed.is_err() {
            errors.at(
                &self.value,
                self.is(&format!("takes {what}, without quotes")),
            );
        }
        parsed.ok()
    }
}
