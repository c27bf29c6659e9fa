//! `scope = "claims.tenant"`: from the text to a binding of the handler, and the place in it.

use proc_macro2::{Ident, Span};
use syn::{
    Expr, FieldPat, Index, LitStr, Member, Pat, Token, Type,
    ext::IdentExt,
    parse::{Parse, ParseStream},
    parse_quote, parse_quote_spanned,
    visit::Visit,
    visit_mut::{self, VisitMut},
};

use crate::{errors::Errors, suggest::nearest};

/// A binding's name, and the fields that lead from it to the owner.
#[derive(Clone)]
pub(crate) struct ScopePath {
    pub(crate) literal: LitStr,
    root: String,
    members: Vec<Member>,
}

/// Where the owner of the key is found.
#[derive(Clone)]
pub(crate) struct Owner {
    /// The argument's index among the handler's arguments, the transaction not counted.
    pub(crate) argument: usize,
    /// The argument's pattern, reduced to the one binding.
    pub(crate) pattern: Pat,
    /// A reference to the owner.
    pub(crate) reference: Expr,
    /// The text of `scope`.
    pub(crate) text: String,
    pub(crate) span: Span,
}

struct Parts {
    root: Ident,
    members: Vec<Member>,
}

impl Parse for Parts {
    fn parse(input: ParseStream<'_>) -> syn::Result<Self> {
        let root = input.call(Ident::parse_any)?.unraw();
        let mut members = Vec::new();
        while input.parse::<Option<Token![.]>>()?.is_some() {
            // `pair.0.1` reads as the float `0.1`
            if input.peek(syn::LitFloat) {
                let float: syn::LitFloat = input.parse()?;
                for digits in float.to_string().split('.') {
                    let index = digits.parse().map_err(|_| input.error("no index"))?;
                    members.push(Member::Unnamed(Index {
                        index,
                        span: float.span(),
                    }));
                }
            } else {
                members.push(input.parse()?);
            }
        }
        Ok(Parts { root, members })
    }
}

impl ScopePath {
    pub(crate) fn parse(literal: LitStr, errors: &mut Errors) -> Option<ScopePath> {
        match literal.parse::<Parts>() {
            Ok(Parts { root, members }) if root != "_" => Some(ScopePath {
                root: root.to_string(),
                members,
                literal,
            }),
            _ => {
                errors.at(
                    literal,
                    "invalid `scope`: name one of the handler's bindings, as \"account\", or a field of one, as \"claims.tenant\"",
                );
                None
            }
        }
    }

    /// Looks the binding up in the arguments' patterns.
    pub(crate) fn resolve(
        &self,
        handle: &Pat,
        arguments: &[(&Pat, &Type)],
        errors: &mut Errors,
    ) -> Option<Owner> {
        let found = arguments
            .iter()
            .enumerate()
            .find_map(|(index, (pattern, _))| {
                let mut pattern = (*pattern).clone();
                let mut only = Only {
                    name: &self.root,
                    found: None,
                };
                only.visit_pat_mut(&mut pattern);
                only.found.map(|binding| (index, pattern, binding))
            });
        let Some((argument, pattern, binding)) = found else {
            errors.at(&self.literal, self.not_found(handle, arguments));
            return None;
        };
        if argument + 1 == arguments.len() && reads_body(arguments[argument].1) {
            errors.at(
                &self.literal,
                format!(
                    "`scope = \"{}\"` is read from the body; the scope must come from the request's parts, as an authenticated account",
                    self.literal.value()
                ),
            );
            return None;
        }
        Some(Owner {
            argument,
            pattern,
            reference: self.reference(&binding),
            text: self.literal.value(),
            span: self.literal.span(),
        })
    }

    /// The binding is already a reference, since its pattern is matched against one.
    fn reference(&self, binding: &Ident) -> Expr {
        // the binding's hygiene, the literal's place
        let span = binding.span().located_at(self.literal.span());
        let root = raw_if_keyword(binding, span);
        if self.members.is_empty() {
            return parse_quote!(#root);
        }
        // of the macro, so that rustc offers no replacement for the whole literal
        let span = Span::call_site().located_at(self.literal.span());
        let members = self.members.iter().map(|member| match member {
            Member::Named(name) => Member::Named(raw_if_keyword(name, span)),
            Member::Unnamed(index) => Member::Unnamed(Index {
                index: index.index,
                span,
            }),
        });
        parse_quote_spanned!(span=> &#root #(.#members)*)
    }

    fn not_found(&self, handle: &Pat, arguments: &[(&Pat, &Type)]) -> String {
        let text = self.literal.value();
        if bindings(handle).contains(&self.root) {
            return format!(
                "`scope = \"{text}\"` names the transaction; name the argument that says whose keys these are, as an authenticated account"
            );
        }
        let names = |arguments: &[(&Pat, &Type)]| -> Vec<String> {
            arguments
                .iter()
                .flat_map(|(pattern, _)| bindings(pattern))
                .collect()
        };
        let all = names(arguments);
        if let Some(near) = nearest(&self.root, all.iter().map(String::as_str)) {
            return format!("`scope = \"{text}\"` names no parameter; did you mean `{near}`?");
        }
        let possible: Vec<_> = arguments
            .iter()
            .filter(|(_, ty)| !reads_body(ty))
            .flat_map(|(pattern, _)| bindings(pattern))
            .map(|name| format!("`{name}`"))
            .collect();
        if possible.is_empty() {
            format!(
                "`scope = \"{text}\"` names no parameter; take the caller's identity as an argument, as `{}: Account`",
                self.root
            )
        } else {
            format!(
                "`scope = \"{text}\"` names no parameter; there are {}; name the authenticated caller",
                possible.join(", ")
            )
        }
    }
}

/// `r#type` where the text says `type`.
fn raw_if_keyword(name: &Ident, span: Span) -> Ident {
    let text = name.unraw().to_string();
    match syn::parse_str::<Ident>(&text) {
        Ok(_) => Ident::new(&text, span),
        Err(_) => Ident::new_raw(&text, span),
    }
}

/// The extractors that every axum user knows to consume the body. Others are found by their traits.
pub(crate) fn reads_body(ty: &Type) -> bool {
    const READERS: [&str; 8] = [
        "Json",
        "Form",
        "RawForm",
        "Multipart",
        "Bytes",
        "String",
        "Body",
        "Request",
    ];
    let Type::Path(path) = ty else {
        return match ty {
            Type::Group(group) => reads_body(&group.elem),
            Type::Paren(paren) => reads_body(&paren.elem),
            _ => false,
        };
    };
    let Some(last) = path.path.segments.last() else {
        return false;
    };
    if last.ident == "Option" || last.ident == "Result" {
        let syn::PathArguments::AngleBracketed(arguments) = &last.arguments else {
            return false;
        };
        return matches!(arguments.args.first(), Some(syn::GenericArgument::Type(inner)) if reads_body(inner));
    }
    READERS.iter().any(|reader| last.ident == reader)
}

/// The names that a pattern binds.
pub(crate) fn bindings(pattern: &Pat) -> Vec<String> {
    struct Names(Vec<String>);
    impl<'a> Visit<'a> for Names {
        fn visit_pat_ident(&mut self, binding: &'a syn::PatIdent) {
            if is_variable(&binding.ident) {
                self.0.push(binding.ident.unraw().to_string());
            }
            syn::visit::visit_pat_ident(self, binding);
        }
    }
    let mut names = Names(Vec::new());
    names.visit_pat(pattern);
    names.0
}

/// A name in a pattern that starts in upper case is a constant or a unit struct, as far as its looks go.
fn is_variable(name: &Ident) -> bool {
    !name.unraw().to_string().starts_with(char::is_uppercase)
}

/// Reduces a pattern to the binding of that name: `Account(mut id, _extra)` becomes `Account(id, _)`. No `mut`
/// and no `ref` are left: the pattern is matched against a reference, where edition 2024 forbids both.
struct Only<'a> {
    name: &'a str,
    found: Option<Ident>,
}

impl VisitMut for Only<'_> {
    fn visit_pat_mut(&mut self, pattern: &mut Pat) {
        let Pat::Ident(binding) = pattern else {
            return visit_mut::visit_pat_mut(self, pattern);
        };
        if binding.ident.unraw() == self.name {
            self.found = Some(binding.ident.clone());
            binding.attrs.clear();
            binding.by_ref = None;
            binding.mutability = None;
            binding.subpat = None;
        } else if let Some((_, mut inner)) = binding.subpat.take() {
            self.visit_pat_mut(&mut inner);
            *pattern = *inner;
        } else if is_variable(&binding.ident) {
            *pattern = parse_quote!(_);
        }
    }

    fn visit_field_pat_mut(&mut self, field: &mut FieldPat) {
        self.visit_pat_mut(&mut field.pat);
        // `Claims { user, .. }` is `Claims { user: _, .. }` by now
        if field.colon_token.is_none() && matches!(&*field.pat, Pat::Wild(_)) {
            field.colon_token = Some(Token![:](Span::call_site()));
        }
    }
}
