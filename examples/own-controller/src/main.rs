//! An example of a user-defined congestion controller that uses the delivery rate of the path: it
//! sends at the highest rate measured in the last ten round trips, tries a quarter more now and then,
//! and keeps at most two round trips of data in flight. It ignores losses.
//!
//! This is the core of BBR, without the parts that make it fair: do not use it as it is.
//!
//! `cargo run --manifest-path examples/own-controller/Cargo.toml`

use std::collections::VecDeque;

use anabranch::congestion::{
    Acked, CongestionEvent, Controller, ControllerChoice, ControllerFactory, Instant, Loss, Needs,
    NewPath,
};
use anabranch::{AssociationConfig, ConnectOptions, Endpoint, OutgoingMessage, Ppid};

#[derive(Debug)]
struct Rated {
    pmdcs: usize,
    window: usize,
    /// The highest rate of each of the last round trips, in bytes per second.
    rates: VecDeque<u64>,
    /// Total bytes delivered when the current round trip began.
    round_ends_at: u64,
    rounds: usize,
}

impl Rated {
    const INITIAL: usize = 10;
    const LEAST: usize = 4;
    /// Round trips that a rate counts.
    const MEMORY: usize = 10;
    /// Percent of the rate in each of eight round trips: more, less to empty the queue, and as it is.
    const CYCLE: [u64; 8] = [125, 75, 100, 100, 100, 100, 100, 100];

    fn new(pmdcs: usize) -> Self {
        let window = Self::INITIAL * pmdcs;
        Self { pmdcs, window, rates: VecDeque::new(), round_ends_at: 0, rounds: 0 }
    }

    fn rate(&self) -> Option<u64> {
        self.rates.iter().copied().max()
    }

    /// The rate grew by less than a quarter in three round trips: the path is full.
    fn is_full(&self) -> bool {
        let before = self.rates.iter().rev().skip(3).max();
        before.is_some_and(|before| self.rate().unwrap_or(0) < before / 4 * 5)
    }
}

impl Controller for Rated {
    fn needs(&self) -> Needs {
        Needs::default().with_rate_samples().with_pacing()
    }

    fn cwnd(&self) -> usize {
        self.window
    }

    fn pacing_rate(&self) -> Option<u64> {
        let percent =
            if self.is_full() { Self::CYCLE[self.rounds % Self::CYCLE.len()] } else { 289 };
        self.rate().map(|rate| rate.saturating_mul(percent) / 100)
    }

    fn on_acked(&mut self, acked: &Acked<'_>) {
        let Some(sample) = acked.rate else { return };
        if sample.delivered_before >= self.round_ends_at {
            self.round_ends_at = sample.delivered;
            self.rounds += 1;
            self.rates.push_back(0);
            if self.rates.len() > Self::MEMORY {
                self.rates.pop_front();
            }
        }
        // Where the application was slower than the path, the path may be faster than this.
        if let Some(last) = self.rates.back_mut()
            && (!sample.app_limited || sample.rate() > *last)
        {
            *last = sample.rate().max(*last);
        }
        if let (Some(rate), Some(rtt)) = (self.rate(), acked.rtt.min) {
            let bytes = rate as f64 * rtt.as_secs_f64() * 2.0;
            self.window = (bytes as usize).max(Self::LEAST * self.pmdcs);
        }
    }

    fn on_congestion_event(&mut self, event: &CongestionEvent<'_>) {
        if event.cause == Loss::Timeout {
            *self = Self { window: Self::LEAST * self.pmdcs, ..Self::new(self.pmdcs) };
        }
    }

    fn on_pmdcs_change(&mut self, _now: Instant, pmdcs: usize) {
        self.pmdcs = pmdcs;
        self.window = self.window.max(Self::LEAST * pmdcs);
    }

    fn reinitialize(&mut self, _now: Instant) {
        *self = Self::new(self.pmdcs);
    }
}

/// Makes one for each path.
#[derive(Debug)]
struct RatedFactory;

impl ControllerFactory for RatedFactory {
    fn build(&self, path: &NewPath<'_>) -> Box<dyn Controller> {
        Box::new(Rated::new(path.pmdcs))
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let server = Endpoint::builder().local_addresses([[127, 0, 0, 1].into()]).bind()?;
    let listener = server.listen(5000, AssociationConfig::default())?;
    let mut options = ConnectOptions::default();
    options.remote_udp_port = server.udp_port();
    options.config.controller = ControllerChoice::new(RatedFactory);
    let client = Endpoint::builder().bind()?;
    let (near, far) =
        tokio::join!(client.connect(([127, 0, 0, 1], 5000), options), listener.accept());
    let (near, far) = (near?, far.ok_or("nobody came")?);

    let reader = tokio::spawn(async move {
        let mut bytes = 0;
        while let Ok(Some(message)) = far.recv().await {
            bytes += message.payload.len();
        }
        bytes
    });
    let before = near.statistics().paths[0].cwnd;
    for _ in 0..2000 {
        near.send(OutgoingMessage::new(0, Ppid(0), vec![0; 1000])).await?;
    }
    let after = near.statistics().paths[0].cwnd;
    near.close().await?;
    println!("{} bytes arrived; the window went from {before} to {after} bytes", reader.await?);
    Ok(())
}
