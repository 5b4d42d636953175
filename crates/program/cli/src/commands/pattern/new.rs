//! `anabranch pattern new`.

use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

use anabranch_impair::pattern::{
    self, Basis, End, Filter, Kind, Pattern, PatternError, Patterns, Preset, Runs, Start,
};
use anabranch_impair::{GilbertElliott, Probability};
use clap::{ArgGroup, Args, ValueEnum};

use super::captures::{Side, Transfer};
use super::convert::is_binary;
use crate::failure::Failure;

/// Default number of packets or milliseconds for a rule without an end.
const COUNT: u64 = 10_000;
/// Default milliseconds of a preset.
const PRESET: u64 = 60_000;

/// Make a pattern from a rule, a table, a trace or a preset
///
/// KIND is loss, corrupt, duplicate, delay, rate or displace. --value is the value at the positions
/// that the rule chooses; a lost packet needs none. Presets: geo-satellite, leo-satellite, mobile,
/// train. RULE is one of --positions, --every, --random, --gilbert-elliott, --constant, --csv,
/// --mahimahi, --captures and --preset.
#[derive(Debug, Args)]
#[command(override_usage = "anabranch pattern new [OPTIONS] <RULE> [KIND]",
    group(ArgGroup::new("rule").required(true)), after_help = "Examples:
  anabranch pattern new loss --positions 3,17-19 --out three.pattern
  anabranch pattern new loss --every 100 --count 10000
  anabranch pattern new loss --random 1% --count 100M --seed 7 --out long.bin
  anabranch pattern new loss --gilbert-elliott 0.5%,25% --per ms --end repeat
  anabranch pattern new displace --value 3 --every 50 --filter 'tcp and payload > 0'
  anabranch pattern new delay --csv delays.csv --column 2 --overtake
  anabranch pattern new rate --mahimahi Verizon-LTE-driving.down --end repeat
  anabranch pattern new --captures sender.pcapng receiver.pcapng --out transfer.pattern
  anabranch pattern new --preset train --count 300000 --out train.pattern")]
pub(crate) struct New {
    /// What the pattern does to packets
    #[arg(value_parser = kind)]
    kind: Option<Kind>,
    /// At these positions, counted from 1
    #[arg(long, value_name = "N[-M],...", group = "rule", value_parser = ranges)]
    positions: Option<Ranges>,
    /// At every nth position
    #[arg(long, value_name = "N", group = "rule", value_parser = number)]
    every: Option<u64>,
    /// At each position with this probability
    #[arg(long, value_name = "SHARE", group = "rule", value_parser = share)]
    random: Option<Probability>,
    /// In bursts: the probabilities of entering and of leaving the bad state, and those of a hit in
    /// the good (0 %) and in the bad state (100 %)
    #[arg(long, value_name = "SHARE,SHARE[,SHARE,SHARE]", group = "rule", value_delimiter = ',', value_parser = share)]
    gilbert_elliott: Option<Vec<Probability>>,
    /// Everywhere
    #[arg(long, group = "rule")]
    constant: bool,
    /// One value from each row of a table
    #[arg(long, value_name = "FILE", group = "rule")]
    csv: Option<PathBuf>,
    /// The column of the table, counted from 1
    #[arg(long, value_name = "N", default_value_t = 1, requires = "csv")]
    column: usize,
    /// Rates from a mahimahi trace
    #[arg(long, value_name = "FILE", group = "rule")]
    mahimahi: Option<PathBuf>,
    /// Losses and delays from two captures of one transfer, at the sender and at the receiver; for a
    /// file with several interfaces, add the number of one after a colon
    #[arg(long, value_names = ["FILE[:N]", "FILE[:N]"], num_args = 2, group = "rule", value_parser = Side::parse)]
    captures: Option<Vec<Side>>,
    /// For captures: the sender's address [default: that of the first packet]
    #[arg(long, value_name = "ADDR", requires = "captures")]
    from: Option<IpAddr>,
    /// For captures whose clocks differ: the delay of the fastest packet
    #[arg(long, value_name = "TIME", requires = "captures", value_parser = crate::options::duration)]
    least: Option<Duration>,
    /// A typical link
    #[arg(long, value_name = "NAME", group = "rule")]
    preset: Option<String>,
    /// The value at the chosen positions, as in pattern files: 20ms, 5Mb/s, 3
    #[arg(long, value_name = "VALUE")]
    value: Option<String>,
    /// Number of positions, optionally with k, M or G [default: 10000; for presets 60000 ms]
    #[arg(long, value_name = "NUMBER", value_parser = number)]
    count: Option<u64>,
    /// Seed for all random choices
    #[arg(long, value_name = "NUMBER", default_value_t = 1)]
    seed: u64,
    /// What a position counts
    #[arg(long, value_name = "WHAT", value_enum)]
    per: Option<Per>,
    /// What follows the last value
    #[arg(long, value_name = "WHAT", value_enum)]
    end: Option<After>,
    /// Start at this packet rather than the first
    #[arg(long, value_name = "NUMBER", value_parser = number)]
    start_packet: Option<u64>,
    /// Count only these packets
    #[arg(long, value_name = "FILTER", value_parser = Filter::parse)]
    filter: Option<Filter>,
    /// Name for reports and triggers
    #[arg(long)]
    name: Option<String>,
    /// Let packets with a shorter delay overtake
    #[arg(long)]
    overtake: bool,
    /// The new file, binary if its name ends in .bin; otherwise text to standard output
    #[arg(long, short, value_name = "FILE")]
    out: Option<PathBuf>,
}

type Ranges = Vec<(u64, u64)>;

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Per {
    Packet,
    Ms,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum After {
    Stop,
    Hold,
    Repeat,
}

fn kind(text: &str) -> Result<Kind, String> {
    let known = Kind::parse(text).filter(|kind| *kind != Kind::Trigger);
    known.ok_or_else(|| "loss, corrupt, duplicate, delay, rate or displace".to_owned())
}

/// Parses a whole number with an optional suffix k, M or G.
pub(super) fn number(text: &str) -> Result<u64, String> {
    let (digits, times) = match text.as_bytes().last() {
        Some(b'k') => (text.get(..text.len() - 1), 1000),
        Some(b'M') => (text.get(..text.len() - 1), 1_000_000),
        Some(b'G') => (text.get(..text.len() - 1), 1_000_000_000),
        _ => (Some(text), 1),
    };
    let digits = digits.and_then(|digits| digits.parse::<u64>().ok());
    let number = digits.and_then(|number| number.checked_mul(times));
    number
        .filter(|number| *number > 0)
        .ok_or_else(|| "a number from 1, as in 500, 20k or 100M".into())
}

fn share(text: &str) -> Result<Probability, String> {
    let wrong = || "a share, as in 1% or 0.01".to_owned();
    let text = text.trim();
    let fraction = match text.strip_suffix('%') {
        Some(percent) => percent.trim().parse::<f64>().map(|percent| percent / 100.0),
        None => text.parse::<f64>(),
    };
    Probability::fraction(fraction.map_err(|_| wrong())?).map_err(|_| wrong())
}

fn ranges(text: &str) -> Result<Ranges, String> {
    let parse = |part: &str| {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        Some((first.trim().parse().ok()?, last.trim().parse().ok()?))
    };
    let all: Option<Ranges> = text.split(',').map(parse).collect();
    all.ok_or_else(|| "positions and ranges of them, as in 3,17-19".into())
}

impl New {
    pub(crate) fn run(self) -> Result<(), Failure> {
        let patterns = match (&self.preset, &self.captures) {
            (Some(name), _) => self.preset(name)?,
            (None, Some(captures)) => self.transfer(captures)?,
            (None, None) => Patterns::new(vec![self.pattern()?]).map_err(Failure::usage)?,
        };
        super::write(&patterns, self.out.as_ref(), is_binary(self.out.as_ref()))
    }

    fn preset(&self, name: &str) -> Result<Patterns, Failure> {
        if self.kind.is_some() || self.value.is_some() || self.per.is_some() {
            return Err(Failure::usage("a preset has its own kinds and values"));
        }
        let Some(preset) = Preset::named(name) else {
            let names: Vec<_> = pattern::PRESETS.iter().map(|preset| preset.name).collect();
            let names = names.join(", ");
            return Err(Failure::usage(format!("'{name}' is not a preset: {names}")));
        };
        preset.patterns(self.count.unwrap_or(PRESET), self.seed).map_err(Failure::usage)
    }

    /// Makes the pattern of a transfer that two captures recorded.
    fn transfer(&self, captures: &[Side]) -> Result<Patterns, Failure> {
        let [sent, came] = captures else {
            return Err(Failure::usage(
                "--captures needs two files: the sender's and the receiver's",
            ));
        };
        if self.value.is_some() || self.per.is_some() || self.filter.is_some() {
            return Err(Failure::usage("captures have their own values, one for each packet"));
        }
        let transfer = Transfer::read(sent, came, self.from, self.least)?;
        let kinds = match self.kind {
            None => vec![Kind::Loss, Kind::Delay],
            Some(kind @ (Kind::Loss | Kind::Delay)) => vec![kind],
            Some(_) => return Err(Failure::usage("captures only give loss and delay")),
        };
        let mut made = Vec::new();
        for kind in kinds {
            let mut pattern = Pattern::new(kind, Basis::Packet);
            pattern.values = transfer.values(kind)?;
            pattern.overtake = kind == Kind::Delay;
            pattern.name.clone_from(&self.name);
            pattern.end = self.end();
            made.push(pattern);
        }
        Patterns::new(made).map_err(Failure::usage)
    }

    fn end(&self) -> End {
        match self.end {
            None | Some(After::Stop) => End::Stop,
            Some(After::Hold) => End::Hold,
            Some(After::Repeat) => End::Repeat,
        }
    }

    fn pattern(&self) -> Result<Pattern, Failure> {
        let kind = match (self.kind, &self.mahimahi) {
            (Some(kind), _) => kind,
            (None, Some(_)) => Kind::Rate,
            (None, None) => {
                return Err(Failure::usage("say what the pattern does: loss, delay, rate, ..."));
            }
        };
        let basis = match (self.per, &self.mahimahi) {
            (None, Some(_)) | (Some(Per::Ms), _) => Basis::Millisecond,
            (None, None) | (Some(Per::Packet), _) => Basis::Packet,
        };
        let mut made = Pattern::new(kind, basis);
        let value = match (&self.value, kind) {
            (Some(word), _) => kind.value(word, &mut made.bits).map_err(Failure::usage)?,
            (None, Kind::Loss) => 1,
            _ if self.csv.is_some() || self.mahimahi.is_some() => 0,
            _ => {
                let reason = format!("--value says what a {} pattern does", kind.name());
                return Err(Failure::usage(reason));
            }
        };
        made.values = self.values(kind, value, &mut made.bits)?;
        made.name.clone_from(&self.name);
        made.overtake = self.overtake;
        if let Some(filter) = &self.filter {
            made.filter = filter.clone();
        }
        if let Some(number) = self.start_packet {
            made.start = Start::Packet(number);
        }
        made.end = self.end();
        Ok(made)
    }

    fn values(&self, kind: Kind, value: u64, bits: &mut Vec<Vec<i64>>) -> Result<Runs, Failure> {
        let count = self.count.unwrap_or(COUNT);
        let located = |path: &PathBuf, error: PatternError| {
            Failure::failed(format!("{}, {error}", path.display()))
        };
        if let Some(path) = &self.csv {
            let text = super::text(path)?;
            return pattern::csv(kind, &text, self.column, bits).map_err(|e| located(path, e));
        }
        if let Some(path) = &self.mahimahi {
            if kind != Kind::Rate {
                return Err(Failure::usage("a mahimahi trace only has rates"));
            }
            return pattern::mahimahi(&super::text(path)?).map_err(|error| located(path, error));
        }
        let made = if let Some(list) = &self.positions {
            pattern::positions(value, list.iter().copied())
        } else if let Some(nth) = self.every {
            pattern::every(value, nth, count)
        } else if let Some(p) = self.random {
            pattern::bernoulli(value, p, count, self.seed)
        } else if let Some(shares) = &self.gilbert_elliott {
            let (good_to_bad, bad_to_good, loss_good, loss_bad) = match shares[..] {
                [there, back] => (there, back, Probability::ZERO, Probability::ONE),
                [there, back, good, bad] => (there, back, good, bad),
                _ => return Err(Failure::usage("--gilbert-elliott has two or four shares")),
            };
            let model = GilbertElliott { good_to_bad, bad_to_good, loss_good, loss_bad };
            pattern::gilbert_elliott(value, model, count, self.seed)
        } else {
            pattern::span(value, count)
        };
        made.map_err(Failure::usage)
    }
}
