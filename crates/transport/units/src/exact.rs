//! Times and sizes as people write them, parsed in the same way everywhere: `90 ms`, `64 KiB`.

use std::time::Duration;

use crate::kind::{Kind, Unit, split};

/// Parses a number and a unit; returns base units.
fn parse(text: &str, kind: Kind) -> Option<u64> {
    let (number, unit) = split(text);
    let factor = match unit {
        // The default unit of sizes is the byte.
        "" if kind == Kind::Size => 1,
        unit => kind.unit(unit)?.1,
    };
    let number = number.replace('_', "");
    let (whole, fraction) = number.split_once('.').unwrap_or((&number, ""));
    let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    if whole.is_empty() || !digits(whole) || !digits(fraction) {
        return None;
    }
    let whole: u64 = whole.parse().ok()?;
    let mut value = u128::from(whole) * u128::from(factor);
    if !fraction.is_empty() {
        // The fraction must be a whole number of base units: `1.5 B` is not a size.
        let scale = 10_u128.checked_pow(u32::try_from(fraction.len()).ok()?)?;
        let part = u128::from(fraction.parse::<u64>().ok()?) * u128::from(factor);
        if part % scale != 0 {
            return None;
        }
        value += part / scale;
    }
    u64::try_from(value).ok()
}

/// Formats a value in the largest unit that gives a whole number.
fn write(value: u64, kind: Kind) -> String {
    let fits = |(_, factor): &&Unit| value.is_multiple_of(*factor) && value >= *factor;
    match kind.units().iter().filter(fits).max_by_key(|(_, factor)| *factor) {
        Some((names, factor)) => format!("{} {}", value / factor, names[0]),
        None => format!("{value} {}", kind.units()[0].0[0]),
    }
}

/// Parses a time with its unit (ns, us, ms, s, min or m, h): `200 ms`, `1.5s`, `2 min`. It must be
/// less than 585 years. `None` for anything else.
pub fn parse_time(text: &str) -> Option<Duration> {
    parse(text, Kind::Time).map(Duration::from_nanos)
}

/// Parses a number of bytes with or without a unit (B, kB, MB, GB, KiB, MiB, GiB, or these without
/// their B): `1500`, `64 KiB`, `4M`. `None` for anything else.
pub fn parse_size(text: &str) -> Option<u64> {
    parse(text, Kind::Size)
}

/// Formats a time such that [`parse_time`] parses it.
pub fn write_time(time: Duration) -> String {
    if time.is_zero() {
        return "0 s".to_owned();
    }
    write(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX), Kind::Time)
}

/// Formats a size such that [`parse_size`] parses it.
pub fn write_size(bytes: u64) -> String {
    write(bytes, Kind::Size)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn times_have_units() {
        assert_eq!(parse_time("200ms"), Some(Duration::from_millis(200)));
        assert_eq!(parse_time(" 1.5 s"), Some(Duration::from_millis(1500)));
        assert_eq!(parse_time("2m"), parse_time("2 min"));
        for wrong in ["200", "ms", "-1s", "1e30h", "1 parsec", "", "NaNs", ".5s", "0.5 ns", "+1s"] {
            assert_eq!(parse_time(wrong), None, "{wrong}");
        }
        assert_eq!(write_time(Duration::from_millis(1500)), "1500 ms");
        assert_eq!(write_time(Duration::from_secs(120)), "2 min");
        assert_eq!(write_time(Duration::ZERO), "0 s");
    }

    #[test]
    fn sizes_may_have_units() {
        assert_eq!(parse_size("1500"), Some(1500));
        assert_eq!(parse_size("16k"), Some(16_000));
        assert_eq!(parse_size("1.5 KiB"), Some(1536));
        assert_eq!(parse_size("2Gi"), Some(2 << 30));
        for wrong in ["", "-1", "1.5", "1K", "1kb", "1e30", "inf", "NaN", "ten", "99999999999 GiB"]
        {
            assert_eq!(parse_size(wrong), None, "{wrong}");
        }
        assert_eq!(write_size(65_536), "64 KiB");
        assert_eq!(write_size(1500), "1500 B");
        assert_eq!(write_size(2_000_000), "2 MB");
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(value: u64) {
            prop_assert_eq!(parse_size(&write_size(value)), Some(value));
            let time = Duration::from_nanos(value);
            prop_assert_eq!(parse_time(&write_time(time)), Some(time));
        }
    }
}
