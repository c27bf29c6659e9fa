//! JSON (RFC 8259) in one pass: validated, and brought to a form that equal values share and different ones do not.
//!
//! Not RFC 8785, whose numbers pass through doubles. No tree is built and nothing recurses. The pass writes the values in
//! the order of the document; when an object ends they are put in the order of its names, unless that is how they were
//! sent. Where the elements of a list are all written alike, even their names are not read one by one, but compared with
//! those before.
//!
//! # The canonical form
//!
//! A sequence of values can be read back in one way only, since no byte of a text is a tag:
//!
//! | value | encoding |
//! |---|---|
//! | `null`, `false`, `true` | a tag |
//! | number | a tag, its plain spelling, brief as it can be; if that is long: significant digits, `e`, decimal exponent |
//! | string | a tag, the text in UTF-8, in which `\"`, `\\`, `\b`, `\f`, `\n`, `\r` and `\t` stay escaped |
//! | array | a tag, the elements, a closing tag |
//! | object | a tag, its leaves, its shape; as an array's element of the same shape as the object before it: another tag, its leaves |
//! | shape | a tag, each name behind a tag, a closing tag |
//! | ignored element | a tag |
//!
//! An object's *shape* is its names, sorted by the bytes of their text, each with the shape of its value if that is an
//! object; its *leaves* are the other values, in the same order. So a list of a hundred records hashes their names once.

mod block;
mod buffer;
mod draft;
mod frame;
mod members;
mod number;
mod pointer;
mod scalar;
mod scan;
mod tag;
mod template;
mod text;
mod utf8;

pub(super) use pointer::Pointers;
pub(super) use scan::scan;
