//! Lanes: how relays share messages without a lock that all wait for.

use std::fmt;

/// How many lanes there are. All messages of one ordering key are in one lane, and a lane is one relay's at a time.
pub(crate) const LANES: u8 = 64;

/// A set of lanes.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
pub struct Lanes(u64);

impl Lanes {
    pub(crate) const ALL: Self = Self(u64::MAX);

    pub(crate) fn len(self) -> u32 {
        self.0.count_ones()
    }

    pub(crate) fn is_empty(self) -> bool {
        self.0 == 0
    }

    pub(crate) fn contains(self, lane: u8) -> bool {
        self.0 >> lane & 1 == 1
    }

    /// Those that are in this set and not in another.
    pub(crate) fn without(self, others: Self) -> Self {
        Self(self.0 & !others.0)
    }

    /// Up to so many of them.
    pub(crate) fn first(self, most: u32) -> Self {
        self.iter().take(most as usize).collect()
    }

    pub(crate) fn iter(self) -> impl Iterator<Item = u8> {
        (0..LANES).filter(move |lane| self.0 >> lane & 1 == 1)
    }

    /// Bit by bit, for `mask >> lane & 1`: every database shifts numbers.
    pub(crate) fn mask(self) -> i64 {
        i64::from_ne_bytes(self.0.to_ne_bytes())
    }

    /// From lanes as a database has them.
    pub(crate) fn from_sql(lanes: impl IntoIterator<Item = i16>) -> Self {
        lanes
            .into_iter()
            .filter_map(|lane| u8::try_from(lane).ok())
            .collect()
    }
}

impl FromIterator<u8> for Lanes {
    fn from_iter<I: IntoIterator<Item = u8>>(lanes: I) -> Self {
        let bits = lanes.into_iter().filter(|lane| *lane < LANES);
        Self(bits.fold(0, |set, lane| set | 1 << lane))
    }
}

impl fmt::Debug for Lanes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Lanes({:#x})", self.0)
    }
}

/// The lane of a message: its ordering key's, or any. The same in every process and version, for as long as a row may wait:
/// FNV-1a, 64 bits, its upper six.
pub(crate) fn lane_of(ordering_key: Option<&str>) -> u8 {
    let Some(key) = ordering_key else {
        return fastrand::u8(..LANES);
    };
    let hash = key.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    });
    // The lower bits of so short a hash hardly depend on its first bytes.
    let mixed = (hash ^ hash >> 32).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (mixed >> 58) as u8
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_has_one_lane_for_ever() {
        assert_eq!(lane_of(Some("order-1")), lane_of(Some("order-1")));
        // As stored rows have them.
        let lanes = ["", "a", "order-1", "order-2"].map(|key| lane_of(Some(key)));
        assert_eq!(lanes, [33, 32, 30, 12]);
    }

    #[test]
    fn keys_are_spread_over_all_lanes() {
        let mut keys = [0_u32; LANES as usize];
        for number in 0..6400 {
            keys[usize::from(lane_of(Some(&format!("order-{number}"))))] += 1;
        }
        assert!(keys.iter().all(|keys| (40..200).contains(keys)), "{keys:?}");
    }

    #[test]
    fn a_set_has_what_was_put_in() {
        let lanes: Lanes = [0, 5, 63].into_iter().collect();
        assert_eq!(lanes.iter().collect::<Vec<_>>(), [0, 5, 63]);
        assert_eq!(lanes.len(), 3);
        assert!(lanes.contains(63) && !lanes.contains(62));
        assert_eq!(lanes.first(2), [0, 5].into_iter().collect());
        assert_eq!(lanes.without(lanes.first(2)), [63].into_iter().collect());
        assert_eq!(Lanes::from_sql([0, 5, 63, 64, -1]), lanes);
        assert_eq!(lanes.mask(), i64::MIN + 0b100001);
        assert_eq!(Lanes::ALL.len(), 64);
    }
}
