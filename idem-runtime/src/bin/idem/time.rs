//! Times and durations, as people read and write them.

use std::time::Duration;

const DAY: u64 = 24 * 60 * 60;

/// `250ms`, `90s`, `10m`, `48h`, `7d`.
pub(crate) fn duration(text: &str) -> Result<Duration, String> {
    let end = text
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    let factor = match unit {
        "ms" => 1,
        "s" => 1000,
        "m" => 60 * 1000,
        "h" => 60 * 60 * 1000,
        "d" => DAY * 1000,
        _ => return Err("write a whole number and its unit: `90s`, `10m`, `48h`, `7d`".to_owned()),
    };
    number
        .parse::<u64>()
        .ok()
        .and_then(|number| number.checked_mul(factor))
        // What databases can subtract from today.
        .filter(|millis| *millis <= 36_525 * DAY * 1000)
        .map(Duration::from_millis)
        .ok_or_else(|| "it is no whole number, or longer than a century".to_owned())
}

/// A time in milliseconds since 1970, by [RFC 3339](https://www.rfc-editor.org/rfc/rfc3339), in whole seconds and UTC.
pub(crate) fn rfc3339(millis: i64) -> String {
    let seconds = millis.div_euclid(1000);
    let (days, second) = (seconds.div_euclid(86_400), seconds.rem_euclid(86_400));
    // Years that begin in March end with the day that only some have; 400 of them are 146,097 days.
    let day = days + 719_468;
    let (era, day) = (day.div_euclid(146_097), day.rem_euclid(146_097));
    let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let day = day - (153 * month + 2) / 5 + 1;
    let (month, next) = if month < 10 {
        (month + 3, 0)
    } else {
        (month - 9, 1)
    };
    let year = era * 400 + year + next;
    let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z")
}

/// How long before `now` something was, or how long after it will be.
pub(crate) fn age(now: i64, at: i64) -> String {
    let span = span(now.abs_diff(at) / 1000);
    if at > now {
        format!("in {span}")
    } else {
        format!("{span} ago")
    }
}

/// A time with its age.
pub(crate) fn both(now: i64, at: i64) -> String {
    format!("{} ({})", rfc3339(at), age(now, at))
}

/// The two largest units.
fn span(seconds: u64) -> String {
    let (minutes, hours, days) = (seconds / 60, seconds / 3600, seconds / DAY);
    if days > 0 {
        format!("{days}d {}h", hours % 24)
    } else if hours > 0 {
        format!("{hours}h {}m", minutes % 60)
    } else if minutes > 0 {
        format!("{minutes}m {}s", seconds % 60)
    } else {
        format!("{seconds}s")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_written_as_the_calendar_has_it() {
        for (millis, written) in [
            (0, "1970-01-01T00:00:00Z"),
            (-1, "1969-12-31T23:59:59Z"),
            (951_782_400_000, "2000-02-29T00:00:00Z"),
            (951_868_799_999, "2000-02-29T23:59:59Z"),
            (1_735_689_599_000, "2024-12-31T23:59:59Z"),
            (4_107_542_400_000, "2100-03-01T00:00:00Z"),
        ] {
            assert_eq!(rfc3339(millis), written);
        }
    }

    #[test]
    fn an_age_is_written_in_its_two_largest_units() {
        assert_eq!(age(5_000, 1_000), "4s ago");
        assert_eq!(age(0, 61_000), "in 1m 1s");
        assert_eq!(age(7_500_000, 0), "2h 5m ago");
        assert_eq!(age(180_000_000, 0), "2d 2h ago");
    }

    #[test]
    fn a_duration_needs_a_number_and_a_unit() {
        assert_eq!(duration("10m"), Ok(Duration::from_secs(600)));
        assert_eq!(duration("250ms"), Ok(Duration::from_millis(250)));
        for wrong in ["", "10", "m", "-1s", "1.5h", "1w", "999999999999d"] {
            assert!(duration(wrong).is_err(), "{wrong}");
        }
    }
}
