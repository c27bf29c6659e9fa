//! The checks on a handler's signature, each on its own, so that none hides another.

mod lifetimes;

use proc_macro2::{Ident, TokenStream, TokenTree};
use quote::ToTokens;
use syn::{
    Block, FnArg, Item, PatType, Receiver, ReturnType, Signature, Type, TypeImplTrait, visit::Visit,
};

use self::lifetimes::Lifetimes;
use crate::{errors::Errors, handler::Handler, scope::reads_body};

/// axum's limit for a handler, too.
const MOST_ARGUMENTS: usize = 16;

/// A signature that can be a handler's.
pub(crate) struct Parameters<'a> {
    /// Where the transaction is among all the function's parameters.
    pub(crate) handle_at: usize,
    pub(crate) handle: &'a PatType,
    /// What is behind the `&mut`.
    pub(crate) handle_type: &'a Type,
    pub(crate) arguments: Vec<&'a PatType>,
}

/// `None` if anything is wrong with it; what is, is in `errors`.
pub(crate) fn check<'a>(handler: &'a Handler, errors: &mut Errors) -> Option<Parameters<'a>> {
    check_for(IDEMPOTENT, handler, errors)
}

/// The same for a consumer.
pub(crate) fn check_consumer<'a>(
    handler: &'a Handler,
    errors: &mut Errors,
) -> Option<Parameters<'a>> {
    let mut found = Errors::default();
    let parameters = check_for(CONSUMER, handler, &mut found);
    let signature = &handler.signature;
    if let Some(parameters) = &parameters {
        if ends_in(parameters.handle_type, &["Steps"]) {
            found.at(
                parameters.handle_type,
                "a consumer has no recovery points, since the broker delivers its message again: take `&mut Tx<DB>`",
            );
        }
        if parameters.arguments.is_empty() {
            found.at_span(
                signature.paren_token.span.join(),
                "a consumer must take its message: add `message: Message<T>`",
            );
        }
    }
    if let ReturnType::Type(_, output) = &signature.output
        && let Some(opaque) = impl_trait(output)
    {
        found.at(
            opaque,
            "`impl Trait` does not say whether the consumer failed: return `Result<(), E>`",
        );
    }
    let parameters = parameters.filter(|_| found.is_empty());
    errors.extend(found);
    parameters
}

fn check_for<'a>(who: &str, handler: &'a Handler, errors: &mut Errors) -> Option<Parameters<'a>> {
    let mut found = Errors::default();
    qualifiers(&handler.signature, who, &mut found);
    self_type(handler, who, &mut found);
    let lifetimes = Lifetimes::declared_by(&handler.signature);
    let parameters = parameters(&handler.signature, who, &lifetimes, &mut found);
    answer(&handler.signature, &lifetimes, &mut found);
    let parameters = parameters.filter(|_| found.is_empty());
    errors.extend(found);
    parameters
}

/// The same for a handler that writes by itself: its arguments. `None` if anything is wrong.
pub(crate) fn check_without_transaction<'a>(
    handler: &'a Handler,
    errors: &mut Errors,
) -> Option<Vec<&'a PatType>> {
    let mut found = Errors::default();
    let signature = &handler.signature;
    qualifiers(signature, REPEAT_SAFE, &mut found);
    self_type(handler, REPEAT_SAFE, &mut found);
    let lifetimes = Lifetimes::declared_by(signature);
    let mut arguments = Vec::new();
    for input in &signature.inputs {
        match input {
            FnArg::Receiver(receiver) => refuse_self(receiver, REPEAT_SAFE, &mut found),
            FnArg::Typed(typed)
                if behind_mut(&typed.ty).is_some_and(is_handle) || handle_by_value(&typed.ty) =>
            {
                found.at(
                    &typed.ty,
                    "a repeat-safe handler has no key, and so no transaction of the framework: take the pool, or make the handler `#[idempotent]`",
                );
            }
            FnArg::Typed(typed) => arguments.push(typed),
        }
    }
    each_argument(&arguments, &lifetimes, &mut found);
    answer(signature, &lifetimes, &mut found);
    let arguments = found.is_empty().then_some(arguments);
    errors.extend(found);
    arguments
}

const IDEMPOTENT: &str = "an idempotent handler";
const REPEAT_SAFE: &str = "a repeat-safe handler";
const CONSUMER: &str = "a consumer";

fn answer(signature: &Signature, lifetimes: &Lifetimes, errors: &mut Errors) {
    if let ReturnType::Type(_, output) = &signature.output {
        lifetimes.refuse_borrows(
            output,
            "the answer can't borrow: it outlives the handler's arguments; return owned data",
            errors,
        );
    }
    lifetimes.refuse_in_bounds(signature, errors);
}

fn refuse_self(receiver: &Receiver, who: &str, errors: &mut Errors) {
    errors.at(
        receiver,
        format!("{who} can't take `self`; take what it needs from `State<_>`"),
    );
}

fn qualifiers(signature: &Signature, who: &str, errors: &mut Errors) {
    if signature.asyncness.is_none() {
        errors.at(signature.fn_token, format!("{who} must be an `async fn`"));
    }
    if let Some(keyword) = &signature.constness {
        errors.at(keyword, format!("{who} can't be `const`"));
    }
    if let Some(keyword) = &signature.unsafety {
        errors.at(keyword, format!("{who} can't be `unsafe`"));
    }
    if let Some(abi) = &signature.abi {
        errors.at(abi, format!("{who} can't be `extern`"));
    }
    if let Some(dots) = &signature.variadic {
        errors.at(
            dots,
            format!("{who} can't take a variable number of arguments"),
        );
    }
}

fn parameters<'a>(
    signature: &'a Signature,
    who: &str,
    lifetimes: &Lifetimes,
    errors: &mut Errors,
) -> Option<Parameters<'a>> {
    let typed = || {
        signature
            .inputs
            .iter()
            .enumerate()
            .filter_map(|(at, input)| match input {
                FnArg::Typed(typed) => Some((at, typed)),
                FnArg::Receiver(_) => None,
            })
    };
    if let Some(receiver) = signature.receiver() {
        refuse_self(receiver, who, errors);
    }
    let borrowed = || typed().filter_map(|(at, typed)| Some((at, typed, behind_mut(&typed.ty)?)));
    // of several, the one that is called a transaction is the one meant
    let handle = borrowed()
        .find(|(_, _, ty)| is_handle(ty))
        .or_else(|| borrowed().next());
    let mut arguments = Vec::new();
    let mut misplaced = false;
    for (at, typed) in typed() {
        if handle.is_some_and(|(handle_at, ..)| handle_at == at) {
            continue;
        }
        if behind_mut(&typed.ty).is_some() {
            errors.at(typed, "a handler has one transaction; remove the second");
        } else if handle_by_value(&typed.ty) {
            misplaced = true;
            errors.at(
                &typed.ty,
                "take the transaction by reference: `tx: &mut Tx<DB>`; the framework commits it",
            );
        } else {
            arguments.push(typed);
        }
    }
    if who == CONSUMER {
        each_consumed(&arguments, lifetimes, errors);
    } else {
        each_argument(&arguments, lifetimes, errors);
    }
    let Some((handle_at, handle, handle_type)) = handle else {
        if !misplaced {
            errors.at_span(
                signature.paren_token.span.join(),
                format!("{who} must take its transaction: add `tx: &mut Tx<DB>`"),
            );
        }
        return None;
    };
    foreign_transaction(handle_type, lifetimes, errors);
    Some(Parameters {
        handle_at,
        handle,
        handle_type,
        arguments,
    })
}

fn each_argument(arguments: &[&PatType], lifetimes: &Lifetimes, errors: &mut Errors) {
    for (index, argument) in arguments.iter().enumerate() {
        let ty = &*argument.ty;
        if let Some(found) = impl_trait(ty) {
            errors.at(
                found,
                "`impl Trait` can't be extracted from a request; name the type",
            );
        }
        lifetimes.refuse_borrows(
            ty,
            "an argument can't borrow: it is read from the request and owned by the handler; take it by value",
            errors,
        );
        // `Body` and `Request` may be the user's own types in earlier places
        if index + 1 < arguments.len() && reads_body(ty) && !ends_in(ty, &["Body", "Request"]) {
            errors.at(
                ty,
                "this reads the request's body, so it must be the last argument",
            );
        }
    }
    if let Some(first_too_many) = arguments.get(MOST_ARGUMENTS) {
        errors.at(
            first_too_many,
            format!(
                "a handler can have at most {MOST_ARGUMENTS} arguments besides its transaction; gather some in a struct with `#[derive(FromRequestParts)]`"
            ),
        );
    }
}

/// The arguments of a consumer, which are made of its message.
fn each_consumed(arguments: &[&PatType], lifetimes: &Lifetimes, errors: &mut Errors) {
    for argument in arguments {
        if let Some(found) = impl_trait(&argument.ty) {
            errors.at(
                found,
                "`impl Trait` can't be made of a message; name the type",
            );
        }
        lifetimes.refuse_borrows(
            &argument.ty,
            "an argument can't borrow: it is made of the message and owned by the consumer; take it by value",
            errors,
        );
    }
    if let Some(first_too_many) = arguments.get(MOST_ARGUMENTS) {
        errors.at(
            first_too_many,
            format!(
                "a consumer can have at most {MOST_ARGUMENTS} arguments besides its transaction; gather some in a type of yours that implements `FromMessage`"
            ),
        );
    }
}

const CONNECTIONS: [&str; 4] = [
    "PgConnection",
    "SqliteConnection",
    "MySqlConnection",
    "PoolConnection",
];

/// sqlx's own transaction, or a bare connection, in the transaction's place.
fn foreign_transaction(ty: &Type, lifetimes: &Lifetimes, errors: &mut Errors) {
    let borrows = lifetimes.first_borrow(ty).is_some();
    // an alias of ours has no lifetime
    let has_lifetime = borrows || ty.to_token_stream().to_string().contains("'static");
    if ends_in(ty, &["Transaction"]) && has_lifetime || ends_in(ty, &CONNECTIONS) {
        errors.at(
            ty,
            "take the framework's transaction: `tx: &mut Tx<DB>`; the key and the answer commit with what is written through it, and it derefs to the connection",
        );
    } else if borrows {
        errors.at(ty, "the transaction can't borrow: write `tx: &mut Tx<DB>`");
    }
}

/// `Self` and an `impl`'s generics don't reach into the function that the expansion nests.
fn self_type(handler: &Handler, who: &str, errors: &mut Errors) {
    let message = format!("`Self` doesn't reach into {who}; write the type's name");
    let signature = &handler.signature;
    for tokens in [
        signature.generics.to_token_stream(),
        signature.inputs.to_token_stream(),
        signature.output.to_token_stream(),
        signature.generics.where_clause.to_token_stream(),
    ] {
        each_self(tokens, &mut |word| errors.at(word, &message));
    }
    struct InBody<'a>(&'a mut Errors, &'a str);
    impl<'a> Visit<'a> for InBody<'_> {
        fn visit_ident(&mut self, word: &'a Ident) {
            if word == "Self" {
                self.0.at(word, self.1);
            }
        }
        fn visit_macro(&mut self, call: &'a syn::Macro) {
            each_self(call.tokens.clone(), &mut |word| self.0.at(word, self.1));
        }
        // an item in the body has a `Self` of its own
        fn visit_item(&mut self, _: &'a Item) {}
    }
    if let Ok(block) = syn::parse2::<Block>(handler.body.clone()) {
        InBody(errors, &message).visit_block(&block);
    }
}

fn each_self(tokens: TokenStream, report: &mut dyn FnMut(Ident)) {
    for token in tokens {
        match token {
            TokenTree::Ident(word) if word == "Self" => report(word),
            TokenTree::Group(group) => each_self(group.stream(), report),
            _ => {}
        }
    }
}

/// What a macro's `$t:ty` wraps is what it is.
fn peel(mut ty: &Type) -> &Type {
    loop {
        ty = match ty {
            Type::Group(group) => &group.elem,
            Type::Paren(paren) => &paren.elem,
            _ => return ty,
        };
    }
}

fn behind_mut(ty: &Type) -> Option<&Type> {
    match peel(ty) {
        Type::Reference(reference) if reference.mutability.is_some() => Some(&reference.elem),
        _ => None,
    }
}

fn ends_in(ty: &Type, names: &[&str]) -> bool {
    let last = match peel(ty) {
        Type::Path(path) => path.path.segments.last(),
        _ => None,
    };
    last.is_some_and(|last| names.iter().any(|name| last.ident == name))
}

fn is_handle(ty: &Type) -> bool {
    ends_in(ty, &["Tx", "Steps"])
}

fn handle_by_value(ty: &Type) -> bool {
    match peel(ty) {
        Type::Reference(reference) => is_handle(&reference.elem),
        ty => is_handle(ty),
    }
}

/// The first `impl Trait` in a type.
pub(crate) fn impl_trait(ty: &Type) -> Option<&TypeImplTrait> {
    struct Find<'a>(Option<&'a TypeImplTrait>);
    impl<'a> Visit<'a> for Find<'a> {
        fn visit_type_impl_trait(&mut self, found: &'a TypeImplTrait) {
            self.0.get_or_insert(found);
        }
    }
    let mut find = Find(None);
    find.visit_type(ty);
    find.0
}
