//! Model to tokens. Nothing is decided here.

use proc_macro2::{Ident, Span, TokenStream};
use quote::{quote, quote_spanned};
use syn::spanned::Spanned;

use super::arguments::Id;
use super::model::Model;
use crate::{
    expand::{
        alias_at, args_type, arguments_list, at, call, duration_value, hidden_type, local,
        output_type,
    },
    model::{Model as Function, Output},
};

/// The generated function: what a registration finds the consumer by, around the user's own function.
pub(super) fn expand(model: &Model) -> TokenStream {
    let Function {
        handle,
        outer,
        inner,
        visibility,
        signature,
        body,
        operation: consumer,
        alias,
        ..
    } = &model.function;
    let function = &model.function;
    let runtime = function.runtime.private();
    let name = &signature.ident;
    let (declared, used, bounds) = function.generics.split_for_impl();
    let args = args_type(function, &|place| function.runtime.private_at(place));
    let output = output_type(function);
    let hidden = hidden_type(function);
    let implementation = implementation(model);
    let list = arguments_list(function);
    let registration = local("registration", name, list);
    let register = quote_spanned!(list=> #registration.of::<#consumer #used>());
    quote! {
        #(#outer)*
        #visibility fn #name #declared(
            #registration: #runtime::Registration,
        ) -> #runtime::Registered<impl #runtime::Consumer<Handle = #handle, Args = #args, Output = #output>>
        #bounds
        {
            use #runtime as #alias;
            #[deny(clippy::disallowed_methods)]
            #(#inner)*
            #signature #body
            #hidden
            #implementation
            #register
        }
    }
}

fn implementation(model: &Model) -> TokenStream {
    let function = &model.function;
    let Function {
        operation: consumer,
        handle,
        alias,
        ..
    } = function;
    let (declared, used, bounds) = function.generics.split_for_impl();
    let args = args_type(function, &|place| {
        let alias = alias_at(function, place);
        quote!(#alias)
    });
    let output = output_type(function);
    let spec = spec(model);
    let call = call(function);
    let verdict = verdict(function);
    let checks = checks(model);
    // a generic parameter of an outer `impl` is blamed here
    let name = at(function.signature.ident.span());
    let header = {
        let alias = alias_at(function, name);
        quote_spanned!(name=> impl #declared #alias::Consumer for #consumer #used #bounds)
    };
    let items = quote! {
        type Handle = #handle;
        type Args = #args;
        type Output = #output;
        const SPEC: #alias::ConsumerSpec = #spec;
        const FUNCTIONS: #alias::ConsumerFunctions<Self> = #alias::ConsumerFunctions {
            call: #call,
            verdict: #verdict,
        };
        fn check() {
            #checks
        }
    };
    quote_spanned!(name=> #header { #items })
}

/// Picks what becomes of the message by what the function returns, most specific first.
fn verdict(function: &Function) -> TokenStream {
    let place = match &function.output {
        Output::Named(ty) | Output::Opaque(ty) => at(ty.span()),
        Output::Unit => at(function.signature.ident.span()),
    };
    let alias = alias_at(function, place);
    quote_spanned!(place=> |out| #alias::verdict(&out).settle(out))
}

/// Each argument is checked by itself, and so blamed by itself: it is `EffectFree`, and with `state = ..` it can be made.
fn checks(model: &Model) -> TokenStream {
    let state = model.arguments.state.as_ref();
    let arguments = model.function.arguments.iter().map(|ty| {
        let place = at(ty.span());
        let alias = alias_at(&model.function, place);
        let made =
            state.map(|state| quote_spanned!(place=> #alias::message().makes::<#ty, #state>();));
        quote_spanned!(place=> #alias::vet::<#ty>().takes::<#ty>(); #made)
    });
    quote!(#(#arguments)*)
}

/// Only what is written in the attribute.
fn spec(model: &Model) -> TokenStream {
    let runtime = &model.function.alias;
    let arguments = &model.arguments;
    let mut fields = Vec::new();
    for (name, duration) in [("ttl", arguments.ttl), ("timeout", arguments.timeout)] {
        if let Some(duration) = duration {
            let name = Ident::new(name, Span::call_site());
            let value = duration_value(duration, runtime);
            fields.push(quote!(spec.#name = #value;));
        }
    }
    match &arguments.id {
        None => {}
        Some(Id::Broker) => fields.push(quote!(spec.id = #runtime::MessageIdentity::Broker;)),
        Some(Id::Field(pointer)) => {
            fields.push(quote!(spec.id = #runtime::MessageIdentity::Field(#pointer);));
        }
    }
    let (name, source) = (&model.function.name, &model.source);
    let function = model.function.signature.ident.to_string();
    let spec = quote!(#runtime::consumer_spec!(#name, #source, #function));
    if fields.is_empty() {
        spec
    } else {
        quote!({ let mut spec = #spec; #(#fields)* spec })
    }
}
