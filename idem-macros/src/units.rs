//! Durations and sizes, as people write them.

use std::time::Duration;

const DAY: u64 = 24 * 60 * 60;

/// Databases add a duration to today's date; a century is more than any key needs and overflows none of them.
const LONGEST_DAYS: u64 = 36_525;

/// `"250ms"`, `"30s"`, `"5m"`, `"48h"`, `"7d"`. The error says what is wrong with the text, not what to write instead.
pub(crate) fn duration(text: &str) -> Result<Duration, String> {
    let (number, unit) = split(text)?;
    let duration = match unit {
        "" => return Err("it has no unit".into()),
        "ms" => Some(Duration::from_millis(number)),
        "s" => Some(Duration::from_secs(number)),
        "m" => number.checked_mul(60).map(Duration::from_secs),
        "h" => number.checked_mul(60 * 60).map(Duration::from_secs),
        "d" => number.checked_mul(DAY).map(Duration::from_secs),
        other => return Err(format!("`{other}` is no unit (ms, s, m, h and d are)")),
    };
    duration
        .filter(|duration| duration.as_secs() <= LONGEST_DAYS * DAY)
        .ok_or_else(|| "it is longer than a century".into())
}

/// `"2MiB"`, `"64KiB"`, `"1MB"`, `"1000"`: bytes.
pub(crate) fn size(text: &str) -> Result<u32, String> {
    let (number, unit) = split(text)?;
    let factor = match unit {
        "" | "B" => 1,
        "KB" => 1_000,
        "MB" => 1_000_000,
        "KiB" => 1 << 10,
        "MiB" => 1 << 20,
        other => return Err(format!("`{other}` is no unit (B, KB, MB, KiB and MiB are)")),
    };
    number
        .checked_mul(factor)
        .and_then(|bytes| u32::try_from(bytes).ok())
        .ok_or_else(|| "it is 4 GiB or more".into())
}

fn split(text: &str) -> Result<(u64, &str), String> {
    let end = text
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(text.len());
    let (digits, unit) = text.split_at(end);
    if text.is_empty() {
        return Err("it is empty".into());
    }
    if digits.is_empty() {
        return Err("it doesn't start with a whole number".into());
    }
    let number = digits
        .parse()
        .map_err(|_| String::from("the number is too large"))?;
    Ok((number, unit))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_unit_of_time_is_read() {
        let read = |text| duration(text).map(|duration| duration.as_millis());
        assert_eq!(read("250ms"), Ok(250));
        assert_eq!(read("30s"), Ok(30_000));
        assert_eq!(read("5m"), Ok(300_000));
        assert_eq!(read("48h"), Ok(172_800_000));
        assert_eq!(read("7d"), Ok(604_800_000));
        assert_eq!(read("0s"), Ok(0));
    }

    #[test]
    fn every_unit_of_size_is_read() {
        assert_eq!(size("1000"), Ok(1000));
        assert_eq!(size("12B"), Ok(12));
        assert_eq!(size("3KB"), Ok(3_000));
        assert_eq!(size("1MB"), Ok(1_000_000));
        assert_eq!(size("64KiB"), Ok(65_536));
        assert_eq!(size("2MiB"), Ok(2_097_152));
    }

    #[test]
    fn what_is_wrong_is_said() {
        let fault = |text| duration(text).expect_err(text);
        assert_eq!(fault(""), "it is empty");
        assert_eq!(fault("48"), "it has no unit");
        assert_eq!(fault("h"), "it doesn't start with a whole number");
        assert_eq!(fault("-1s"), "it doesn't start with a whole number");
        assert_eq!(fault("2w"), "`w` is no unit (ms, s, m, h and d are)");
        assert_eq!(fault("1.5h"), "`.5h` is no unit (ms, s, m, h and d are)");
        assert_eq!(fault("48 h"), "` h` is no unit (ms, s, m, h and d are)");
        assert_eq!(fault("99999999999999999999s"), "the number is too large");
        assert_eq!(
            fault("18446744073709551615d"),
            "it is longer than a century"
        );
        assert_eq!(fault("36526d"), "it is longer than a century");
        assert_eq!(
            size("2GiB"),
            Err("`GiB` is no unit (B, KB, MB, KiB and MiB are)".into())
        );
        assert_eq!(size("5000MiB"), Err("it is 4 GiB or more".into()));
        assert_eq!(
            size("18446744073709551615MiB"),
            Err("it is 4 GiB or more".into())
        );
    }
}
