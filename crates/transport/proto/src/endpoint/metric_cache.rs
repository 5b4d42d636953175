//! Stores metrics of pairs of addresses for later associations. The cache is bounded in size and in
//! time, and holds only metrics of paths on which the peer has answered.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::Duration;

use super::Endpoint;
use crate::event::AssociationId;
use crate::policy::{Learnt, MetricCache, PathMetrics};
use crate::time::Instant;

/// Local and remote address.
type Pair = (IpAddr, IpAddr);

/// ssthresh is meaningful if at least this many times as much was sent, because then it limited the
/// association.
const ENOUGH_DATA: u64 = 16;

/// With [`MetricCache::Informed`], ssthresh is used only for this fraction of the entry's lifetime.
const CONGESTION_LIFE: u32 = 10;

/// Maximum number of established associations to query for their metrics.
const USERS: usize = 4;

#[derive(Debug)]
struct Entry {
    srtt: Duration,
    rttvar: Duration,
    ssthresh: Option<usize>,
    reordering: u64,
    at: Instant,
    /// Its place in the order of writing.
    stamp: u64,
}

/// The entries, and the order in which they were written.
#[derive(Debug)]
pub(super) struct Metrics {
    entries: BTreeMap<Pair, Entry>,
    order: BTreeMap<u64, Pair>,
    /// The latest associations between two addresses.
    users: BTreeMap<Pair, Vec<AssociationId>>,
    next: u64,
    most: usize,
    life: Duration,
}

impl Metrics {
    pub(super) fn new(most: usize, life: Duration) -> Self {
        Self {
            entries: BTreeMap::new(),
            order: BTreeMap::new(),
            users: BTreeMap::new(),
            next: 0,
            most,
            life,
        }
    }

    /// Stores the metrics of an association. The ssthresh of short and long transfers is combined
    /// as in Linux: a longer slow start raises it; one that was cut short counts by half.
    fn note(&mut self, now: Instant, pair: Pair, learnt: &Learnt, how: MetricCache) {
        if self.most == 0 {
            return;
        }
        let before = self.get(now, pair, MetricCache::Full);
        let found = match (how, learnt.ssthresh) {
            (MetricCache::Informed, Some(ssthresh))
                if learnt.bytes < ENOUGH_DATA.saturating_mul(ssthresh as u64) =>
            {
                None
            }
            (how, _) if !how.has_congestion() => None,
            (_, Some(ssthresh)) if learnt.cwnd > ssthresh => Some(ssthresh.max(learnt.cwnd / 2)),
            (_, Some(ssthresh)) => {
                let known = before.and_then(|known| known.ssthresh);
                Some(known.map_or(ssthresh, |known| known.midpoint(ssthresh)))
            }
            (_, None) => None,
        };
        let known = before.and_then(|known| known.ssthresh);
        let ssthresh = found.or(known.map(|known| match learnt.ssthresh {
            None => known.max(learnt.cwnd / 2),
            Some(_) => known,
        }));
        // A longer round trip replaces the stored one; a shorter one counts by an eighth.
        let srtt = before.map_or(learnt.srtt, |known| match learnt.srtt >= known.srtt {
            true => learnt.srtt,
            false => known.srtt - (known.srtt - learnt.srtt) / 8,
        });
        let rttvar = before.map_or(learnt.rttvar, |known| learnt.rttvar.max(known.rttvar * 3 / 4));
        let stamp = self.next;
        self.next += 1;
        let entry = Entry { srtt, rttvar, ssthresh, reordering: learnt.reordering, at: now, stamp };
        if let Some(old) = self.entries.insert(pair, entry) {
            self.order.remove(&old.stamp);
        }
        self.order.insert(stamp, pair);
        if self.entries.len() > self.most
            && let Some((_, oldest)) = self.order.pop_first()
        {
            self.entries.remove(&oldest);
        }
    }

    /// The stored metrics of a pair of addresses, if they are recent enough.
    fn get(&self, now: Instant, pair: Pair, how: MetricCache) -> Option<PathMetrics> {
        let entry = self.entries.get(&pair)?;
        let age = now.saturating_since(entry.at);
        let ssthresh_life = match how {
            MetricCache::Informed => self.life / CONGESTION_LIFE,
            _ => self.life,
        };
        (age < self.life).then(|| PathMetrics {
            local: pair.0,
            remote: pair.1,
            srtt: entry.srtt,
            rttvar: entry.rttvar,
            ssthresh: entry.ssthresh.filter(|_| age < ssthresh_life && how.has_congestion()),
            reordering: entry.reordering,
            age,
        })
    }

    /// Records that an association between two addresses begins. Returns the latest ones before it.
    fn join(&mut self, pair: Pair, id: AssociationId) -> Vec<AssociationId> {
        if self.most == 0 {
            return Vec::new();
        }
        if self.users.len() >= self.most && !self.users.contains_key(&pair) {
            self.users.pop_first();
        }
        let users = self.users.entry(pair).or_default();
        let others: Vec<_> = users.iter().copied().filter(|user| *user != id).collect();
        if others.len() == users.len() {
            users.push(id);
        }
        if users.len() > USERS {
            users.remove(0);
        }
        others
    }

    /// Records that an association has ended.
    fn leave(&mut self, pair: Pair, id: AssociationId) {
        if let Some(users) = self.users.get_mut(&pair) {
            users.retain(|user| *user != id);
            if users.is_empty() {
                self.users.remove(&pair);
            }
        }
    }

    /// Removes metrics of local addresses for which `keep` is false.
    pub(super) fn retain(&mut self, keep: impl Fn(IpAddr) -> bool) {
        self.entries.retain(|(local, _), _| keep(*local));
        self.order.retain(|_, (local, _)| keep(*local));
    }
}

impl Endpoint {
    /// The metrics stored for later associations whose option
    /// [`metric_cache`](crate::config::PathConfig::metric_cache) enables them.
    pub fn metrics(&self, now: Instant) -> Vec<PathMetrics> {
        let pairs = self.metrics.entries.keys();
        pairs.filter_map(|pair| self.metrics.get(now, *pair, MetricCache::Full)).collect()
    }

    /// Passes stored metrics to an association, for its new paths.
    pub(super) fn recall(&mut self, now: Instant, id: AssociationId) {
        let Some(association) = self.association(id) else { return };
        let how = association.config().paths.metric_cache;
        if how == MetricCache::Off {
            return;
        }
        let new: Vec<_> = association.unmeasured_paths().collect();
        for (path, pair) in new {
            if how == MetricCache::Informed {
                for user in self.metrics.join(pair, id) {
                    let learnt = self.association(user).and_then(|other| other.learnt_of(pair));
                    if let Some(learnt) = learnt {
                        self.metrics.note(now, pair, &learnt, how);
                    }
                }
            }
            let Some(known) = self.metrics.get(now, pair, how) else { continue };
            if let Some(association) = self.get_mut(id) {
                association.recall(now, path, &known);
            }
        }
    }

    /// Stores the metrics of an association that is ending.
    pub(super) fn remember(&mut self, now: Instant, id: AssociationId) {
        let Some(association) = self.association(id) else { return };
        let how = association.config().paths.metric_cache;
        if how == MetricCache::Off {
            return;
        }
        let pairs: Vec<_> = association.pairs().collect();
        for pair in pairs {
            let learnt = self.association(id).and_then(|association| association.learnt_of(pair));
            if let Some(learnt) = learnt {
                self.metrics.note(now, pair, &learnt, how);
            }
            self.metrics.leave(pair, id);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    const LIFE: Duration = Duration::from_secs(600);

    fn pair(last: u8) -> Pair {
        (Ipv4Addr::new(10, 0, 0, 1).into(), Ipv4Addr::new(10, 0, 1, last).into())
    }

    fn at(seconds: u64) -> Instant {
        Instant::ZERO + Duration::from_secs(seconds)
    }

    fn learnt(ssthresh: Option<usize>, cwnd: usize, bytes: u64) -> Learnt {
        Learnt {
            srtt: Duration::from_millis(80),
            rttvar: Duration::from_millis(10),
            cwnd,
            ssthresh,
            reordering: 3,
            bytes,
        }
    }

    fn ssthresh(cache: &Metrics, now: u64, how: MetricCache) -> Option<usize> {
        cache.get(at(now), pair(1), how).and_then(|known| known.ssthresh)
    }

    #[test]
    fn kernels_rules_for_ssthresh() {
        let mut cache = Metrics::new(8, LIFE);
        cache.note(at(0), pair(1), &learnt(None, 50_000, 1), MetricCache::Full);
        assert_eq!(ssthresh(&cache, 0, MetricCache::Full), None, "no loss, nothing known");
        cache.note(at(0), pair(1), &learnt(Some(6000), 3000, 1), MetricCache::Full);
        assert_eq!(ssthresh(&cache, 0, MetricCache::Full), Some(6000));
        cache.note(at(0), pair(1), &learnt(Some(2000), 1500, 1), MetricCache::Full);
        assert_eq!(ssthresh(&cache, 0, MetricCache::Full), Some(4000), "slow start was cut short");
        cache.note(at(0), pair(1), &learnt(Some(2000), 20_000, 1), MetricCache::Full);
        assert_eq!(ssthresh(&cache, 0, MetricCache::Full), Some(10_000));
        cache.note(at(0), pair(1), &learnt(None, 60_000, 1), MetricCache::Full);
        assert_eq!(ssthresh(&cache, 0, MetricCache::Full), Some(30_000), "none was met so far");
        assert_eq!(ssthresh(&cache, 0, MetricCache::Selective), None);
    }

    #[test]
    fn a_short_transfer_that_met_a_loss_says_nothing_to_who_is_informed() {
        let mut cache = Metrics::new(8, LIFE);
        cache.note(at(0), pair(1), &learnt(Some(3000), 2000, 20_000), MetricCache::Informed);
        assert_eq!(ssthresh(&cache, 0, MetricCache::Informed), None);
        cache.note(at(0), pair(1), &learnt(Some(3000), 2000, 100_000), MetricCache::Informed);
        assert_eq!(ssthresh(&cache, 0, MetricCache::Informed), Some(3000));
        assert_eq!(ssthresh(&cache, 61, MetricCache::Informed), None, "a tenth of the life");
        assert!(cache.get(at(61), pair(1), MetricCache::Informed).is_some());
        assert!(cache.get(at(601), pair(1), MetricCache::Informed).is_none());
    }

    #[test]
    fn the_oldest_entry_goes_and_what_is_of_an_address_that_went() {
        let mut cache = Metrics::new(2, LIFE);
        for last in [1, 2, 1, 3] {
            cache.note(at(0), pair(last), &learnt(None, 1, 1), MetricCache::Selective);
        }
        let known =
            |cache: &Metrics, last| cache.get(at(0), pair(last), MetricCache::Selective).is_some();
        assert_eq!([1, 2, 3].map(|last| known(&cache, last)), [true, false, true]);
        assert_eq!(cache.entries.len(), cache.order.len());
        cache.retain(|local| local != pair(1).0);
        assert!(cache.entries.is_empty() && cache.order.is_empty());
    }
}
