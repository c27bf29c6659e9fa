//! Text that others wrote, on its way into a column: a publisher's error may quote a remote answer, and an operator paste anything.

use std::borrow::Cow;

/// In characters. Enough to say why, and far from any limit of a message to the database.
const LONGEST: usize = 4000;
/// In place of what is cut off.
const CUT: char = '…';

/// The text as every database can hold it and every terminal show it: without control characters (PostgreSQL's text has no
/// NUL) other than line feeds and tabs, and not longer than 4000 characters.
pub(super) fn plain(text: &str) -> Cow<'_, str> {
    let strange = |character: char| character.is_control() && !matches!(character, '\n' | '\t');
    let end = text.char_indices().nth(LONGEST).map(|(end, _)| end);
    if end.is_none() && !text.contains(strange) {
        return Cow::Borrowed(text);
    }
    let kept = &text[..end.unwrap_or(text.len())];
    let mut plain = kept.replace(strange, "\u{fffd}");
    if end.is_some() {
        plain.pop();
        plain.push(CUT);
    }
    Cow::Owned(plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_that_any_column_holds_stays_as_it_is() {
        for text in ["", "the queue is full", "two\nlines\tof ünïcode 🦀"] {
            assert!(matches!(plain(text), Cow::Borrowed(same) if same == text));
        }
        let longest = "ü".repeat(LONGEST);
        assert_eq!(plain(&longest), longest);
    }

    #[test]
    fn control_characters_are_replaced() {
        assert_eq!(
            plain("a\0b\u{1b}[2Jc\r\n"),
            "a\u{fffd}b\u{fffd}[2Jc\u{fffd}\n"
        );
    }

    #[test]
    fn a_longer_text_is_cut_between_characters() {
        let cut = plain(&"🦀".repeat(LONGEST + 1)).into_owned();
        assert_eq!(cut.chars().count(), LONGEST);
        assert!(cut.ends_with("🦀…"));
    }
}
