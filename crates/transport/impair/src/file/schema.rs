//! The keys of the file, their units and limits, and the line of every error in them.

use std::net::IpAddr;
use std::ops::Range;
use std::time::Duration;

use serde::Deserialize;
use toml::Spanned;

use super::discipline::{self, RawCoDel, RawRed};
use super::quantities::Text;
use super::{Direction, FileError, ImpairmentFile, PathEntry};
use crate::pattern::Patterns;
use crate::{
    BurstsInTime, Cut, GilbertElliott, LinkConfig, Loss, Pattern, Probability, QueueLimit,
};

/// An hour: enough for light to reach Jupiter.
const MAX_DELAY_MS: f64 = 3_600_000.0;
/// A year.
const MAX_CUT_S: f64 = 31_536_000.0;
const MAX_KBIT: f64 = 1e9;
const MAX_QUEUE_PACKETS: u64 = 100_000_000;
const MAX_QUEUE_BYTES: u64 = 1 << 40;
const MAX_OVERHEAD: u64 = 1000;
const MAX_BURST: f64 = 1e6;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawFile {
    seed: Option<u64>,
    #[serde(default)]
    path: Vec<Spanned<RawPath>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawPath {
    name: Option<String>,
    local: Option<IpAddr>,
    remote: Option<IpAddr>,
    direction: Option<Direction>,
    pub(super) rate_kbit: Option<Spanned<f64>>,
    pub(super) rate_mbit: Option<Spanned<f64>>,
    pub(super) queue_packets: Option<Spanned<u64>>,
    pub(super) queue_bytes: Option<Spanned<u64>>,
    pub(super) overhead_bytes: Option<Spanned<u64>>,
    pub(super) mtu_bytes: Option<Spanned<u64>>,
    mtu_blackhole: Option<Spanned<bool>>,
    pub(super) delay_ms: Option<Spanned<f64>>,
    pub(super) jitter_ms: Option<Spanned<f64>>,
    keep_order: Option<Spanned<bool>>,
    pub(super) loss_percent: Option<Spanned<f64>>,
    pub(super) loss_burst_packets: Option<Spanned<f64>>,
    pub(super) loss_burst_ms: Option<Spanned<f64>>,
    gilbert_elliott: Option<Spanned<RawGilbertElliott>>,
    lose_packets: Option<Spanned<Vec<u64>>>,
    loss_pattern: Option<Spanned<String>>,
    loss_pattern_repeat: Option<Spanned<bool>>,
    pub(super) duplicate_percent: Option<Spanned<f64>>,
    pub(super) reorder_percent: Option<Spanned<f64>>,
    pub(super) reorder_delay_ms: Option<Spanned<f64>>,
    pub(super) corrupt_percent: Option<Spanned<f64>>,
    pub(super) cut_at_s: Option<Spanned<f64>>,
    pub(super) repair_at_s: Option<Spanned<f64>>,
    cuts: Option<Spanned<Vec<Spanned<RawCut>>>>,
    discipline: Option<Spanned<String>>,
    red: Option<Spanned<RawRed>>,
    codel: Option<Spanned<RawCoDel>>,
    pattern: Option<Spanned<String>>,
    // The same keys with units in their values.
    pub(super) rate: Text,
    pub(super) queue: Text,
    pub(super) overhead: Text,
    pub(super) mtu: Text,
    pub(super) delay: Text,
    pub(super) jitter: Text,
    pub(super) loss: Text,
    pub(super) loss_burst: Text,
    pub(super) duplicate: Text,
    pub(super) reorder: Text,
    pub(super) reorder_delay: Text,
    pub(super) corrupt: Text,
    pub(super) cut_at: Text,
    pub(super) repair_at: Text,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawGilbertElliott {
    good_to_bad_percent: Spanned<f64>,
    bad_to_good_percent: Spanned<f64>,
    loss_good_percent: Option<Spanned<f64>>,
    loss_bad_percent: Option<Spanned<f64>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawCut {
    cut_at_s: Spanned<f64>,
    repair_at_s: Option<Spanned<f64>>,
}

/// An error and its range in the text.
pub(super) struct Problem {
    span: Range<usize>,
    reason: String,
}

pub(super) type Checked<V> = Result<V, Problem>;

pub(super) fn problem<V>(span: Range<usize>, reason: impl Into<String>) -> Checked<V> {
    let reason = reason.into();
    Err(Problem { span, reason })
}

/// Returns the contents of a file that another file names, or an error.
pub(super) type Load<'a> = dyn FnMut(&str) -> Result<Vec<u8>, String> + 'a;

/// Reads a file.
pub(super) fn read(text: &str, load: &mut Load<'_>) -> Result<ImpairmentFile, FileError> {
    let located =
        |span: Range<usize>, reason: String| FileError { line: line_of(text, span.start), reason };
    let raw: RawFile = toml::from_str(text)
        .map_err(|error| located(error.span().unwrap_or(0..0), error.message().to_owned()))?;
    if raw.path.is_empty() {
        return Err(located(0..0, "there is no [[path]] in the file".into()));
    }
    let mut paths: Vec<PathEntry> = Vec::with_capacity(raw.path.len());
    for entry in raw.path {
        let span = entry.span();
        let path = entry
            .into_inner()
            .check(&span, load)
            .map_err(|problem| located(problem.span, problem.reason))?;
        if let Some(index) = paths.iter().position(|above| above.covers(&path)) {
            let reason = format!(
                "this path never counts: number {} above matches all that it does",
                index + 1
            );
            return Err(located(span, reason));
        }
        paths.push(path);
    }
    Ok(ImpairmentFile { seed: raw.seed, paths })
}

/// The line, from 1, of a byte of the text.
fn line_of(text: &str, offset: usize) -> usize {
    1 + text.bytes().take(offset).filter(|byte| *byte == b'\n').count()
}

impl RawPath {
    fn check(mut self, span: &Range<usize>, load: &mut Load<'_>) -> Checked<PathEntry> {
        self.take_quantities()?;
        let (share, delay) = (&self.reorder_percent, &self.reorder_delay_ms);
        needs("reorder_percent", share, "reorder_delay_ms", delay.is_some())?;
        needs("reorder_delay_ms", delay, "reorder_percent", share.is_some())?;
        let (rate, queue) = (self.rate()?, self.queue()?);
        let patterns = patterns(self.pattern.as_ref(), load)?;
        let rated = rate.is_some() || patterns.has_rates();
        let discipline = discipline::read(
            self.discipline.as_ref(),
            self.red.as_ref(),
            self.codel.as_ref(),
            queue,
            rated,
        )?;
        let config = LinkConfig {
            rate,
            delay: milliseconds("delay_ms", self.delay_ms.as_ref())?,
            jitter: milliseconds("jitter_ms", self.jitter_ms.as_ref())?,
            keep_order: self.keep_order()?,
            queue,
            discipline,
            patterns,
            mtu: bounded("mtu_bytes", self.mtu_bytes.as_ref(), 68, 65_535)?,
            mtu_blackhole: self.mtu_blackhole()?,
            overhead: bounded("overhead_bytes", self.overhead_bytes.as_ref(), 0, MAX_OVERHEAD)?
                .unwrap_or(0),
            loss: self.loss()?,
            duplicate: percent("duplicate_percent", self.duplicate_percent.as_ref())?,
            reorder: percent("reorder_percent", self.reorder_percent.as_ref())?,
            reorder_delay: milliseconds("reorder_delay_ms", self.reorder_delay_ms.as_ref())?,
            corrupt: percent("corrupt_percent", self.corrupt_percent.as_ref())?,
            cuts: self.cuts()?,
        };
        config.validate().or_else(|error| {
            // Errors that involve several keys are reported at the start of the entry.
            problem(span.clone(), error.to_string())
        })?;
        Ok(PathEntry {
            name: self.name,
            local: self.local,
            remote: self.remote,
            direction: self.direction,
            config,
        })
    }

    fn rate(&self) -> Checked<Option<u64>> {
        exclusive("rate_kbit", &self.rate_kbit, "rate_mbit", &self.rate_mbit)?;
        let (key, value, kbit) = match (&self.rate_kbit, &self.rate_mbit) {
            (Some(value), _) => ("rate_kbit", value, *value.get_ref()),
            (None, Some(value)) => ("rate_mbit", value, *value.get_ref() * 1000.0),
            (None, None) => return Ok(None),
        };
        if !(0.001..=MAX_KBIT).contains(&kbit) {
            let reason = format!("{key} = {} is outside 1 bit/s to 1 Tbit/s", value.get_ref());
            return problem(value.span(), reason);
        }
        Ok(Some(rounded(kbit * 1000.0)))
    }

    fn queue(&self) -> Checked<QueueLimit> {
        exclusive("queue_packets", &self.queue_packets, "queue_bytes", &self.queue_bytes)?;
        let packets = bounded("queue_packets", self.queue_packets.as_ref(), 0, MAX_QUEUE_PACKETS)?;
        let bytes = bounded("queue_bytes", self.queue_bytes.as_ref(), 0, MAX_QUEUE_BYTES)?;
        // A pattern may set the rate.
        let rated = self.rate_kbit.is_some() || self.rate_mbit.is_some() || self.pattern.is_some();
        for (key, value) in
            [("queue_packets", &self.queue_packets), ("queue_bytes", &self.queue_bytes)]
        {
            needs(key, value, "a rate", rated)?;
        }
        Ok(match (packets, bytes) {
            (Some(packets), _) => QueueLimit::Packets(packets),
            (None, Some(bytes)) => QueueLimit::Bytes(bytes),
            (None, None) => QueueLimit::default(),
        })
    }

    fn keep_order(&self) -> Checked<bool> {
        let jitter = self.jitter_ms.is_some();
        needs("keep_order", &self.keep_order, "jitter_ms", jitter)?;
        Ok(is_true(&self.keep_order))
    }

    fn mtu_blackhole(&self) -> Checked<bool> {
        let mtu = self.mtu_bytes.is_some();
        needs("mtu_blackhole", &self.mtu_blackhole, "mtu_bytes", mtu)?;
        Ok(is_true(&self.mtu_blackhole))
    }

    fn loss(&self) -> Checked<Loss> {
        let percent = self.loss_percent.is_some();
        let pattern = self.loss_pattern.is_some();
        needs("loss_burst_packets", &self.loss_burst_packets, "loss_percent", percent)?;
        needs("loss_burst_ms", &self.loss_burst_ms, "loss_percent", percent)?;
        exclusive(
            "loss_burst_packets",
            &self.loss_burst_packets,
            "loss_burst_ms",
            &self.loss_burst_ms,
        )?;
        needs("loss_pattern_repeat", &self.loss_pattern_repeat, "loss_pattern", pattern)?;
        let mut models = [
            ("loss_percent", span_of(&self.loss_percent)),
            ("gilbert_elliott", span_of(&self.gilbert_elliott)),
            ("lose_packets", span_of(&self.lose_packets)),
            ("loss_pattern", span_of(&self.loss_pattern)),
        ]
        .into_iter()
        .filter_map(|(key, span)| Some((key, span?)));
        if let (Some((first, _)), Some((second, span))) = (models.next(), models.next()) {
            let reason = format!("{first} and {second} are different loss models: choose one");
            return problem(span, reason);
        }
        if let (Some(share), Some(burst)) = (&self.loss_percent, &self.loss_burst_ms) {
            return bursts_in_time(share, burst);
        }
        if let Some(value) = &self.loss_percent {
            return random_loss(value, self.loss_burst_packets.as_ref());
        }
        if let Some(model) = &self.gilbert_elliott {
            return model.get_ref().check();
        }
        if let Some(list) = &self.lose_packets {
            if list.get_ref().contains(&0) {
                return problem(list.span(), "lose_packets counts from 1");
            }
            return Ok(Loss::positions(list.get_ref().iter().copied()));
        }
        match &self.loss_pattern {
            Some(text) => loss_pattern(text, is_true(&self.loss_pattern_repeat)),
            None => Ok(Loss::None),
        }
    }

    fn cuts(&self) -> Checked<Vec<Cut>> {
        exclusive("cut_at_s", &self.cut_at_s, "cuts", &self.cuts)?;
        let single = self.cut_at_s.is_some();
        needs("repair_at_s", &self.repair_at_s, "cut_at_s", single)?;
        if let Some(at) = &self.cut_at_s {
            return Ok(vec![cut(at, self.repair_at_s.as_ref())?]);
        }
        let list = self.cuts.as_ref().map(Spanned::get_ref);
        let mut cuts: Vec<Cut> = Vec::new();
        for raw in list.into_iter().flatten() {
            let next = cut(&raw.get_ref().cut_at_s, raw.get_ref().repair_at_s.as_ref())?;
            let overlaps = |last: &Cut| last.until.is_none_or(|until| until > next.at);
            if cuts.last().is_some_and(overlaps) {
                return problem(raw.span(), "the cut begins before the one before it is repaired");
            }
            cuts.push(next);
        }
        Ok(cuts)
    }
}

/// The patterns of the named file; an empty name means none.
fn patterns(name: Option<&Spanned<String>>, load: &mut Load<'_>) -> Checked<Patterns> {
    let Some(name) = name.filter(|name| !name.get_ref().is_empty()) else {
        return Ok(Patterns::default());
    };
    let wrong = |reason: String| problem(name.span(), format!("{}: {reason}", name.get_ref()));
    match load(name.get_ref()) {
        Ok(bytes) => Patterns::read(&bytes).or_else(|error| wrong(error.to_string())),
        Err(reason) => wrong(reason),
    }
}

impl RawGilbertElliott {
    fn check(&self) -> Checked<Loss> {
        let or = |key, value: &Option<Spanned<f64>>, default| match value {
            Some(value) => percent(key, Some(value)),
            None => Ok(default),
        };
        Ok(Loss::GilbertElliott(GilbertElliott {
            good_to_bad: percent("good_to_bad_percent", Some(&self.good_to_bad_percent))?,
            bad_to_good: percent("bad_to_good_percent", Some(&self.bad_to_good_percent))?,
            loss_good: or("loss_good_percent", &self.loss_good_percent, Probability::ZERO)?,
            loss_bad: or("loss_bad_percent", &self.loss_bad_percent, Probability::ONE)?,
        }))
    }
}

/// Independent losses, or Gilbert's model with the same share of losses in bursts.
fn random_loss(share: &Spanned<f64>, burst: Option<&Spanned<f64>>) -> Checked<Loss> {
    let p = percent("loss_percent", Some(share))?;
    let Some(burst) = burst else {
        return Ok(Loss::Uniform(p));
    };
    let length = in_range("loss_burst_packets", burst, 1.0, MAX_BURST)?;
    // The long-run share of losses is good_to_bad / (good_to_bad + bad_to_good).
    let bad_to_good = 1.0 / length;
    let good_to_bad = p.as_fraction() * bad_to_good / (1.0 - p.as_fraction());
    match (Probability::fraction(good_to_bad), Probability::fraction(bad_to_good)) {
        (Ok(good_to_bad), Ok(bad_to_good)) => Ok(Loss::GilbertElliott(GilbertElliott {
            good_to_bad,
            bad_to_good,
            loss_good: Probability::ZERO,
            loss_bad: Probability::ONE,
        })),
        _ => problem(
            burst.span(),
            "bursts this short cannot lose that many packets, as one packet at least passes between two",
        ),
    }
}

/// Losses in bursts with a mean duration.
fn bursts_in_time(share: &Spanned<f64>, burst: &Spanned<f64>) -> Checked<Loss> {
    let p = percent("loss_percent", Some(share))?;
    let length = in_range("loss_burst_ms", burst, 0.001, MAX_DELAY_MS)?;
    let length = Duration::from_secs_f64(length * 1e-3);
    if p == Probability::ZERO || p == Probability::ONE {
        return Ok(Loss::Uniform(p));
    }
    match BurstsInTime::with_share(p.as_fraction(), length) {
        Some(bursts) => Ok(Loss::BurstsInTime(bursts)),
        None => problem(burst.span(), "bursts this long cannot lose so few packets"),
    }
}

fn loss_pattern(text: &Spanned<String>, repeat: bool) -> Checked<Loss> {
    let lost: Option<Vec<bool>> = text
        .get_ref()
        .chars()
        .filter(|symbol| !symbol.is_whitespace())
        .map(|symbol| match symbol {
            '.' => Some(false),
            'x' => Some(true),
            _ => None,
        })
        .collect();
    match lost {
        Some(lost) if !lost.is_empty() => Ok(Loss::Pattern(Pattern { lost, repeat })),
        _ => problem(
            text.span(),
            "loss_pattern is made of . for a packet that passes and x for one that is lost",
        ),
    }
}

fn cut(at: &Spanned<f64>, repair: Option<&Spanned<f64>>) -> Checked<Cut> {
    let start = seconds("cut_at_s", at)?;
    let until = match repair {
        Some(repair) => {
            let until = seconds("repair_at_s", repair)?;
            if until <= start {
                return problem(repair.span(), "repair_at_s is not after cut_at_s");
            }
            Some(until)
        }
        None => None,
    };
    Ok(Cut { at: start, until })
}

fn span_of<V>(value: &Option<Spanned<V>>) -> Option<Range<usize>> {
    value.as_ref().map(Spanned::span)
}

fn is_true(value: &Option<Spanned<bool>>) -> bool {
    value.as_ref().is_some_and(|value| *value.get_ref())
}

/// Refuses two keys that exclude each other.
pub(super) fn exclusive<A, B>(
    first: &str,
    a: &Option<Spanned<A>>,
    second: &str,
    b: &Option<Spanned<B>>,
) -> Checked<()> {
    match (a, b) {
        (Some(_), Some(b)) => problem(b.span(), format!("{first} and {second}: give only one")),
        _ => Ok(()),
    }
}

/// Refuses a key that has no effect without another.
fn needs<V>(key: &str, value: &Option<Spanned<V>>, other: &str, given: bool) -> Checked<()> {
    match value {
        Some(value) if !given => {
            problem(value.span(), format!("{key} has no effect without {other}"))
        }
        _ => Ok(()),
    }
}

fn in_range(key: &str, value: &Spanned<f64>, least: f64, most: f64) -> Checked<f64> {
    let number = *value.get_ref();
    if (least..=most).contains(&number) {
        return Ok(number);
    }
    problem(value.span(), format!("{key} = {number} is outside {least} to {most}"))
}

fn bounded(
    key: &str,
    value: Option<&Spanned<u64>>,
    least: u64,
    most: u64,
) -> Checked<Option<usize>> {
    let Some(value) = value else {
        return Ok(None);
    };
    let number = *value.get_ref();
    match usize::try_from(number) {
        Ok(size) if (least..=most).contains(&number) => Ok(Some(size)),
        _ => problem(value.span(), format!("{key} = {number} is outside {least} to {most}")),
    }
}

fn percent(key: &str, value: Option<&Spanned<f64>>) -> Checked<Probability> {
    let Some(value) = value else {
        return Ok(Probability::ZERO);
    };
    let number = in_range(key, value, 0.0, 100.0)?;
    Probability::fraction(number / 100.0)
        .or_else(|error| problem(value.span(), format!("{key}: {error}")))
}

fn milliseconds(key: &str, value: Option<&Spanned<f64>>) -> Checked<Duration> {
    let Some(value) = value else {
        return Ok(Duration::ZERO);
    };
    let number = in_range(key, value, 0.0, MAX_DELAY_MS)?;
    Ok(Duration::from_nanos(rounded(number * 1e6)))
}

fn seconds(key: &str, value: &Spanned<f64>) -> Checked<u64> {
    let number = in_range(key, value, 0.0, MAX_CUT_S)?;
    Ok(rounded(number * 1e9))
}

/// Rounds a non-negative number. Uses only basic operations of IEEE 754, so the result is the same
/// on every machine.
fn rounded(number: f64) -> u64 {
    (number + 0.5) as u64
}
