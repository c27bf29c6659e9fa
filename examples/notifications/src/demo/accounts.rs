//! Whether the ledger is right.

use std::collections::BTreeMap;
use std::fmt;

use super::client::Placed;
use crate::ledger::Entry;

/// The entries of each account, in the order in which they were made.
pub(super) struct Accounts(BTreeMap<String, Vec<Entry>>);

impl Accounts {
    pub(super) fn of(entries: Vec<Entry>) -> Self {
        let mut accounts: BTreeMap<String, Vec<Entry>> = BTreeMap::new();
        for entry in entries {
            let account = accounts.entry(entry.account.clone()).or_default();
            account.push(entry);
        }
        Self(accounts)
    }

    /// How many entries there are.
    pub(super) fn len(&self) -> usize {
        self.0.values().map(Vec::len).sum()
    }

    /// Each order that was placed is entered once, after those before it, with the right total.
    pub(super) fn check(&self, placed: &[Placed]) -> Result<(), String> {
        if self.len() != placed.len() {
            return Err(format!("{} entries of {} orders", self.len(), placed.len()));
        }
        for (account, entries) in &self.0 {
            let prices = placed.iter().filter(|order| order.account == account);
            let mut total = 0;
            let expected: Vec<(i64, i64, i64)> = (1..)
                .zip(prices.map(Placed::price))
                .map(|(number, cents)| {
                    total += cents;
                    (number, cents, total)
                })
                .collect();
            let entered: Vec<(i64, i64, i64)> = entries
                .iter()
                .map(|entry| (entry.number, entry.cents, entry.total))
                .collect();
            if entered != expected {
                return Err(format!("{account} has {entered:?} and not {expected:?}"));
            }
        }
        Ok(())
    }
}

impl fmt::Display for Accounts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (account, entries) in &self.0 {
            for entry in entries {
                let Entry {
                    number,
                    cents,
                    total,
                    ..
                } = entry;
                writeln!(
                    f,
                    "  {account:5}  order {number}  {cents:>5}  total {total:>6}"
                )?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;

    fn entry(number: i64, cents: i64, total: i64) -> Entry {
        let (order_id, account) = (Uuid::new_v4(), "alice".to_owned());
        Entry {
            order_id,
            account,
            number,
            cents,
            total,
        }
    }

    #[test]
    fn an_order_that_is_missing_repeated_or_out_of_order_is_found() {
        let placed = [Placed::new("alice", "book"), Placed::new("alice", "lamp")];
        let (first, second) = (entry(1, 1_500, 1_500), entry(2, 4_500, 6_000));
        let check = |entries: &[&Entry]| {
            let entries = entries.iter().map(|&entry| entry.clone()).collect();
            Accounts::of(entries).check(&placed)
        };
        assert_eq!(check(&[&first, &second]), Ok(()));
        for wrong in [
            vec![&first],
            vec![&first, &first],
            vec![&second, &first],
            vec![&first, &second, &second],
        ] {
            assert!(check(&wrong).is_err(), "{wrong:?}");
        }
    }
}
