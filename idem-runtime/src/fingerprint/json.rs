//! JSON (RFC 8259) in one pass: validated, and brought to a form that equal values share and different ones do not.
//!
//! Not RFC 8785, whose numbers pass through doubles. No tree is built and nothing recurses. The pass writes the values in
//! the order of the document; when an object ends they are put in the order of its names, unless that is how they were
//! sent. Where the elements of a list are all written alike, even their names are not read one by one, but compared with
//! those before.
//!
//! # The canonical form
//!
//! A value's encoding says where it ends, so a sequence of values can be read back in one way only:
//!
//! | value | encoding |
//! |---|---|
//! | `null`, `false`, `true` | a tag |
//! | number | its plain spelling, brief as it can be; if that is long: decimal exponent, significant digits |
//! | string | length, then the decoded text in UTF-8 |
//! | array | a tag, the elements, a closing tag |
//! | object | a tag, its leaves, then its shape |
//! | ignored element | a tag |
//!
//! An object's *shape* is its names, sorted by their bytes, with the shapes of the objects that are their values; its
//! *leaves* are the other values, in the same order. In place of the shape of an array's element stands a tag if it is that
//! of the object before it in the array, so that a list of a hundred records hashes their names once.

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
