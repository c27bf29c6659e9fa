//! Which keys this process has seen lately.
//!
//! A retry should not open a transaction to learn that its answer is stored; a first use should
//! not pay for a read that finds nothing. The filter tells the two apart, most of the time.

use std::{
    fmt,
    sync::atomic::{AtomicU64, Ordering},
};

use crate::scope::RecordId;

const SLOTS: usize = 1 << 16;
const EMPTY: u64 = 0;

/// A hint, of fixed size (512 KiB), without locks: a direct-mapped table of 2^16 words.
///
/// Nothing may depend on its answer but the path that is tried first. A false positive (two records
/// with the same slot and word) costs a read that finds nothing; a false negative (a later record
/// took the slot, or another process has the key) costs the slower path.
pub(crate) struct RecentKeys {
    slots: Box<[AtomicU64]>,
}

impl RecentKeys {
    /// An empty filter.
    #[must_use]
    pub(crate) fn new() -> RecentKeys {
        RecentKeys {
            slots: (0..SLOTS).map(|_| AtomicU64::new(EMPTY)).collect(),
        }
    }

    /// Remembers `record`, in place of whatever had its slot.
    pub(crate) fn insert(&self, record: &RecordId) {
        self.slot(record).store(word(record), Ordering::Relaxed);
    }

    /// Whether `record` was probably inserted.
    #[must_use]
    pub(crate) fn contains(&self, record: &RecordId) -> bool {
        self.slot(record).load(Ordering::Relaxed) == word(record)
    }

    fn slot(&self, record: &RecordId) -> &AtomicU64 {
        // Bytes that the word does not use, so that records in one slot still differ in 64 bits.
        let [.., high, low] = *record.as_bytes();
        &self.slots[usize::from(u16::from_be_bytes([high, low]))]
    }
}

impl Default for RecentKeys {
    fn default() -> RecentKeys {
        RecentKeys::new()
    }
}

impl fmt::Debug for RecentKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RecentKeys").finish_non_exhaustive()
    }
}

/// The record's word, which is never that of an empty slot.
fn word(record: &RecordId) -> u64 {
    record.filter_word() | 1
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::{key::IdempotencyKey, scope::ScopeKey};

    fn record(number: u32) -> RecordId {
        let key = IdempotencyKey::parse(number.to_string().as_bytes(), true).unwrap();
        RecordId::new(&ScopeKey::of("alice"), None, &key)
    }

    #[test]
    fn an_empty_filter_contains_nothing() {
        let filter = RecentKeys::new();
        assert!((0..1000).all(|number| !filter.contains(&record(number))));
    }

    #[test]
    fn it_is_bounded() {
        assert_eq!(size_of_val(&*RecentKeys::new().slots), 512 * 1024);
    }

    #[test]
    fn most_of_what_was_inserted_lately_is_found_and_nothing_else() {
        let filter = RecentKeys::new();
        (0..8192).for_each(|number| filter.insert(&record(number)));
        let found = (0..8192).filter(|number| filter.contains(&record(*number)));
        // Deterministic; about 6 % fell to a later record in their slot.
        assert!(found.count() > 7500);
        assert!((8192..16384).all(|number| !filter.contains(&record(number))));
    }

    #[test]
    fn threads_share_it() {
        let filter = RecentKeys::new();
        std::thread::scope(|threads| {
            for start in 0..4 {
                let filter = &filter;
                threads.spawn(move || {
                    for number in (start * 50)..(start * 50 + 50) {
                        filter.insert(&record(number));
                    }
                });
            }
        });
        let found = (0..200).filter(|number| filter.contains(&record(*number)));
        assert!(found.count() > 190);
    }

    proptest! {
        #[test]
        fn what_was_inserted_last_is_found(numbers in proptest::collection::vec(any::<u32>(), 1..50)) {
            let filter = RecentKeys::new();
            for number in numbers {
                filter.insert(&record(number));
                prop_assert!(filter.contains(&record(number)));
            }
        }
    }
}
