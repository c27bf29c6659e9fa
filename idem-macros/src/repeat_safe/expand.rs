//! Model to tokens. Nothing is decided here.

use proc_macro2::{Ident, Span, TokenStream};
use quote::{quote, quote_spanned};
use syn::spanned::Spanned;

use super::model::Model;

/// A handler for axum with the same arguments, whose return type carries what was declared, around the user's own
/// function.
pub(super) fn expand(model: &Model) -> TokenStream {
    let Model {
        outer,
        inner,
        visibility,
        signature,
        body,
        declaration,
        why,
        ..
    } = model;
    let runtime = model.runtime.private();
    let name = &signature.ident;
    let (declared, used, bounds) = model.generics.split_for_impl();
    let turbofish = used.as_turbofish();
    let names: Vec<_> = model.arguments.iter().map(|(name, _)| name).collect();
    let types = model.arguments.iter().map(|(_, ty)| ty);
    let output = match &model.output {
        Some(ty) => quote!(#ty),
        None => quote!(()),
    };
    let operation = &model.name;
    let function = format!("::{name}");
    let design = Ident::new(model.design.variant(), Span::call_site());
    let at_name = Span::call_site().located_at(name.span());
    // blamed where the type of the answer is written
    let at_output = model
        .output
        .as_ref()
        .map_or(at_name, |ty| Span::call_site().located_at(ty.span()));
    let respond = {
        let runtime = model.runtime.private_at(at_output);
        quote_spanned!(at_output=> #runtime::IntoResponse::into_response)
    };
    // rustc says what is not `Send` once for all that is in one place
    let run = {
        let runtime = model.runtime.private_at(at_name);
        quote_spanned! {at_name=>
            #runtime::future().must_be_send_and_declare::<_, #declaration>(#name #turbofish (#(#names),*), #respond).await
        }
    };
    quote! {
        #(#outer)*
        #visibility async fn #name #declared(
            #(#names: #types,)*
        ) -> #runtime::Declared<#output, impl #runtime::Declaration>
        #bounds
        {
            #(#inner)*
            #signature #body
            struct #declaration;
            impl #runtime::Declaration for #declaration {
                const DECLARED: #runtime::RepeatSafe = #runtime::RepeatSafe {
                    name: #operation,
                    function: ::core::concat!(::core::module_path!(), #function),
                    design: #runtime::Design::#design,
                    why: #why,
                };
            }
            #run
        }
    }
}
