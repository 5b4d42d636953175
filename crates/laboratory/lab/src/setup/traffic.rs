//! The traffic.

use std::time::Duration;

use anabranch_proto::{AssociationConfig, Reliability};

use super::MAX_TIME;
use super::program::{self, Program};
use super::stack::{Over, Platform};
use crate::tree::{Checked, Fields, problem};
use crate::units::{Kind, duration};

const MAX_SIZE: f64 = 1e15;
const MAX_MESSAGE: f64 = 268_435_456.0;

/// Maximum number of associations or connections that one table stands for.
const MAX_COPIES: u64 = 1000;

/// Maximum number of messages in bursts: their times are drawn before a run.
const MAX_IN_BURSTS: u64 = 1 << 20;

/// The traffic of one association.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Transfer {
    /// Its name.
    pub name: String,
    /// Its transport.
    pub over: Over,
    /// Whether the receiver's host starts it and sends.
    pub back: bool,
    /// When messages are sent.
    pub flow: Flow,
    /// User bytes of a message.
    pub message: u64,
    /// Every n-th message has a different size: n and the size in bytes.
    pub large: Option<(u64, u64)>,
    /// When these messages are given up.
    pub large_reliability: Reliability,
    /// Whether the association is shut down after the last message.
    pub ends: bool,
    /// Whether messages of a stream arrive in order.
    pub ordered: bool,
    /// Number of streams, used in rotation.
    pub streams: u16,
    /// Whether the application writes as soon as any part of the send buffer is free.
    pub eager: bool,
    /// When the association is requested.
    pub start: Duration,
    /// Adds a delay to the start, drawn for each run between 0 and this.
    pub start_within: Duration,
    /// Number of repetitions, each over a new connection, and the interval between them.
    pub repeat: (u64, Duration),
}

/// When messages are sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flow {
    /// A number of bytes, as fast as they are accepted.
    Bulk {
        /// User bytes in total.
        size: u64,
    },
    /// Messages at a fixed interval.
    Messages {
        /// Number of messages.
        count: u64,
        /// Interval between two messages.
        interval: Duration,
    },
    /// Several messages at once, at intervals.
    Bursts {
        /// Number of messages in total.
        count: u64,
        /// Mean number of messages per burst.
        burst: u64,
        /// Mean time from one burst to the next.
        interval: Duration,
        /// The values that are drawn at random.
        drawn: Drawn,
    },
    /// Messages in sequence; each waits for the answer to the previous one.
    Requests {
        /// Number of messages.
        count: u64,
        /// User bytes of an answer.
        answer: u64,
        /// Time from an answer to the next message.
        pause: Duration,
    },
}

/// The values that are drawn for each burst.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Drawn {
    /// None: all bursts are equal.
    #[default]
    Nothing,
    /// The time to the next burst, from an exponential distribution.
    Intervals,
    /// The number of messages of each burst: uniform from one to twice the mean minus one.
    Sizes,
    /// Both.
    Both,
}

impl Drawn {
    /// The names in scenario files.
    pub const NAMES: [(&'static str, Self); 4] = [
        ("nothing", Self::Nothing),
        ("intervals", Self::Intervals),
        ("sizes", Self::Sizes),
        ("both", Self::Both),
    ];
}

impl Transfer {
    /// Number of messages.
    pub fn messages(&self) -> u64 {
        match self.flow {
            Flow::Bulk { size } => size.div_ceil(self.message.max(1)),
            Flow::Messages { count, .. }
            | Flow::Bursts { count, .. }
            | Flow::Requests { count, .. } => count,
        }
    }

    /// User bytes of a message, by its number from 0. The last message of a bulk transfer may be shorter.
    pub fn message_bytes(&self, number: u64) -> u64 {
        match self.large {
            Some((every, bytes)) if number.saturating_add(1).is_multiple_of(every.max(1)) => bytes,
            _ => self.message,
        }
    }

    /// When a message is given up, by its number from 0.
    pub fn reliability(&self, number: u64) -> Reliability {
        match self.large {
            Some((every, _)) if number.saturating_add(1).is_multiple_of(every.max(1)) => {
                self.large_reliability
            }
            _ => Reliability::Usual,
        }
    }

    /// User bytes of one transfer in total.
    pub fn bytes(&self) -> u64 {
        match self.flow {
            Flow::Bulk { size } => size,
            Flow::Messages { count, .. } | Flow::Bursts { count, .. } => {
                let (many, bytes) =
                    self.large.map_or((0, 0), |(every, bytes)| (count / every, bytes));
                (count - many).saturating_mul(self.message).saturating_add(many * bytes)
            }
            Flow::Requests { count, answer, .. } => {
                count.saturating_mul(self.message.saturating_add(answer))
            }
        }
    }
}

pub(super) fn read_transfers(
    root: &Fields<'_>,
    programs: &[Program],
    on: Platform,
) -> Checked<Vec<Transfer>> {
    let (mut transfers, mut copied) = (Vec::new(), Vec::new());
    for (name, fields) in root.tables("traffic")? {
        let over = program::over(&fields, programs, on)?;
        let copies = fields.count("copies", 1, MAX_COPIES)?.unwrap_or(1);
        let transfer = transfer(name, over, &fields)?;
        fields.finish()?;
        let copy = |number| Transfer { name: format!("{name}-{number}"), ..transfer.clone() };
        copied.extend((2..=copies).map(copy));
        transfers.push(transfer);
    }
    // After all others: metrics number the transfers as the file does.
    transfers.extend(copied);
    Ok(transfers)
}

/// When messages are sent, derived from the keys that are present.
fn flow(name: &str, fields: &Fields<'_>) -> Checked<Flow> {
    let size = fields.quantity("size", Kind::Size, 1.0, MAX_SIZE)?;
    let count = fields.count("count", 1, 1 << 50)?;
    let interval = fields.quantity("interval", Kind::Time, 0.0, MAX_TIME)?;
    let answer = fields.quantity("answer", Kind::Size, 1.0, MAX_MESSAGE)?;
    let burst = fields.count("burst", 1, 10_000)?;
    let drawn = fields.choice("drawn", &Drawn::NAMES)?;
    let pause = fields.quantity("pause", Kind::Time, 0.0, MAX_TIME)?;
    let flow = match (size, count, interval, answer) {
        (Some(size), None, None, None) => Flow::Bulk { size: size.round() as u64 },
        (None, Some(count), Some(interval), None) if burst.is_some() || drawn.is_some() => {
            if count > MAX_IN_BURSTS {
                let most = format!("traffic.{name}.count is at most {MAX_IN_BURSTS} with bursts");
                return problem(fields.line_of("count"), most);
            }
            let (burst, drawn) = (burst.unwrap_or(1), drawn.unwrap_or_default());
            Flow::Bursts { count, burst, interval: duration(interval), drawn }
        }
        (None, Some(count), Some(interval), None) => {
            Flow::Messages { count, interval: duration(interval) }
        }
        (None, Some(count), None, Some(answer)) => {
            let pause = duration(pause.unwrap_or(0.0));
            Flow::Requests { count, answer: answer as u64, pause }
        }
        _ => {
            return problem(
                fields.line(),
                format!(
                    "traffic.{name} has either a size, or a count and an interval, or a count and an answer"
                ),
            );
        }
    };
    if let (true, Flow::Bulk { .. } | Flow::Requests { .. }) =
        (burst.is_some() || drawn.is_some(), flow)
    {
        let key = if burst.is_some() { "burst" } else { "drawn" };
        let reason = format!("traffic.{name}.{key} goes with a count and an interval");
        return problem(fields.line_of(key), reason);
    }
    if let (Some(_), Flow::Bulk { .. } | Flow::Messages { .. } | Flow::Bursts { .. }) =
        (pause, flow)
    {
        return problem(
            fields.line_of("pause"),
            format!("traffic.{name}.pause is the time from an answer to the next request"),
        );
    }
    Ok(flow)
}

fn transfer(name: &str, over: Over, fields: &Fields<'_>) -> Checked<Transfer> {
    let Some(message) = fields.quantity("message", Kind::Size, 1.0, MAX_MESSAGE)? else {
        return problem(fields.line(), format!("traffic.{name}.message is missing"));
    };
    let flow = flow(name, fields)?;
    let large = fields.quantity("large", Kind::Size, 1.0, MAX_MESSAGE)?;
    let every = fields.count("large_every", 1, 1 << 30)?;
    let large = match (large, every, flow) {
        (None, None, _) => None,
        (Some(large), Some(every), Flow::Messages { .. } | Flow::Bursts { .. }) => {
            Some((every, large as u64))
        }
        _ => {
            let key = if large.is_some() { "large" } else { "large_every" };
            return problem(
                fields.line_of(key),
                format!(
                    "traffic.{name}: large and large_every go together, with a count and an interval"
                ),
            );
        }
    };
    let time = |key: &'static str| {
        fields.quantity(key, Kind::Time, 0.0, MAX_TIME).map(|time| duration(time.unwrap_or(0.0)))
    };
    if over == Over::Tcp && matches!(flow, Flow::Requests { .. }) {
        return problem(
            fields.line_of("over"),
            format!("traffic.{name}: over TCP there are no requests"),
        );
    }
    if over == Over::Tcp && large.is_some() {
        let reason = format!("traffic.{name}: over TCP all messages have one size");
        return problem(fields.line_of("large"), reason);
    }
    if !matches!(over, Over::Sctp | Over::Tcp) && !matches!(flow, Flow::Bulk { .. }) {
        return problem(
            fields.line_of("over"),
            format!("traffic.{name}: a transfer over a program has a size"),
        );
    }
    let large_reliability = large_reliability(name, fields, large.is_some())?;
    let repeat = repeat(name, fields, over, flow)?;
    Ok(Transfer {
        name: name.to_owned(),
        over,
        back: fields.choice("direction", &[("forward", false), ("back", true)])?.unwrap_or(false),
        flow,
        message: message as u64,
        large,
        large_reliability,
        ends: fields.flag("ends")?.unwrap_or(false),
        ordered: fields.flag("ordered")?.unwrap_or(true),
        streams: fields.count("streams", 1, 65_535)?.unwrap_or(1) as u16,
        eager: fields.flag("eager")?.unwrap_or(false),
        start: time("start")?,
        start_within: time("start_within")?,
        repeat,
    })
}

/// When large messages are given up, as the option `reliability` says it for all.
fn large_reliability(name: &str, fields: &Fields<'_>, has_large: bool) -> Checked<Reliability> {
    let Some(text) = fields.text("large_reliability")? else { return Ok(Reliability::Usual) };
    let key = "large_reliability";
    if !has_large {
        let reason = format!("traffic.{name}.{key} goes with large and large_every");
        return problem(fields.line_of(key), reason);
    }
    let mut config = AssociationConfig::default();
    match config.set("reliability", text) {
        Ok(()) => Ok(config.sending.reliability),
        Err(error) => problem(fields.line_of(key), format!("traffic.{name}.{key}: {error}")),
    }
}

/// Number of starts of a transfer, and the interval between them.
fn repeat(name: &str, fields: &Fields<'_>, over: Over, flow: Flow) -> Checked<(u64, Duration)> {
    let times = fields.count("repeat", 1, 10_000)?;
    let every = fields.quantity("every", Kind::Time, 0.0, MAX_TIME)?;
    match (times, every) {
        (None, None) => Ok((1, Duration::ZERO)),
        (Some(times), Some(every)) if over == Over::Tcp && matches!(flow, Flow::Bulk { .. }) => {
            Ok((times, duration(every)))
        }
        (Some(_), Some(_)) => problem(
            fields.line_of("repeat"),
            format!("traffic.{name}.repeat is for transfers of a size over TCP"),
        ),
        _ => problem(fields.line(), format!("traffic.{name}: repeat and every go together")),
    }
}
