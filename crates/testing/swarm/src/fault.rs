//! The faults of a run, with names so that they can be turned off.
//!
//! A fault is a kind and a number: `loss.3` is the loss in the fourth direction of all links,
//! `cut.0` the first cut, `forged.7` the eighth forged packet.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use anabranch_impair::{LinkConfig, Probability};
use anabranch_proto::EndpointConfig;
use anabranch_proto::config::OutOfTheBlue;

use crate::options::{Kind, Options, Reader};

macro_rules! faults {
    ($($(#[$doc:meta])* $name:ident = $text:literal,)*) => {
        /// A kind of fault.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Fault {
            $($(#[$doc])* $name,)*
        }

        impl Fault {
            /// All kinds.
            pub const ALL: &[Self] = &[$(Self::$name),*];

            /// Its name on the command line.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$name => $text,)*
                }
            }
        }
    };
}

faults! {
    /// Packets are lost.
    Loss = "loss",
    /// Delays vary.
    Jitter = "jitter",
    /// There is a rate, and a queue that overflows.
    Rate = "rate",
    /// Packets arrive twice.
    Duplicate = "duplicate",
    /// Packets are overtaken.
    Reorder = "reorder",
    /// Packets are damaged.
    Corrupt = "corrupt",
    /// A direction is down for an interval.
    Cut = "cut",
    /// The path MTU is below that of the hosts.
    Mtu = "mtu",
    /// The path MTU changes.
    MtuChange = "mtu-change",
    /// A queue drops packets before it is full, or marks them.
    Discipline = "discipline",
    /// ECN-capable packets vanish.
    SwallowedEcn = "swallowed-ecn",
    /// The host cannot send some packets.
    SendErrors = "send-errors",
    /// A router refuses some packets.
    Unreachable = "unreachable",
    /// Timers are handled late.
    Lateness = "lateness",
    /// A host loses its state.
    Reboot = "reboot",
    /// A client connects again.
    Reconnect = "reconnect",
    /// Both ends connect.
    Collision = "collision",
    /// A user aborts.
    Abort = "abort",
    /// A user shuts down before the network is healthy.
    Shutdown = "shutdown",
    /// A user reads slowly or not at all.
    SlowReader = "slow-reader",
    /// A user changes the primary path, requests a heartbeat or sets a priority.
    Whim = "whim",
    /// A local address is temporarily unusable.
    Vanish = "vanish",
    /// A third party sends packets.
    Forged = "forged",
    /// A host has an additional address after it lost its state.
    LateAddress = "late-address",
    /// A host has fewer addresses after it lost its state.
    OtherAddresses = "other-addresses",
    /// A host accepts only one stream after it lost its state.
    FewStreams = "few-streams",
    /// A client also tries another host's address.
    OtherHost = "other-host",
    /// A client mistakes two addresses of its peer for two peers.
    Twice = "twice",
    /// All later packets overtake a packet of a handshake or of a shutdown.
    Straggler = "straggler",
    /// A peer violates the protocol.
    Rude = "rude",
    /// Endpoints try pairs of addresses that cannot reach each other.
    CrossedPaths = "crossed-paths",
    /// TSNs wrap early.
    TsnWrap = "tsn-wrap",
    /// Rare behaviour of the engine becomes frequent.
    Buggify = "buggify",
    /// Cookies or their secrets live for seconds.
    ShortCookies = "short-cookies",
    /// Packets out of the blue are not answered.
    Silent = "silent",
    /// Users have byte streams in addition to messages.
    ByteStreams = "byte-streams",
    /// Messages have lifetimes.
    Lifetimes = "lifetimes",
    /// Packets that arrive together are handled together.
    Batches = "batches",
    /// The keys of sealed paths are replaced often.
    ShortKeys = "short-keys",
    /// A translator of addresses forgets a silent uplink.
    Forgetful = "forgetful",
    /// A translator of addresses gives an uplink another outer address.
    Move = "move",
    /// Strangers begin handshakes with a sealed server.
    Crowd = "crowd",
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// One fault of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Item {
    /// Its kind.
    pub fault: Fault,
    /// Its number among the faults of its kind.
    pub number: u16,
}

impl fmt::Display for Item {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.fault, self.number)
    }
}

/// The faults that a run keeps.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Only(Vec<(Fault, Option<u16>)>);

impl Only {
    /// Whether a fault is kept.
    pub fn keeps(&self, item: Item) -> bool {
        let fits = |(fault, number): &(Fault, Option<u16>)| {
            *fault == item.fault && number.is_none_or(|number| number == item.number)
        };
        self.0.iter().any(fits)
    }
}

impl From<&[Item]> for Only {
    fn from(items: &[Item]) -> Self {
        Self(items.iter().map(|item| (item.fault, Some(item.number))).collect())
    }
}

impl fmt::Display for Only {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() {
            return f.write_str("none");
        }
        for (index, (fault, number)) in self.0.iter().enumerate() {
            let comma = if index > 0 { "," } else { "" };
            match number {
                Some(number) => write!(f, "{comma}{fault}.{number}")?,
                None => write!(f, "{comma}{fault}")?,
            }
        }
        Ok(())
    }
}

/// An unknown fault.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownFault(String);

impl fmt::Display for UnknownFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let all: Vec<_> = Fault::ALL.iter().map(|fault| fault.name()).collect();
        write!(f, "'{}' is not a fault: use 'none', or any of {}", self.0, all.join(", "))
    }
}

impl std::error::Error for UnknownFault {}

impl FromStr for Only {
    type Err = UnknownFault;

    /// Parses `none`, or kinds and faults separated by commas: `reboot,loss.3`.
    fn from_str(text: &str) -> Result<Self, UnknownFault> {
        if text == "none" {
            return Ok(Self::default());
        }
        let read = |word: &str| {
            let (name, number) = match word.split_once('.') {
                Some((name, number)) => (name, Some(number.parse().ok()?)),
                None => (word, None),
            };
            let fault = Fault::ALL.iter().find(|fault| fault.name() == name)?;
            Some((*fault, number))
        };
        let all: Result<Vec<_>, _> = (text.split(','))
            .map(|word| read(word).ok_or_else(|| UnknownFault(word.to_owned())))
            .collect();
        all.map(Self)
    }
}

impl Options {
    /// All faults of the run.
    pub fn faults(&self) -> Vec<Item> {
        let mut items = Vec::new();
        self.clone().visit(&mut |item| {
            items.push(item);
            true
        });
        items
    }

    /// Turns off all other faults.
    pub fn keep_only(&mut self, only: &Only) {
        self.visit(&mut |item| only.keeps(item));
    }

    /// Calls `keep` with every fault, and turns off those for which it returns `false`.
    fn visit(&mut self, keep: &mut dyn FnMut(Item) -> bool) {
        let mut keep = |fault, number: usize| {
            keep(Item { fault, number: u16::try_from(number).unwrap_or(u16::MAX) })
        };
        self.visit_links(&mut keep);
        if self.send_errors != Probability::ZERO && !keep(Fault::SendErrors, 0) {
            self.send_errors = Probability::ZERO;
        }
        if self.unreachable != Probability::ZERO && !keep(Fault::Unreachable, 0) {
            self.unreachable = Probability::ZERO;
        }
        if !self.lateness.is_zero() && !keep(Fault::Lateness, 0) {
            self.lateness = Duration::ZERO;
        }
        self.reboot = self.reboot.filter(|_| keep(Fault::Reboot, 0));
        self.reconnect = self.reconnect.filter(|_| keep(Fault::Reconnect, 0));
        self.abort = self.abort.filter(|_| keep(Fault::Abort, 0));
        if self.kind == Kind::Collision && !keep(Fault::Collision, 0) {
            self.kind = Kind::Client;
        }
        for node in 0..2 {
            self.shutdown[node] = self.shutdown[node].filter(|_| keep(Fault::Shutdown, node));
            if self.readers[node] != Reader::Eager && !keep(Fault::SlowReader, node) {
                self.readers[node] = Reader::Eager;
            }
            let traffic = &mut self.traffic[node];
            if traffic.mortal != Probability::ZERO && !keep(Fault::Lifetimes, node) {
                traffic.mortal = Probability::ZERO;
            }
        }
        self.byte_streams = self.byte_streams.take().filter(|_| keep(Fault::ByteStreams, 0));
        retain(&mut self.whims, |number| keep(Fault::Whim, number));
        retain(&mut self.vanishing, |number| keep(Fault::Vanish, number));
        retain(&mut self.forged, |number| keep(Fault::Forged, number));
        self.late_address &= self.reboot.is_some();
        if self.late_address && !keep(Fault::LateAddress, 0) {
            self.late_address = false;
        }
        let rebooted = self.reboot.is_some();
        self.addresses_after =
            self.addresses_after.take().filter(|_| rebooted && keep(Fault::OtherAddresses, 0));
        self.few_streams &= rebooted;
        if self.few_streams && !keep(Fault::FewStreams, 0) {
            self.few_streams = false;
        }
        self.other_host = self.other_host.filter(|_| keep(Fault::OtherHost, 0));
        if self.twice && !keep(Fault::Twice, 0) {
            self.twice = false;
        }
        self.straggler = self.straggler.filter(|_| keep(Fault::Straggler, 0));
        retain(&mut self.rude, |number| keep(Fault::Rude, number));
        if self.batches && !keep(Fault::Batches, 0) {
            self.batches = false;
        }
        self.visit_sealing(&mut keep);
        self.visit_endpoints(&mut keep);
    }

    fn visit_sealing(&mut self, keep: &mut dyn FnMut(Fault, usize) -> bool) {
        let Some(sealing) = &mut self.sealing else { return };
        sealing.key_life = sealing.key_life.filter(|_| keep(Fault::ShortKeys, 0));
        sealing.translator_life = sealing.translator_life.filter(|_| keep(Fault::Forgetful, 0));
        retain(&mut sealing.moves, |number| keep(Fault::Move, number));
        retain(&mut sealing.crowds, |number| keep(Fault::Crowd, number));
    }

    fn visit_links(&mut self, keep: &mut dyn FnMut(Fault, usize) -> bool) {
        let off = LinkConfig::new();
        let mut cuts = 0;
        for (link, (_, spec)) in self.links.iter_mut().enumerate() {
            for (direction, config) in spec.directions.iter_mut().enumerate() {
                let number = 2 * link + direction;
                if config.loss != off.loss && !keep(Fault::Loss, number) {
                    config.loss = off.loss.clone();
                }
                if config.jitter != off.jitter && !keep(Fault::Jitter, number) {
                    config.jitter = off.jitter;
                    config.keep_order = off.keep_order;
                }
                if config.rate.is_some() && !keep(Fault::Rate, number) {
                    config.rate = off.rate;
                    config.queue = off.queue;
                }
                if config.discipline != off.discipline && !keep(Fault::Discipline, number) {
                    config.discipline = off.discipline;
                }
                if config.duplicate != off.duplicate && !keep(Fault::Duplicate, number) {
                    config.duplicate = off.duplicate;
                }
                if config.reorder != off.reorder && !keep(Fault::Reorder, number) {
                    config.reorder = off.reorder;
                    config.reorder_delay = off.reorder_delay;
                }
                if config.corrupt != off.corrupt && !keep(Fault::Corrupt, number) {
                    config.corrupt = off.corrupt;
                }
                let first = cuts;
                cuts += config.cuts.len();
                retain(&mut config.cuts, |number| keep(Fault::Cut, first + number));
            }
            spec.mtu = spec.mtu.filter(|_| keep(Fault::Mtu, link));
            spec.mtu_change = spec.mtu_change.filter(|_| keep(Fault::MtuChange, link));
            spec.swallows_ecn = spec.swallows_ecn && keep(Fault::SwallowedEcn, link);
        }
    }

    /// Both endpoints have the same settings, so each oddity is turned off in both.
    fn visit_endpoints(&mut self, keep: &mut dyn FnMut(Fault, usize) -> bool) {
        let off = EndpointConfig::default();
        let one = &self.endpoints[0];
        let crossed = one.routes == off.routes;
        let wraps = one.initial_tsn.is_some();
        let odd = one.buggify > 0;
        let short = one.valid_cookie_life < off.valid_cookie_life
            || one.cookie_secret_lifetime < off.cookie_secret_lifetime;
        let silent = one.out_of_the_blue == OutOfTheBlue::Silent;
        if crossed && !keep(Fault::CrossedPaths, 0) {
            self.straighten();
        }
        let wraps = wraps && !keep(Fault::TsnWrap, 0);
        let odd = odd && !keep(Fault::Buggify, 0);
        let short = short && !keep(Fault::ShortCookies, 0);
        let silent = silent && !keep(Fault::Silent, 0);
        for config in &mut self.endpoints {
            if wraps {
                config.initial_tsn = None;
            }
            if odd {
                config.buggify = 0;
            }
            if short {
                config.valid_cookie_life = off.valid_cookie_life;
                config.cookie_secret_lifetime = off.cookie_secret_lifetime;
            }
            if silent {
                config.out_of_the_blue = OutOfTheBlue::Answer;
            }
        }
    }
}

/// Keeps the elements whose number `keep` accepts.
fn retain<T>(list: &mut Vec<T>, mut keep: impl FnMut(usize) -> bool) {
    let mut number = 0;
    list.retain(|_| {
        number += 1;
        keep(number - 1)
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn selections_are_read_as_they_are_shown() {
        for text in ["none", "reboot", "loss.3,cut.0,tsn-wrap"] {
            assert_eq!(text.parse::<Only>().unwrap().to_string(), text);
        }
        let error = "reboot,luck".parse::<Only>().unwrap_err().to_string();
        assert!(
            error.starts_with("'luck' is not a fault: use 'none', or any of loss, jitter"),
            "{error}"
        );
        assert!("loss.x".parse::<Only>().is_err());
    }

    #[test]
    fn what_is_kept_stays_and_nothing_else() {
        let mut kinds = std::collections::BTreeSet::new();
        for seed in 0..300 {
            let mut all = Options::draw(seed);
            if seed % 2 == 1 {
                all.seal();
            }
            let items = all.faults();
            let mut none = all.clone();
            none.keep_only(&Only::default());
            assert_eq!(none.faults(), [], "seed {seed}");
            let mut same = all.clone();
            same.keep_only(&Only::from(&items[..]));
            assert_eq!(format!("{same:?}"), format!("{all:?}"), "seed {seed}");
            if let Some(item) = items.get(seed as usize % items.len().max(1)) {
                let mut one = all.clone();
                one.keep_only(&Only::from(&[*item][..]));
                let left = one.faults();
                // Faults on a crossed path were removed with the path.
                assert!(left.len() <= 1, "seed {seed}: {item} left {left:?}");
                assert!(left.iter().all(|left| left.fault == item.fault));
            }
            kinds.extend(items.iter().map(|item| item.fault));
        }
        assert_eq!(kinds.len(), Fault::ALL.len(), "every kind is drawn: {kinds:?}");
    }
}
