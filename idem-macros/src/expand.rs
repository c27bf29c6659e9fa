//! Model to tokens. Nothing is decided here.

use std::time::Duration;

use proc_macro2::{Ident, Literal, Span, TokenStream};
use quote::{ToTokens, quote, quote_spanned};
use syn::{Index, spanned::Spanned};

use crate::{
    model::{Model, Output},
    values::Choice,
};

/// The generated function: a handler for axum, around the user's own function and its operation.
pub(crate) fn expand(model: &Model) -> TokenStream {
    let Model {
        outer,
        inner,
        visibility,
        signature,
        body,
        operation,
        handle,
        ..
    } = model;
    let runtime = model.runtime.private();
    let name = &signature.ident;
    let (declared, used, bounds) = model.generics.split_for_impl();
    let args = args_type(model);
    let output = output_type(model, &runtime);
    let hidden = hidden_type(model);
    let implementation = implementation(model, &runtime, &args, &output);
    let list = arguments_list(model);
    let call = local("call", name, list);
    let call_type = {
        let runtime = model.runtime.private_at(list);
        quote_spanned!(list=> #runtime::Call<#handle, #args>)
    };
    let run = {
        let runtime = model.runtime.private_at(list);
        quote_spanned!(list=> #runtime::run::<#operation #used>(#call))
    };
    quote! {
        #(#outer)*
        #visibility fn #name #declared(
            #call: #call_type,
        ) -> impl ::core::future::Future<
            Output = #runtime::Answer<impl #runtime::Operation<Handle = #handle, Args = #args, Output = #output>>
        > + ::core::marker::Send
        #bounds
        {
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
fn at(place: Span) -> Span {
    Span::call_site().located_at(place)
}

/// A tuple's member; by itself it would be blamed at the attribute.
fn index(member: usize, span: Span) -> Index {
    Index {
        span,
        ..Index::from(member)
    }
}

/// A variable that the user's function, an item of the block around, does not get in the way of.
fn local(name: &str, function: &Ident, place: Span) -> Ident {
    if function == name {
        Ident::new(&format!("{name}_"), place)
    } else {
        Ident::new(name, place)
    }
}

/// What is wrong with the arguments together is blamed on their list.
fn arguments_list(model: &Model) -> Span {
    at(model.signature.paren_token.span.join())
}

/// A reference to the arguments that are read before the body.
fn prefix_type(model: &Model) -> TokenStream {
    let list = arguments_list(model);
    let runtime = model.runtime.private_at(list);
    quote_spanned!(list=> &<Self::Args as #runtime::Split>::Prefix)
}

fn args_type(model: &Model) -> TokenStream {
    let arguments = &model.arguments;
    let list = arguments_list(model);
    let tuple = quote_spanned!(list=> (#(#arguments,)*));
    if model.all_parts {
        let runtime = model.runtime.private_at(list);
        quote_spanned!(list=> #runtime::AllParts<#tuple>)
    } else {
        tuple
    }
}

fn output_type(model: &Model, runtime: &TokenStream) -> TokenStream {
    match &model.output {
        Output::Named(ty) => ty.to_token_stream(),
        Output::Opaque(_) => quote!(#runtime::Settled),
        Output::Unit => quote!(()),
    }
}

fn hidden_type(model: &Model) -> TokenStream {
    let operation = &model.operation;
    let generics = &model.generics;
    if generics.params.is_empty() {
        return quote!(struct #operation;);
    }
    let bounds = &generics.where_clause;
    let types = generics.type_params().map(|parameter| &parameter.ident);
    quote! {
        struct #operation #generics(
            ::core::marker::PhantomData<fn() -> (#(::core::marker::PhantomData<#types>,)*)>,
        ) #bounds;
    }
}

fn implementation(
    model: &Model,
    runtime: &TokenStream,
    args: &TokenStream,
    output: &TokenStream,
) -> TokenStream {
    let Model {
        operation, handle, ..
    } = model;
    let (declared, used, bounds) = model.generics.split_for_impl();
    let spec = spec(model, runtime);
    let scope = scope(model, runtime);
    let call = call(model, runtime);
    let out = Ident::new("out", Span::call_site());
    let settle = match &model.output {
        Output::Opaque(_) => quote!({ out }),
        Output::Named(ty) => settle(runtime, &out, ty.span()),
        Output::Unit => settle(runtime, &out, model.signature.ident.span()),
    };
    let state = state_checks(model, runtime);
    let effects = effect_checks(model);
    let authorize = authorize(model, runtime);
    let replay = replay(model, runtime);
    let inputs = inputs(model);
    // a generic parameter of an outer `impl` is blamed here
    let name = at(model.signature.ident.span());
    let header = {
        let runtime = model.runtime.private_at(name);
        quote_spanned!(name=> impl #declared #runtime::Operation for #operation #used #bounds)
    };
    let items = quote! {
        type Handle = #handle;
        type Args = #args;
        type Output = #output;
        const SPEC: #runtime::Spec = #spec;
        fn check() {
            #state
            #effects
        }
        #scope
        #call
        fn settle(out: Self::Output) -> #runtime::Settled #settle
        #authorize
        #replay
        #inputs
    };
    quote_spanned!(name=> #header { #items })
}

fn scope(model: &Model, runtime: &TokenStream) -> TokenStream {
    let body = match &model.owner {
        Some(owner) => {
            let place = at(owner.span);
            let index = index(owner.argument, place);
            let pattern = &owner.pattern;
            let reference = &owner.reference;
            quote_spanned! {place=>
                let #pattern = &prefix.#index;
                #runtime::ScopeKey::of(#reference)
            }
        }
        None => quote!(::core::unreachable!()),
    };
    let prefix = prefix_type(model);
    quote! {
        fn scope(prefix: #prefix) -> #runtime::ScopeKey {
            #body
        }
    }
}

/// The user's future is boxed by a method of ours that rustc checks at the user's name. Neither `async` nor `impl
/// Future`: rustc would prove what the handler's future holds once more, from the start.
fn call(model: &Model, runtime: &TokenStream) -> TokenStream {
    let name = &model.signature.ident;
    let place = at(name.span());
    let (_, used, _) = model.generics.split_for_impl();
    let turbofish = used.as_turbofish();
    let [tx, args, out] = ["tx", "args", "out"].map(|text| local(text, name, place));
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
    let body = match &model.output {
        Output::Opaque(ty) => {
            let settle = settle(runtime, &out, ty.span());
            quote_spanned! {place=>
                #runtime::handler_future().must_be_send_and_settled(#future, |#out| #settle)
            }
        }
        Output::Named(_) | Output::Unit => {
            quote_spanned!(place=> #runtime::handler_future().must_be_send(#future))
        }
    };
    quote_spanned! {place=>
        fn call<'t>(
            #tx: &'t mut Self::Handle,
            #args: Self::Args,
        ) -> #runtime::BoxFuture<'t, Self::Output> {
            #body
        }
    }
}

/// Picks what becomes of the answer by what its type is, most specific first.
fn settle(runtime: &TokenStream, out: &Ident, place: Span) -> TokenStream {
    let out = Ident::new(&out.to_string(), at(place));
    quote_spanned!(at(place)=> {
        use #runtime::*;
        (&&&&#runtime::outcome(&#out)).kind().settle(#out)
    })
}

fn authorize(model: &Model, runtime: &TokenStream) -> Option<TokenStream> {
    let path = model.args.authorize.as_ref()?;
    let members = model.arguments.len() - usize::from(!model.all_parts);
    let place = at(path.span());
    let indexes = (0..members).map(|member| index(member, place));
    let prefix = prefix_type(model);
    let checked = quote_spanned!(place=> #runtime::authorized(#path(#(&prefix.#indexes),*).await));
    Some(quote_spanned! {place=>
        fn authorize(
            prefix: #prefix,
        ) -> impl ::core::future::Future<Output = ::core::result::Result<(), #runtime::Response>> + ::core::marker::Send {
            async move { #checked }
        }
    })
}

fn replay(model: &Model, runtime: &TokenStream) -> Option<TokenStream> {
    let path = model.args.replay_with.as_ref()?;
    let place = at(path.span());
    let rebuilt =
        quote_spanned!(place=> #runtime::IntoResponse::into_response(#path(db, replay).await));
    Some(quote_spanned! {place=>
        const REBUILDS: bool = true;
        fn replay<'c>(
            db: &'c mut #runtime::ConnectionOf<Self::Handle>,
            replay: &'c #runtime::Replay,
        ) -> impl ::core::future::Future<Output = ::core::option::Option<#runtime::Response>> + ::core::marker::Send + 'c {
            async move { ::core::option::Option::Some(#rebuilt) }
        }
    })
}

/// The arguments as data: a handler with recovery points may run again without its request. Each is blamed by itself.
fn inputs(model: &Model) -> Option<TokenStream> {
    if !model.steps {
        return None;
    }
    let list = arguments_list(model);
    let runtime = model.runtime.private_at(list);
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
        const KEEPS_INPUTS: bool = true;
        fn inputs(args: &Self::Args) -> #runtime::Inputs {
            #runtime::Inputs::new()#(#kept)*
        }
    })
}

/// Each argument is `EffectFree`, and is blamed by itself. Inside the operation: there, generics of an outer `impl`
/// are an error of their own.
fn effect_checks(model: &Model) -> TokenStream {
    let checks = model.arguments.iter().map(|ty| {
        let place = at(ty.span());
        let runtime = model.runtime.private_at(place);
        quote_spanned!(place=> #runtime::vet::<#ty>().takes::<#ty>();)
    });
    quote!(#(#checks)*)
}

/// With `state = ..`, each argument is checked by itself, and so blamed by itself.
fn state_checks(model: &Model, runtime: &TokenStream) -> Option<TokenStream> {
    let state = model.args.state.as_ref()?;
    let handle = &model.handle;
    let store = quote_spanned!(at(state.span())=> #runtime::router_state().has_idempotency::<#state, #handle>(););
    let from_parts = if model.all_parts {
        model.arguments.len()
    } else {
        model.arguments.len().saturating_sub(1)
    };
    let checks = model.arguments.iter().enumerate().map(|(index, ty)| {
        let place = at(ty.span());
        if index < from_parts {
            quote_spanned!(place=> #runtime::argument().reads_parts::<#ty, #state>();)
        } else {
            quote_spanned!(place=> #runtime::argument().reads_request::<#ty, #state, _>();)
        }
    });
    Some(quote!(#store #(#checks)*))
}

/// Only what is written in the attribute; the router's defaults fill in the rest.
fn spec(model: &Model, runtime: &TokenStream) -> TokenStream {
    let args = &model.args;
    let mut fields = Vec::new();
    let mut field = |name: &str, value: TokenStream| {
        let name = Ident::new(name, Span::call_site());
        fields.push(quote!(spec.#name = #value;));
    };
    let function = format!("::{}", model.signature.ident);
    field(
        "function",
        quote!(::core::concat!(::core::module_path!(), #function)),
    );
    let some = |value: TokenStream| quote!(::core::option::Option::Some(#value));
    for (name, duration) in [
        ("ttl", args.ttl),
        ("wait", args.wait),
        ("tombstone", args.tombstone),
        ("timeout", args.timeout),
    ] {
        if let Some(duration) = duration {
            field(name, duration_value(duration, runtime));
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
    quote! {
        {
            let mut spec = #runtime::spec(#name, #scope);
            #(#fields)*
            spec
        }
    }
}

fn duration_value(duration: Duration, runtime: &TokenStream) -> TokenStream {
    let milliseconds = duration.as_millis();
    if milliseconds.is_multiple_of(1000) {
        let seconds = Literal::u64_unsuffixed(duration.as_secs());
        quote!(#runtime::seconds(#seconds))
    } else {
        let milliseconds = Literal::u128_unsuffixed(milliseconds);
        quote!(#runtime::milliseconds(#milliseconds))
    }
}
