//! `External<T>` among the arguments: a client that only an external step opens.
//!
//! rustc says of `gateway.charge()` that there is no such method, and not why.

use syn::{GenericArgument, Ident, Pat, PatType, Path, PathArguments, Type};

/// What `External` has by itself, or by a trait that everything has.
const OWN_METHODS: [&str; 13] = [
    "as_any",
    "borrow",
    "borrow_mut",
    "clone",
    "clone_from",
    "clone_into",
    "fmt",
    "in_current_span",
    "instrument",
    "into",
    "to_owned",
    "try_into",
    "type_id",
];

/// Those of them whose result is sealed as well.
const COPIES: [&str; 3] = ["borrow", "clone", "to_owned"];

pub(super) fn is_own_method(method: &Ident) -> bool {
    OWN_METHODS.iter().any(|own| method == own)
}

pub(super) fn is_copy(method: &Ident) -> bool {
    COPIES.iter().any(|copy| method == copy)
}

/// The name of an argument that is an `External`, or a `State` or `Extension` of one: `State(gateway): State<External<Gateway>>`.
pub(super) fn name(argument: &PatType) -> Option<&Ident> {
    of(&argument.pat, &argument.ty)
}

fn of<'a>(pattern: &'a Pat, ty: &'a Type) -> Option<&'a Ident> {
    match (pattern, ty) {
        (Pat::Paren(inner), ty) => of(&inner.pat, ty),
        (pattern, Type::Group(inner)) => of(pattern, &inner.elem),
        (pattern, Type::Paren(inner)) => of(pattern, &inner.elem),
        (Pat::Ident(name), Type::Path(path)) => {
            (name.subpat.is_none() && is_sealed(&path.path)).then_some(&name.ident)
        }
        (Pat::TupleStruct(parts), Type::Path(path)) if parts.elems.len() == 1 => {
            let (extractor, inner) = (parts.path.segments.last()?, extracted(&path.path)?);
            (path.path.segments.last()?.ident == extractor.ident)
                .then(|| of(&parts.elems[0], inner))?
        }
        _ => None,
    }
}

/// By its name alone, so that it must be written as ours. A type of the user's of the same name and with a parameter is taken for it,
/// and needs the `allow` of any of these lints.
fn is_sealed(path: &Path) -> bool {
    let names: Vec<_> = path
        .segments
        .iter()
        .map(|segment| segment.ident.to_string())
        .collect();
    let names: Vec<_> = names.iter().map(String::as_str).collect();
    let ours = matches!(
        names[..],
        ["External"] | ["idem_runtime", "External"] | ["idem_runtime", "capability", "External"]
    );
    let inner = || match extracted(path) {
        Some(Type::Path(inner)) => is_sealed(&inner.path),
        _ => false,
    };
    ours && parameter(path).is_some() || inner()
}

/// What `State<T>` or `Extension<T>` is of.
fn extracted(path: &Path) -> Option<&Type> {
    let last = path.segments.last()?;
    let known = last.ident == "State" || last.ident == "Extension";
    known.then(|| parameter(path)).flatten()
}

/// The one parameter of the path's last segment.
fn parameter(path: &Path) -> Option<&Type> {
    let PathArguments::AngleBracketed(list) = &path.segments.last()?.arguments else {
        return None;
    };
    match list.args.first() {
        Some(GenericArgument::Type(ty)) if list.args.len() == 1 => Some(ty),
        _ => None,
    }
}
