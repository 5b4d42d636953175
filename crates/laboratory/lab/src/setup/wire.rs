//! The effects of a wire on packets: it loses, delays, reorders, duplicates and damages them, and drops packets that
//! are too large.

use std::path::Path;
use std::time::Duration;

use anabranch_impair::pattern::{self, Patterns};
use anabranch_impair::{BurstsInTime, GilbertElliott, LinkConfig, Loss, Probability};

use super::MAX_TIME;
use crate::tree::{Checked, Fields, Node, Value, problem};
use crate::units::{Kind, Quantity, duration};

const MAX_BURST: f64 = 1e6;
/// Maximum additional delay of a packet in nanoseconds: an hour.
const MAX_LATE: f64 = 3600e9;
/// Limits of the MTU: the size that IPv4 guarantees, and the largest possible one.
const MTUS: (f64, f64) = (68.0, 65_535.0);

/// The effects of a wire on packets other than loss, in one direction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Faults {
    /// Every packet gets an additional delay between zero and this.
    pub jitter: Duration,
    /// Whether jitter preserves the order of packets.
    pub keep_order: bool,
    /// Probability that a packet arrives twice.
    pub duplicate: Probability,
    /// Probability that a bit of a packet is flipped.
    pub corrupt: Probability,
    /// Probability that a packet is held back.
    pub reorder: Probability,
    /// For how long it is held back.
    pub reorder_delay: Duration,
    /// The largest IP packet, in bytes.
    pub mtu: Option<usize>,
    /// Whether larger packets vanish unreported.
    pub mtu_blackhole: bool,
}

impl Faults {
    /// A link with these faults.
    pub(crate) fn apply(&self, mut link: LinkConfig) -> LinkConfig {
        link = link.jitter(self.jitter).keep_order(self.keep_order);
        link = link.duplicate(self.duplicate).corrupt(self.corrupt);
        link = link.reorder(self.reorder, self.reorder_delay).mtu_blackhole(self.mtu_blackhole);
        link.mtu = self.mtu;
        link
    }

    /// Clears the delay of held packets if none is ever held back.
    fn settled(self) -> Self {
        let held = self.reorder > Probability::ZERO;
        Self { reorder_delay: if held { self.reorder_delay } else { Duration::ZERO }, ..self }
    }
}

/// The keys of the faults of one direction.
struct Keys {
    jitter: &'static str,
    keep_order: &'static str,
    duplicate: &'static str,
    corrupt: &'static str,
    reorder: &'static str,
    reorder_delay: &'static str,
    mtu: &'static str,
    mtu_blackhole: &'static str,
}

const FORWARD: Keys = Keys {
    jitter: "jitter",
    keep_order: "keep_order",
    duplicate: "duplicate",
    corrupt: "corrupt",
    reorder: "reorder",
    reorder_delay: "reorder_delay",
    mtu: "mtu",
    mtu_blackhole: "mtu_blackhole",
};

const BACKWARD: Keys = Keys {
    jitter: "jitter_back",
    keep_order: "keep_order_back",
    duplicate: "duplicate_back",
    corrupt: "corrupt_back",
    reorder: "reorder_back",
    reorder_delay: "reorder_delay_back",
    mtu: "mtu_back",
    mtu_blackhole: "mtu_blackhole_back",
};

/// Reads the faults of a path or a link in both directions, with the names from impairment files. The reverse direction
/// equals the forward one unless it is set separately.
pub(super) fn faults(fields: &Fields<'_>) -> Checked<(Faults, Faults)> {
    let forward = direction(fields, &FORWARD, &Faults::default())?;
    let backward = direction(fields, &BACKWARD, &forward)?;
    Ok((forward.settled(), backward.settled()))
}

fn direction(fields: &Fields<'_>, keys: &Keys, other: &Faults) -> Checked<Faults> {
    let share = |key: &'static str| match fields.quantity(key, Kind::Share, 0.0, 1.0)? {
        None => Ok(None),
        Some(share) => Probability::fraction(share)
            .map(Some)
            .or_else(|error| problem(fields.line_of(key), error.to_string())),
    };
    let time = |key: &'static str| {
        fields.quantity(key, Kind::Time, 0.0, MAX_LATE).map(|time| time.map(duration))
    };
    let flag = |key: &'static str| fields.flag(key);
    let faults = Faults {
        jitter: time(keys.jitter)?.unwrap_or(other.jitter),
        keep_order: flag(keys.keep_order)?.unwrap_or(other.keep_order),
        duplicate: share(keys.duplicate)?.unwrap_or(other.duplicate),
        corrupt: share(keys.corrupt)?.unwrap_or(other.corrupt),
        reorder: share(keys.reorder)?.unwrap_or(other.reorder),
        reorder_delay: time(keys.reorder_delay)?.unwrap_or(other.reorder_delay),
        mtu: mtu(fields, keys.mtu)?.or(other.mtu),
        mtu_blackhole: flag(keys.mtu_blackhole)?.unwrap_or(other.mtu_blackhole),
    };
    // An axis may begin with a share or a delay of zero, but a nonzero share without a delay is a mistake.
    let held =
        fields.quantity(keys.reorder, Kind::Share, 0.0, 1.0)?.is_some_and(|share| share > 0.0);
    let told = time(keys.reorder_delay)?.is_some() || !other.reorder_delay.is_zero();
    if held && !told {
        let (share, delay) = (fields.name(keys.reorder), keys.reorder_delay);
        let line = fields.line_of(keys.reorder);
        return problem(line, format!("{share} needs a {delay}, as in \"20 ms\""));
    }
    Ok(faults)
}

/// Reads the named pattern files, forward and backward.
pub(super) fn patterns(fields: &Fields<'_>) -> Checked<(Patterns, Patterns)> {
    let read = |key: &'static str| -> Checked<Patterns> {
        let Some(name) = fields.text(key)? else { return Ok(Patterns::default()) };
        let wrong = |reason: String| problem(fields.line_of(key), format!("{name}: {reason}"));
        let patterns = match pattern::load(Path::new(name)) {
            Ok(bytes) => Patterns::read(&bytes),
            Err(reason) => return wrong(format!("it {reason}")),
        };
        match patterns {
            Ok(patterns) if patterns.run_commands() => {
                wrong("a trigger runs a command, which a simulation has not".into())
            }
            Ok(patterns) => Ok(patterns),
            Err(error) => wrong(error.to_string()),
        }
    };
    let (forward, backward) = (read("pattern")?, read("pattern_back")?);
    let Some(text) = of_data(fields)? else { return Ok((forward, backward)) };
    if !forward.list().is_empty() {
        let reason = "a pattern says all: lose_data and displace_data are for links without one";
        return problem(fields.line_of("pattern"), reason);
    }
    match Patterns::read(text.as_bytes()) {
        Ok(forward) => Ok((forward, backward)),
        Err(error) => problem(fields.line(), error.to_string()),
    }
}

/// The pattern for packets with user data, forward, if the file gives it as numbers: the lost packets (`lose_data`),
/// and how many packets overtake each n-th one (`displace_data`, `displace_every`).
fn of_data(fields: &Fields<'_>) -> Checked<Option<String>> {
    let mut lost = match fields.node("lose_data") {
        None => Vec::new(),
        Some(node) => positions(node, &fields.name("lose_data"))?,
    };
    // Ignore zero, so that an axis may begin without losses.
    lost.retain(|position| *position > 0);
    lost.sort_unstable();
    lost.dedup();
    let displaced = fields.count("displace_data", 0, 10_000)?.unwrap_or(0);
    let every = fields.count("displace_every", 1, 1_000_000)?;
    let mut text = String::from("anabranch pattern 1\n");
    let head = |kind: &str| format!("pattern {kind} per packet\nfilter payload > 0\n");
    if !lost.is_empty() {
        text.push_str(&format!("{}values\n", head("loss")));
        let mut next = 1;
        for position in &lost {
            if *position > next {
                text.push_str(&format!("{}*. ", position - next));
            }
            text.push('x');
            text.push('\n');
            next = position + 1;
        }
    }
    if displaced > 0 {
        let Some(every) = every.filter(|every| *every > displaced) else {
            let reason = format!(
                "{} needs a {} above it: of how many packets one is displaced",
                fields.name("displace_data"),
                fields.name("displace_every")
            );
            return problem(fields.line_of("displace_data"), reason);
        };
        // Spare the first packets, which may be the only ones in flight.
        let before = every - 1;
        text.push_str(&format!("{}end repeat\nvalues\n{before}*. {displaced}\n", head("displace")));
    }
    Ok((!lost.is_empty() || displaced > 0).then_some(text))
}

/// One position, or a list of them.
fn positions(node: &Node, name: &str) -> Checked<Vec<u64>> {
    let one = |node: &Node| match node.value {
        Value::Integer(position) if (0..1 << 32).contains(&position) => Ok(position as u64),
        _ => problem(node.line, format!("{name} lists positions from 1")),
    };
    match &node.value {
        Value::List(nodes) => nodes.iter().map(one).collect(),
        _ => Ok(vec![one(node)?]),
    }
}

/// An MTU in bytes.
pub(super) fn mtu(fields: &Fields<'_>, key: &'static str) -> Checked<Option<usize>> {
    Ok(fields.quantity(key, Kind::Size, MTUS.0, MTUS.1)?.map(|mtu| mtu as usize))
}

/// Losses forward and backward.
pub(super) fn losses(fields: &Fields<'_>) -> Checked<(Loss, Loss)> {
    let forward = fields.quantity("loss", Kind::Share, 0.0, 1.0)?;
    let backward = fields.quantity("loss_back", Kind::Share, 0.0, 1.0)?.or(forward);
    let burst = burst(fields)?;
    let listed = |key: &'static str| -> Checked<Option<Loss>> {
        let Some(node) = fields.node(key) else { return Ok(None) };
        let wrong = || problem(node.line, format!("{} lists positions from 1", fields.name(key)));
        let crate::tree::Value::List(nodes) = &node.value else { return wrong() };
        let mut positions = Vec::new();
        for node in nodes {
            match node.value {
                crate::tree::Value::Integer(position) if position > 0 => {
                    positions.push(position as u64);
                }
                _ => return wrong(),
            }
        }
        Ok(Some(Loss::positions(positions)))
    };
    let line = fields.line_of("loss");
    let random = |share: Option<f64>| random_loss(share.unwrap_or(0.0), burst, line);
    let pick = |key, share| match listed(key)? {
        Some(loss) => Ok(loss),
        None => random(share),
    };
    Ok((pick("lose_packets", forward)?, pick("lose_packets_back", backward)?))
}

/// The mean length of a burst of losses.
#[derive(Clone, Copy)]
enum Burst {
    Packets(f64),
    Time(Duration),
}

/// `loss_burst`: a number of packets, or a time.
fn burst(fields: &Fields<'_>) -> Checked<Option<Burst>> {
    let Some(node) = fields.node("loss_burst") else { return Ok(None) };
    let read = |kind, least, most| Quantity::expect(&node.text(), kind, least, most);
    if Quantity::parse(&node.text()).is_some_and(|quantity| quantity.kind == Kind::Time) {
        return match read(Kind::Time, 1e3, MAX_TIME) {
            Ok(nanos) => Ok(Some(Burst::Time(duration(nanos)))),
            Err(reason) => problem(node.line, format!("{} {reason}", fields.name("loss_burst"))),
        };
    }
    match read(Kind::Packets, 1.0, MAX_BURST) {
        Ok(packets) => Ok(Some(Burst::Packets(packets))),
        Err(reason) => problem(
            node.line,
            format!("{} {reason}; it may be a time, too", fields.name("loss_burst")),
        ),
    }
}

/// Independent losses, or the same share in bursts: Gilbert's model, or bursts that last for a time.
fn random_loss(share: f64, burst: Option<Burst>, line: usize) -> Checked<Loss> {
    if share == 0.0 {
        return Ok(Loss::None);
    }
    let fraction = |p: f64| {
        Probability::fraction(p).or_else(|_| {
            problem(line, "bursts this short cannot lose that many packets: one passes between two")
        })
    };
    let p = fraction(share)?;
    let length = match burst {
        None => return Ok(Loss::Uniform(p)),
        Some(Burst::Time(_)) if share >= 1.0 => return Ok(Loss::Uniform(p)),
        Some(Burst::Time(length)) => {
            return match BurstsInTime::with_share(share, length) {
                Some(bursts) => Ok(Loss::BurstsInTime(bursts)),
                None => problem(line, "bursts this long cannot lose so few packets"),
            };
        }
        Some(Burst::Packets(length)) => length,
    };
    // The long-run share of losses is good_to_bad / (good_to_bad + bad_to_good).
    let bad_to_good = 1.0 / length;
    Ok(Loss::GilbertElliott(GilbertElliott {
        good_to_bad: fraction(share * bad_to_good / (1.0 - share))?,
        bad_to_good: fraction(bad_to_good)?,
        loss_good: Probability::ZERO,
        loss_bad: Probability::ONE,
    }))
}
