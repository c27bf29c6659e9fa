//! Model to tokens. Nothing is decided here.

use std::time::Duration;

use proc_macro2::{Ident, Literal, Span, TokenStream};
use quote::{ToTokens, quote, quote_spanned};
use syn::{Expr, GenericParam, Index, Pat, spanned::Spanned};

use crate::{
    model::{Model, Output},
    values::Choice,
};

/// The generated function: a handler for axum, around the user's own function and its operation.
pub(crate) fn expand(model: &Model) -> TokenStream {
    let Model {
        handle,
        outer,
        inner,
        visibility,
        signature,
        body,
        operation,
        ..
    } = model;
    let runtime = model.runtime.private();
    let name = &signature.ident;
    let (declared, used, bounds) = model.generics.split_for_impl();
    let args = args_type(model, &|place| model.runtime.private_at(place));
    let output = match model.output {
        Output::Opaque(_) => quote!(#runtime::Settled),
        _ => output_type(model),
    };
    let hidden = hidden_type(model);
    let implementation = implementation(model);
    let list = arguments_list(model);
    let call = local("call", name, list);
    let call_type = {
        let runtime = model.runtime.private_at(list);
        quote_spanned!(list=> #runtime::Call<#handle, #args>)
    };
    let alias = &model.alias;
    let run = {
        let alias = alias_at(model, list);
        quote_spanned!(list=> #alias::run::<#operation #used>(#call))
    };
    quote! {
        #(#outer)*
        #visibility fn #name #declared(
            #call: #call_type,
        ) -> #runtime::Running<impl #runtime::Operation<Handle = #handle, Args = #args, Output = #output>>
        #bounds
        {
            use #runtime as #alias;
            #[deny(clippy::disallowed_methods)]
            #(#inner)*
            #signature #body
            #hidden
            #implementation
            #run
        }
    }
}

/// Our own names at the place of the user's token: resolved where the attribute stands, so that a handler made
/// by `macro_rules!` finds them.
pub(crate) fn at(place: Span) -> Span {
    Span::call_site().located_at(place)
}

/// A tuple's member; by itself it would be blamed at the attribute.
pub(crate) fn index(member: usize, span: Span) -> Index {
    Index {
        span,
        ..Index::from(member)
    }
}

/// A variable that the user's function, an item of the block around, does not get in the way of.
pub(crate) fn local(name: &str, function: &Ident, place: Span) -> Ident {
    if function == name {
        Ident::new(&format!("{name}_"), place)
    } else {
        Ident::new(name, place)
    }
}

/// What is wrong with the arguments together is blamed on their list.
pub(crate) fn arguments_list(model: &Model) -> Span {
    at(model.signature.paren_token.span.join())
}

/// The runtime's module, as the generated function calls it, at a place of the user's.
pub(crate) fn alias_at(model: &Model, place: Span) -> Ident {
    let mut alias = model.alias.clone();
    alias.set_span(at(place));
    alias
}

pub(crate) fn args_type(model: &Model, runtime: &dyn Fn(Span) -> TokenStream) -> TokenStream {
    let arguments = &model.arguments;
    let list = arguments_list(model);
    let tuple = quote_spanned!(list=> (#(#arguments,)*));
    if model.all_parts {
        let runtime = runtime(list);
        quote_spanned!(list=> #runtime::AllParts<#tuple>)
    } else {
        tuple
    }
}

pub(crate) fn output_type(model: &Model) -> TokenStream {
    let alias = &model.alias;
    match &model.output {
        Output::Named(ty) => ty.to_token_stream(),
        Output::Opaque(_) => quote!(#alias::Settled),
        Output::Unit => quote!(()),
    }
}

/// Without the bounds of the parameters: those are the implementation's.
pub(crate) fn hidden_type(model: &Model) -> TokenStream {
    let operation = &model.operation;
    if model.generics.params.is_empty() {
        return quote!(struct #operation;);
    }
    let parameters = model
        .generics
        .params
        .iter()
        .map(|parameter| match parameter {
            GenericParam::Type(parameter) => {
                let name = &parameter.ident;
                quote!(#name: ?::core::marker::Sized)
            }
            other => other.to_token_stream(),
        });
    let types = model
        .generics
        .type_params()
        .map(|parameter| &parameter.ident);
    let alias = &model.alias;
    quote!(struct #operation<#(#parameters),*>(#(#alias::Type<#types>),*);)
}

fn implementation(model: &Model) -> TokenStream {
    let Model {
        operation,
        handle,
        alias,
        ..
    } = model;
    let (declared, used, bounds) = model.generics.split_for_impl();
    let args = args_type(model, &|place| alias_at(model, place).into_token_stream());
    let output = output_type(model);
    let spec = spec(model);
    let checks = checks(model);
    let scope = scope(model);
    let call = call(model);
    let settle = settle(model);
    let authorize = authorize(model);
    let rebuild = rebuild(model);
    let inputs = inputs(model);
    // a generic parameter of an outer `impl` is blamed here
    let name = at(model.signature.ident.span());
    let header = {
        let alias = alias_at(model, name);
        quote_spanned!(name=> impl #declared #alias::Operation for #operation #used #bounds)
    };
    let items = quote! {
        type Handle = #handle;
        type Args = #args;
        type Output = #output;
        const SPEC: #alias::Spec = #spec;
        const FUNCTIONS: #alias::Functions<Self> = #alias::Functions {
            scope: #scope,
            call: #call,
            settle: #settle,
        };
        #authorize
        #rebuild
        #inputs
        fn check() {
            #checks
        }
    };
    quote_spanned!(name=> #header { #items })
}

fn scope(model: &Model) -> TokenStream {
    let Some(owner) = &model.owner else {
        return quote!(|_| ::core::unreachable!());
    };
    let place = at(owner.span);
    let alias = alias_at(model, place);
    let index = index(owner.argument, place);
    let pattern = &owner.pattern;
    let reference = &owner.reference;
    if matches!(pattern, Pat::Ident(_)) && matches!(reference, Expr::Path(_)) {
        return quote_spanned!(place=> |prefix| #alias::ScopeKey::of(&prefix.#index));
    }
    quote_spanned! {place=>
        |prefix| {
            let #pattern = &prefix.#index;
            #alias::ScopeKey::of(#reference)
        }
    }
}

/// The user's future is boxed by a method of ours that rustc checks at the user's name. Neither `async` nor `impl
/// Future`: rustc would prove what the handler's future holds once more, from the start.
pub(crate) fn call(model: &Model) -> TokenStream {
    let name = &model.signature.ident;
    let place = at(name.span());
    let alias = alias_at(model, place);
    let (_, used, _) = model.generics.split_for_impl();
    let turbofish = used.as_turbofish();
    let [tx, args] = ["tx", "args"].map(|text| local(text, name, place));
    let tuple = if model.all_parts {
        quote_spanned!(place=> #args.0)
    } else {
        quote_spanned!(place=> #args)
    };
    let mut passed: Vec<TokenStream> = (0..model.arguments.len())
        .map(|argument| index(argument, place))
        .map(|index| quote_spanned!(place=> #tuple.#index))
        .collect();
    passed.insert(model.handle_at, quote_spanned!(place=> #tx));
    let future = quote_spanned!(place=> #name #turbofish (#(#passed),*));
    let boxed = match &model.output {
        Output::Opaque(ty) => {
            let settle = settled_at(model, ty.span());
            quote_spanned!(place=> must_be_send_and_settled(#future, #settle))
        }
        Output::Named(_) | Output::Unit => quote_spanned!(place=> must_be_send(#future)),
    };
    quote_spanned!(place=> |#tx, #args| #alias::future().#boxed)
}

fn settle(model: &Model) -> TokenStream {
    match &model.output {
        Output::Opaque(_) => quote!(|out| out),
        Output::Named(ty) => settled_at(model, ty.span()),
        Output::Unit => settled_at(model, model.signature.ident.span()),
    }
}

/// Picks what becomes of the answer by what its type is, most specific first.
fn settled_at(model: &Model, place: Span) -> TokenStream {
    let place = at(place);
    let alias = alias_at(model, place);
    quote_spanned!(place=> |out| #alias::outcome(&out).settle(out))
}

fn authorize(model: &Model) -> Option<TokenStream> {
    let path = model.args.authorize.as_ref()?;
    let members = model.arguments.len() - usize::from(!model.all_parts);
    let place = at(path.span());
    let alias = alias_at(model, place);
    let indexes = (0..members).map(|member| index(member, place));
    Some(quote_spanned! {place=>
        const AUTHORIZE: #alias::AuthorizeOf<Self> = #alias::Some(|prefix| {
            #alias::future().must_be_send_and_authorize(#path(#(&prefix.#indexes),*))
        });
    })
}

fn rebuild(model: &Model) -> Option<TokenStream> {
    let path = model.args.replay_with.as_ref()?;
    let place = at(path.span());
    let alias = alias_at(model, place);
    Some(quote_spanned! {place=>
        const REBUILD: #alias::RebuildOf<Self> = #alias::Some(|db, replay| {
            #alias::future().must_be_send_and_rebuild(#path(db, replay))
        });
    })
}

/// The arguments as data: a handler with recovery points may run again without its request. Each is blamed by itself.
fn inputs(model: &Model) -> Option<TokenStream> {
    if !model.steps {
        return None;
    }
    let list = arguments_list(model);
    let alias = alias_at(model, list);
    let kept = model.arguments.iter().enumerate().map(|(argument, ty)| {
        let place = at(ty.span());
        let index = index(argument, place);
        let tuple = if model.all_parts {
            quote_spanned!(place=> args.0.#index)
        } else {
            quote_spanned!(place=> args.#index)
        };
        quote_spanned!(place=> .keep::<#ty, _>(&#tuple))
    });
    Some(quote_spanned! {list=>
        const INPUTS: #alias::InputsOf<Self> = #alias::Some(|args| #alias::Inputs::new()#(#kept)*);
    })
}

/// Each argument is checked by itself, and so blamed by itself: it is `EffectFree`, and with `state = ..` it can be read.
/// Inside the operation: there, generics of an outer `impl` are an error of their own.
fn checks(model: &Model) -> TokenStream {
    let state = model.args.state.as_ref();
    let store = state.map(|state| {
        let place = at(state.span());
        let alias = alias_at(model, place);
        quote_spanned!(place=> #alias::router_state().has_idempotency::<#state, Self::Handle>();)
    });
    let from_parts = model.arguments.len() - usize::from(!model.all_parts);
    let arguments = model.arguments.iter().enumerate().map(|(index, ty)| {
        let place = at(ty.span());
        let alias = alias_at(model, place);
        let takes = match state {
            None => quote_spanned!(place=> takes::<#ty>()),
            Some(state) if index < from_parts => {
                quote_spanned!(place=> takes_part::<#ty, #state>())
            }
            Some(state) => quote_spanned!(place=> takes_last::<#ty, #state, _>()),
        };
        quote_spanned!(place=> #alias::vet::<#ty>().#takes;)
    });
    quote!(#store #(#arguments)*)
}

/// Longer than one external step may take, which would else be cut off by its handler's end.
const STEPS_TIMEOUT: Duration = Duration::from_secs(120);

/// Only what is written in the attribute; the router's defaults fill in the rest.
fn spec(model: &Model) -> TokenStream {
    let runtime = &model.alias;
    let args = &model.args;
    let mut fields = Vec::new();
    let mut field = |name: &str, value: TokenStream| {
        let name = Ident::new(name, Span::call_site());
        fields.push(quote!(spec.#name = #value;));
    };
    let some = |value: TokenStream| quote!(#runtime::Some(#value));
    let durations = [
        ("ttl", args.ttl),
        ("wait", args.wait),
        ("tombstone", args.tombstone),
        (
            "timeout",
            args.timeout.or(model.steps.then_some(STEPS_TIMEOUT)),
        ),
    ];
    let mut all = None;
    if durations.iter().all(|(_, duration)| duration.is_some()) {
        let milliseconds = durations.iter().map(|(_, duration)| {
            Literal::u128_unsuffixed(duration.unwrap_or_default().as_millis())
        });
        all = Some(quote!(#runtime::durations(&mut spec, #(#milliseconds),*);));
    } else {
        for (name, duration) in durations {
            if let Some(duration) = duration {
                field(name, duration_value(duration, runtime));
            }
        }
    }
    let choice = |Choice { kind, variant }| {
        let (kind, variant) = (
            Ident::new(kind, Span::call_site()),
            Ident::new(variant, Span::call_site()),
        );
        quote!(#runtime::#kind::#variant)
    };
    let rejects = model.steps.then_some(Choice {
        kind: "Expired",
        variant: "Reject",
    });
    for (name, chosen) in [
        ("errors", args.errors),
        ("in_flight", args.in_flight),
        ("expired", args.expired.or(rejects)),
    ] {
        if let Some(chosen) = chosen {
            field(name, some(choice(chosen)));
        }
    }
    for (name, bytes) in [
        ("max_body", args.max_body),
        ("max_response", args.max_response),
    ] {
        if let Some(bytes) = bytes {
            let bytes = Literal::u32_unsuffixed(bytes);
            field(name, some(quote!(#bytes)));
        }
    }
    for (name, list) in [
        ("fingerprint_headers", &args.fingerprint_headers),
        ("fingerprint_ignore", &args.fingerprint_ignore),
    ] {
        if !list.is_empty() {
            field(name, quote!(&[#(#list),*]));
        }
    }
    for (name, chosen) in [("key_space", args.key_space), ("key", args.key)] {
        if let Some(chosen) = chosen {
            field(name, choice(chosen));
        }
    }
    if let Some(definition) = args.definition {
        let definition = Literal::u16_unsuffixed(definition);
        field("definition", quote!(#definition));
    }
    let name = &model.name;
    let scope = model.owner.as_ref().map_or("", |owner| owner.text.as_str());
    let function = model.signature.ident.to_string();
    let spec = quote!(#runtime::spec!(#name, #scope, #function));
    if fields.is_empty() && all.is_none() {
        spec
    } else {
        quote!({ let mut spec = #spec; #all #(#fields)* spec })
    }
}

pub(crate) fn duration_value(duration: Duration, runtime: &Ident) -> TokenStream {
    let milliseconds = duration.as_millis();
    if milliseconds.is_multiple_of(1000) {
        let seconds = Literal::u64_unsuffixed(duration.as_secs());
        quote!(#runtime::seconds(#seconds))
    } else {
        let milliseconds = Literal::u128_unsuffixed(milliseconds);
        quote!(#runtime::milliseconds(#milliseconds))
    }
}
