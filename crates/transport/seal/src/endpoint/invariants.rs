//! What is always true of an endpoint, for random runs.

use std::collections::{BTreeMap, BTreeSet};

use super::peer::Side;
use super::{Endpoint, MOST_GUESTS, MOST_REACHED, MOST_TRANSMITS};

impl Endpoint {
    /// Checks that the tables agree with each other and stay within their bounds.
    ///
    /// # Errors
    /// Returns what is wrong.
    pub fn check_invariants(&self) -> Result<(), String> {
        let (mut words, mut hellos) = (BTreeMap::new(), BTreeMap::new());
        let (mut hosts, mut guests) = (BTreeSet::new(), 0);
        for (network, peer) in &self.peers {
            words.extend(peer.sessions.words().map(|word| (word, *network)));
            hellos.extend(peer.sessions.pending.iter().map(|pending| (pending.hello, *network)));
            match &peer.side {
                Side::Host(host) => {
                    hosts.insert(*network);
                    words.extend(host.dialling.iter().map(|own| (own.attempt.word, *network)));
                    host.check_invariants()?;
                }
                Side::Guest(_) => guests += 1,
            }
        }
        let sums = [
            (words == self.words, "a word without a session, or a session without its word"),
            (hellos == self.hellos, "a hello without a pending session, or the reverse"),
            (hosts == self.hosts, "a host without timers, or the reverse"),
            (guests <= MOST_GUESTS, "too many guests"),
            (guests == 0 || self.sweep.is_some(), "guests that nothing removes"),
            (self.transmits.len() <= MOST_TRANSMITS, "too many datagrams wait"),
            (self.reached.len() <= MOST_REACHED, "too many paths wait to be reported"),
        ];
        match sums.into_iter().find(|(right, _)| !right) {
            Some((_, what)) => Err(what.to_owned()),
            None => Ok(()),
        }
    }
}
