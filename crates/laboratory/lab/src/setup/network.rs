//! Nodes, links and the paths over them.

use std::time::Duration;

use anabranch_impair::pattern::Patterns;
use anabranch_impair::{Discipline, LinkConfig, Loss, QueueLimit};
use anabranch_sim::Spread;

use super::queue::{self, Manner, Place, Queue, Room};
use super::wire::{self, Faults};
use super::{grid, ways};
use crate::tree::{Checked, Fields, problem};
use crate::units::{Kind, duration};

const MAX_RATE: f64 = 1e12;
const MAX_DELAY: f64 = 3600e9;

/// The network.
#[derive(Clone, Debug)]
pub struct Network {
    /// Names of the nodes; the first two are the sender and the receiver, the others routers or
    /// hosts of cross-traffic.
    pub nodes: Vec<String>,
    /// The links.
    pub links: Vec<Link>,
    /// The paths of the association, in the order of the file.
    pub paths: Vec<Path>,
    /// Index of the primary path.
    pub primary: usize,
    /// Whether the initiator knows only the primary address of the peer. The other paths must then
    /// be verified.
    pub primary_only: bool,
}

/// A link between two nodes.
#[derive(Clone, Debug, PartialEq)]
pub struct Link {
    /// Its name.
    pub name: String,
    /// The node at its beginning.
    pub from: usize,
    /// The node at its end.
    pub to: usize,
    /// From the first node to the second.
    pub forward: Channel,
    /// The other direction.
    pub backward: Channel,
}

/// One direction of a link.
#[derive(Clone, Debug, PartialEq)]
pub struct Channel {
    /// Bits per second.
    pub rate: u64,
    /// Propagation delay.
    pub delay: Duration,
    /// Room of the queue.
    pub queue: Queue,
    /// Drops of the queue before it is full.
    pub discipline: Discipline,
    /// Losses on the wire.
    pub loss: Loss,
    /// Other effects on packets.
    pub faults: Faults,
    /// The fates of packets.
    pub patterns: Patterns,
}

impl Channel {
    /// Configuration of a link with these properties, in the simulator as well as in the emulator.
    pub fn config(&self) -> LinkConfig {
        let queue = match self.queue {
            Queue::Packets(packets) => QueueLimit::Packets(packets),
            Queue::Bytes(bytes) => QueueLimit::Bytes(bytes),
        };
        let link = LinkConfig::new()
            .rate(self.rate)
            .delay(self.delay)
            .queue(queue)
            .discipline(self.discipline)
            .loss(self.loss.clone())
            .patterns(self.patterns.clone());
        self.faults.apply(link)
    }
}

/// A path of the association.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Path {
    /// Its name.
    pub name: String,
    /// Its links in order; `true` if a link is traversed from its end to its beginning.
    pub links: Vec<(usize, bool)>,
    /// The link for cuts and losses of the path: the slowest link.
    pub core: usize,
    /// All ways that its packets may take. There is at least one; the first consists of the links
    /// above.
    pub ways: Vec<Way>,
    /// How packets are distributed over the ways, forward and back.
    pub spread: (Spread, Spread),
}

/// One of the ways of a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Way {
    /// Its links in order, as in the path.
    pub links: Vec<(usize, bool)>,
    /// Its weight relative to the other ways.
    pub weight: u32,
}

impl Path {
    /// A path with one way.
    pub(super) fn of(name: &str, links: Vec<(usize, bool)>, core: usize) -> Self {
        let ways = vec![Way { links: links.clone(), weight: 1 }];
        Self { name: name.to_owned(), links, core, ways, spread: (Spread::One, Spread::One) }
    }
}

impl Network {
    /// Round-trip delay of the links.
    pub fn rtt(&self, path: &Path) -> Duration {
        path.links
            .iter()
            .filter_map(|(link, _)| self.links.get(*link))
            .map(|link| link.forward.delay + link.backward.delay)
            .sum()
    }

    /// The path with a name.
    pub fn path(&self, name: &str) -> Option<usize> {
        self.paths.iter().position(|path| path.name == name)
    }

    /// The link with a name.
    pub fn link(&self, name: &str) -> Option<usize> {
        self.links.iter().position(|link| link.name == name)
    }
}

pub(super) struct Draft {
    pub(super) link: Link,
    pub(super) rooms: (Room, Room),
    pub(super) manner: Manner,
    pub(super) line: usize,
}

/// How the nodes are arranged.
#[derive(Clone, Copy)]
enum Shape {
    Dumbbells,
    Links,
    Grid,
}

pub(super) fn read(root: &Fields<'_>) -> Checked<Network> {
    let Some(fields) = root.table("network")? else {
        return problem(1, "there is no [network]");
    };
    let shapes = [("dumbbells", Shape::Dumbbells), ("links", Shape::Links), ("grid", Shape::Grid)];
    let shape = fields.choice("shape", &shapes)?;
    let (primary, line) = (fields.text("primary")?, fields.line_of("primary"));
    let known = fields.choice("known", &[("all", false), ("primary", true)])?;
    let mut network = match shape {
        Some(Shape::Dumbbells) => dumbbells(root, fields)?,
        Some(Shape::Links) => links(root, fields)?,
        Some(Shape::Grid) => grid::read(root, fields)?,
        None => {
            let reason = "network.shape is missing: \"dumbbells\", \"links\" or \"grid\"";
            return problem(fields.line(), reason);
        }
    };
    if let Some(name) = primary {
        network.primary = match network.path(name) {
            Some(path) => path,
            None => {
                return problem(line, format!("network.primary is '{name}', which is not a path"));
            }
        };
    }
    network.primary_only = known.unwrap_or(false);
    Ok(network)
}

/// A disjoint path for each `[path.NAME]`: sender - router - router - receiver.
fn dumbbells(root: &Fields<'_>, network: Fields<'_>) -> Checked<Network> {
    let defaults = Keys::read(&network)?;
    network.finish()?;
    let mut nodes = vec!["S".to_owned(), "R".to_owned()];
    let mut drafts = Vec::new();
    let mut paths = Vec::new();
    for (name, fields) in root.tables("path")? {
        let keys = Keys::read(&fields)?.or(&defaults);
        let line = fields.line();
        let loss = wire::losses(&fields)?;
        let faults = wire::faults(&fields)?;
        let patterns = wire::patterns(&fields)?;
        fields.finish()?;
        let first = nodes.len();
        nodes.push(format!("{name}.left"));
        nodes.push(format!("{name}.right"));
        let wanted = |value: Option<f64>, key: &str| match value {
            Some(value) => Ok(value),
            None => problem(
                line,
                format!("path '{name}' has no {key}: neither [path.{name}] nor [network] gives it"),
            ),
        };
        let Some(room) = keys.queue.room() else {
            return problem(line, format!("path '{name}' has no queue, as in \"2 BDP\""));
        };
        let manner = keys.queue.manner()?;
        let edge = (wanted(keys.edge_rate, "edge_rate")?, wanted(keys.edge_delay, "edge_delay")?);
        let core = (wanted(keys.core_rate, "core_rate")?, wanted(keys.core_delay, "core_delay")?);
        let index = drafts.len();
        let ends = [(0, first, edge), (first, first + 1, core), (first + 1, 1, edge)];
        for ((from, to, (rate, delay)), part) in ends.into_iter().zip(["in", "core", "out"]) {
            let is_core = part == "core";
            let channel = |loss: &Loss, faults: Faults, patterns: &Patterns| Channel {
                rate: rate as u64,
                delay: duration(delay),
                queue: Queue::Packets(0),
                discipline: Discipline::DropTail,
                loss: if is_core { loss.clone() } else { Loss::None },
                faults: if is_core { faults } else { Faults::default() },
                patterns: if is_core { patterns.clone() } else { Patterns::default() },
            };
            let link = Link {
                name: format!("{name}.{part}"),
                from,
                to,
                forward: channel(&loss.0, faults.0, &patterns.0),
                backward: channel(&loss.1, faults.1, &patterns.1),
            };
            drafts.push(Draft { link, rooms: (room, room), manner, line });
        }
        let links = vec![(index, false), (index + 1, false), (index + 2, false)];
        paths.push(Path::of(name, links, index + 1));
    }
    if paths.is_empty() {
        return problem(1, "there is no [path.NAME]");
    }
    finish(nodes, drafts, paths)
}

/// Each link is a `[link.NAME]`, and each path a list of links.
fn links(root: &Fields<'_>, network: Fields<'_>) -> Checked<Network> {
    let hosts = network.texts("hosts")?.unwrap_or_default();
    let routers = network.texts("routers")?.unwrap_or_default();
    let line = network.line_of("hosts");
    network.finish()?;
    if hosts.len() != 2 {
        return problem(line, "network.hosts names the sender and the receiver");
    }
    let mut nodes: Vec<String> = Vec::new();
    let mut lines = Vec::new();
    for (line, name) in hosts.into_iter().chain(routers) {
        if nodes.iter().any(|other| other == name) {
            return problem(line, format!("'{name}' is there twice"));
        }
        nodes.push(name.to_owned());
        lines.push(line);
    }
    let mut drafts: Vec<Draft> = Vec::new();
    for (name, fields) in root.tables("link")? {
        drafts.push(link(name, fields, &nodes)?);
    }
    for (node, line) in lines.iter().enumerate() {
        if !drafts.iter().any(|draft| draft.link.from == node || draft.link.to == node) {
            let name = nodes.get(node).map_or("", String::as_str);
            return problem(*line, format!("no link leads to '{name}'"));
        }
    }
    let mut paths = Vec::new();
    for (name, fields) in root.tables("path")? {
        paths.push(ways::path(name, &fields, &nodes, &drafts)?);
        fields.finish()?;
    }
    if paths.is_empty() {
        return problem(1, "there is no [path.NAME]: the receiver cannot be reached");
    }
    finish(nodes, drafts, paths)
}

fn link(name: &str, fields: Fields<'_>, nodes: &[String]) -> Checked<Draft> {
    let line = fields.line_of("ends");
    let ends = fields.texts("ends")?.unwrap_or_default();
    let ends: Vec<usize> = ends
        .into_iter()
        .map(|(line, end)| match nodes.iter().position(|node| node == end) {
            Some(node) => Ok(node),
            None => problem(line, format!("'{end}' is neither in hosts nor in routers")),
        })
        .collect::<Checked<_>>()?;
    let (from, to) = match ends[..] {
        [from, to] if from != to => (from, to),
        _ => return problem(line, format!("link.{name}.ends names two different ends")),
    };
    let required = |value: Option<f64>, key: &str| match value {
        Some(value) => Ok(value),
        None => problem(fields.line(), format!("link.{name}.{key} is missing")),
    };
    let rate = required(fields.quantity("rate", Kind::Rate, 1.0, MAX_RATE)?, "rate")?;
    let delay = required(fields.quantity("delay", Kind::Time, 0.0, MAX_DELAY)?, "delay")?;
    let rate_back = fields.quantity("rate_back", Kind::Rate, 1.0, MAX_RATE)?.unwrap_or(rate);
    let delay_back = fields.quantity("delay_back", Kind::Time, 0.0, MAX_DELAY)?.unwrap_or(delay);
    let keys = queue::Keys::read(&fields)?;
    let Some(room) = keys.room() else {
        return problem(fields.line(), format!("link.{name}.queue is missing"));
    };
    let manner = keys.manner()?;
    let room_back = queue::room(&fields, "queue_back")?.unwrap_or(room);
    let loss = wire::losses(&fields)?;
    let faults = wire::faults(&fields)?;
    let patterns = wire::patterns(&fields)?;
    let channel = |rate: f64, delay, loss, faults, patterns| Channel {
        rate: rate as u64,
        delay: duration(delay),
        queue: Queue::Packets(0),
        discipline: Discipline::DropTail,
        loss,
        faults,
        patterns,
    };
    let link = Link {
        name: name.to_owned(),
        from,
        to,
        forward: channel(rate, delay, loss.0, faults.0, patterns.0),
        backward: channel(rate_back, delay_back, loss.1, faults.1, patterns.1),
    };
    let line = fields.line();
    fields.finish()?;
    Ok(Draft { link, rooms: (room, room_back), manner, line })
}

/// The slowest of some links.
pub(super) fn slowest(links: &[(usize, bool)], drafts: &[Draft]) -> usize {
    let slowest = links
        .iter()
        .min_by_key(|(index, _)| drafts.get(*index).map_or(u64::MAX, |d| d.link.forward.rate));
    slowest.map_or(0, |(index, _)| *index)
}

/// Follows a path's links from the sender to the receiver.
pub(super) fn route(
    name: &str,
    line: usize,
    names: &[(usize, &str)],
    nodes: &[String],
    drafts: &[Draft],
) -> Checked<Vec<(usize, bool)>> {
    let called = |node: usize| nodes.get(node).map_or("", String::as_str);
    let mut at = 0;
    let mut links = Vec::new();
    for (line, link) in names {
        let Some(index) = drafts.iter().position(|draft| draft.link.name == *link) else {
            return problem(*line, format!("path '{name}' names '{link}', which is not a link"));
        };
        let Some(draft) = drafts.get(index) else { continue };
        let reversed = if draft.link.from == at {
            at = draft.link.to;
            false
        } else if draft.link.to == at {
            at = draft.link.from;
            true
        } else {
            return problem(
                *line,
                format!("path '{name}': link '{link}' does not begin at '{}'", called(at)),
            );
        };
        links.push((index, reversed));
    }
    if at != 1 {
        return problem(
            line,
            format!("path '{name}' ends at '{}', not at the receiver '{}'", called(at), called(1)),
        );
    }
    Ok(links)
}

/// Computes the queues. This requires the delays of all links of a path.
pub(super) fn finish(nodes: Vec<String>, drafts: Vec<Draft>, paths: Vec<Path>) -> Checked<Network> {
    let wanted: Vec<_> =
        drafts.iter().map(|draft| (draft.rooms, draft.manner, draft.line)).collect();
    let links = drafts.into_iter().map(|draft| draft.link).collect();
    let mut network = Network { nodes, links, paths, primary: 0, primary_only: false };
    for (index, ((forward, backward), manner, line)) in wanted.into_iter().enumerate() {
        let rtt = network
            .paths
            .iter()
            .filter(|path| path.links.iter().any(|(link, _)| *link == index))
            .map(|path| network.rtt(path))
            .max();
        let Some(link) = network.links.get_mut(index) else { continue };
        for (channel, room) in [(&mut link.forward, forward), (&mut link.backward, backward)] {
            let place = Place { link: &link.name, rate: channel.rate, rtt, line };
            channel.queue = room.at(place)?;
            channel.discipline = manner.at(channel.queue, place)?;
        }
    }
    Ok(network)
}

/// The keys of dumbbells that `[network]` and `[path.NAME]` share.
#[derive(Clone, Copy, Default)]
struct Keys {
    core_rate: Option<f64>,
    core_delay: Option<f64>,
    edge_rate: Option<f64>,
    edge_delay: Option<f64>,
    queue: queue::Keys,
}

impl Keys {
    fn read(fields: &Fields<'_>) -> Checked<Self> {
        Ok(Self {
            core_rate: fields.quantity("core_rate", Kind::Rate, 1.0, MAX_RATE)?,
            core_delay: fields.quantity("core_delay", Kind::Time, 0.0, MAX_DELAY)?,
            edge_rate: fields.quantity("edge_rate", Kind::Rate, 1.0, MAX_RATE)?,
            edge_delay: fields.quantity("edge_delay", Kind::Time, 0.0, MAX_DELAY)?,
            queue: queue::Keys::read(fields)?,
        })
    }

    fn or(self, defaults: &Self) -> Self {
        Self {
            core_rate: self.core_rate.or(defaults.core_rate),
            core_delay: self.core_delay.or(defaults.core_delay),
            edge_rate: self.edge_rate.or(defaults.edge_rate),
            edge_delay: self.edge_delay.or(defaults.edge_delay),
            queue: self.queue.or(&defaults.queue),
        }
    }
}
