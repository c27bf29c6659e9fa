//! Member names: which objects have the same ones, and in what order each object wrote them.
//!
//! A document's objects mostly repeat a few sets of names in a few orders. So an object's names are first compared with
//! those that an object in its place had before; only what differs is read, sorted and looked up.

use std::hash::{BuildHasher, RandomState};

use super::{block::Block, output::Start, values::tag};
use crate::fingerprint::sink::Sink;

/// In place of a layout's index: nothing is known.
pub(super) const NO_LAYOUT: u32 = u32::MAX;

/// A name: all that is written before its member's value, and its decoded text.
#[derive(Clone, Copy)]
pub(super) struct Name {
    /// From the end of what came before to the value: comma, name, colon and blanks. What repeats these bytes repeats
    /// the name.
    written: u32,
    /// 0 for the name of a member that is ignored, which only has to be unique.
    written_length: u32,
    /// In the body, or, behind its end, in the arena.
    text: u32,
    text_length: u32,
}

impl Name {
    /// A name without escapes, between its quotes.
    pub(super) fn plain(start: usize, end: usize) -> Name {
        Name {
            written: 0,
            written_length: 0,
            text: start as u32,
            text_length: (end - start) as u32,
        }
    }

    pub(super) fn written_at(&mut self, start: usize, end: usize) {
        self.written = start as u32;
        self.written_length = (end - start) as u32;
    }

    pub(super) fn ignore(&mut self) {
        self.written_length = 0;
    }

    fn is_ignored(&self) -> bool {
        self.written_length == 0
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
    /// The names were written in their order.
    pub(super) is_sorted: bool,
}

/// A set of names.
struct Set {
    hash: u64,
    /// One of the layouts that have it.
    layout: u32,
    /// Counted from 1 in the order of writing; 0 as long as it has not been written.
    number: u32,
}

pub(super) struct Names<'a> {
    body: &'a [u8],
    arena: Vec<u8>,
    slots: Vec<Slot>,
    layouts: Vec<Layout>,
    sets: Vec<Set>,
    /// A hash table of the sets, probed in order and never more than half full; 0 is free, `n` is set `n - 1`. The seed
    /// is random: a client cannot prepare names that collide.
    table: Vec<u32>,
    seed: u64,
    /// The names being sorted: the first eight bytes, which nearly always decide, and the index.
    sorting: Vec<(u64, u32)>,
    written: u32,
}

impl<'a> Names<'a> {
    pub(super) fn new(body: &'a [u8]) -> Names<'a> {
        Names {
            body,
            arena: Vec::new(),
            slots: Vec::with_capacity(32),
            layouts: Vec::with_capacity(8),
            sets: Vec::with_capacity(8),
            seed: RandomState::new().hash_one(0_u8),
            table: vec![0; 64],
            sorting: Vec::new(),
            written: 0,
        }
    }

    /// Where the decoded texts of names with escapes are kept.
    pub(super) fn arena(&mut self) -> &mut Vec<u8> {
        &mut self.arena
    }

    /// A name with escapes, whose decoded text fills the arena from `text` on.
    pub(super) fn escaped(&self, text: usize) -> Name {
        let before = self.body.len();
        Name::plain(before + text, before + self.arena.len())
    }

    pub(super) fn text(&self, name: &Name) -> &[u8] {
        let (source, start) = self.source(name);
        &source[start..start + name.text_length as usize]
    }

    /// What a name's text is in, and where in it.
    fn source(&self, name: &Name) -> (&[u8], usize) {
        match (name.text as usize).checked_sub(self.body.len()) {
            None => (self.body, name.text as usize),
            Some(start) => (&self.arena, start),
        }
    }

    pub(super) fn layout(&self, layout: u32) -> Layout {
        self.layouts[layout as usize]
    }

    pub(super) fn slots(&self, first: u32, end: u32) -> &[Slot] {
        &self.slots[first as usize..end as usize]
    }

    pub(super) fn slot(&self, slot: u32) -> &Slot {
        &self.slots[slot as usize]
    }

    /// Where a value begins if before it stands what stood before the slot's.
    #[inline(always)]
    pub(super) fn expected(&self, from: usize, slot: u32, last: u32) -> Option<usize> {
        if slot >= last {
            return None;
        }
        let name = &self.slots[slot as usize].name;
        let (written, length) = (name.written as usize, name.written_length as usize);
        let same = if length <= Block::SIZE {
            Block::at(self.body, from).begins_with(&Block::at(self.body, written).beginning(length))
        } else {
            self.body.get(from..from + length) == self.body.get(written..written + length)
        };
        same.then_some(from + length)
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
                .map(|(index, name)| (self.prefix(name), index)),
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
            set: 0,
            is_sorted: sorting.is_sorted_by_key(|(_, index)| *index),
        };
        self.layouts.push(new);
        let set = self.find_set(new, layout);
        self.layouts[layout as usize].set = set;
        layout
    }

    /// The set of a layout's names, which is a new one if no layout had it before.
    fn find_set(&mut self, layout: Layout, index: u32) -> u32 {
        let mut hash = self.seed;
        let slots = self.slots(layout.first, layout.first + layout.count);
        for slot in slots {
            hash = self.mix(hash, &slots[slot.sorted as usize].name);
        }
        let mut place = self.place(hash);
        while let Some(known) = self.table[place].checked_sub(1) {
            let set = &self.sets[known as usize];
            let other = self.layouts[set.layout as usize];
            if set.hash == hash && self.sorted_names(other).eq(self.sorted_names(layout)) {
                return known;
            }
            place = (place + 1) & (self.table.len() - 1);
        }
        self.sets.push(Set {
            hash,
            layout: index,
            number: 0,
        });
        self.table[place] = self.sets.len() as u32;
        if self.sets.len() * 2 > self.table.len() {
            self.grow_table();
        }
        self.sets.len() as u32 - 1
    }

    /// Where a hash's set is looked for first.
    fn place(&self, hash: u64) -> usize {
        hash as usize & (self.table.len() - 1)
    }

    #[cold]
    fn grow_table(&mut self) {
        self.table = vec![0; self.table.len() * 4];
        for (number, set) in (1..).zip(&self.sets) {
            let mut place = self.place(set.hash);
            while self.table[place] != 0 {
                place = (place + 1) & (self.table.len() - 1);
            }
            self.table[place] = number;
        }
    }

    /// Adds a name to a hash: multiplications folded in two, under a secret seed.
    fn mix(&self, hash: u64, name: &Name) -> u64 {
        let fold = |hash: u64, word: u64| {
            let product =
                u128::from(hash ^ word) * u128::from(self.seed ^ 0x9e37_79b9_7f4a_7c15 | 1);
            (product as u64) ^ ((product >> 64) as u64)
        };
        let (source, start) = self.source(name);
        let end = start + name.text_length as usize;
        let words = (start..end).step_by(8).map(|at| word(source, at, end - at));
        words.fold(fold(hash, u64::from(name.text_length) | 1 << 63), fold)
    }

    /// The first eight bytes of a name as a number that sorts as they do.
    fn prefix(&self, name: &Name) -> u64 {
        let (source, start) = self.source(name);
        word(source, start, name.text_length as usize).swap_bytes()
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
        let number = self.number(layout);
        if number == 0 {
            self.write_new(sink, layout);
        } else {
            sink.tagged_number(tag::OBJECT_LIKE, u64::from(number));
        }
    }

    /// The number of a layout's set of names; 0 if it has not been written.
    pub(super) fn number(&self, layout: Layout) -> u32 {
        self.sets[layout.set as usize].number
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

/// The first eight bytes from a position on, the first one lowest, NULs in place of those behind `length`.
fn word(source: &[u8], at: usize, length: usize) -> u64 {
    match source.get(at..).and_then(<[u8]>::first_chunk) {
        Some(bytes) if length >= 8 => u64::from_le_bytes(*bytes),
        Some(bytes) => u64::from_le_bytes(*bytes) & ((1 << (8 * length)) - 1),
        None => {
            let mut bytes = [0; 8];
            let length = length.min(8);
            bytes[..length].copy_from_slice(&source[at..at + length]);
            u64::from_le_bytes(bytes)
        }
    }
}
