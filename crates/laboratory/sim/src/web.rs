//! Web traffic: requests at random times, each over a separate TCP connection, with answers of
//! widely different sizes. Unlike the packets of a generator it reacts to congestion.

use std::f64::consts::TAU;

use anabranch_impair::Rng;
use anabranch_proto::Instant;
use anabranch_tcp::{Config, MetricCache};

use crate::error::SimError;
use crate::flow::{TcpFlow, TcpFlowResult};
use crate::network::{Network, NodeId, Source, purpose};
use crate::packet::AddressId;

/// Identifies web traffic of a network.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WebId(u32);

/// Requests of a client to a server (HTTP/1.0, one connection each), as in the models of Cao et
/// al., "Stochastic Models for Generating Synthetic HTTP Source Traffic" (2004). This is an open
/// loop: users do not wait for each other. Requests form a Poisson process, which the arrivals of
/// those models approach as their rate grows.
#[derive(Clone, Debug, PartialEq)]
pub struct WebTraffic {
    /// The requesting host.
    pub client: NodeId,
    /// The answering host.
    pub server: NodeId,
    /// Mean number of connections per second, above 0.
    pub rate: f64,
    /// Bytes of a request.
    pub request: LogNormal,
    /// Bytes of an answer.
    pub answer: LogNormal,
    /// When it starts.
    pub start: Instant,
    /// Options of both ends of the connections.
    pub config: Config,
}

/// Sizes with a log-normal distribution, cut at a maximum.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LogNormal {
    /// Median in bytes, at least 1.
    pub median: f64,
    /// Standard deviation of the natural logarithm.
    pub sigma: f64,
    /// Maximum size in bytes; larger sizes are drawn again.
    pub most: f64,
}

impl LogNormal {
    /// Answers like the main objects of 3GPP2's evaluation methodology (C.R1002): mean 10.7 kB,
    /// standard deviation 25 kB, at most 2 MB.
    pub const ANSWERS: Self = Self { median: 4316.0, sigma: 1.37, most: 2e6 };
    /// Requests of a few hundred bytes; only few do not fit into one packet.
    pub const REQUESTS: Self = Self { median: 350.0, sigma: 0.5, most: 8192.0 };

    fn is_valid(&self) -> bool {
        self.median >= 1.0 && (0.0..=10.0).contains(&self.sigma) && self.most >= self.median
    }

    fn draw(&self, rng: &mut Rng) -> u64 {
        // The chance to be at the median or below is one half, so the loop ends.
        loop {
            // Box-Muller transform; one of its two numbers is enough.
            let normal = libm::sqrt(-2.0 * libm::log(uniform(rng))) * libm::cos(TAU * uniform(rng));
            let size = self.median * libm::exp(self.sigma * normal);
            if size <= self.most {
                return (size as u64).max(1);
            }
        }
    }
}

/// A number above 0 and at most 1.
fn uniform(rng: &mut Rng) -> f64 {
    ((rng.next_u64() >> 11) + 1) as f64 / (1_u64 << 53) as f64
}

/// The results of web traffic.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct WebResult {
    /// Requests made.
    pub requests: u64,
    /// Requests with complete answers.
    pub answered: u64,
    /// Total bytes of these requests and answers.
    pub bytes: u64,
    /// Sum of the times from the start of their connections to the end of the answers, in seconds.
    pub seconds: f64,
}

/// Running web traffic.
#[derive(Debug)]
pub(crate) struct Requests {
    spec: WebTraffic,
    rng: Rng,
    addresses: [AddressId; 2],
    /// Its entry in the calendar.
    source: usize,
    result: WebResult,
}

impl Requests {
    /// Time to the next request in nanoseconds.
    fn pause(&mut self) -> u64 {
        (-libm::log(uniform(&mut self.rng)) / self.spec.rate * 1e9) as u64
    }

    /// Records that one of its connections has ended.
    pub(crate) fn closed(&mut self, flow: &TcpFlowResult) {
        if let Some(end) = flow.completed_at {
            self.result.answered += 1;
            self.result.bytes += flow.delivered;
            self.result.seconds += end.saturating_since(flow.started_at).as_secs_f64();
        }
    }
}

impl Network {
    /// Adds web traffic, which never ends; [`run`](Self::run) does not wait for it.
    ///
    /// # Errors
    /// [`SimError::Option`], [`SimError::NotAHost`], [`SimError::NoRoute`], [`SimError::Past`].
    pub fn add_web_traffic(&mut self, spec: WebTraffic) -> Result<WebId, SimError> {
        if spec.start < self.now {
            return Err(SimError::Past);
        }
        let check = |ok: bool, option, reason: &'static str| {
            if ok { Ok(()) } else { Err(SimError::Option { option, reason: reason.into() }) }
        };
        check(spec.rate > 0.0 && spec.rate <= 1e6, "web rate", "must lie between 0 and 10^6")?;
        check(spec.request.is_valid(), "web request", "needs a median of 1 to its greatest size")?;
        check(spec.answer.is_valid(), "web answer", "needs a median of 1 to its greatest size")?;
        let addresses = self.pair_both_ways(spec.client, spec.server)?;
        let number = self.web.len();
        let rng = self.draws(purpose::WEB, number);
        let source = self.source(Source::Web(number));
        let mut requests = Requests { spec, rng, addresses, source, result: WebResult::default() };
        let first = requests.spec.start.as_nanos().saturating_add(requests.pause());
        self.calendar.set_nanos(source, first);
        self.web.push(requests);
        Ok(WebId(number as u32))
    }

    /// The results of web traffic so far; open connections do not count.
    pub fn web_traffic(&self, web: WebId) -> WebResult {
        self.web[web.0 as usize].result
    }

    /// Sends a due request.
    pub(crate) fn web_requests(&mut self, number: usize) {
        let web = &mut self.web[number];
        web.result.requests += 1;
        let flow = TcpFlow {
            messages: None,
            metric_cache: MetricCache::Off,
            pair: None,
            from: web.spec.client,
            to: web.spec.server,
            bytes: Some(web.spec.request.draw(&mut web.rng)),
            answer: web.spec.answer.draw(&mut web.rng),
            start: self.now,
            config: web.spec.config.clone(),
        };
        let isns = [(); 2].map(|()| (web.rng.next_u64() >> 32) as u32);
        let next = self.now.as_nanos().saturating_add(web.pause());
        let (addresses, source) = (web.addresses, web.source);
        self.calendar.set_nanos(source, next);
        self.open_flow(&flow, addresses, isns, Some(number));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_their_median_and_their_mean() {
        let mut rng = Rng::new(3);
        let mut sizes: Vec<u64> = (0..100_000).map(|_| LogNormal::ANSWERS.draw(&mut rng)).collect();
        sizes.sort_unstable();
        let median = sizes[50_000] as f64;
        assert!((median / 4316.0 - 1.0).abs() < 0.02, "{median}");
        let mean = sizes.iter().sum::<u64>() as f64 / 1e5;
        // exp(sigma^2 / 2) times the median is 11.0 kB; the mean is slightly less because the
        // distribution is cut.
        assert!((10_000.0..11_500.0).contains(&mean), "{mean}");
        assert!(*sizes.last().unwrap() <= 2_000_000 && sizes[0] >= 1);
    }
}
