//! Scheduled events of a run: links that fail and are repaired, and routes that must be discovered.

use std::time::Duration;

use super::MAX_TIME;
use super::addresses::{self, AddressEvent};
use super::network::Network;
use crate::tree::{Checked, Fields, problem};
use crate::units::{Kind, duration};

/// Maximum delay of a link in nanoseconds: an hour.
const MAX_DELAY: f64 = 3600e9;

/// A scheduled event.
#[derive(Clone, Debug, PartialEq)]
pub struct Event {
    /// Its name.
    pub name: String,
    /// When.
    pub when: When,
    /// Index of the link.
    pub link: usize,
    /// Whether it affects the direction from the link's beginning to its end.
    pub forward: bool,
    /// Whether it affects the other direction.
    pub backward: bool,
    /// The change.
    pub change: Change,
}

/// When an event happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum When {
    /// At a time since the start of the run.
    At(Duration),
    /// When the chunk with this number, from 1, was first sent.
    AfterChunk(u64),
}

/// A change of a link.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Change {
    /// It carries nothing.
    Cut,
    /// It carries packets again.
    Repair,
    /// It loses this share of packets.
    Loss(f64),
    /// It has this rate in bits per second.
    Rate(u64),
    /// It has this delay.
    Delay(Duration),
    /// It carries IP packets of at most this many bytes.
    Mtu(usize),
}

/// Routes that must be discovered (caro 4.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RouteCache {
    /// A route that carried nothing for this time is forgotten.
    pub lifetime: Duration,
    /// The first packet after that waits this long.
    pub discovery: Duration,
    /// Whether a route that was found is kept until the next packet, however late, as in ns-2.35.
    pub keeps_unused: bool,
}

/// Reads the events of links and those of addresses.
pub(super) fn read(
    root: &Fields<'_>,
    network: &Network,
) -> Checked<(Vec<Event>, Vec<AddressEvent>)> {
    let (mut links, mut of_addresses) = (Vec::new(), Vec::new());
    for (name, fields) in root.tables("event")? {
        let when = when(name, &fields)?;
        match addresses::event(name, &fields, when, network)? {
            Some(event) => of_addresses.push(event),
            None => links.push(event(name, &fields, when, network)?),
        }
        fields.finish()?;
    }
    Ok((links, of_addresses))
}

fn when(name: &str, fields: &Fields<'_>) -> Checked<When> {
    let at = fields.quantity("at", Kind::Time, 0.0, MAX_TIME)?;
    match (at, fields.count("after_chunk", 1, 1 << 50)?) {
        (Some(at), None) => Ok(When::At(duration(at))),
        (None, Some(chunk)) => Ok(When::AfterChunk(chunk)),
        _ => {
            problem(fields.line(), format!("event.{name} happens either at a time or after_chunk"))
        }
    }
}

fn event(name: &str, fields: &Fields<'_>, when: When, network: &Network) -> Checked<Event> {
    let targets = ["cut", "repair", "on"];
    let given: Vec<_> =
        targets.into_iter().filter(|key| matches!(fields.text(key), Ok(Some(_)))).collect();
    let [key] = given[..] else {
        return problem(
            fields.line(),
            format!(
                "event.{name} names one path or link, with cut, repair or on, or one path with appears, \
                 disappears, adds, removes or prefers"
            ),
        );
    };
    let target = fields.required_text(key)?;
    let link = match (network.path(target), network.link(target)) {
        (Some(path), _) => network.paths.get(path).map_or(0, |path| path.core),
        (None, Some(link)) => link,
        (None, None) => {
            return problem(
                fields.line_of(key),
                format!("event.{name}.{key} is '{target}', which is neither a path nor a link"),
            );
        }
    };
    let loss = fields.quantity("loss", Kind::Share, 0.0, 1.0)?;
    let rate = fields.quantity("rate", Kind::Rate, 1.0, 1e12)?;
    let delay = fields.quantity("delay", Kind::Time, 0.0, MAX_DELAY)?;
    let changes = [
        loss.map(Change::Loss),
        rate.map(|rate| Change::Rate(rate as u64)),
        delay.map(|delay| Change::Delay(duration(delay))),
        super::wire::mtu(fields, "mtu")?.map(Change::Mtu),
    ];
    let changes: Vec<Change> = changes.into_iter().flatten().collect();
    let change = match (key, &changes[..]) {
        ("cut", []) => Change::Cut,
        ("repair", []) => Change::Repair,
        ("on", [change]) => *change,
        _ => {
            return problem(
                fields.line(),
                format!(
                    "event.{name}: loss, rate, delay or mtu goes with on, and one of them at a time"
                ),
            );
        }
    };
    let directions = [("both", (true, true)), ("forward", (true, false)), ("back", (false, true))];
    let (forward, backward) = fields.choice("direction", &directions)?.unwrap_or((true, true));
    Ok(Event { name: name.to_owned(), when, link, forward, backward, change })
}

pub(super) fn read_route_cache(root: &Fields<'_>) -> Checked<Option<RouteCache>> {
    let Some(fields) = root.table("route_cache")? else { return Ok(None) };
    let time = |key: &'static str| match fields.quantity(key, Kind::Time, 0.0, MAX_TIME)? {
        Some(time) => Ok(duration(time)),
        None => problem(fields.line(), format!("route_cache.{key} is missing")),
    };
    let (lifetime, discovery) = (time("lifetime")?, time("discovery")?);
    let keeps_unused = fields.flag("keeps_unused")?.unwrap_or(false);
    let cache = RouteCache { lifetime, discovery, keeps_unused };
    fields.finish()?;
    Ok(Some(cache))
}
