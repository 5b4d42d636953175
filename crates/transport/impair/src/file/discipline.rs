//! The key `discipline`: which packets a queue drops or marks before it is full, with the parameters of each
//! discipline.

use std::time::Duration;

use anabranch_units::{Kind, Quantity};
use serde::Deserialize;
use toml::Spanned;

use super::quantities::Text;
use super::schema::{Checked, problem};
use crate::{CoDel, Discipline, Probability, QueueLimit, Red};

/// Upper limit for thresholds of RED.
const MAX_THRESHOLD: f64 = u32::MAX as f64;
/// A minute: longer than any queue should be.
const MAX_WAIT: f64 = 60e9;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawRed {
    min: Text,
    max: Text,
    max_drop: Text,
    weight: Text,
    gentle: Option<bool>,
    ecn: Option<bool>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawCoDel {
    target: Text,
    interval: Text,
    ecn: Option<bool>,
}

/// The discipline of a queue with this room.
pub(super) fn read(
    name: Option<&Spanned<String>>,
    red: Option<&Spanned<RawRed>>,
    codel: Option<&Spanned<RawCoDel>>,
    queue: QueueLimit,
    rated: bool,
) -> Checked<Discipline> {
    let chosen = name.map_or("drop-tail", |name| name.get_ref().as_str());
    for (key, span) in [("red", red.map(Spanned::span)), ("codel", codel.map(Spanned::span))] {
        if let Some(span) = span.filter(|_| chosen != key) {
            return problem(span, format!("{key} has no effect without discipline = \"{key}\""));
        }
    }
    let Some(name) = name else { return Ok(Discipline::DropTail) };
    if !rated {
        return problem(name.span(), "discipline has no effect without a rate");
    }
    match chosen {
        "drop-tail" => Ok(Discipline::DropTail),
        "codel" => Ok(Discipline::CoDel(read_codel(codel)?)),
        "red" => match red {
            Some(red) => Ok(Discipline::Red(read_red(red, queue)?)),
            None => problem(
                name.span(),
                "red needs its thresholds: red = { min = \"5 packets\", max = \"15 packets\" }",
            ),
        },
        _ => problem(name.span(), "discipline is \"drop-tail\", \"red\" or \"codel\""),
    }
}

fn read_codel(raw: Option<&Spanned<RawCoDel>>) -> Checked<CoDel> {
    let mut codel = CoDel::default();
    let Some(raw) = raw else { return Ok(codel) };
    let raw = raw.get_ref();
    codel.ecn = raw.ecn.unwrap_or(false);
    for (key, text, field) in [
        ("codel.target", &raw.target, &mut codel.target),
        ("codel.interval", &raw.interval, &mut codel.interval),
    ] {
        if let Some(nanos) = quantity(key, text, Kind::Time, 1.0, MAX_WAIT)? {
            *field = Duration::from_nanos(nanos as u64);
        }
    }
    Ok(codel)
}

fn read_red(raw: &Spanned<RawRed>, queue: QueueLimit) -> Checked<Red> {
    let (kind, unit) = match queue {
        QueueLimit::Bytes(_) => (Kind::Size, "in bytes, as the queue is"),
        QueueLimit::Packets(_) | QueueLimit::Unlimited => {
            (Kind::Packets, "in packets, as the queue is")
        }
    };
    let span = raw.span();
    let raw = raw.get_ref();
    let threshold = |key: &str, text: &Text| match quantity(key, text, kind, 0.0, MAX_THRESHOLD)? {
        Some(length) => Ok(length as u32),
        None => problem(span.clone(), format!("{key} is missing, {unit}")),
    };
    let mut red = Red {
        min_threshold: threshold("red.min", &raw.min)?,
        max_threshold: threshold("red.max", &raw.max)?,
        gentle: raw.gentle.unwrap_or(true),
        ecn: raw.ecn.unwrap_or(false),
        ..Red::default()
    };
    for (key, text, field) in [
        ("red.max_drop", &raw.max_drop, &mut red.max_probability),
        ("red.weight", &raw.weight, &mut red.weight),
    ] {
        if let Some(share) = quantity(key, text, Kind::Share, 0.0, 1.0)? {
            *field = Probability::fraction(share)
                .or_else(|error| problem(span.clone(), format!("{key}: {error}")))?;
        }
    }
    Ok(red)
}

fn quantity(key: &str, text: &Text, kind: Kind, least: f64, most: f64) -> Checked<Option<f64>> {
    let Some(text) = text else { return Ok(None) };
    match Quantity::expect(text.get_ref(), kind, least, most) {
        Ok(value) => Ok(Some(value)),
        Err(what) => problem(text.span(), format!("{key} {what}")),
    }
}
