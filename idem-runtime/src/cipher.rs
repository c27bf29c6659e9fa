//! What is stored of answers and operations, encrypted at rest.

use std::error::Error;
use std::fmt::Debug;

/// Encrypts what is stored of an answer, and decrypts it for a replay. Of handlers with
/// [`Steps`](crate::Steps) also their arguments, the inputs and results of their steps, and what operators say of them.
///
/// `context` is the record's name and the part's; bind it as associated data of an authenticated cipher
/// (AES-GCM-SIV, XChaCha20-Poly1305), so that a stored answer can't be moved to another key. Put a key
/// id in front of the ciphertext, and keep old keys until the longest `ttl` has passed.
///
/// Status, operation, scope and resources stay in clear text.
pub trait PayloadCipher: Debug + Send + Sync + 'static {
    /// Encrypts.
    ///
    /// # Errors
    ///
    /// Whatever went wrong; the attempt is rolled back and answered 503. An operation that is begun goes on later.
    fn seal(&self, context: &[u8], plaintext: &[u8]) -> Result<Vec<u8>, CipherError>;

    /// Decrypts what `seal` made.
    ///
    /// # Errors
    ///
    /// Whatever went wrong; the replay is answered 503, and the record stays. An operation goes on later, and is kept as
    /// unknown, with this error as the reason, after too many attempts.
    fn open(&self, context: &[u8], ciphertext: &[u8]) -> Result<Vec<u8>, CipherError>;
}

/// What a cipher fails with.
pub type CipherError = Box<dyn Error + Send + Sync>;
