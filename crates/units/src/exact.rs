//! Times and sizes as people write them, everywhere in the same way: `90 ms`, `64 KiB`.

use std::time::Duration;

/// Units of time, by their names; the first name is the one that is written.
const TIMES: &[(&[&str], u64)] = &[
    (&["ns"], 1),
    (&["us"], 1_000),
    (&["ms"], 1_000_000),
    (&["s"], 1_000_000_000),
    (&["min", "m"], 60_000_000_000),
    (&["h"], 3_600_000_000_000),
];

/// Units of size, by their names; the first name is the one that is written.
const SIZES: &[(&[&str], u64)] = &[
    (&["B", ""], 1),
    (&["kB", "k"], 1_000),
    (&["MB", "M"], 1_000_000),
    (&["GB", "G"], 1_000_000_000),
    (&["KiB", "Ki"], 1 << 10),
    (&["MiB", "Mi"], 1 << 20),
    (&["GiB", "Gi"], 1 << 30),
];

/// A number and a unit, with or without a blank between them, in the units' base.
fn parse(text: &str, units: &[(&[&str], u64)]) -> Option<u64> {
    let text = text.trim();
    let end = text.find(|c: char| !(c.is_ascii_digit() || matches!(c, '.' | '_')));
    let (number, unit) = text.split_at(end.unwrap_or(text.len()));
    let unit = unit.trim_start();
    let (_, factor) = units.iter().find(|(names, _)| names.contains(&unit))?;
    let number = number.replace('_', "");
    let (whole, fraction) = number.split_once('.').unwrap_or((&number, ""));
    if whole.is_empty() {
        return None;
    }
    let whole: u64 = whole.parse().ok()?;
    let mut value = u128::from(whole) * u128::from(*factor);
    if !fraction.is_empty() {
        // What is left of the base unit must be whole: `1.5 B` is no size.
        let scale = 10_u128.checked_pow(u32::try_from(fraction.len()).ok()?)?;
        let part = u128::from(fraction.parse::<u64>().ok()?) * u128::from(*factor);
        if part % scale != 0 {
            return None;
        }
        value += part / scale;
    }
    u64::try_from(value).ok()
}

/// In the largest unit that leaves a whole number.
fn write(value: u64, units: &[(&[&str], u64)]) -> String {
    let fits = |(_, factor): &&(&[&str], u64)| value.is_multiple_of(*factor) && value >= *factor;
    match units.iter().filter(fits).max_by_key(|(_, factor)| *factor) {
        Some((names, factor)) => format!("{} {}", value / factor, names[0]),
        None => format!("{value} {}", units[0].0[0]),
    }
}

/// A time with its unit (ns, us, ms, s, min or m, h): `200 ms`, `1.5s`, `2 min`. It is less than
/// 585 years. `None` for anything else.
pub fn parse_time(text: &str) -> Option<Duration> {
    parse(text, TIMES).map(Duration::from_nanos)
}

/// A number of bytes with or without a unit (B, kB, MB, GB, KiB, MiB, GiB, or these without their
/// B): `1500`, `64 KiB`, `4M`. `None` for anything else.
pub fn parse_size(text: &str) -> Option<u64> {
    parse(text, SIZES)
}

/// As [`parse_time`] reads it.
pub fn write_time(time: Duration) -> String {
    if time.is_zero() {
        return "0 s".to_owned();
    }
    write(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX), TIMES)
}

/// As [`parse_size`] reads it.
pub fn write_size(bytes: u64) -> String {
    write(bytes, SIZES)
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
        for wrong in ["200", "ms", "-1s", "1e30h", "1 parsec", "", "NaNs", ".5s", "0.5 ns"] {
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
