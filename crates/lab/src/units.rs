//! Quantities with their unit, as scenario files write them: `90 ms`, `10 Mb/s`, `4 MiB`, `3 %`.

use std::time::Duration;

/// What a quantity measures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Nanoseconds.
    Time,
    /// Bits per second.
    Rate,
    /// Bytes.
    Size,
    /// A fraction of one.
    Share,
    /// Packets.
    Packets,
    /// Multiples of a path's bandwidth-delay product.
    Bdp,
}

impl Kind {
    /// The units and the factor that each one stands for.
    const fn units(self) -> &'static [(&'static str, f64)] {
        match self {
            Self::Time => {
                &[("ns", 1.0), ("us", 1e3), ("ms", 1e6), ("s", 1e9), ("min", 60e9), ("h", 3600e9)]
            }
            Self::Rate => &[("b/s", 1.0), ("kb/s", 1e3), ("Mb/s", 1e6), ("Gb/s", 1e9)],
            Self::Size => &[
                ("B", 1.0),
                ("kB", 1e3),
                ("MB", 1e6),
                ("GB", 1e9),
                ("KiB", 1024.0),
                ("MiB", 1_048_576.0),
                ("GiB", 1_073_741_824.0),
            ],
            Self::Share => &[("%", 0.01)],
            Self::Packets => &[("packets", 1.0), ("packet", 1.0)],
            Self::Bdp => &[("BDP", 1.0)],
        }
    }

    /// How a person calls it, with an example.
    const fn example(self) -> &'static str {
        match self {
            Self::Time => "a time with its unit (ns, us, ms, s, min, h), as in \"90 ms\"",
            Self::Rate => "a rate with its unit (b/s, kb/s, Mb/s, Gb/s), as in \"10 Mb/s\"",
            Self::Size => "a size with its unit (B, kB, MB, GB, KiB, MiB, GiB), as in \"64 KiB\"",
            Self::Share => "a share with its unit, as in \"3 %\"",
            Self::Packets => "a number of packets, as in \"50 packets\"",
            Self::Bdp => "multiples of the bandwidth-delay product, as in \"2 BDP\"",
        }
    }
}

const KINDS: [Kind; 6] =
    [Kind::Time, Kind::Rate, Kind::Size, Kind::Share, Kind::Packets, Kind::Bdp];

/// A number and its unit.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Quantity {
    /// The number as written.
    pub number: f64,
    /// The unit as written.
    pub unit: &'static str,
    /// What the unit measures.
    pub kind: Kind,
    /// The value in the kind's base unit.
    pub value: f64,
}

impl Quantity {
    /// Reads a number and a unit with or without a blank between them; `None` when it is neither.
    pub fn parse(text: &str) -> Option<Self> {
        let text = text.trim();
        let end = text
            .char_indices()
            .find(|(at, c)| {
                let exponent = matches!(c, 'e' | 'E')
                    && text.get(at + 1..).is_some_and(|rest| {
                        rest.starts_with(|c: char| c.is_ascii_digit() || matches!(c, '-' | '+'))
                    });
                !(c.is_ascii_digit() || matches!(c, '.' | '-' | '+' | '_') || exponent)
            })
            .map_or(text.len(), |(at, _)| at);
        let (number, unit) = text.split_at(end);
        let number: f64 = number.replace('_', "").parse().ok()?;
        let unit = unit.trim_start();
        KINDS.into_iter().find_map(|kind| {
            let (unit, factor) = kind.units().iter().find(|(name, _)| *name == unit)?;
            Some(Self { number, unit, kind, value: number * factor })
        })
    }

    /// Reads a quantity of one kind within a range of base units.
    ///
    /// # Errors
    /// A sentence that begins behind the name of the field.
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

/// A value in the largest unit that leaves at least one of it.
pub fn write(kind: Kind, value: f64) -> String {
    let decimal: Vec<_> = kind.units().iter().filter(|(unit, _)| !unit.ends_with("iB")).collect();
    let best = decimal
        .iter()
        .rev()
        .find(|(_, factor)| value.abs() >= *factor && (value / factor).fract().abs() < 1e-9)
        .or_else(|| decimal.iter().rev().find(|(_, factor)| value.abs() >= *factor))
        .or(decimal.first());
    match best {
        Some((unit, factor)) => format!("{} {unit}", value / factor),
        None => value.to_string(),
    }
}

/// Nanoseconds as a duration.
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
