//! `listen` of programs: associations with the same port number become connections to the program's socket.

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use anabranch::{Association, ListenOptions, Listener, SCTP_UDP_PORT};
use anabranch_sockets::{Error, Lease, Local};
use tokio::net::TcpSocket;
use tokio::sync::oneshot;
use tokio::time::timeout;

use super::association::Carrier;
use super::gate;
use super::names;
use super::race::Peer;
use super::{Opened, Tcp};
use crate::lock::lock;

/// How long a program's queue of connections may be full before an association is refused. As over TCP, peers try
/// again for a while.
const PATIENCE: Duration = Duration::from_secs(10);

/// The ports on which programs listen, by local address and port; no address means all of them.
pub(super) type Listening = HashMap<Key, Port>;

/// A local address, or all of them, and a port.
type Key = (Option<IpAddr>, u16);

/// A port on which programs listen.
#[derive(Debug)]
pub(super) struct Port {
    /// Their sockets.
    sockets: Vec<Target>,
    /// Stops listening when it is dropped.
    stop: oneshot::Sender<()>,
    /// Is dropped when the engine has stopped.
    stopped: oneshot::Receiver<()>,
}

impl Port {
    async fn stop(self) {
        drop(self.stop);
        let _ = self.stopped.await;
    }
}

/// A listening socket of a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Target {
    at: SocketAddr,
    only_ipv6: bool,
}

impl Target {
    /// Whether there is no such socket any more: then its address is free.
    fn is_gone(self) -> bool {
        let socket = match self.at {
            SocketAddr::V4(_) => TcpSocket::new_v4(),
            SocketAddr::V6(_) => TcpSocket::new_v6(),
        };
        // With this option only sockets that listen, or do not have it, are in the way.
        socket
            .is_ok_and(|socket| socket.set_reuseaddr(true).is_ok() && socket.bind(self.at).is_ok())
    }

    /// Where this socket accepts a connection to one of our addresses.
    fn reached_by(self, own: IpAddr) -> Option<SocketAddr> {
        let ip = self.at.ip();
        let fits = match ip {
            _ if !ip.is_unspecified() => ip == own,
            IpAddr::V4(_) => own.is_ipv4(),
            IpAddr::V6(_) => own.is_ipv6() || !self.only_ipv6,
        };
        fits.then_some((own, self.at.port()).into())
    }
}

impl Tcp {
    /// A program listens on this address: listens for associations as well.
    pub(super) async fn listen(
        self: &Arc<Self>,
        at: SocketAddr,
        only_ipv6: bool,
    ) -> Result<(), i32> {
        let target = Target { at, only_ipv6 };
        let ip = Some(at.ip()).filter(|ip| !ip.is_unspecified());
        let key = (ip, at.port());
        let mut listening = self.listening.lock().await;
        if let Some(port) = listening.get_mut(&key) {
            if !port.sockets.contains(&target) {
                port.sockets.push(target);
            }
            return Ok(());
        }
        let opened = match self.open_port(key).await {
            Err(_) => {
                sweep(&mut listening).await;
                self.open_port(key).await
            }
            opened => opened,
        };
        let (lease, listener) = opened.map_err(|why| {
            (self.settings.complain)(&format!("port {} is open for TCP only: {why}", at.port()));
            libc::EADDRINUSE
        })?;
        let (stop, mut stopping) = oneshot::channel();
        let (told, stopped) = oneshot::channel();
        listening.insert(key, Port { sockets: vec![target], stop, stopped });
        let tcp = self.clone();
        self.host.spawn(async move {
            tokio::select! {
                () = tcp.accept(key, &listener) => {}
                _ = &mut stopping => {}
            }
            drop((listener, lease));
            drop(told);
        });
        Ok(())
    }

    /// Listens for associations. The error is a sentence.
    async fn open_port(&self, (ip, port): Key) -> Result<(Arc<Lease>, Listener), String> {
        // With --addresses all of them are paths, as for sockets of SCTP.
        let given = &self.engine.addresses;
        let addresses = match ip {
            Some(ip) if given.is_empty() => vec![Local { ip, link: None }],
            Some(ip) if given.iter().all(|local| local.ip != ip) => {
                return Err(format!("{ip} is not among --addresses"));
            }
            _ => given.clone(),
        };
        let udp = self.engine.udp_port.unwrap_or(SCTP_UDP_PORT);
        let lease =
            self.endpoint(self.binding(addresses, udp)).await.map_err(|error| match error {
                Error::AddressInUse => format!("the UDP port {udp} is in use: use --udp-port"),
                error => error.to_string(),
            })?;
        let options = ListenOptions::from(self.config());
        let listener = lease.endpoint().listen(port, options).map_err(|error| error.to_string())?;
        Ok((lease, listener))
    }

    /// Accepts associations.
    async fn accept(self: &Arc<Self>, key: Key, listener: &Listener) {
        while let Some(association) = listener.accept().await {
            let (tcp, opened) = (self.clone(), self.opened());
            self.host.spawn(async move { tcp.serve(key, association, opened).await });
        }
    }

    /// Relays an association to a program, if one accepts it. Otherwise aborts it.
    async fn serve(self: &Arc<Self>, key: Key, association: Association, _opened: Opened) {
        let Some(carrier) = Carrier::accept(association) else { return };
        let Some([own, remote]) = carrier.names() else { return };
        if !self.may_carry(remote.ip()) {
            return;
        }
        let sockets = match self.listening.lock().await.get(&key) {
            Some(port) => port.sockets.clone(),
            None => return,
        };
        for target in sockets {
            let Some(at) = target.reached_by(own.ip()) else { continue };
            let Ok(socket) = self.gate.visitor(at.ip()) else { return };
            let Ok(visitor) = socket.local_addr() else { return };
            let name = names::Key::Accepted(visitor);
            lock(&self.names).set(name, [own, remote]);
            let connected = timeout(PATIENCE, socket.connect(at)).await;
            match connected {
                Ok(Ok(stream)) => {
                    if gate::prepare(&stream).is_ok() && carrier.greet().await.is_ok() {
                        self.relay(stream, Peer::Sctp(Box::new(carrier))).await;
                    }
                    lock(&self.names).remove(name);
                    return;
                }
                // The program's socket is closed.
                Ok(Err(_)) => self.forget(key, target).await,
                Err(_) => {}
            }
            lock(&self.names).remove(name);
        }
    }

    /// A socket does not listen any more. Without another one on the port, nor does the engine.
    async fn forget(&self, key: Key, target: Target) {
        let mut listening = self.listening.lock().await;
        if let Some(port) = listening.get_mut(&key) {
            port.sockets.retain(|known| *known != target);
            if port.sockets.is_empty() {
                // The task that drops the listener need not be waited for.
                listening.remove(&key);
            }
        }
    }
}

/// Stops listening for programs that do not listen any more.
async fn sweep(listening: &mut Listening) {
    for port in listening.values_mut() {
        port.sockets.retain(|socket| !socket.is_gone());
    }
    let gone: Vec<_> = listening.extract_if(|_, port| port.sockets.is_empty()).collect();
    for (_, port) in gone {
        port.stop().await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sockets_are_reached_by_the_addresses_that_they_accept() {
        let reached = |at: &str, only_ipv6, own: &str| {
            let target = Target { at: at.parse().unwrap(), only_ipv6 };
            target.reached_by(own.parse().unwrap()).map(|at| at.to_string())
        };
        assert_eq!(reached("0.0.0.0:80", false, "10.0.0.1").as_deref(), Some("10.0.0.1:80"));
        assert_eq!(reached("0.0.0.0:80", false, "2001:db8::1"), None);
        assert_eq!(reached("[::]:80", false, "10.0.0.1").as_deref(), Some("10.0.0.1:80"));
        assert_eq!(reached("[::]:80", true, "10.0.0.1"), None);
        assert_eq!(reached("10.0.0.1:80", false, "10.0.0.1").as_deref(), Some("10.0.0.1:80"));
        assert_eq!(reached("10.0.0.1:80", false, "10.0.0.2"), None);
    }
}
