//! What is sent, and what else is on the network.

use std::time::Duration;

use super::MAX_TIME;
use super::network::Network;
use crate::tree::{Checked, Fields, problem};
use crate::units::{Kind, duration};

const MAX_SIZE: f64 = 1e15;
const MAX_MESSAGE: f64 = 268_435_456.0;
const MAX_RATE: f64 = 1e12;
/// IP packet of TCP with 8 bytes of data.
const LEAST_SEGMENT: f64 = 48.0;

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

/// Cross-traffic over the core of one path.
#[derive(Clone, Debug, PartialEq)]
pub struct Cross {
    /// Its name.
    pub name: String,
    /// Index of the path whose core it crosses.
    pub path: usize,
    /// Whether it goes the way of the data.
    pub forward: bool,
    /// Whether it goes the other way.
    pub backward: bool,
    /// What it is.
    pub kind: CrossKind,
    /// Hosts at each end of the core that send and receive it.
    pub edges: u64,
    /// Rate of the links between them and the core's routers, in bits per second.
    pub edge_rate: u64,
    /// Their delays, drawn for each run between these.
    pub edge_delay: (Duration, Duration),
}

/// Kinds of cross-traffic; it is the same in each direction.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum CrossKind {
    /// Packets of equal size at equal distances.
    Constant {
        /// Bits per second.
        rate: u64,
        /// Bytes of an IP packet.
        packet: u64,
    },
    /// Sources whose bursts and pauses have Pareto distributions, with IP packets of 44, 576 and
    /// 1500 bytes in shares of 50, 25 and 25 % (caro 2.2.1).
    Pareto {
        /// Bits per second, on average over all sources.
        rate: u64,
        /// Sources.
        sources: u64,
        /// Shape of both distributions, above 1.
        shape: f64,
        /// Mean of a burst.
        on: Duration,
        /// Mean of a pause.
        off: Duration,
    },
    /// TCP connections that never end.
    Tcp {
        /// Connections.
        flows: u64,
        /// Bytes of a full IP packet.
        packet: u64,
        /// Each begins at a time drawn for each run between 0 and this.
        start_within: Duration,
    },
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
    Ok(Transfer {
        name: name.to_owned(),
        flow,
        message: message as u64,
        ordered: fields.flag("ordered")?.unwrap_or(true),
        streams: fields.count("streams", 1, 65_535)?.unwrap_or(1) as u16,
        eager: fields.flag("eager")?.unwrap_or(false),
        start: duration(fields.quantity("start", Kind::Time, 0.0, MAX_TIME)?.unwrap_or(0.0)),
    })
}

pub(super) fn read_cross(root: &Fields<'_>, network: &Network) -> Checked<Vec<Cross>> {
    root.tables("cross")?
        .into_iter()
        .map(|(name, fields)| {
            let cross = cross(name, &fields, network)?;
            fields.finish()?;
            Ok(cross)
        })
        .collect()
}

fn kind(name: &str, fields: &Fields<'_>) -> Checked<CrossKind> {
    let rate = || match fields.quantity("rate", Kind::Rate, 1.0, MAX_RATE)? {
        Some(rate) => Ok(rate as u64),
        None => problem(fields.line(), format!("cross.{name}.rate is missing")),
    };
    let packet = |least| {
        fields.quantity("packet", Kind::Size, least, 65_535.0).map(|p| p.unwrap_or(1500.0) as u64)
    };
    match fields
        .choice("kind", &[("constant", "constant"), ("pareto", "pareto"), ("tcp", "tcp")])?
    {
        Some("constant") => Ok(CrossKind::Constant { rate: rate()?, packet: packet(28.0)? }),
        Some("pareto") => {
            let time = |key: &'static str| match fields.quantity(key, Kind::Time, 1e3, MAX_TIME)? {
                Some(time) => Ok(duration(time)),
                None => problem(fields.line(), format!("cross.{name}.{key} is missing")),
            };
            Ok(CrossKind::Pareto {
                rate: rate()?,
                sources: fields.count("sources", 1, 100_000)?.unwrap_or(32),
                shape: fields.number("shape", 1.01, 100.0)?.unwrap_or(1.5),
                on: time("on")?,
                off: time("off")?,
            })
        }
        Some(_) => {
            let start = fields.quantity("start_within", Kind::Time, 0.0, MAX_TIME)?;
            Ok(CrossKind::Tcp {
                flows: fields.count("flows", 1, 100_000)?.unwrap_or(1),
                packet: packet(LEAST_SEGMENT)?,
                start_within: duration(start.unwrap_or(5e9)),
            })
        }
        None => problem(fields.line(), format!("cross.{name}.kind is missing")),
    }
}

fn cross(name: &str, fields: &Fields<'_>, network: &Network) -> Checked<Cross> {
    let path_name = fields.required_text("path")?;
    let Some(path) = network.path(path_name) else {
        return problem(
            fields.line_of("path"),
            format!("cross.{name}.path is '{path_name}', which is no path"),
        );
    };
    let directions = [("both", (true, true)), ("forward", (true, false)), ("back", (false, true))];
    let (forward, backward) = fields.choice("direction", &directions)?.unwrap_or((true, true));
    let kind = kind(name, fields)?;
    let core = network.paths.get(path).and_then(|path| network.links.get(path.core));
    if core.is_none_or(|core| core.from < 2 || core.to < 2) {
        return problem(
            fields.line_of("path"),
            format!("cross.{name}: the slowest link of '{path_name}' does not join two routers"),
        );
    }
    let delay = |key: &'static str, otherwise: f64| {
        fields.quantity(key, Kind::Time, 0.0, 3600e9).map(|d| duration(d.unwrap_or(otherwise)))
    };
    let edge_delay = (delay("edge_delay_min", 5e6)?, delay("edge_delay_max", 20e6)?);
    if edge_delay.0 > edge_delay.1 {
        return problem(
            fields.line_of("edge_delay_max"),
            format!("cross.{name}.edge_delay_max is below edge_delay_min"),
        );
    }
    let edge_rate = fields.quantity("edge_rate", Kind::Rate, 1.0, MAX_RATE)?.unwrap_or(1e8);
    Ok(Cross {
        name: name.to_owned(),
        path,
        forward,
        backward,
        kind,
        edges: fields.count("edges", 1, 1000)?.unwrap_or(4),
        edge_rate: edge_rate as u64,
        edge_delay,
    })
}
