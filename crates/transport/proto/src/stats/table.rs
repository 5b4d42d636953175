//! Statistics as a table: the name of a number, its meaning, and how to read it.
//!
//! A number is declared once, as a row of [`association_counters!`](super::association),
//! [`path_statistics!`](super::path) or [`rows!`]. JSON, Prometheus, qlog, the lab and C read the rows,
//! so a number has one name everywhere. Each format adds its own convention, such as a unit.

use std::time::Duration;

/// A number of `S`: its name, its meaning, and how to read it.
#[derive(Debug)]
#[non_exhaustive]
pub struct Counter<S: 'static> {
    /// Its name, without the unit of times.
    pub name: &'static str,
    /// How it behaves over time.
    pub kind: CounterKind,
    /// What it counts.
    pub unit: Unit,
    /// Its meaning, in sentences.
    pub doc: &'static [&'static str],
    /// Its name in qlog, if qlog logs its changes: the standard prescribes names for some numbers.
    pub qlog: Option<&'static str>,
    /// Reads it; `None` if it is unknown.
    pub get: fn(&S) -> Option<Number>,
}

impl<S> Counter<S> {
    /// Its name in JSON and C, which includes the unit of times.
    pub fn json_name(&self) -> String {
        match self.unit {
            Unit::Seconds => format!("{}_seconds", self.name),
            _ => self.name.to_owned(),
        }
    }

    /// Its meaning, in one line.
    pub fn help(&self) -> String {
        self.doc.iter().map(|line| line.trim()).collect::<Vec<_>>().join(" ")
    }
}

/// How a number behaves over time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CounterKind {
    /// It only grows. The values of several associations or paths can be added.
    Counter,
    /// It rises and falls. The values of several associations can be added, such as bytes in queues.
    Amount,
    /// It rises and falls, and a sum of several values has no meaning.
    Gauge,
}

/// What a number counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Unit {
    /// Events.
    Events,
    /// Bytes.
    Bytes,
    /// Bytes per second.
    BytesPerSecond,
    /// Seconds.
    Seconds,
    /// Packets.
    Packets,
    /// Chunks.
    Chunks,
    /// Messages.
    Messages,
    /// A share, from 0 to 1.
    Share,
}

/// A value.
#[derive(Clone, Copy, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[cfg_attr(feature = "serde", serde(untagged))]
#[non_exhaustive]
pub enum Number {
    /// A count.
    Whole(u64),
    /// A share or a mean.
    Real(f64),
    /// A time; in JSON in seconds.
    Time(#[cfg_attr(feature = "serde", serde(with = "super::seconds"))] Duration),
}

impl Number {
    /// The value as a floating-point number; times in seconds.
    pub fn as_f64(self) -> f64 {
        match self {
            Self::Whole(count) => count as f64,
            Self::Real(value) => value,
            Self::Time(time) => time.as_secs_f64(),
        }
    }
}

/// A field that a row can read.
pub(super) trait Reading {
    fn read(&self) -> Option<Number>;
}

/// Types that are read as counts.
macro_rules! whole {
    ($($type:ty),*) => {
        $(impl Reading for $type {
            fn read(&self) -> Option<Number> {
                Some(Number::Whole(u64::from(*self)))
            }
        })*
    };
}

whole!(u16, u32, u64);

impl Reading for usize {
    fn read(&self) -> Option<Number> {
        Some(Number::Whole(*self as u64))
    }
}

impl Reading for f64 {
    fn read(&self) -> Option<Number> {
        Some(Number::Real(*self))
    }
}

impl Reading for Duration {
    fn read(&self) -> Option<Number> {
        Some(Number::Time(*self))
    }
}

impl<T: Reading> Reading for Option<T> {
    fn read(&self) -> Option<Number> {
        self.as_ref().and_then(Reading::read)
    }
}

/// One row: `row!(name, kind, unit, doc, [qlog], |statistics| value)`.
macro_rules! row {
    ($name:ident, $kind:ident, $unit:ident, $doc:expr, [$($qlog:literal)?], |$of:ident| $value:expr) => {
        $crate::stats::Counter {
            name: stringify!($name),
            kind: $crate::stats::CounterKind::$kind,
            unit: $crate::stats::Unit::$unit,
            doc: $doc,
            qlog: $crate::stats::table::row!(@qlog $($qlog)?),
            get: |$of| $crate::stats::table::Reading::read(&$value),
        }
    };
    (@qlog) => { None };
    (@qlog $qlog:literal) => { Some($qlog) };
}
pub(super) use row;

/// Rows that read something other than a field with their name: `name: Kind, Unit = value;`.
macro_rules! rows {
    (
        $(#[$meta:meta])*
        const $rows:ident: $type:ty, |$of:ident|
        $($(#[doc = $doc:literal])* $name:ident: $kind:ident, $unit:ident = $value:expr;)*
    ) => {
        $(#[$meta])*
        pub(super) const $rows: &[$crate::stats::Counter<$type>] = &[
            $($crate::stats::table::row!($name, $kind, $unit, &[$($doc),*], [], |$of| $value),)*
        ];
    };
}
pub(super) use rows;
