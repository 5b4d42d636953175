//! The figures: what each runs, beside whom, and what it must reach.

use anabranch_peers::transfer::Load;
use anabranch_peers::{Config, Kind, Network};

use crate::measure::{self, Sample};
use crate::options::Options;

/// One figure.
#[derive(Debug)]
pub(crate) struct Figure {
    /// Its key in the JSON output.
    pub(crate) key: &'static str,
    /// One line about it.
    pub(crate) title: &'static str,
    /// What the values are.
    pub(crate) unit: &'static str,
    /// The engine to compare with.
    pub(crate) baseline: Kind,
    /// Every engine that runs, the baseline among them.
    pub(crate) engines: &'static [Kind],
    what: What,
}

/// How a figure is measured.
#[derive(Debug)]
enum What {
    /// Megabytes per CPU second.
    Megabytes { message: usize, network: Wire },
    /// Messages per CPU second.
    Messages { message: usize, network: Wire },
    /// Megabytes per virtual second, at this RTO.Min in milliseconds.
    Rate { rto_min: u64 },
}

/// A network of a figure.
#[derive(Debug)]
struct Wire {
    loss: f64,
    burst: usize,
}

/// Without loss the engines are asked what to send after every 64 packets that arrived at one
/// instant, as a driver with receive offload does; all of them are fastest so. With loss the
/// fastest for rtc-sctp is 8.
const CLEAN: Wire = Wire { loss: 0.0, burst: 64 };
const LOSSY: Wire = Wire { loss: 0.01, burst: 8 };

/// Every figure, in the order in which they run.
pub(crate) const ALL: &[Figure] = &[
    Figure {
        key: "engine_1k",
        title: "1 KB messages in memory, no loss",
        unit: "MB per CPU second",
        baseline: Kind::RtcSctp,
        engines: &Kind::ALL,
        what: What::Megabytes { message: 1024, network: CLEAN },
    },
    Figure {
        key: "engine_16k",
        title: "16 KB messages in memory, no loss",
        unit: "MB per CPU second",
        baseline: Kind::RtcSctp,
        engines: &Kind::ALL,
        what: What::Megabytes { message: 16384, network: CLEAN },
    },
    Figure {
        key: "engine_64",
        title: "64-byte messages in memory, no loss",
        unit: "messages per CPU second",
        baseline: Kind::RtcSctp,
        engines: &Kind::ALL,
        what: What::Messages { message: 64, network: CLEAN },
    },
    Figure {
        key: "engine_1k_loss",
        title: "1 KB messages in memory, 1 % loss",
        unit: "MB per CPU second",
        baseline: Kind::RtcSctp,
        engines: &Kind::ALL,
        what: What::Megabytes { message: 1024, network: LOSSY },
    },
    Figure {
        key: "recovery_loss1",
        title: "recovery at 1 % loss, RTT 1 ms, RTO.Min 0.4 s (rtc-sctp: 1 s)",
        unit: "MB per virtual second",
        baseline: Kind::DcSctp,
        engines: &Kind::ALL,
        what: What::Rate { rto_min: 400 },
    },
];

/// What a figure came to: for each engine the samples in the order of the turns.
#[derive(Debug)]
pub(crate) struct Outcome {
    pub(crate) samples: Vec<(Kind, Vec<Sample>)>,
}

impl Outcome {
    /// The samples of one engine.
    pub(crate) fn of(&self, kind: Kind) -> &[Sample] {
        let found = self.samples.iter().find(|(of, _)| *of == kind);
        found.map_or(&[], |(_, samples)| samples)
    }

    /// The ratio of one engine to another in each turn.
    pub(crate) fn ratios(&self, kind: Kind, baseline: Kind) -> Vec<f64> {
        let pairs = self.of(kind).iter().zip(self.of(baseline));
        pairs.map(|(a, b)| a.value / b.value).collect()
    }
}

impl Figure {
    /// Measures the figure.
    pub(crate) fn run(&self, options: &Options) -> Result<Outcome, String> {
        let mut samples: Vec<(Kind, Vec<Sample>)> =
            self.engines.iter().map(|&kind| (kind, Vec::new())).collect();
        if let What::Rate { rto_min } = self.what {
            let (seconds, seeds) = if options.quick { (10, 3) } else { (100, 10) };
            let seeds: Vec<u64> = (1..=seeds).collect();
            let config = Config { rto_min, ..Config::default() };
            let network = Network { loss: 0.01, ..Network::default() };
            let load = Load::messages_of(1024);
            for (kind, samples) in &mut samples {
                *samples = measure::rates(*kind, &config, &network, &load, seconds, &seeds)?;
            }
        } else {
            for _ in 0..options.runs {
                for (kind, samples) in &mut samples {
                    samples.push(self.sample(*kind, options)?);
                }
            }
        }
        Ok(Outcome { samples })
    }

    fn sample(&self, kind: Kind, options: &Options) -> Result<Sample, String> {
        let (message, wire) = match &self.what {
            What::Megabytes { message, network } | What::Messages { message, network } => {
                (*message, network)
            }
            What::Rate { .. } => return Err("is not measured in CPU time".into()),
        };
        let network = Network { loss: wire.loss, burst: wire.burst, ..Network::default() };
        let seconds = if options.quick { 0.05 } else { 0.5 };
        let load = Load::messages_of(message);
        let mut config = Config::default();
        if message < 256 {
            // rtc-sctp is a third faster when fewer small messages wait in its queues; at longer
            // ones it makes no difference.
            config.send_buffer = 256 << 10;
        }
        let work = measure::work(kind, &config, network, &load, seconds)?;
        let amount = match self.what {
            What::Messages { .. } => work.messages as f64,
            What::Megabytes { .. } | What::Rate { .. } => work.bytes as f64 / 1e6,
        };
        Ok(Sample { value: amount / work.cpu, cpu: work.cpu })
    }
}
