//! Where generated code finds the runtime: `crate = "::path"`.

use proc_macro2::{Span, TokenStream};
use quote::{ToTokens, quote};
use syn::{LitStr, Path, parse_quote};

const ADVICE: &str = "path must be absolute: write `::x::y` or `crate::x`";

/// An absolute path to the runtime crate.
#[derive(Clone)]
pub(crate) struct CratePath(Path);

impl Default for CratePath {
    fn default() -> Self {
        CratePath(parse_quote!(::idem_runtime))
    }
}

impl CratePath {
    /// A string literal or a bare path.
    pub(crate) fn parse(value: TokenStream) -> syn::Result<CratePath> {
        let path = match syn::parse2::<LitStr>(value.clone()) {
            Ok(literal) => literal.parse_with(Path::parse_mod_style),
            Err(_) => syn::parse::Parser::parse2(Path::parse_mod_style, value.clone()),
        };
        // A relative path would mean something else in each module that the attribute is used in.
        let absolute = |path: &Path| {
            path.leading_colon.is_some()
                || path
                    .segments
                    .first()
                    .is_some_and(|first| first.ident == "crate" || first.ident == "$crate")
        };
        match path {
            Ok(path) if absolute(&path) => Ok(CratePath(path)),
            _ => Err(syn::Error::new_spanned(value, ADVICE)),
        }
    }

    /// The module with all that generated code names.
    pub(crate) fn private(&self) -> TokenStream {
        let path = &self.0;
        quote!(#path::__private)
    }

    /// The same, its tokens at a place of the user's: a type is blamed from its first token to its last.
    pub(crate) fn private_at(&self, place: Span) -> TokenStream {
        let tokens = self.private().into_iter().map(|mut token| {
            token.set_span(token.span().located_at(place));
            token
        });
        tokens.collect()
    }
}

impl ToTokens for CratePath {
    fn to_tokens(&self, tokens: &mut TokenStream) {
        self.0.to_tokens(tokens);
    }
}
