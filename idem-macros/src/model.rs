//! A handler that can only be right: signature, attributes and arguments, checked together.

use proc_macro2::{Ident, TokenStream};
use quote::{ToTokens, quote};
use syn::{
    Attribute, FnArg, GenericParam, Generics, ReturnType, Signature, Type, TypeParam, Visibility,
    WherePredicate, parse_quote,
};

use crate::{
    args::Args,
    attributes::Attributes,
    errors::Errors,
    handler::Handler,
    paths::CratePath,
    scope::{self, Owner},
    signature::{self, Parameters, impl_trait},
    steps,
    words::Words,
};

/// All that the expansion needs; it decides nothing itself.
pub(crate) struct Model {
    pub(crate) runtime: CratePath,
    pub(crate) outer: Vec<Attribute>,
    pub(crate) inner: Vec<Attribute>,
    pub(crate) visibility: Visibility,
    /// The user's function, as written but for an `allow` on the scope's argument.
    pub(crate) signature: Signature,
    pub(crate) body: TokenStream,
    /// The hidden type that stands for the operation.
    pub(crate) operation: Ident,
    /// What the runtime's module is called inside the generated function.
    pub(crate) alias: Ident,
    /// The handler's stable name, in records and metrics.
    pub(crate) name: String,
    /// The parameters and bounds of the generated function and of the hidden type: no lifetimes.
    pub(crate) generics: Generics,
    pub(crate) handle: Type,
    /// Where the transaction is among the function's parameters.
    pub(crate) handle_at: usize,
    pub(crate) arguments: Vec<Type>,
    /// The scope is in the last argument, so that one too is read from the request's parts.
    pub(crate) all_parts: bool,
    pub(crate) output: Output,
    /// The handler has recovery points.
    pub(crate) steps: bool,
    /// `None` after an error only.
    pub(crate) owner: Option<Owner>,
    pub(crate) args: Args,
}

/// What the user's function returns.
pub(crate) enum Output {
    Named(Type),
    /// There is an `impl Trait` in it, which no associated type can name.
    Opaque(Type),
    /// Nothing is written.
    Unit,
}

impl Model {
    /// `None` if the signature can't be a handler's, or nothing of the runtime can be named.
    pub(crate) fn new(handler: &Handler, args: &Args, errors: &mut Errors) -> Option<Model> {
        let attributes = Attributes::sort(&handler.attributes, "idempotent", errors);
        let parameters = signature::check(handler, errors)?;
        let signature = &handler.signature;
        let arguments: Vec<_> = parameters
            .arguments
            .iter()
            .map(|argument| (&*argument.pat, &*argument.ty))
            .collect();
        let owner = args
            .scope
            .as_ref()
            .and_then(|scope| scope.resolve(&parameters.handle.pat, &arguments, errors));
        if arguments.is_empty() {
            return None; // an error by now: there is nothing to find a scope in
        }
        let all_parts = owner
            .as_ref()
            .is_some_and(|owner| owner.argument + 1 == arguments.len());
        let text = bare(&signature.ident);
        let steps = steps::is_steps(parameters.handle_type);
        steps::check(steps, args, handler, errors);
        let mut words = Words::of(handler.body.clone());
        let own = used_as_scope(handler, &parameters, owner.as_ref(), &words);
        words.add(handler.signature.to_token_stream());
        words.add(given(handler, args));
        Some(Model {
            runtime: args.runtime.clone()?,
            outer: attributes.outer,
            inner: attributes.inner,
            visibility: handler.visibility.clone(),
            signature: own,
            body: handler.body.clone(),
            operation: operation_type(&signature.ident, &words),
            alias: Ident::new(
                &words.without("runtime".to_owned()),
                proc_macro2::Span::call_site(),
            ),
            name: args.operation.clone().unwrap_or(text),
            generics: generics(signature),
            handle: parameters.handle_type.clone(),
            handle_at: parameters.handle_at,
            arguments: arguments.iter().map(|(_, ty)| (*ty).clone()).collect(),
            all_parts,
            output: output(signature),
            steps,
            owner,
            args: args.clone(),
        })
    }
}

/// The scope's argument is used, if by the attribute alone: without a word of ours, rustc would call it unused.
fn used_as_scope(
    handler: &Handler,
    parameters: &Parameters,
    owner: Option<&Owner>,
    body: &Words,
) -> Signature {
    let mut signature = handler.signature.clone();
    let Some(owner) = owner else {
        return signature;
    };
    let at = owner.argument + usize::from(owner.argument >= parameters.handle_at);
    let pattern = &parameters.arguments[owner.argument].pat;
    if let [only] = &scope::bindings(pattern)[..]
        && let Some(FnArg::Typed(argument)) = signature.inputs.get_mut(at)
        && argument.attrs.is_empty()
        && !body.has(only)
    {
        argument
            .attrs
            .push(parse_quote!(#[allow(unused_variables)]));
    }
    signature
}

/// What the attributes say that is repeated in the generated function.
fn given(handler: &Handler, args: &Args) -> TokenStream {
    let Args {
        authorize,
        replay_with,
        state,
        ..
    } = args;
    let attributes = &handler.attributes;
    quote!(#(#attributes)* #authorize #replay_with #state)
}

pub(crate) fn bare(name: &Ident) -> String {
    syn::ext::IdentExt::unraw(name).to_string()
}

pub(crate) fn output(signature: &Signature) -> Output {
    match &signature.output {
        ReturnType::Default => Output::Unit,
        ReturnType::Type(_, ty) if impl_trait(ty).is_some() => Output::Opaque((**ty).clone()),
        ReturnType::Type(_, ty) => Output::Named((**ty).clone()),
    }
}

/// Arguments are `Send + Sync + 'static`, and so must be what they are generic over.
pub(crate) fn generics(signature: &Signature) -> Generics {
    let mut generics = signature.generics.clone();
    generics.params = generics
        .params
        .into_iter()
        .filter(|parameter| !matches!(parameter, GenericParam::Lifetime(_)))
        .collect();
    let bound = quote!(::core::marker::Send + ::core::marker::Sync + 'static);
    let mut unbound = Vec::new();
    for parameter in generics.type_params_mut() {
        if parameter.bounds.is_empty() {
            unbound.push(parameter.ident.clone());
        } else {
            // beside the user's: clippy wants a parameter's bounds in one place
            let bound: TypeParam = parse_quote!(T: #bound);
            parameter.bounds.extend(bound.bounds);
        }
    }
    if unbound.is_empty() && generics.where_clause.is_none() {
        return generics;
    }
    let clause = generics.make_where_clause();
    clause.predicates = std::mem::take(&mut clause.predicates)
        .into_iter()
        .filter(|predicate| !matches!(predicate, WherePredicate::Lifetime(_)))
        .collect();
    for name in unbound {
        clause.predicates.push(parse_quote!(#name: #bound));
    }
    generics
}

/// `create_order` becomes `CreateOrderOperation`, a name that rustc shows now and then. An item shadows one of
/// the module for the user's own code beside it, hence the dashes if that code uses the name.
pub(crate) fn operation_type(function: &Ident, used: &Words) -> Ident {
    hidden_name(function, "Operation", used)
}

/// The same with another ending.
pub(crate) fn hidden_name(function: &Ident, ending: &str, used: &Words) -> Ident {
    let mut name = String::new();
    for word in bare(function).split('_').filter(|word| !word.is_empty()) {
        let mut letters = word.chars();
        name.extend(letters.next().into_iter().flat_map(char::to_uppercase));
        name.push_str(letters.as_str());
    }
    name.push_str(ending);
    let place = proc_macro2::Span::call_site().located_at(function.span());
    Ident::new(&used.without(name), place)
}
