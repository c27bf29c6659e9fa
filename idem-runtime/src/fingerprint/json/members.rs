//! The members of objects that are still open, and the order of their names.

use super::{buffer::Buffer, draft::Mark, tag};

/// A member: its name and how much had been written before it.
#[derive(Clone, Copy)]
pub(super) struct Member {
    /// The first eight bytes of the name as a number that sorts as they do, which nearly always decides.
    prefix: u64,
    /// In the body, or, behind its end, in the arena.
    name: u32,
    name_length: u32,
    pub(super) leaf: u32,
    pub(super) shape: u32,
    is_ignored: bool,
}

/// A member among those of its object.
#[derive(Clone, Copy)]
pub(super) struct Place {
    prefix: u64,
    /// Counted in the order of the document.
    pub(super) index: u32,
}

pub(super) struct Members<'a> {
    body: &'a [u8],
    /// The canonical texts of names that are spelt otherwise.
    arena: Buffer,
    open: Vec<Member>,
    order: Vec<Place>,
}

/// Where the members of an object begin.
#[derive(Clone, Copy, Default)]
pub(super) struct First {
    member: u32,
    arena: u32,
}

/// The order of an object's members by name.
pub(super) struct Sorted<'a> {
    /// Those that count, sorted.
    pub(super) order: &'a [Place],
    /// All of them, in the order of the document.
    pub(super) members: &'a [Member],
}

impl<'a> Members<'a> {
    pub(super) fn new(body: &'a [u8]) -> Members<'a> {
        Members {
            body,
            arena: Buffer::with_room(0),
            open: Vec::with_capacity(16),
            order: Vec::with_capacity(16),
        }
    }

    /// Where the canonical texts of names that are spelt otherwise are kept.
    pub(super) fn arena(&mut self) -> &mut Buffer {
        &mut self.arena
    }

    #[inline(always)]
    pub(super) fn first(&self) -> First {
        First {
            member: self.open.len() as u32,
            arena: self.arena.len() as u32,
        }
    }

    /// A member whose name stands in the body, between its quotes.
    #[inline(always)]
    pub(super) fn push(&mut self, start: usize, end: usize, mark: Mark) {
        let (source, at) = self.source(start);
        self.open.push(Member {
            prefix: prefix(source, at, end - start),
            name: start as u32,
            name_length: (end - start) as u32,
            leaf: mark.leaf,
            shape: mark.shape,
            is_ignored: false,
        });
    }

    /// A member whose name is not spelt canonically; its text fills the arena from `start` on.
    pub(super) fn push_rewritten(&mut self, start: usize, mark: Mark) {
        let before = self.body.len();
        self.push(before + start, before + self.arena.len(), mark);
    }

    /// The name of the last member.
    pub(super) fn last_name(&self) -> &[u8] {
        self.open.last().map_or(&[], |member| self.name(member))
    }

    /// The last member does not count, except that no other may have its name.
    pub(super) fn ignore_last(&mut self) {
        if let Some(member) = self.open.last_mut() {
            member.is_ignored = true;
        }
    }

    fn name(&self, member: &Member) -> &[u8] {
        let (source, start) = self.source(member.name as usize);
        &source[start..start + member.name_length as usize]
    }

    /// What the text at a position is in, and where in it.
    #[inline(always)]
    fn source(&self, position: usize) -> (&[u8], usize) {
        match position.checked_sub(self.body.len()) {
            None => (self.body, position),
            Some(start) => (self.arena.storage(), start),
        }
    }

    /// Writes a member's name behind a tag.
    #[inline(always)]
    pub(super) fn write_name(&self, member: &Member, shape: &mut Buffer) {
        let (source, start) = self.source(member.name as usize);
        shape.tagged(tag::NAME, source, start, member.name_length as usize);
    }

    /// Sorts the members of an object; `None` if two of them have one name.
    pub(super) fn sort(&mut self, first: First) -> Option<()> {
        let mut order = std::mem::take(&mut self.order);
        order.clear();
        let members = &self.open[first.member as usize..];
        order.extend(members.iter().zip(0..).map(|(member, index)| Place {
            prefix: member.prefix,
            index,
        }));
        order.sort_unstable_by_key(|place| place.prefix);
        if !order.is_sorted_by(|one, next| one.prefix < next.prefix) {
            let name = |place: &Place| self.name(&members[place.index as usize]);
            let by_name = |one: &Place, other: &Place| {
                let by_prefix = one.prefix.cmp(&other.prefix);
                by_prefix.then_with(|| name(one).cmp(name(other)))
            };
            order.sort_unstable_by(by_name);
            let are_unique = order.is_sorted_by(|one, next| by_name(one, next).is_lt());
            are_unique.then_some(())?;
        }
        if members.iter().any(|member| member.is_ignored) {
            order.retain(|place| !members[place.index as usize].is_ignored);
        }
        self.order = order;
        Some(())
    }

    /// The members that were sorted last.
    pub(super) fn sorted(&self, first: First) -> Sorted<'_> {
        Sorted {
            order: &self.order,
            members: &self.open[first.member as usize..],
        }
    }

    /// Forgets the members of an object.
    #[inline(always)]
    pub(super) fn close(&mut self, first: First) {
        self.open.truncate(first.member as usize);
        self.arena.truncate(first.arena as usize);
    }
}

#[inline(always)]
fn prefix(source: &[u8], start: usize, length: usize) -> u64 {
    match source.get(start..).and_then(<[u8]>::first_chunk) {
        Some(bytes) if length >= 8 => u64::from_be_bytes(*bytes),
        // Two shifts, since one by 64 bits is none.
        Some(bytes) => {
            let others = 63 - 8 * length;
            u64::from_be_bytes(*bytes) >> others >> 1 << others << 1
        }
        None => {
            let mut bytes = [0; 8];
            let length = length.min(8);
            bytes[..length].copy_from_slice(&source[start..start + length]);
            u64::from_be_bytes(bytes)
        }
    }
}
