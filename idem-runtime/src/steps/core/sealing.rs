//! What is stored of an operation, encrypted where a cipher is set.

use crate::backend::Backend;
use crate::idempotency::{Idempotency, StoreError};
use crate::scope::RecordId;

/// Bytes as they are stored.
pub(crate) struct Sealed {
    pub(crate) bytes: Vec<u8>,
    pub(crate) is_sealed: bool,
}

/// Encrypts, if a cipher is set.
pub(crate) fn seal<DB: Backend>(
    idempotency: &Idempotency<DB>,
    id: &RecordId,
    part: &[u8],
    bytes: &[u8],
) -> Result<Sealed, StoreError> {
    let Some(cipher) = &idempotency.shared.settings.cipher else {
        return Ok(Sealed {
            bytes: bytes.to_vec(),
            is_sealed: false,
        });
    };
    let context = [id.as_bytes().as_slice(), part].concat();
    let bytes = cipher.seal(&context, bytes).map_err(StoreError::Cipher)?;
    Ok(Sealed {
        bytes,
        is_sealed: true,
    })
}

/// Decrypts what [`seal`] made.
pub(crate) fn unseal<DB: Backend>(
    idempotency: &Idempotency<DB>,
    id: &RecordId,
    part: &[u8],
    bytes: &[u8],
    is_sealed: bool,
) -> Result<Vec<u8>, StoreError> {
    if !is_sealed {
        return Ok(bytes.to_vec());
    }
    let cipher = idempotency.shared.settings.cipher.as_ref();
    let cipher = cipher.ok_or_else(|| {
        StoreError::Cipher("what is stored is encrypted, and no `PayloadCipher` is set".into())
    })?;
    let context = [id.as_bytes().as_slice(), part].concat();
    cipher.open(&context, bytes).map_err(StoreError::Cipher)
}
