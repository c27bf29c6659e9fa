//! What encoded values begin with, and lists of them end with.
//!
//! None of these bytes ever occurs in UTF-8 (RFC 3629, section 3), so the text behind a tag ends where the next one stands,
//! and needs no length.

pub(super) const NULL: u8 = 0xf8;
pub(super) const FALSE: u8 = 0xf9;
pub(super) const TRUE: u8 = 0xfa;
/// Its text follows.
pub(super) const NUMBER: u8 = 0xfb;
/// Its canonical text follows.
pub(super) const STRING: u8 = 0xfc;
/// The elements follow.
pub(super) const ARRAY: u8 = 0xfd;
pub(super) const ARRAY_END: u8 = 0xfe;
/// The leaves and the shape follow.
pub(super) const OBJECT: u8 = 0xff;
/// An object that has the shape of the one before it in the array: only the leaves follow.
pub(super) const OBJECT_AS_BEFORE: u8 = 0xf6;
/// The names follow.
pub(super) const SHAPE: u8 = 0xf5;
pub(super) const SHAPE_END: u8 = 0xc0;
/// Its canonical text follows, and the shape of the member's value, if that is an object.
pub(super) const NAME: u8 = 0xc1;
/// An element, or a whole body, that does not count.
pub(super) const IGNORED: u8 = 0xf7;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_tag_is_another_or_a_part_of_a_text() {
        let tags = [
            NULL,
            FALSE,
            TRUE,
            NUMBER,
            STRING,
            ARRAY,
            ARRAY_END,
            OBJECT,
            OBJECT_AS_BEFORE,
            SHAPE,
            SHAPE_END,
            NAME,
            IGNORED,
        ];
        for (index, tag) in tags.iter().enumerate() {
            assert!(!tags[..index].contains(tag), "{tag:#x}");
        }
        for character in '\0'..=char::MAX {
            let mut text = [0; 4];
            let text = character.encode_utf8(&mut text).as_bytes();
            assert!(!text.iter().any(|byte| tags.contains(byte)), "{text:?}");
        }
    }
}
