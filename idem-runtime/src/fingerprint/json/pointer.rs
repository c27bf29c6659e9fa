//! What does not count: JSON pointers (RFC 6901), as a tree that is walked along with the document.

use super::{buffer::Buffer, text};

/// The place of a value that no pointer leads to or through.
pub(in super::super) const NOWHERE: u32 = u32::MAX;

/// The ignore list's pointers.
pub(in super::super) struct Pointers {
    places: Vec<Place>,
}

#[derive(Default)]
struct Place {
    /// A pointer ends here.
    is_end: bool,
    /// Names are canonical texts.
    children: Vec<(Vec<u8>, u32)>,
}

impl Pointers {
    /// Takes the pointers out of an ignore list; what is no pointer is passed over.
    pub(in super::super) fn new(ignore: &[&str]) -> Pointers {
        let mut pointers = Pointers { places: Vec::new() };
        for tokens in ignore.iter().filter_map(|entry| tokens(entry)) {
            pointers.add(&tokens);
        }
        pointers
    }

    fn add(&mut self, tokens: &[Vec<u8>]) {
        if self.places.is_empty() {
            self.places.push(Place::default());
        }
        let mut at = 0;
        for token in tokens {
            let known = self.places[at]
                .children
                .iter()
                .find(|(name, _)| name == token);
            at = match known {
                Some((_, child)) => *child as usize,
                None => {
                    let child = self.places.len();
                    self.places.push(Place::default());
                    self.places[at].children.push((token.clone(), child as u32));
                    child
                }
            };
        }
        self.places[at].is_end = true;
    }

    /// The place of the whole document.
    pub(super) fn root(&self) -> u32 {
        if self.places.is_empty() { NOWHERE } else { 0 }
    }

    pub(super) fn is_end(&self, place: u32) -> bool {
        self.places
            .get(place as usize)
            .is_some_and(|place| place.is_end)
    }

    pub(super) fn member(&self, place: u32, name: &[u8]) -> u32 {
        self.child(place, |token| token == name)
    }

    pub(super) fn element(&self, place: u32, index: u32) -> u32 {
        // Only the shortest spelling of an index is one (RFC 6901, section 4).
        let index = index.to_string();
        self.child(place, |token| token == index.as_bytes())
    }

    fn child(&self, place: u32, is: impl Fn(&[u8]) -> bool) -> u32 {
        self.places
            .get(place as usize)
            .and_then(|place| place.children.iter().find(|(token, _)| is(token)))
            .map_or(NOWHERE, |(_, child)| *child)
    }
}

/// The tokens of a pointer, as canonical texts; `None` if it is none.
fn tokens(pointer: &str) -> Option<Vec<Vec<u8>>> {
    let mut pieces = pointer.split('/');
    if pieces.next() != Some("") {
        return None;
    }
    pieces.map(unescape).collect()
}

fn unescape(token: &str) -> Option<Vec<u8>> {
    let mut text = Buffer::with_room(token.len());
    let mut characters = token.chars();
    while let Some(character) = characters.next() {
        let character = match character {
            '~' => match characters.next()? {
                '0' => '~',
                '1' => '/',
                _ => return None,
            },
            other => other,
        };
        text::write_character(character, &mut text);
    }
    Some(text.written().to_vec())
}
