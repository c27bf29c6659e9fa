//! A cipher that hides what it is given from a look, and nothing more.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};

use idem_runtime::{CipherError, PayloadCipher};
use sha2::{Digest, Sha256};

/// Clones are one cipher.
#[derive(Clone, Debug)]
pub(crate) struct Cipher {
    /// Not zero.
    key: Arc<AtomicU8>,
    refuses: Arc<AtomicBool>,
}

impl Cipher {
    pub(crate) fn new() -> Cipher {
        Cipher {
            key: Arc::new(AtomicU8::new(1)),
            refuses: Arc::default(),
        }
    }

    pub(crate) fn change_key(&self, key: u8) {
        self.key.store(key, Ordering::SeqCst);
    }

    /// From now on.
    pub(crate) fn refuse(&self, refuses: bool) {
        self.refuses.store(refuses, Ordering::SeqCst);
    }

    fn key(&self) -> Result<u8, CipherError> {
        if self.refuses.load(Ordering::SeqCst) {
            return Err("the vault is closed".into());
        }
        Ok(self.key.load(Ordering::SeqCst))
    }
}

fn tag(context: &[u8], text: &[u8]) -> [u8; 32] {
    let mut hash = Sha256::new();
    hash.update(context.len().to_be_bytes());
    hash.update(context);
    hash.update(text);
    hash.finalize().into()
}

impl PayloadCipher for Cipher {
    fn seal(&self, context: &[u8], plaintext: &[u8]) -> Result<Vec<u8>, CipherError> {
        let key = self.key()?;
        let hidden = plaintext.iter().map(|byte| byte ^ key);
        Ok([key]
            .into_iter()
            .chain(tag(context, plaintext))
            .chain(hidden)
            .collect())
    }

    fn open(&self, context: &[u8], ciphertext: &[u8]) -> Result<Vec<u8>, CipherError> {
        let key = self.key()?;
        let Some(([used, tagged @ ..], hidden)) = ciphertext.split_first_chunk::<33>() else {
            return Err("too short".into());
        };
        if *used != key {
            return Err(format!("it was sealed with key {used}, and this is key {key}").into());
        }
        let plaintext: Vec<u8> = hidden.iter().map(|byte| byte ^ key).collect();
        if tag(context, &plaintext).as_slice() != tagged {
            return Err("it belongs somewhere else".into());
        }
        Ok(plaintext)
    }
}
