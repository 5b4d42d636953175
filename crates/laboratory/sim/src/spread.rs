//! Routers with several next hops to a destination: how they choose one for a packet.

use anabranch_impair::Rng;

/// How packets are distributed over several next hops.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Spread {
    /// All packets take the first hop.
    #[default]
    One,
    /// Hops take turns, in proportion to their weights.
    RoundRobin,
    /// A random hop for each packet, by weights.
    Random,
    /// A random hop for each flow, by weights; all packets of a flow take the same hop.
    Flow,
}

/// The next hops of a router to one address.
#[derive(Clone, Debug)]
pub(crate) struct Choice {
    spread: Spread,
    /// Channels with their weights; at least one weight is above 0.
    hops: Vec<(usize, u32)>,
    total: u64,
    rng: Rng,
    /// Makes other routers choose differently for the same flow.
    salt: u64,
    turn: u64,
}

impl Choice {
    /// `None` if no hop has a weight above 0.
    pub(crate) fn new(spread: Spread, hops: Vec<(usize, u32)>, mut rng: Rng) -> Option<Self> {
        let salt = rng.next_u64();
        let total = hops.iter().map(|(_, weight)| u64::from(*weight)).sum();
        (total > 0).then_some(Self { spread, hops, total, rng, salt, turn: 0 })
    }

    /// The first hop, which determines reachability.
    pub(crate) fn first(&self) -> usize {
        self.hops[0].0
    }

    /// The hop of a packet of the flow with this number.
    pub(crate) fn next(&mut self, flow: u64) -> usize {
        let place = match self.spread {
            Spread::One => return self.first(),
            Spread::RoundRobin => {
                self.turn += 1;
                (self.turn - 1) % self.total
            }
            Spread::Random => self.rng.below(self.total),
            Spread::Flow => mix(flow ^ self.salt) % self.total,
        };
        let mut left = place;
        for (channel, weight) in &self.hops {
            match left.checked_sub(u64::from(*weight)) {
                Some(rest) => left = rest,
                None => return *channel,
            }
        }
        self.first()
    }
}

/// A number that is independent of its neighbours (the finalizer of splitmix64).
fn mix(mut number: u64) -> u64 {
    number = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    number = (number ^ (number >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    number = (number ^ (number >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    number ^ (number >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn taken(spread: Spread, flows: impl Iterator<Item = u64>) -> Vec<usize> {
        let hops = vec![(10, 1), (20, 2), (30, 1)];
        let mut choice = Choice::new(spread, hops, Rng::new(7)).unwrap();
        flows.map(|flow| choice.next(flow)).collect()
    }

    #[test]
    fn packets_go_round_by_weights() {
        let same = std::iter::repeat_n(1, 8);
        assert_eq!(taken(Spread::RoundRobin, same.clone()), [10, 20, 20, 30, 10, 20, 20, 30]);
        assert_eq!(taken(Spread::One, same), [10; 8]);
        assert!(Choice::new(Spread::One, vec![(1, 0)], Rng::new(1)).is_none());
    }

    #[test]
    fn draws_have_their_weights_for_packets_and_for_flows() {
        for (spread, flows) in [(Spread::Random, 1), (Spread::Flow, 8000)] {
            let all = taken(spread, (0..8000).map(|packet| packet % flows));
            for (channel, share) in [(10, 2000), (20, 4000), (30, 2000)] {
                let count = all.iter().filter(|taken| **taken == channel).count();
                assert!(count.abs_diff(share) < 200, "{spread:?}: {count} of {share}");
            }
        }
        let one = taken(Spread::Flow, std::iter::repeat_n(5, 100));
        assert!(one.iter().all(|channel| *channel == one[0]), "a flow keeps its way");
    }
}
