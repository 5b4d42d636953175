//! Cross-traffic on the network.

use std::time::Duration;

use anabranch_sim::TcpProfile;

use super::MAX_TIME;
use super::network::Network;
use crate::tree::{Checked, Fields, problem};
use crate::units::{Kind, Quantity, duration};

const MAX_RATE: f64 = 1e12;
const MAX_EDGE_DELAY: f64 = 3600e9;
/// IP packet of TCP with 8 bytes of data.
const LEAST_SEGMENT: f64 = 48.0;

/// Cross-traffic over the core of one path.
#[derive(Clone, Debug, PartialEq)]
pub struct Cross {
    /// Its name.
    pub name: String,
    /// Index of the path whose core it crosses.
    pub path: usize,
    /// Whether it flows in the direction of the data.
    pub forward: bool,
    /// Whether it flows in the other direction.
    pub backward: bool,
    /// Its kind.
    pub kind: CrossKind,
    /// Hosts at the ends of the core that send and receive the traffic.
    pub edges: Edges,
    /// Rate of the links between them and the core's routers, in bits per second.
    pub edge_rate: u64,
}

/// Hosts at the ends of a core, given by the delays of their links.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Edges {
    /// This number at each end; each sends to one host at the other end. The delays are drawn for
    /// each run from this range.
    Drawn(u64, (Duration, Duration)),
    /// Hosts at the sender's end and at the receiver's end; each sends to all hosts at the other
    /// end.
    Given(Vec<Duration>, Vec<Duration>),
}

/// The kinds of cross-traffic. Both directions have the same kind.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum CrossKind {
    /// Packets of equal size at equal intervals.
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
        /// Number of sources.
        sources: u64,
        /// Shape of both distributions, above 1.
        shape: f64,
        /// Mean duration of a burst.
        on: Duration,
        /// Mean duration of a pause.
        off: Duration,
    },
    /// TCP connections that never end.
    Tcp {
        /// Number of connections.
        flows: u64,
        /// Size of a full IP packet in bytes.
        packet: u64,
        /// Their other options.
        profile: TcpProfile,
        /// Each starts at a time drawn for each run between 0 and this.
        start_within: Duration,
    },
    /// Requests to web servers, video and bulk transfers, each between every pair of hosts and in
    /// each direction (nat 3.4.1).
    Mix(Mix),
}

/// A mix of applications between two hosts.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Mix {
    /// Web requests per second; 0 for none.
    pub web: f64,
    /// Number of videos: packets at a constant rate.
    pub videos: u64,
    /// Bits per second of each video.
    pub video_rate: u64,
    /// Bytes of their IP packets.
    pub video_packet: u64,
    /// Number of TCP connections that never end. Every tenth uses IP packets of 576 bytes.
    pub bulk: u64,
    /// Their receive windows in bytes.
    pub bulk_window: u64,
    /// Each starts at a time drawn for each run between 0 and this.
    pub start_within: Duration,
}

pub(super) fn read(root: &Fields<'_>, network: &Network) -> Checked<Vec<Cross>> {
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
    let start_within = || {
        let within = fields.quantity("start_within", Kind::Time, 0.0, MAX_TIME)?;
        Ok(duration(within.unwrap_or(5e9)))
    };
    let kinds = ["constant", "pareto", "tcp", "mix"].map(|kind| (kind, kind));
    match fields.choice("kind", &kinds)? {
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
        Some("tcp") => Ok(CrossKind::Tcp {
            flows: fields.count("flows", 1, 100_000)?.unwrap_or(1),
            packet: packet(LEAST_SEGMENT)?,
            profile: fields.choice("profile", TcpProfile::NAMES)?.unwrap_or_default(),
            start_within: start_within()?,
        }),
        Some(_) => {
            let size = |key, least, most| fields.quantity(key, Kind::Size, least, most);
            let rate = fields.quantity("video_rate", Kind::Rate, 1.0, MAX_RATE)?;
            Ok(CrossKind::Mix(Mix {
                web: fields.number("web", 0.0, 1e5)?.unwrap_or(0.0),
                videos: fields.count("videos", 0, 10_000)?.unwrap_or(0),
                video_rate: rate.unwrap_or(5e5) as u64,
                video_packet: size("video_packet", 28.0, 65_535.0)?.unwrap_or(1000.0) as u64,
                bulk: fields.count("bulk", 0, 10_000)?.unwrap_or(0),
                bulk_window: size("bulk_window", 1460.0, 1e9)?.unwrap_or(65_535.0) as u64,
                start_within: start_within()?,
            }))
        }
        None => problem(fields.line(), format!("cross.{name}.kind is missing")),
    }
}

fn cross(name: &str, fields: &Fields<'_>, network: &Network) -> Checked<Cross> {
    let path_name = fields.required_text("path")?;
    let Some(path) = network.path(path_name) else {
        return problem(
            fields.line_of("path"),
            format!("cross.{name}.path is '{path_name}', which is not a path"),
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
    let edges = edges(name, fields)?;
    let edge_rate = fields.quantity("edge_rate", Kind::Rate, 1.0, MAX_RATE)?.unwrap_or(1e8);
    Ok(Cross {
        name: name.to_owned(),
        path,
        forward,
        backward,
        kind,
        edges,
        edge_rate: edge_rate as u64,
    })
}

fn edges(name: &str, fields: &Fields<'_>) -> Checked<Edges> {
    let listed = |key: &'static str| -> Checked<Option<Vec<Duration>>> {
        let Some(texts) = fields.texts(key)? else { return Ok(None) };
        let delay = |(line, text): (usize, &str)| {
            Quantity::expect(text, Kind::Time, 0.0, MAX_EDGE_DELAY)
                .map(duration)
                .or_else(|reason| problem(line, format!("cross.{name}.{key} {reason}")))
        };
        texts.into_iter().map(delay).collect::<Checked<_>>().map(Some)
    };
    match (listed("edge_delays")?, listed("edge_delays_far")?) {
        (None, None) => {}
        (Some(near), Some(far)) if !near.is_empty() && !far.is_empty() => {
            return Ok(Edges::Given(near, far));
        }
        _ => {
            return problem(
                fields.line(),
                format!("cross.{name} has delays of the hosts at one end of the core only"),
            );
        }
    }
    let delay = |key: &'static str, otherwise: f64| {
        fields
            .quantity(key, Kind::Time, 0.0, MAX_EDGE_DELAY)
            .map(|d| duration(d.unwrap_or(otherwise)))
    };
    let edge_delay = (delay("edge_delay_min", 5e6)?, delay("edge_delay_max", 20e6)?);
    if edge_delay.0 > edge_delay.1 {
        return problem(
            fields.line_of("edge_delay_max"),
            format!("cross.{name}.edge_delay_max is below edge_delay_min"),
        );
    }
    Ok(Edges::Drawn(fields.count("edges", 1, 1000)?.unwrap_or(4), edge_delay))
}
