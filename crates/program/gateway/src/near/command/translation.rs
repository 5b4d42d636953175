//! Connections of the command, as the kernel's TCP can take them.
//!
//! A connection to anywhere leaves the command's namespace as packets of a TUN device. They go back into it, from an
//! address that only this translation has, to a listening socket of ours; and the answers go back to the command from
//! the address that it has connected to. So both ends are TCP of the kernel, and none of it is in this program:
//!
//! | packet | from | to | becomes from | to |
//! |---|---|---|---|---|
//! | of the command | own:p | target:q | translated:n | own:listener |
//! | of the listener | own:listener | translated:n | target:q | own:p |
//!
//! The first packet of a connection waits until the far side has connected, so the command learns what happened: a
//! refusal is a refusal, and what is unreachable is unreachable.

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::time::{Duration, Instant};

use super::packet::{Header, unreachable};
use crate::status::Status;

/// Most connections that have not ended.
const OPEN: usize = 4096;

/// Most connections with those that have ended.
const MOST: usize = 30_000;

/// How long the last packets of a connection that has ended are still translated.
const LAST: Duration = Duration::from_secs(30);

/// The addresses of one version of IP.
#[derive(Clone, Copy, Debug)]
pub(super) struct Local {
    /// Where our socket listens, with the address of the command.
    pub(super) listener: SocketAddr,
    /// From where connections come to it.
    pub(super) translated: IpAddr,
}

/// From where to where the command has connected.
pub(super) type Ends = (SocketAddr, SocketAddr);

/// A connection, by the version of IP and the port of its translated address.
pub(super) type Port = (bool, u16);

/// What to do with a packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// It has new addresses: back into the namespace with it.
    Back,
    /// The command wants a connection. The packet is kept.
    Wanted(Ends),
    /// Nothing.
    Drop,
}

#[derive(Debug)]
enum State {
    /// This packet waits for the far side.
    Wanted(Vec<u8>),
    Open,
    Ended(Instant),
}

#[derive(Debug)]
struct Connection {
    port: u16,
    state: State,
}

/// All connections of the command.
#[derive(Debug)]
pub(super) struct Translation {
    local: Vec<Local>,
    connections: HashMap<Ends, Connection>,
    ports: HashMap<Port, Ends>,
    last: u16,
    open: usize,
}

impl Translation {
    pub(super) fn new(local: Vec<Local>) -> Self {
        Self { local, connections: HashMap::new(), ports: HashMap::new(), last: 0, open: 0 }
    }

    fn local(&self, v6: bool) -> Option<Local> {
        self.local.iter().copied().find(|local| local.translated.is_ipv6() == v6)
    }

    /// Translates a packet of TCP.
    pub(super) fn packet(&mut self, packet: &mut [u8], header: &Header) -> Verdict {
        let v6 = header.from.is_ipv6();
        let Some(local) = self.local(v6) else { return Verdict::Drop };
        if header.to.ip() == local.translated {
            let ends = self.ports.get(&(v6, header.to.port()));
            let Some(&(command, target)) = ends.filter(|_| header.from == local.listener) else {
                return Verdict::Drop;
            };
            header.rewrite(packet, target, command);
            return Verdict::Back;
        }
        let ends = (header.from, header.to);
        match self.connections.get(&ends) {
            Some(Connection { state: State::Wanted(_), .. }) => Verdict::Drop,
            Some(Connection { state: State::Ended(_), .. }) if header.is_syn(packet) => {
                self.forget(ends);
                self.begin(packet, ends)
            }
            Some(connection) => {
                let from = SocketAddr::new(local.translated, connection.port);
                header.rewrite(packet, from, local.listener);
                Verdict::Back
            }
            None if header.is_syn(packet) => self.begin(packet, ends),
            None => Verdict::Drop,
        }
    }

    fn begin(&mut self, syn: &[u8], ends: Ends) -> Verdict {
        if self.open >= OPEN || self.connections.len() >= MOST {
            // The command tries again by itself.
            return Verdict::Drop;
        }
        let v6 = ends.0.is_ipv6();
        // There are more ports than connections.
        loop {
            self.last = self.last.checked_add(1).unwrap_or(1);
            if !self.ports.contains_key(&(v6, self.last)) {
                break;
            }
        }
        let connection = Connection { port: self.last, state: State::Wanted(syn.to_vec()) };
        self.connections.insert(ends, connection);
        self.ports.insert((v6, self.last), ends);
        self.open += 1;
        Verdict::Wanted(ends)
    }

    /// The far side has connected: returns the port of the connection, and its first packet, which goes back into the
    /// namespace.
    pub(super) fn connected(&mut self, ends: Ends) -> Option<(Port, Vec<u8>)> {
        let local = self.local(ends.0.is_ipv6())?;
        let connection = self.connections.get_mut(&ends)?;
        let State::Wanted(packet) = &mut connection.state else { return None };
        let mut packet = std::mem::take(packet);
        connection.state = State::Open;
        let from = SocketAddr::new(local.translated, connection.port);
        Header::parse(&packet)?.rewrite(&mut packet, from, local.listener);
        Some(((ends.0.is_ipv6(), connection.port), packet))
    }

    /// The far side has not connected: returns the packet that says so to the command.
    pub(super) fn refused(&mut self, ends: Ends, status: Status) -> Option<Vec<u8>> {
        let State::Wanted(packet) = self.forget(ends)?.state else { return None };
        unreachable(&packet, status)
    }

    /// Both sides of a connection have ended.
    pub(super) fn ended(&mut self, port: Port, now: Instant) {
        let ends = self.ports.get(&port);
        let connection = ends.and_then(|ends| self.connections.get_mut(ends));
        if let Some(connection) = connection
            && !matches!(connection.state, State::Ended(_))
        {
            connection.state = State::Ended(now);
            self.open = self.open.saturating_sub(1);
        }
    }

    /// Forgets connections that ended long ago.
    pub(super) fn expire(&mut self, now: Instant) {
        let is_old = |connection: &Connection| matches!(connection.state, State::Ended(at) if now.saturating_duration_since(at) > LAST);
        let old = self.connections.iter().filter(|(_, connection)| is_old(connection));
        let old: Vec<_> = old.map(|(ends, _)| *ends).collect();
        for ends in old {
            self.forget(ends);
        }
    }

    fn forget(&mut self, ends: Ends) -> Option<Connection> {
        let connection = self.connections.remove(&ends)?;
        self.ports.remove(&(ends.0.is_ipv6(), connection.port));
        if !matches!(connection.state, State::Ended(_)) {
            self.open = self.open.saturating_sub(1);
        }
        Some(connection)
    }
}

#[cfg(test)]
mod tests {
    use super::super::packet::{syn, tcp};
    use super::*;

    const ACK: u8 = 0x10;
    const SYN_ACK: u8 = 0x12;

    fn address(text: &str) -> SocketAddr {
        text.parse().unwrap()
    }

    fn translation() -> Translation {
        let local = |listener: &str, translated: &str| Local {
            listener: address(listener),
            translated: translated.parse().unwrap(),
        };
        Translation::new(vec![local("198.19.0.1:9", "198.19.0.2"), local("[fd00::1]:9", "fd00::2")])
    }

    /// Passes a packet on; returns its addresses if it goes back.
    fn pass(translation: &mut Translation, mut packet: Vec<u8>) -> Result<Ends, Verdict> {
        let header = Header::parse(&packet).unwrap();
        match translation.packet(&mut packet, &header) {
            Verdict::Back => {
                Header::parse(&packet).map(|header| (header.from, header.to)).ok_or(Verdict::Drop)
            }
            verdict => Err(verdict),
        }
    }

    #[test]
    fn a_connection_goes_to_the_listener_and_back() {
        for (own, to, listener, translated) in [
            ("198.19.0.1:1000", "192.0.2.1:80", "198.19.0.1:9", "198.19.0.2:1"),
            ("[fd00::1]:1000", "[2001:db8::1]:80", "[fd00::1]:9", "[fd00::2]:1"),
        ] {
            let (own, to) = (address(own), address(to));
            let (listener, translated) = (address(listener), address(translated));
            let mut table = translation();
            assert_eq!(pass(&mut table, syn(own, to)), Err(Verdict::Wanted((own, to))));
            // Sent again, while the far side is still connecting.
            assert_eq!(pass(&mut table, syn(own, to)), Err(Verdict::Drop));
            let (port, packet) = table.connected((own, to)).unwrap();
            let header = Header::parse(&packet).unwrap();
            assert_eq!((header.from, header.to), (translated, listener));
            assert_eq!(port, (own.is_ipv6(), 1));
            assert_eq!(table.connected((own, to)), None);
            let answer = tcp(listener, translated, SYN_ACK);
            assert_eq!(pass(&mut table, answer.clone()), Ok((to, own)));
            assert_eq!(pass(&mut table, tcp(own, to, ACK)), Ok((translated, listener)));
            let now = Instant::now();
            table.ended(port, now);
            assert_eq!(pass(&mut table, answer.clone()), Ok((to, own)));
            table.expire(now + LAST);
            assert_eq!(pass(&mut table, answer.clone()), Ok((to, own)));
            table.expire(now + LAST * 2);
            assert_eq!(pass(&mut table, answer), Err(Verdict::Drop));
            assert_eq!((table.ports.len(), table.open), (0, 0));
        }
    }

    #[test]
    fn a_refusal_is_forgotten() {
        let mut table = translation();
        let (own, to) = (address("198.19.0.1:1000"), address("192.0.2.1:80"));
        for status in [Status::Refused, Status::Forbidden] {
            assert_eq!(pass(&mut table, syn(own, to)), Err(Verdict::Wanted((own, to))));
            assert!(table.refused((own, to), status).is_some());
            assert!(table.refused((own, to), status).is_none());
        }
        assert_eq!((table.connections.len(), table.open), (0, 0));
    }

    #[test]
    fn ports_of_ended_connections_are_used_again() {
        let mut table = translation();
        let (own, to) = (address("198.19.0.1:1000"), address("192.0.2.1:80"));
        pass(&mut table, syn(own, to)).unwrap_err();
        let (port, _) = table.connected((own, to)).unwrap();
        table.ended(port, Instant::now());
        // The command uses the same port for the next connection.
        assert_eq!(pass(&mut table, syn(own, to)), Err(Verdict::Wanted((own, to))));
        assert_ne!(table.connected((own, to)).unwrap().0, port);
        assert_eq!(table.connections.len(), 1);
    }

    #[test]
    fn what_belongs_to_no_connection_is_dropped() {
        let mut table = translation();
        let (own, to) = (address("198.19.0.1:1000"), address("192.0.2.1:80"));
        assert_eq!(pass(&mut table, tcp(own, to, ACK)), Err(Verdict::Drop));
        let forged = tcp(own, address("198.19.0.2:1"), SYN_ACK);
        assert_eq!(pass(&mut table, forged), Err(Verdict::Drop));
        for port in 1..=OPEN as u16 {
            let own = SocketAddr::new(own.ip(), port);
            assert_eq!(pass(&mut table, syn(own, to)), Err(Verdict::Wanted((own, to))));
        }
        let more = SocketAddr::new(own.ip(), 60_000);
        assert_eq!(pass(&mut table, syn(more, to)), Err(Verdict::Drop));
    }
}
