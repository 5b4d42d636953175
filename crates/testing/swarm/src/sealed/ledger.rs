//! Checks that the server does not amplify: an address from which nothing has been received gets at most three times the
//! bytes that came from it.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;

const MOST: u64 = 3;

#[derive(Debug, Default)]
pub(super) struct Ledger {
    /// Bytes from and to each outer address.
    traffic: BTreeMap<SocketAddr, (u64, u64)>,
    /// Addresses at which the client has received something.
    reached: BTreeSet<SocketAddr>,
}

impl Ledger {
    pub(super) fn arrived(&mut self, source: SocketAddr, bytes: usize) {
        self.traffic.entry(source).or_default().0 += bytes as u64;
    }

    pub(super) fn reached(&mut self, outer: SocketAddr) {
        self.reached.insert(outer);
    }

    pub(super) fn sent(&mut self, to: SocketAddr, bytes: usize) {
        let counts = self.traffic.entry(to).or_default();
        counts.1 += bytes as u64;
        let (from, sent) = *counts;
        let fair = sent <= MOST * from || self.reached.contains(&to);
        assert!(fair, "{sent} bytes for {from} to {to}, which has not answered");
    }
}
