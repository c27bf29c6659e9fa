//! "Did you mean ..?": the candidate nearest to what was written.

/// The nearest candidate, if one is near enough to be a slip of the keyboard.
pub(crate) fn nearest<'a>(
    written: &str,
    candidates: impl IntoIterator<Item = &'a str>,
) -> Option<&'a str> {
    let limit = written.chars().count().max(3) / 3;
    candidates
        .into_iter()
        .map(|candidate| (distance(&fold(written), &fold(candidate)), candidate))
        .filter(|(distance, _)| *distance <= limit)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

/// Case and dashes are no difference worth a distance: `Account`, `max-body`.
fn fold(name: &str) -> Vec<char> {
    name.replace('-', "_").to_lowercase().chars().collect()
}

/// Edits between two names: insert, delete, replace, and swap two neighbours (optimal string alignment).
fn distance(a: &[char], b: &[char]) -> usize {
    let mut before: Vec<usize> = Vec::new();
    let mut above: Vec<usize> = (0..=b.len()).collect();
    for (i, &x) in a.iter().enumerate() {
        let mut row = vec![i + 1];
        for (j, &y) in b.iter().enumerate() {
            let mut cost = (above[j] + usize::from(x != y))
                .min(above[j + 1] + 1)
                .min(row[j] + 1);
            if i > 0 && j > 0 && x == b[j - 1] && a[i - 1] == y {
                cost = cost.min(before[j - 1] + 1);
            }
            row.push(cost);
        }
        before = std::mem::replace(&mut above, row);
    }
    above[b.len()]
}

#[cfg(test)]
mod tests {
    use super::nearest;

    #[test]
    fn a_slip_is_found() {
        assert_eq!(nearest("scop", ["scope", "state"]), Some("scope"));
        assert_eq!(nearest("acocunt", ["new", "account"]), Some("account"));
        assert_eq!(nearest("Account", ["account"]), Some("account"));
        assert_eq!(nearest("max-body", ["max_body"]), Some("max_body"));
    }

    #[test]
    fn another_word_is_not() {
        assert_eq!(nearest("retries", ["scope", "ttl", "wait"]), None);
        assert_eq!(nearest("id", ["tx", "new"]), None);
    }
}
