//! SHA-256 over tagged, length-prefixed parts: different lists of parts never hash the same bytes.

use sha2::{Digest, Sha256};

/// The digest of `parts` under `tag`. The tag keeps digests of different purposes apart.
pub(crate) fn tagged<const N: usize>(tag: &str, parts: [&[u8]; N]) -> [u8; 32] {
    let mut hash = Sha256::new();
    absorb(&mut hash, tag.as_bytes());
    for part in parts {
        absorb(&mut hash, part);
    }
    hash.finalize().into()
}

fn absorb(hash: &mut Sha256, part: &[u8]) {
    hash.update((part.len() as u64).to_be_bytes());
    hash.update(part);
}

/// Lower-case hexadecimal.
pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes
        .iter()
        .fold(String::with_capacity(bytes.len() * 2), |mut out, byte| {
            for nibble in [byte >> 4, byte & 0xf] {
                out.push(char::from(b"0123456789abcdef"[usize::from(nibble)]));
            }
            out
        })
}
