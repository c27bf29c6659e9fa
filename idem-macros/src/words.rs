//! The words that a handler uses: what generated code must not call its own items.

use std::collections::HashSet;

use proc_macro2::{TokenStream, TokenTree};

/// Every identifier of some tokens. Read once: each look at a token is a call into the compiler.
#[derive(Default)]
pub(crate) struct Words(HashSet<String>);

impl Words {
    pub(crate) fn of(tokens: TokenStream) -> Words {
        let mut words = Words::default();
        words.add(tokens);
        words
    }

    pub(crate) fn add(&mut self, tokens: TokenStream) {
        for token in tokens {
            match token {
                TokenTree::Ident(word) => {
                    self.0.insert(word.to_string());
                }
                TokenTree::Group(group) => self.add(group.stream()),
                TokenTree::Punct(_) | TokenTree::Literal(_) => {}
            }
        }
    }

    pub(crate) fn has(&self, word: &str) -> bool {
        self.0.contains(word)
    }

    /// The name, with as many dashes as make it one that is not used.
    pub(crate) fn without(&self, mut name: String) -> String {
        while self.has(&name) {
            name.push('_');
        }
        name
    }
}
