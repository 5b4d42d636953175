//! Quantities with units, as written in files: `90 ms`, `10 Mb/s`, `4 MiB`, `3 %`.

use std::time::Duration;

use crate::kind::{Kind, Unit, split};

/// A number and its unit.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Quantity {
    /// The number as written.
    pub number: f64,
    /// The unit as written.
    pub unit: &'static str,
    /// The kind of quantity.
    pub kind: Kind,
    /// The value in the kind's base unit.
    pub value: f64,
}

impl Quantity {
    /// Parses a number and a unit, optionally separated by a space; `None` if that is not possible.
    pub fn parse(text: &str) -> Option<Self> {
        let (number, unit) = split(text);
        let number: f64 = number.replace('_', "").parse().ok()?;
        Kind::ALL.into_iter().find_map(|kind| {
            let (unit, factor) = kind.unit(unit)?;
            let value = number * factor as f64 * kind.base();
            Some(Self { number, unit, kind, value })
        })
    }

    /// Parses a quantity of one kind within a range of base units.
    ///
    /// # Errors
    /// Returns a message without its subject, which is the name of the field.
    pub fn expect(text: &str, kind: Kind, least: f64, most: f64) -> Result<f64, String> {
        match Self::parse(text) {
            Some(quantity) if quantity.kind == kind => {
                if (least..=most).contains(&quantity.value) {
                    Ok(quantity.value)
                } else {
                    Err(format!(
                        "is \"{text}\", outside {} to {}",
                        write(kind, least),
                        write(kind, most)
                    ))
                }
            }
            _ => Err(format!("is \"{text}\" and not {}", kind.example())),
        }
    }
}

/// Formats a value in the largest unit that gives at least 1.
pub fn write(kind: Kind, value: f64) -> String {
    let worth = |factor: u64| factor as f64 * kind.base();
    let decimal = || kind.units().iter().rev().filter(|(names, _)| !names[0].ends_with("iB"));
    let whole = |(_, factor): &&Unit| {
        value.abs() >= worth(*factor) && (value / worth(*factor)).fract().abs() < 1e-9
    };
    let best = decimal()
        .find(whole)
        .or_else(|| decimal().find(|(_, factor)| value.abs() >= worth(*factor)))
        .or(kind.units().first());
    match best {
        Some((names, factor)) => format!("{} {}", value / worth(*factor), names[0]),
        None => value.to_string(),
    }
}

/// Converts nanoseconds to a duration.
pub fn duration(nanoseconds: f64) -> Duration {
    Duration::from_nanos(nanoseconds.round() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities_are_read() {
        let cases = [
            ("90 ms", Kind::Time, 90e6),
            ("90ms", Kind::Time, 90e6),
            ("1.5 s", Kind::Time, 1.5e9),
            ("2 min", Kind::Time, 120e9),
            ("10 Mb/s", Kind::Rate, 1e7),
            ("4 MiB", Kind::Size, 4_194_304.0),
            ("1_452 B", Kind::Size, 1452.0),
            ("1e3 B", Kind::Size, 1000.0),
            ("50 packets", Kind::Packets, 50.0),
            ("2 BDP", Kind::Bdp, 2.0),
        ];
        for (text, kind, value) in cases {
            let quantity = Quantity::parse(text).unwrap();
            assert_eq!((quantity.kind, quantity.value), (kind, value), "{text}");
        }
        assert!((Quantity::parse("3 %").unwrap().value - 0.03).abs() < 1e-12);
        for wrong in ["", "90", "ms", "90 parsec", "9 0 ms", "- ms", "1 mb/s"] {
            assert_eq!(Quantity::parse(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn ranges_are_named_in_units() {
        let hour = 3600e9;
        assert_eq!(Quantity::expect("1 s", Kind::Time, 0.0, hour), Ok(1e9));
        let error = Quantity::expect("-1 s", Kind::Time, 0.0, hour).unwrap_err();
        assert_eq!(error, "is \"-1 s\", outside 0 ns to 1 h");
        let error = Quantity::expect("7", Kind::Time, 0.0, hour).unwrap_err();
        assert!(error.contains("as in \"90 ms\""), "{error}");
        assert!(Quantity::expect("NaN s", Kind::Time, 0.0, hour).is_err());
    }
}
