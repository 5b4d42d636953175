//! Compares two captures of one transfer: which packets were lost, and how long the others took.

use std::collections::{HashMap, VecDeque};
use std::fs::File;
use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

use anabranch_analyze::{IpPacket, Stopped, packets};
use anabranch_impair::pattern::{Kind, PatternError, Runs, RunsBuilder};

use crate::failure::{Failure, complain};

/// Maximum number of packets of a transfer: each needs some bytes of memory.
const MOST_PACKETS: usize = 100_000_000;

/// A capture, or one of its interfaces.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Side {
    path: PathBuf,
    interface: Option<u32>,
}

impl Side {
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let number = text.rsplit_once(':').and_then(|(path, number)| {
            Some((path, number.parse::<u32>().ok()?)).filter(|(path, _)| !path.is_empty())
        });
        Ok(match number {
            Some((path, number)) => Self { path: path.into(), interface: Some(number) },
            None => Self { path: text.into(), interface: None },
        })
    }

    /// Reads it as far as possible.
    fn read(&self, mut take: impl FnMut(IpPacket)) -> Result<(), Failure> {
        let name = self.path.display();
        let file = File::open(&self.path)
            .map_err(|error| Failure::failed(format!("{name} cannot be read: {error}")))?;
        let wanted = |packet: &IpPacket| self.interface.is_none_or(|own| own == packet.interface);
        let stopped = packets(file, |packet| {
            if wanted(&packet) {
                take(packet);
            }
        });
        match stopped {
            Ok(Stopped::End) => {}
            Ok(Stopped::Damaged(at, reason)) => complain(&format!("{name}, byte {at}: {reason}")),
            Err(error) => return Err(Failure::failed(format!("{name}: {error}"))),
        }
        Ok(())
    }
}

/// The packets of a transfer in one direction, in the order of sending: the delay of each in nanoseconds, or
/// `None` if it was lost.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Transfer(Vec<Option<u64>>);

impl Transfer {
    /// Compares two captures. Without `from`, the sender is the address that sent first. `least` is the delay of
    /// the fastest packet, for captures whose clocks differ.
    pub(super) fn read(
        sent: &Side,
        came: &Side,
        from: Option<IpAddr>,
        least: Option<Duration>,
    ) -> Result<Self, Failure> {
        let mut from = from;
        let mut all: Vec<IpPacket> = Vec::new();
        sent.read(|packet| {
            if *from.get_or_insert(packet.from) == packet.from && all.len() < MOST_PACKETS {
                all.push(packet);
            }
        })?;
        let name = sent.path.display();
        let Some(from) = from.filter(|_| !all.is_empty()) else {
            return Err(Failure::failed(format!("{name} has no packet of the sender")));
        };
        let mut arrivals: HashMap<u64, VecDeque<u64>> = HashMap::new();
        came.read(|packet| {
            if packet.from == from {
                arrivals.entry(packet.content).or_default().push_back(packet.time);
            }
        })?;
        let times: Vec<_> = all
            .iter()
            .map(|packet| {
                let arrived = arrivals.get_mut(&packet.content)?.pop_front()?;
                Some(i128::from(arrived) - i128::from(packet.time))
            })
            .collect();
        let Some(fastest) = times.iter().flatten().min().copied() else {
            let other = came.path.display();
            return Err(Failure::failed(format!(
                "no packet of {from} in {name} is in {other}, too"
            )));
        };
        let shift = match least {
            Some(least) => fastest - i128::try_from(least.as_nanos()).unwrap_or(0),
            None if fastest < 0 => {
                return Err(Failure::failed(
                    "packets come before they are sent, so the captures are the wrong way round, or their \
                     clocks differ: --least TIME says what the fastest packet took",
                ));
            }
            None => 0,
        };
        let delay = |time: i128| u64::try_from(time - shift).unwrap_or(0);
        Ok(Self(times.into_iter().map(|time| time.map(delay)).collect()))
    }

    /// The values of a loss or delay pattern.
    pub(super) fn values(&self, kind: Kind) -> Result<Runs, Failure> {
        let located = |error: PatternError| Failure::failed(error);
        let mut builder = RunsBuilder::default();
        for time in &self.0 {
            let value = match (kind, time) {
                (Kind::Loss, time) => u64::from(time.is_none()),
                // The value 0 means "no value", so delays are stored plus 1.
                (_, time) => time.map_or(0, |time| time + 1),
            };
            builder.push(value, 1).map_err(located)?;
        }
        Ok(builder.finish())
    }
}
