//! The kinds of quantities and their units.

/// The kind of a quantity.
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

/// A unit: its names, the first of which is used for output, and its size in base units.
pub(crate) type Unit = (&'static [&'static str], u64);

impl Kind {
    pub(crate) const ALL: [Self; 6] =
        [Self::Time, Self::Rate, Self::Size, Self::Share, Self::Packets, Self::Bdp];

    /// Its units, starting with the base unit.
    pub(crate) const fn units(self) -> &'static [Unit] {
        match self {
            Self::Time => &[
                (&["ns"], 1),
                (&["us"], 1_000),
                (&["ms"], 1_000_000),
                (&["s"], 1_000_000_000),
                (&["min", "m"], 60_000_000_000),
                (&["h"], 3_600_000_000_000),
            ],
            Self::Rate => &[
                (&["b/s"], 1),
                (&["kb/s"], 1_000),
                (&["Mb/s"], 1_000_000),
                (&["Gb/s"], 1_000_000_000),
            ],
            Self::Size => &[
                (&["B"], 1),
                (&["kB", "k"], 1_000),
                (&["MB", "M"], 1_000_000),
                (&["GB", "G"], 1_000_000_000),
                (&["KiB", "Ki"], 1 << 10),
                (&["MiB", "Mi"], 1 << 20),
                (&["GiB", "Gi"], 1 << 30),
            ],
            Self::Share => &[(&["%"], 1)],
            Self::Packets => &[(&["packets", "packet"], 1)],
            Self::Bdp => &[(&["BDP"], 1)],
        }
    }

    /// The value of the base unit.
    pub(crate) const fn base(self) -> f64 {
        match self {
            Self::Share => 0.01,
            Self::Time | Self::Rate | Self::Size | Self::Packets | Self::Bdp => 1.0,
        }
    }

    /// A description for people, with an example.
    pub(crate) const fn example(self) -> &'static str {
        match self {
            Self::Time => "a time with its unit (ns, us, ms, s, min, h), as in \"90 ms\"",
            Self::Rate => "a rate with its unit (b/s, kb/s, Mb/s, Gb/s), as in \"10 Mb/s\"",
            Self::Size => "a size with its unit (B, kB, MB, GB, KiB, MiB, GiB), as in \"64 KiB\"",
            Self::Share => "a share with its unit, as in \"3 %\"",
            Self::Packets => "a number of packets, as in \"50 packets\"",
            Self::Bdp => "multiples of the bandwidth-delay product, as in \"2 BDP\"",
        }
    }

    /// The unit with a name: its name in the table, and its size in base units.
    pub(crate) fn unit(self, name: &str) -> Option<(&'static str, u64)> {
        self.units().iter().find_map(|(names, factor)| {
            Some((*names.iter().find(|known| **known == name)?, *factor))
        })
    }
}

/// Splits a text into a number and the name of its unit, optionally separated by a space.
pub(crate) fn split(text: &str) -> (&str, &str) {
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
    (number, unit.trim_start())
}
