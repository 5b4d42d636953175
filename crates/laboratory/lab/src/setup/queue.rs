//! The queues of links: their room, and which packets they drop or mark before they are full.

use std::time::Duration;

use anabranch_impair::{CoDel, Discipline, Probability, Red};

use crate::tree::{Checked, Fields, problem};
use crate::units::{Kind, Quantity, duration};

const MAX_QUEUE_PACKETS: f64 = 1e8;
const MAX_QUEUE_BYTES: f64 = 1e12;
const MAX_BDP: f64 = 1e6;
const MAX_DELAY: f64 = 3600e9;

/// Room of a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Queue {
    /// Packets, not including the one being sent.
    Packets(usize),
    /// Bytes.
    Bytes(usize),
}

/// A queue or a length of it, as given in a file.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Room {
    /// Packets or bytes.
    Queue(Queue),
    /// Multiples of the bandwidth-delay product of the path that the link belongs to.
    Bdp(f64),
}

/// A discipline as given in a file; its lengths depend on the delays of the paths.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Manner {
    DropTail,
    Red(Detection),
    CoDel(CoDel),
}

/// The table `red` of a file.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Detection {
    min: Room,
    max: Room,
    most: Probability,
    weight: Probability,
    gentle: bool,
    ecn: bool,
    line: usize,
}

/// The keys of a queue at one place of the file; another place may supply missing ones.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Keys {
    room: Option<Room>,
    name: Option<Name>,
    red: Option<Detection>,
    codel: Option<CoDel>,
    /// Where the discipline is named.
    line: usize,
}

#[derive(Clone, Copy, Debug)]
enum Name {
    DropTail,
    Red,
    CoDel,
}

impl Keys {
    /// Reads `queue`, `discipline`, `red` and `codel`. Parameters are checked even if another
    /// discipline is selected, so that an axis can vary the name alone.
    pub(super) fn read(fields: &Fields<'_>) -> Checked<Self> {
        let words = [("drop-tail", Name::DropTail), ("red", Name::Red), ("codel", Name::CoDel)];
        Ok(Self {
            room: room(fields, "queue")?,
            name: fields.choice("discipline", &words)?,
            red: fields.table("red")?.map(red).transpose()?,
            codel: fields.table("codel")?.map(codel).transpose()?,
            line: fields.line_of("discipline"),
        })
    }

    pub(super) fn or(self, defaults: &Self) -> Self {
        Self {
            room: self.room.or(defaults.room),
            name: self.name.or(defaults.name),
            red: self.red.or(defaults.red),
            codel: self.codel.or(defaults.codel),
            line: if self.name.is_some() { self.line } else { defaults.line },
        }
    }

    pub(super) fn room(&self) -> Option<Room> {
        self.room
    }

    /// The named discipline; drop-tail by default.
    pub(super) fn manner(&self) -> Checked<Manner> {
        match (self.name, self.red) {
            (None | Some(Name::DropTail), _) => Ok(Manner::DropTail),
            (Some(Name::Red), Some(red)) => Ok(Manner::Red(red)),
            (Some(Name::Red), None) => problem(
                self.line,
                "the discipline \"red\" needs its thresholds, as in red = { min = \"5 packets\", \
                 max = \"15 packets\" }",
            ),
            (Some(Name::CoDel), _) => Ok(Manner::CoDel(self.codel.unwrap_or_default())),
        }
    }
}

fn red(fields: Fields<'_>) -> Checked<Detection> {
    let threshold = |key: &'static str| match room(&fields, key)? {
        Some(room) => Ok(room),
        None => problem(fields.line(), format!("{} is missing", fields.name(key))),
    };
    let share = |key: &'static str, least: f64, otherwise: Probability| match fields.quantity(
        key,
        Kind::Share,
        least,
        1.0,
    )? {
        None => Ok(otherwise),
        Some(share) => Probability::fraction(share)
            .or_else(|error| problem(fields.line_of(key), error.to_string())),
    };
    let defaults = Red::default();
    let read = Detection {
        min: threshold("min")?,
        max: threshold("max")?,
        most: share("max_drop", 0.0, defaults.max_probability)?,
        // The smallest valid weight.
        weight: share("weight", 1e-6, defaults.weight)?,
        gentle: fields.flag("gentle")?.unwrap_or(defaults.gentle),
        ecn: fields.flag("ecn")?.unwrap_or(defaults.ecn),
        line: fields.line(),
    };
    fields.finish()?;
    Ok(read)
}

fn codel(fields: Fields<'_>) -> Checked<CoDel> {
    let defaults = CoDel::default();
    let time = |key: &'static str, otherwise: Duration| {
        let given = fields.quantity(key, Kind::Time, 1.0, MAX_DELAY)?;
        Ok(given.map_or(otherwise, duration))
    };
    let read = CoDel {
        target: time("target", defaults.target)?,
        interval: time("interval", defaults.interval)?,
        ecn: fields.flag("ecn")?.unwrap_or(defaults.ecn),
    };
    fields.finish()?;
    Ok(read)
}

/// The room of a queue, or a length of it.
pub(super) fn room(fields: &Fields<'_>, key: &'static str) -> Checked<Option<Room>> {
    let Some(node) = fields.node(key) else { return Ok(None) };
    let text = node.text();
    let refused = |reason: String| problem(node.line, format!("{} {reason}", fields.name(key)));
    let kind = Quantity::parse(&text).map(|quantity| quantity.kind);
    let (most, kind) = match kind {
        Some(Kind::Packets) => (MAX_QUEUE_PACKETS, Kind::Packets),
        Some(Kind::Size) => (MAX_QUEUE_BYTES, Kind::Size),
        Some(Kind::Bdp) => (MAX_BDP, Kind::Bdp),
        _ => {
            return refused(format!(
                "is \"{text}\" and not a queue, as in \"50 packets\", \"64 KiB\" or \"2 BDP\""
            ));
        }
    };
    match Quantity::expect(&text, kind, 0.0, most) {
        Ok(value) => Ok(Some(match kind {
            Kind::Packets => Room::Queue(Queue::Packets(value as usize)),
            Kind::Bdp => Room::Bdp(value),
            Kind::Time | Kind::Rate | Kind::Size | Kind::Share => {
                Room::Queue(Queue::Bytes(value as usize))
            }
        })),
        Err(reason) => refused(reason),
    }
}

/// Properties of a channel that depend on the delays of its paths.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place<'a> {
    /// The link's name.
    pub(super) link: &'a str,
    /// Bits per second.
    pub(super) rate: u64,
    /// Round-trip delay of the longest path over the link; `None` if there is no path.
    pub(super) rtt: Option<Duration>,
    /// The line of the link.
    pub(super) line: usize,
}

impl Room {
    /// The room in packets or bytes.
    pub(super) fn at(self, place: Place<'_>) -> Checked<Queue> {
        match (self, place.rtt) {
            (Self::Queue(queue), _) => Ok(queue),
            (Self::Bdp(times), Some(rtt)) => {
                let bytes = place.rate as f64 / 8.0 * rtt.as_secs_f64() * times;
                Ok(Queue::Bytes(bytes.round() as usize))
            }
            (Self::Bdp(_), None) => {
                let reason = format!("link '{}' is on no path: it has no BDP", place.link);
                problem(place.line, reason)
            }
        }
    }
}

impl Manner {
    /// The discipline of a queue with this room.
    pub(super) fn at(self, queue: Queue, place: Place<'_>) -> Checked<Discipline> {
        let red = match self {
            Self::DropTail => return Ok(Discipline::DropTail),
            Self::CoDel(codel) => return Ok(Discipline::CoDel(codel)),
            Self::Red(red) => red,
        };
        let (min, max) = match (queue, red.min.at(place)?, red.max.at(place)?) {
            (Queue::Packets(_), Queue::Packets(min), Queue::Packets(max))
            | (Queue::Bytes(_), Queue::Bytes(min), Queue::Bytes(max)) => (min, max),
            _ => {
                let reason = format!(
                    "link '{}': the thresholds of red and the queue are both in packets, or both \
                     in bytes or BDP",
                    place.link
                );
                return problem(red.line, reason);
            }
        };
        let threshold = |length: usize| {
            u32::try_from(length).or_else(|_| problem(red.line, "a threshold of red is too large"))
        };
        let (min_threshold, max_threshold) = (threshold(min)?, threshold(max)?);
        if min_threshold >= max_threshold {
            let reason = format!("link '{}': red.min must be less than red.max", place.link);
            return problem(red.line, reason);
        }
        Ok(Discipline::Red(Red {
            min_threshold,
            max_threshold,
            max_probability: red.most,
            weight: red.weight,
            gentle: red.gentle,
            ecn: red.ecn,
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::setup::tests::{SMALL, read};
    use crate::tree::tests::refused;

    /// The discipline of the primary path's core if `[network]` has these additional lines.
    fn discipline(lines: &str) -> Checked<Discipline> {
        let text = SMALL.replace("queue = \"2 BDP\"\n", &format!("{lines}\n"));
        let setup = read(&text)?;
        let core = &setup.network.links[setup.network.paths[0].core];
        assert_eq!(core.forward.discipline, core.backward.discipline);
        Ok(core.forward.discipline)
    }

    #[test]
    fn queues_may_drop_before_they_are_full() {
        assert_eq!(discipline("queue = \"2 BDP\""), Ok(Discipline::DropTail));
        assert_eq!(
            discipline("queue = \"50 packets\"\ndiscipline = \"codel\""),
            Ok(Discipline::CoDel(CoDel::default()))
        );
        assert_eq!(
            discipline(
                "queue = \"50 packets\"\ndiscipline = \"codel\"\ncodel = { target = \"10 ms\", \
                 interval = \"200 ms\", ecn = true }"
            ),
            Ok(Discipline::CoDel(CoDel {
                target: Duration::from_millis(10),
                interval: Duration::from_millis(200),
                ecn: true,
            }))
        );
        assert_eq!(
            discipline(
                "queue = \"50 packets\"\ndiscipline = \"red\"\nred = { min = \"5 packets\", \
                 max = \"20 packets\", max_drop = \"2 %\", weight = \"1 %\", gentle = false, ecn = true }"
            ),
            Ok(Discipline::Red(Red {
                min_threshold: 5,
                max_threshold: 20,
                max_probability: Probability::percent(2),
                weight: Probability::percent(1),
                gentle: false,
                ecn: true,
            }))
        );
        // A product of rate and RTT is 112,500 bytes on the primary path.
        let Ok(Discipline::Red(red)) = discipline(
            "queue = \"2 BDP\"\ndiscipline = \"red\"\nred = { min = \"0.5 BDP\", max = \"1.5 BDP\" }",
        ) else {
            panic!("no RED");
        };
        assert_eq!((red.min_threshold, red.max_threshold), (56_250, 168_750));
        // Parameters without the name change nothing.
        assert_eq!(discipline("queue = \"2 BDP\"\ncodel = {}"), Ok(Discipline::DropTail));
    }

    #[test]
    fn a_path_may_have_a_discipline_of_its_own() {
        let text = SMALL.replace("loss = \"3 %\"", "discipline = \"codel\"");
        let setup = read(&text).unwrap();
        let of = |path: usize| setup.network.links[setup.network.paths[path].core].forward.clone();
        assert_eq!(of(0).discipline, Discipline::CoDel(CoDel::default()));
        assert_eq!(of(1).discipline, Discipline::DropTail);
    }

    #[test]
    fn disciplines_that_make_no_sense_are_refused() {
        let red = |parameters: &str| {
            format!("queue = \"50 packets\"\ndiscipline = \"red\"\nred = {{ {parameters} }}")
        };
        let cases = [
            ("discipline = \"fifo\"".to_owned(), 8, "network.discipline is \"fifo\""),
            ("queue = \"9 packets\"\ndiscipline = \"red\"".to_owned(), 9, "needs its thresholds"),
            (red("min = \"5 packets\""), 10, "network.red.max is missing"),
            (red("min = \"5 packets\", max = \"5 packets\""), 10, "less than red.max"),
            (red("min = \"5 kB\", max = \"15 kB\""), 10, "both in packets"),
            (red("min = 5, max = 15"), 10, "network.red.min is \"5\" and not a queue"),
            (red("min = \"5 packets\", max = \"9 packets\", weight = \"0 %\""), 10, "outside"),
            (red("min = \"5 packets\", max = \"9 packets\", max_drop = \"101 %\""), 10, "outside"),
            (red("min = \"5 packets\", max = \"9 packets\", mean = 1"), 10, "unknown key"),
            ("codel = { target = \"0 s\" }".to_owned(), 8, "network.codel.target is \"0 s\""),
            ("codel = { interval = \"9 parsec\" }".to_owned(), 8, "not a time with its unit"),
        ];
        for (lines, line, reason) in cases {
            refused(discipline(&lines), line, reason);
        }
        let huge = red("min = \"5 GB\", max = \"15 GB\"").replace("50 packets", "50 GB");
        assert!(discipline(&huge).unwrap_err().reason.contains("too large"));
    }
}
