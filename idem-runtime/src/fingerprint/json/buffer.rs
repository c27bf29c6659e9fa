//! A growing buffer that short pieces are written to a block at a time, whatever their length.

/// Longer pieces are copied byte by byte, as far as the buffer is concerned.
const SHORT: usize = 32;

/// Its storage is longer than what has been written, and what lies behind that is overwritten by what comes next.
pub(super) struct Buffer {
    bytes: Vec<u8>,
    length: usize,
}

impl Buffer {
    pub(super) fn with_room(length: usize) -> Buffer {
        Buffer {
            bytes: vec![0; length],
            length: 0,
        }
    }

    #[inline(always)]
    pub(super) fn len(&self) -> usize {
        self.length
    }

    /// Forgets what was written from a position on.
    #[inline(always)]
    pub(super) fn truncate(&mut self, position: usize) {
        self.length = position.min(self.length);
    }

    pub(super) fn written(&self) -> &[u8] {
        &self.bytes[..self.length]
    }

    /// The written bytes, and behind them what is left of the storage.
    pub(super) fn storage(&self) -> &[u8] {
        &self.bytes
    }

    #[inline(always)]
    pub(super) fn byte(&mut self, byte: u8) {
        self.beginning(&[byte], 1);
    }

    /// Writes over a byte that has been written.
    pub(super) fn replace(&mut self, at: usize, byte: u8) {
        self.bytes[at] = byte;
    }

    /// The first `count` bytes of an array.
    #[inline(always)]
    pub(super) fn beginning<const SIZE: usize>(&mut self, bytes: &[u8; SIZE], count: usize) {
        let room = self.bytes.get_mut(self.length..);
        match room.and_then(<[u8]>::first_chunk_mut) {
            Some(room) => {
                *room = *bytes;
                self.length += count;
            }
            None => self.last_beginning(bytes, count),
        }
    }

    /// A tag and `length` bytes of `source`, which is passed whole because a short piece is read a block at a time.
    #[inline(always)]
    pub(super) fn tagged(&mut self, tag: u8, source: &[u8], start: usize, length: usize) {
        let from = source.get(start..).and_then(<[u8]>::first_chunk::<SHORT>);
        let room = self.bytes.get_mut(self.length..);
        match (
            from,
            room.and_then(<[u8]>::first_chunk_mut::<{ 1 + SHORT }>),
        ) {
            (Some(from), Some(room)) if length <= SHORT => {
                room[0] = tag;
                room[1..].copy_from_slice(from);
                self.length += 1 + length;
            }
            _ => self.long_tagged(tag, &source[start..start + length]),
        }
    }

    #[inline(never)]
    fn long_tagged(&mut self, tag: u8, bytes: &[u8]) {
        self.byte(tag);
        self.bytes(bytes);
    }

    #[cold]
    #[inline(never)]
    fn last_beginning(&mut self, bytes: &[u8], count: usize) {
        self.grow(bytes.len());
        self.bytes(&bytes[..count]);
    }

    /// `source[start..end]`; `source` is passed whole because a short piece is read a block at a time.
    #[inline(always)]
    pub(super) fn piece(&mut self, source: &[u8], start: usize, end: usize) {
        match source.get(start..).and_then(<[u8]>::first_chunk::<SHORT>) {
            Some(block) if end - start <= SHORT => self.beginning(block, end - start),
            _ => self.bytes(&source[start..end]),
        }
    }

    pub(super) fn bytes(&mut self, bytes: &[u8]) {
        self.make_room(bytes.len());
        self.bytes[self.length..self.length + bytes.len()].copy_from_slice(bytes);
        self.length += bytes.len();
    }

    /// Takes out what was written between two positions.
    pub(super) fn remove(&mut self, start: usize, end: usize) {
        self.bytes.copy_within(end..self.length, start);
        self.length -= end - start;
    }

    /// Makes the storage as long as this at least.
    pub(super) fn reserve(&mut self, length: usize) {
        if self.bytes.len() < length {
            self.bytes.resize(length, 0);
        }
    }

    #[inline(always)]
    fn make_room(&mut self, needed: usize) {
        if self.bytes.len() - self.length < needed {
            self.grow(needed);
        }
    }

    #[cold]
    #[inline(never)]
    fn grow(&mut self, needed: usize) {
        let more = (self.bytes.len() / 2).max(needed).max(1024);
        self.bytes.resize(self.bytes.len() + more, 0);
    }
}
