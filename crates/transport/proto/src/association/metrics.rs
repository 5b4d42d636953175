//! Path metrics that an association stores for later associations, and adopts from earlier ones.

use std::net::IpAddr;

use super::Association;
use super::state::{Repeat, State};
use crate::per_path::PathId;
use crate::policy::{Learnt, PathMetrics};
use crate::time::Instant;

impl Association {
    /// The paths without a measurement, and their addresses, local and remote.
    pub(crate) fn unmeasured_paths(&self) -> impl Iterator<Item = (PathId, (IpAddr, IpAddr))> + '_ {
        let new = self.paths.iter().filter(|path| path.rtt.srtt().is_none());
        new.map(|path| (path.id, (path.local, path.remote)))
    }

    /// The addresses of all paths, local and remote.
    pub(crate) fn pairs(&self) -> impl Iterator<Item = (IpAddr, IpAddr)> + '_ {
        self.paths.iter().map(|path| (path.local, path.remote))
    }

    /// The metrics of the path between two addresses; `None` before the peer has answered on it.
    pub(crate) fn learnt_of(&self, (local, remote): (IpAddr, IpAddr)) -> Option<Learnt> {
        let path = &self.paths[self.path_of(local, remote)?];
        let srtt = path.rtt.srtt().filter(|_| path.is_verified())?;
        let (cwnd, ssthresh, reordering) = self.sender.learnt(path.id);
        Some(Learnt {
            srtt,
            rttvar: path.rtt.rttvar(),
            cwnd,
            ssthresh,
            reordering,
            bytes: path.stats.data_bytes_sent,
        })
    }

    /// Adopts the stored metrics of a path. The first measurement after that determines the RTO.
    // Without it RFC 9260 section 6.3.1, C1, has RTO.Initial.
    pub(crate) fn recall(&mut self, now: Instant, path: PathId, known: &PathMetrics) {
        self.paths[path].rtt.expect(known.srtt, known.rttvar);
        if let State::CookieWait { t1, .. } = &mut self.state
            && t1.count == 0
            && t1.path == path
        {
            let rto = self.paths[path].rtt.rto();
            *t1 = Repeat::expecting(now, rto, self.config.timers.rto_initial, path);
        }
        self.sender.recall(now, path, known.ssthresh, known.reordering);
    }
}
