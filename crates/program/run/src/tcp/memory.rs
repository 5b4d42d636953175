//! Which hosts have SCTP, for a while.

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use tokio::time::Instant;

/// How long it is remembered. Then a host may cost the head start again.
const REMEMBERED: Duration = Duration::from_secs(300);

/// The most that is remembered. Then all is forgotten: a program that connects to more hosts in five minutes is
/// unlikely to meet them again.
const MOST: usize = 10_000;

/// What is known about connections to an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Known {
    Nothing,
    /// The host carries connections over SCTP.
    Sctp,
    /// It does not.
    TcpOnly,
}

/// What hosts, and single ports of them, have answered. Only what is known of a port applies to that port, because a
/// host may have SCTP for some programs only.
#[derive(Debug, Default)]
pub(super) struct Memory(HashMap<(IpAddr, Option<u16>), (bool, Instant)>);

impl Memory {
    pub(super) fn of(&self, remote: SocketAddr) -> Known {
        let found = |port| {
            let (has_sctp, since) = self.0.get(&(remote.ip(), port))?;
            (since.elapsed() < REMEMBERED).then_some(*has_sctp)
        };
        match found(Some(remote.port())).or_else(|| found(None)) {
            None => Known::Nothing,
            Some(true) => Known::Sctp,
            Some(false) => Known::TcpOnly,
        }
    }

    /// The host carries connections to this port over SCTP.
    pub(super) fn has_sctp(&mut self, remote: SocketAddr) {
        self.remember((remote.ip(), Some(remote.port())), true);
        self.remember((remote.ip(), None), true);
    }

    /// The host refuses SCTP for this port only.
    pub(super) fn refuses(&mut self, remote: SocketAddr) {
        self.remember((remote.ip(), Some(remote.port())), false);
    }

    /// The host does not answer at all.
    pub(super) fn is_silent(&mut self, remote: SocketAddr) {
        self.refuses(remote);
        // Other ports have answered: this was a loss.
        if self.of(SocketAddr::new(remote.ip(), 0)) != Known::Sctp {
            self.remember((remote.ip(), None), false);
        }
    }

    fn remember(&mut self, of: (IpAddr, Option<u16>), has_sctp: bool) {
        if self.0.len() >= MOST {
            self.0.clear();
        }
        self.0.insert(of, (has_sctp, Instant::now()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(port: u16) -> SocketAddr {
        ([192, 0, 2, 1], port).into()
    }

    #[tokio::test(start_paused = true)]
    async fn hosts_are_remembered_and_forgotten() {
        let mut memory = Memory::default();
        assert_eq!(memory.of(at(80)), Known::Nothing);
        memory.is_silent(at(80));
        assert_eq!((memory.of(at(80)), memory.of(at(22))), (Known::TcpOnly, Known::TcpOnly));
        tokio::time::advance(REMEMBERED).await;
        assert_eq!(memory.of(at(80)), Known::Nothing);
        memory.has_sctp(at(80));
        memory.refuses(at(22));
        assert_eq!((memory.of(at(80)), memory.of(at(22))), (Known::Sctp, Known::TcpOnly));
        memory.is_silent(at(443));
        assert_eq!((memory.of(at(80)), memory.of(at(25))), (Known::Sctp, Known::Sctp));
        assert_eq!(memory.of(at(443)), Known::TcpOnly);
    }

    #[tokio::test(start_paused = true)]
    async fn the_memory_is_bounded() {
        let mut memory = Memory::default();
        for host in 0..3 * MOST as u32 {
            memory.refuses(SocketAddr::new(IpAddr::V4(host.into()), 80));
            assert!(memory.0.len() <= MOST);
        }
    }
}
