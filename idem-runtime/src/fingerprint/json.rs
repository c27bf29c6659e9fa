//! JSON (RFC 8259) in one pass: validated, and brought to a form that equal values share and different ones do not.
//!
//! Not RFC 8785, whose numbers pass through doubles. No tree is built and nothing recurses. The pass leaves two things:
//! the scalars and arrays, encoded in document order, and a list of the objects among them. At the end the two are
//! written out with each object's members sorted by name, every byte moved once.
//! Repetition makes it fast: names are compared with those of the last object in their place, and whole records with the
//! pattern of those before them.
//!
//! # The canonical form
//!
//! A value's encoding says where it ends, so a sequence of values can be read back in one way only:
//!
//! | value | encoding |
//! |---|---|
//! | `null`, `false`, `true` | a tag |
//! | number | sign, decimal exponent, significant digits without zeros at either end |
//! | string | length, then the decoded text in UTF-8 |
//! | array | a tag, the elements, a closing tag |
//! | object | its set of names, then the members' values, sorted by their names' bytes |
//! | ignored element | a tag |
//!
//! A set of names is written out once in a document, sorted, and by its number from then on: a list of a hundred
//! records hashes their names once. Numbers are given in the order of writing, so a reader could follow.

mod block;
mod buffer;
mod draft;
mod frame;
mod members;
mod number;
mod pointer;
mod scalar;
mod scan;
mod template;
mod text;
mod utf8;
mod values;

pub(super) use pointer::Pointers;
pub(super) use scan::scan;
