//! Where the parts of a fingerprint go: a buffer in front of SHA-256, so that small pieces cost a copy each.

use sha2::{Digest, Sha256};

const CAPACITY: usize = 1024;
/// Short pieces are copied as one block of this size, whatever their length, which spares a call to `memcpy`.
const BLOCK: usize = 32;

pub(super) struct Sink {
    sha: Sha256,
    buffer: [u8; CAPACITY],
    used: usize,
}

impl Sink {
    pub(super) fn new() -> Sink {
        Sink {
            sha: Sha256::new(),
            buffer: [0; CAPACITY],
            used: 0,
        }
    }

    pub(super) fn finish(mut self) -> [u8; 32] {
        self.flush();
        self.sha.finalize().into()
    }

    #[inline]
    pub(super) fn byte(&mut self, byte: u8) {
        if self.used == CAPACITY {
            self.flush();
        }
        self.buffer[self.used] = byte;
        self.used += 1;
    }

    /// Seven bits a byte, least significant first, the high bit set on all but the last (LEB128): no number's code is
    /// the beginning of another's.
    #[inline]
    pub(super) fn number(&mut self, mut number: u64) {
        while number >= 0x80 {
            self.byte(number.to_le_bytes()[0] | 0x80);
            number >>= 7;
        }
        self.byte(number.to_le_bytes()[0]);
    }

    /// A length and as many bytes.
    pub(super) fn prefixed(&mut self, bytes: &[u8]) {
        self.number(bytes.len() as u64);
        self.bytes(bytes);
    }

    /// A tag, a length and as many bytes.
    pub(super) fn part(&mut self, tag: u8, bytes: &[u8]) {
        self.byte(tag);
        self.prefixed(bytes);
    }

    pub(super) fn bytes(&mut self, bytes: &[u8]) {
        if bytes.len() > CAPACITY - self.used {
            self.flush();
            if bytes.len() >= CAPACITY {
                self.sha.update(bytes);
                return;
            }
        }
        self.buffer[self.used..self.used + bytes.len()].copy_from_slice(bytes);
        self.used += bytes.len();
    }

    /// Appends `source[start..end]`; `source` is passed whole because a short piece is read a block at a time.
    #[inline(always)]
    pub(super) fn piece(&mut self, source: &[u8], start: usize, end: usize) {
        let length = end - start;
        if length <= BLOCK
            && let Some(from) = source.get(start..start + BLOCK)
            && let Some(to) = self.buffer.get_mut(self.used..self.used + BLOCK)
        {
            to.copy_from_slice(from);
            self.used += length;
        } else {
            self.bytes(&source[start..end]);
        }
    }

    fn flush(&mut self) {
        self.sha.update(&self.buffer[..self.used]);
        self.used = 0;
    }
}
