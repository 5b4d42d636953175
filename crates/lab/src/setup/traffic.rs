//! What is sent.

use std::time::Duration;

use super::MAX_TIME;
use crate::tree::{Checked, Fields, problem};
use crate::units::{Kind, duration};

const MAX_SIZE: f64 = 1e15;
const MAX_MESSAGE: f64 = 268_435_456.0;

/// What one association sends, from the sender to the receiver.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Transfer {
    /// Its name.
    pub name: String,
    /// How messages come.
    pub flow: Flow,
    /// User bytes of a message.
    pub message: u64,
    /// Whether messages of a stream arrive in order.
    pub ordered: bool,
    /// Streams that are used in turn.
    pub streams: u16,
    /// Whether the application writes as soon as anything of the send buffer is free.
    pub eager: bool,
    /// When the association is asked for.
    pub start: Duration,
    /// It begins later by a time drawn for each run between 0 and this.
    pub start_within: Duration,
}

/// How messages come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flow {
    /// So many bytes, as fast as they are taken.
    Bulk {
        /// User bytes in all.
        size: u64,
    },
    /// One message after another at a fixed interval.
    Messages {
        /// Messages in all.
        count: u64,
        /// Time between two.
        interval: Duration,
    },
}

impl Transfer {
    /// Messages in all.
    pub fn messages(&self) -> u64 {
        match self.flow {
            Flow::Bulk { size } => size.div_ceil(self.message.max(1)),
            Flow::Messages { count, .. } => count,
        }
    }

    /// User bytes in all.
    pub fn bytes(&self) -> u64 {
        match self.flow {
            Flow::Bulk { size } => size,
            Flow::Messages { count, .. } => count.saturating_mul(self.message),
        }
    }
}

pub(super) fn read_transfers(root: &Fields<'_>) -> Checked<Vec<Transfer>> {
    root.tables("traffic")?
        .into_iter()
        .map(|(name, fields)| {
            let transfer = transfer(name, &fields)?;
            fields.finish()?;
            Ok(transfer)
        })
        .collect()
}

fn transfer(name: &str, fields: &Fields<'_>) -> Checked<Transfer> {
    let Some(message) = fields.quantity("message", Kind::Size, 1.0, MAX_MESSAGE)? else {
        return problem(fields.line(), format!("traffic.{name}.message is missing"));
    };
    let size = fields.quantity("size", Kind::Size, 1.0, MAX_SIZE)?;
    let count = fields.count("count", 1, 1 << 50)?;
    let interval = fields.quantity("interval", Kind::Time, 0.0, MAX_TIME)?;
    let flow = match (size, count, interval) {
        (Some(size), None, None) => Flow::Bulk { size: size.round() as u64 },
        (None, Some(count), Some(interval)) => {
            Flow::Messages { count, interval: duration(interval) }
        }
        _ => {
            return problem(
                fields.line(),
                format!("traffic.{name} has either a size, or a count and an interval"),
            );
        }
    };
    let time = |key: &'static str| {
        fields.quantity(key, Kind::Time, 0.0, MAX_TIME).map(|time| duration(time.unwrap_or(0.0)))
    };
    Ok(Transfer {
        name: name.to_owned(),
        flow,
        message: message as u64,
        ordered: fields.flag("ordered")?.unwrap_or(true),
        streams: fields.count("streams", 1, 65_535)?.unwrap_or(1) as u16,
        eager: fields.flag("eager")?.unwrap_or(false),
        start: time("start")?,
        start_within: time("start_within")?,
    })
}
