//! What does not count: JSON pointers (RFC 6901), as a tree that is walked along with the document.

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
    children: Vec<(String, u32)>,
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

    fn add(&mut self, tokens: &[String]) {
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
        self.child(place, |token| token.as_bytes() == name)
    }

    pub(super) fn element(&self, place: u32, index: u32) -> u32 {
        // Only the shortest spelling of an index is one (RFC 6901, section 4).
        let index = index.to_string();
        self.child(place, |token| token == index)
    }

    fn child(&self, place: u32, is: impl Fn(&str) -> bool) -> u32 {
        self.places
            .get(place as usize)
            .and_then(|place| place.children.iter().find(|(token, _)| is(token)))
            .map_or(NOWHERE, |(_, child)| *child)
    }
}

/// The unescaped tokens of a pointer; `None` if it is none.
fn tokens(pointer: &str) -> Option<Vec<String>> {
    let mut pieces = pointer.split('/');
    if pieces.next() != Some("") {
        return None;
    }
    pieces.map(unescape).collect()
}

fn unescape(token: &str) -> Option<String> {
    let mut plain = String::with_capacity(token.len());
    let mut characters = token.chars();
    while let Some(character) = characters.next() {
        plain.push(match character {
            '~' => match characters.next()? {
                '0' => '~',
                '1' => '/',
                _ => return None,
            },
            other => other,
        });
    }
    Some(plain)
}
