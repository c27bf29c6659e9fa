//! Everything but what rustc says of the expansion, which the UI tests of the workspace show.

mod arguments;
mod consumer;
mod derives;
mod lints;
mod repeat_safe;
mod signatures;
mod snapshots;
mod steps;

use proc_macro2::TokenStream;

use crate::{args::Args, errors::Errors, handler::Handler, model::Model};

fn tokens(source: &str) -> TokenStream {
    source.parse().expect("a test's source is made of tokens")
}

/// The messages of all errors in the attribute alone.
fn faults_of_arguments(arguments: &str) -> Vec<String> {
    let mut errors = Errors::default();
    Args::parse(tokens(arguments), &mut errors);
    errors.messages()
}

/// The messages of all errors of a handler, attribute and signature.
fn faults(arguments: &str, function: &str) -> Vec<String> {
    let mut errors = Errors::default();
    let args = Args::parse(tokens(arguments), &mut errors);
    match syn::parse2::<Handler>(tokens(function)) {
        Ok(handler) => {
            let variants = handler.variants(&mut errors);
            Model::new(&variants[0].handler, &args, &mut errors);
        }
        Err(error) => errors.push(error),
    }
    errors.messages()
}
