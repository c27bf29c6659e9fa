//! Member names: which objects have the same ones, and in what order each object wrote them.
//!
//! A document's objects mostly repeat a few sets of names in a few orders. So an object's names are first compared with
//! those that an object in its place had before; only what differs is read, sorted and looked up.

use std::{
    collections::HashMap,
    hash::{BuildHasher, RandomState},
};

use super::{block::Block, output::Start, values::tag};
use crate::fingerprint::sink::Sink;

/// In place of a layout's index: nothing is known.
pub(super) const NO_LAYOUT: u32 = u32::MAX;

/// A name as written, and its decoded text.
#[derive(Clone, Copy)]
pub(super) struct Name {
    /// With its quotes, in the body.
    raw: u32,
    /// 0 for the name of a member that is ignored, which only has to be unique.
    raw_length: u32,
    /// In the body, or, behind its end, in the arena.
    text: u32,
    text_length: u32,
}

impl Name {
    /// A name without escapes, between its quotes.
    pub(super) fn plain(start: usize, end: usize) -> Name {
        Name {
            raw: start as u32 - 1,
            raw_length: (end - start) as u32 + 2,
            text: start as u32,
            text_length: (end - start) as u32,
        }
    }

    pub(super) fn ignore(&mut self) {
        self.raw_length = 0;
    }

    fn is_ignored(&self) -> bool {
        self.raw_length == 0
    }
}

/// One member of a layout.
pub(super) struct Slot {
    pub(super) name: Name,
    /// The layout that an object in this member's value had last.
    within: u32,
    /// Not of this member: which of the layout's members comes here when they are sorted by name.
    pub(super) sorted: u32,
}

/// The names of an object in the order that it wrote them.
#[derive(Clone, Copy)]
pub(super) struct Layout {
    pub(super) first: u32,
    pub(super) count: u32,
    /// The set of these names.
    set: u32,
}

/// A set of names.
struct Set {
    /// One of the layouts that have it.
    layout: u32,
    /// Counted from 1 in the order of writing; 0 as long as it has not been written.
    number: u32,
    /// Another set with the same hash.
    next: Option<u32>,
}

pub(super) struct Names<'a> {
    body: &'a [u8],
    arena: Vec<u8>,
    slots: Vec<Slot>,
    layouts: Vec<Layout>,
    sets: Vec<Set>,
    /// From a set's hash. The seed is random: a client cannot prepare names that collide.
    by_hash: HashMap<u64, u32>,
    seed: u64,
    /// The names being sorted: the first eight bytes, which nearly always decide, and the index.
    sorting: Vec<(u64, u32)>,
    written: u32,
}

impl<'a> Names<'a> {
    pub(super) fn new(body: &'a [u8]) -> Names<'a> {
        let random = RandomState::new();
        Names {
            body,
            arena: Vec::new(),
            slots: Vec::with_capacity(32),
            layouts: Vec::with_capacity(8),
            sets: Vec::with_capacity(8),
            seed: random.hash_one(0_u8) | 1,
            by_hash: HashMap::with_hasher(random),
            sorting: Vec::new(),
            written: 0,
        }
    }

    /// Where the decoded texts of names with escapes are kept.
    pub(super) fn arena(&mut self) -> &mut Vec<u8> {
        &mut self.arena
    }

    /// A name with escapes, whose decoded text was put in the arena from `text` on.
    pub(super) fn escaped(&self, start: usize, end: usize, text: usize) -> Name {
        Name {
            text: (self.body.len() + text) as u32,
            text_length: (self.arena.len() - text) as u32,
            ..Name::plain(start, end)
        }
    }

    pub(super) fn text(&self, name: &Name) -> &[u8] {
        let (source, start) = match (name.text as usize).checked_sub(self.body.len()) {
            None => (self.body, name.text as usize),
            Some(start) => (&self.arena[..], start),
        };
        &source[start..start + name.text_length as usize]
    }

    pub(super) fn layout(&self, layout: u32) -> Layout {
        self.layouts[layout as usize]
    }

    pub(super) fn slots(&self, first: u32, end: u32) -> &[Slot] {
        &self.slots[first as usize..end as usize]
    }

    /// Where the name at a position ends (behind its closing quote) if it is written as the slot's is.
    #[inline(always)]
    pub(super) fn expected(&self, at: usize, slot: u32, end: u32) -> Option<usize> {
        if slot >= end {
            return None;
        }
        let Name {
            raw, raw_length, ..
        } = self.slots[slot as usize].name;
        let (raw, length) = (raw as usize, raw_length as usize);
        let same = if length <= Block::SIZE {
            Block::at(self.body, at).begins_like(Block::at(self.body, raw), length)
        } else {
            self.body.get(at..at + length) == self.body.get(raw..raw + length)
        };
        same.then_some(at + length)
    }

    #[inline(always)]
    pub(super) fn expected_within(&self, slot: u32) -> u32 {
        self.slots[slot as usize].within
    }

    #[inline(always)]
    pub(super) fn expect_within(&mut self, slot: u32, layout: u32) {
        self.slots[slot as usize].within = layout;
    }

    /// Makes a layout of the names of an object whose members are those of `members` from `first` on, and takes the
    /// ignored ones out of both; `None` if two names are equal.
    pub(super) fn settle(
        &mut self,
        names: &[Name],
        first: usize,
        members: &mut Vec<Start>,
    ) -> Option<u32> {
        let mut sorting = std::mem::take(&mut self.sorting);
        sorting.clear();
        sorting.extend(
            (0..)
                .zip(names)
                .map(|(index, name)| (prefix(self.text(name)), index)),
        );
        let text = |index: u32| self.text(&names[index as usize]);
        let by_name = |left: &(u64, u32), right: &(u64, u32)| {
            left.0
                .cmp(&right.0)
                .then_with(|| text(left.1).cmp(text(right.1)))
        };
        if !sorting
            .windows(2)
            .all(|pair| by_name(&pair[0], &pair[1]).is_lt())
        {
            sorting.sort_unstable_by(by_name);
            if !sorting
                .windows(2)
                .all(|pair| by_name(&pair[0], &pair[1]).is_lt())
            {
                return None;
            }
        }
        let layout = if names.iter().any(Name::is_ignored) {
            let kept = without_ignored(names, first, members, &mut sorting);
            self.add(&kept, &sorting)
        } else {
            self.add(names, &sorting)
        };
        self.sorting = sorting;
        Some(layout)
    }

    fn add(&mut self, names: &[Name], sorting: &[(u64, u32)]) -> u32 {
        let first = self.slots.len() as u32;
        let layout = self.layouts.len() as u32;
        self.slots
            .extend(names.iter().zip(sorting).map(|(name, (_, sorted))| Slot {
                name: *name,
                within: NO_LAYOUT,
                sorted: *sorted,
            }));
        let new = Layout {
            first,
            count: names.len() as u32,
            set: self.sets.len() as u32,
        };
        self.layouts.push(new);
        let set = self.find_set(new, layout);
        self.layouts[layout as usize].set = set;
        layout
    }

    /// The set of a layout's names, which is a new one if no layout had it before.
    fn find_set(&mut self, layout: Layout, index: u32) -> u32 {
        let mut hash = self.seed;
        for name in self.sorted_names(layout) {
            hash = mix(hash, name, self.seed);
        }
        let first = self.by_hash.get(&hash).copied();
        let mut candidate = first;
        while let Some(known) = candidate {
            let Set {
                layout: of, next, ..
            } = self.sets[known as usize];
            if self
                .sorted_names(self.layouts[of as usize])
                .eq(self.sorted_names(layout))
            {
                return known;
            }
            candidate = next;
        }
        let new = self.sets.len() as u32;
        self.by_hash.insert(hash, new);
        self.sets.push(Set {
            layout: index,
            number: 0,
            next: first,
        });
        new
    }

    fn sorted_names(&self, layout: Layout) -> impl Iterator<Item = &[u8]> {
        let slots = self.slots(layout.first, layout.first + layout.count);
        slots
            .iter()
            .map(|slot| self.text(&slots[slot.sorted as usize].name))
    }

    /// Writes an object's names, or the number of their set if it has been written before.
    #[inline(always)]
    pub(super) fn write(&mut self, sink: &mut Sink, layout: Layout) {
        let number = self.sets[layout.set as usize].number;
        if number == 0 {
            self.write_new(sink, layout);
        } else {
            sink.byte(tag::OBJECT_LIKE);
            sink.number(u64::from(number));
        }
    }

    #[cold]
    fn write_new(&mut self, sink: &mut Sink, layout: Layout) {
        self.written += 1;
        self.sets[layout.set as usize].number = self.written;
        sink.byte(tag::OBJECT);
        sink.number(u64::from(layout.count));
        self.sorted_names(layout)
            .for_each(|name| sink.prefixed(name));
    }
}

/// Takes the ignored members out of all three and counts the others anew.
fn without_ignored(
    names: &[Name],
    first: usize,
    members: &mut Vec<Start>,
    sorting: &mut Vec<(u64, u32)>,
) -> Vec<Name> {
    let mut kept = Vec::with_capacity(names.len());
    let mut renumbered = Vec::with_capacity(names.len());
    for (index, name) in names.iter().enumerate() {
        renumbered.push(kept.len() as u32);
        members[first + kept.len()] = members[first + index];
        if !name.is_ignored() {
            kept.push(*name);
        }
    }
    members.truncate(first + kept.len());
    sorting.retain_mut(|(_, index)| {
        let original = *index as usize;
        *index = renumbered[original];
        !names[original].is_ignored()
    });
    kept
}

/// The first eight bytes of a name as a number that sorts as they do.
fn prefix(text: &[u8]) -> u64 {
    match text.first_chunk::<8>() {
        Some(first) => u64::from_be_bytes(*first),
        None => u64::from_be_bytes(padded(text)),
    }
}

fn padded(text: &[u8]) -> [u8; 8] {
    let mut bytes = [0; 8];
    bytes[..text.len()].copy_from_slice(text);
    bytes
}

/// Adds a name to a hash: multiplications folded in two, under a secret seed.
fn mix(hash: u64, name: &[u8], seed: u64) -> u64 {
    let fold = |hash: u64, word: u64| {
        let product = u128::from(hash ^ word) * u128::from(seed ^ 0x9e37_79b9_7f4a_7c14);
        (product as u64) ^ ((product >> 64) as u64)
    };
    let (words, rest) = name.as_chunks::<8>();
    let hash = words
        .iter()
        .fold(fold(hash, name.len() as u64), |hash, word| {
            fold(hash, u64::from_le_bytes(*word))
        });
    fold(hash, u64::from_le_bytes(padded(rest)))
}
