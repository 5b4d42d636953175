//! Files over TCP, as the baseline.

use std::collections::BTreeMap;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::time::{Duration, Instant};

use anabranch_http::tcp::{TcpClient, TcpServerConnection};
use anabranch_http::{StreamTotals, serve_connection};
use futures_util::future::select_all;
use socket2::{Domain, Socket, Type};
use tokio::net::{TcpListener, TcpStream};
use tracing::{debug, warn};

use super::crowd::{Activity, Crowd};
use super::{Delivery, Order, Service};
use crate::address::is_whole_host;
use crate::failure::Failure;
use crate::options::Transport;
use crate::report::{Figures, PathReport, Traffic};

/// The accept backlog.
const WAITING: i32 = 1024;

/// Serves until the user stops it. Answers in progress then have the grace period of the service to complete.
pub(crate) async fn serve(service: Service) -> Result<(), Failure> {
    let (listeners, port) = bind(&service)?;
    service.listening(Transport::Tcp, port, None, None)?;
    let mut crowd = Crowd::new(service.most_connections);
    loop {
        let accepts = crowd.accepts();
        let accepted = tokio::select! {
            (accepted, ..) = select_all(listeners.iter().map(|l| Box::pin(l.accept()))), if accepts => accepted,
            () = crowd.changed() => continue,
            () = service.interrupt.wait() => break,
        };
        match accepted {
            Ok((stream, peer)) => {
                // If the listener serves both IP versions, IPv4 peers have mapped IPv6 addresses.
                let peer = SocketAddr::new(peer.ip().to_canonical(), peer.port());
                let service = service.clone();
                crowd.add(peer.ip(), |activity| answer(service, stream, peer, activity));
            }
            Err(error) => {
                // Probably out of descriptors: connections that end free some.
                warn!(%error, "a connection cannot be accepted");
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        }
    }
    drop(listeners);
    // Answers that take longer are cut off.
    let _ = tokio::time::timeout(service.grace, crowd.ended()).await;
    Ok(())
}

/// Opens a listener for each address, all on one port.
fn bind(service: &Service) -> Result<(Vec<TcpListener>, u16), Failure> {
    #[cfg(unix)]
    if let Some(passed) = passed(service)? {
        return Ok(passed);
    }
    let mut listeners = Vec::new();
    let mut port = service.listen.port;
    let addresses = &service.listen.addresses;
    for address in addresses {
        let address = address.socket(port)?;
        let bound = listen(address, is_whole_host(addresses)).and_then(|listener| {
            let port = listener.local_addr()?.port();
            Ok((listener, port))
        });
        let (listener, bound_port) = bound.map_err(|error| {
            Failure::failed(match error.kind() {
                io::ErrorKind::AddrInUse => format!("TCP port {port} is in use on {address}"),
                io::ErrorKind::AddrNotAvailable => {
                    format!("{} is not an address of this host", address.ip())
                }
                _ => format!("{address} cannot be listened on: {error}"),
            })
        })?;
        port = bound_port;
        listeners.push(listener);
    }
    Ok((listeners, port))
}

/// Opens a listener. If it is for the `whole_host`, one on an IPv6 address also accepts IPv4, and is replaced by an
/// IPv4 listener if the host has no IPv6.
fn listen(address: SocketAddr, whole_host: bool) -> io::Result<TcpListener> {
    let open = |address: SocketAddr| {
        let socket = Socket::new(Domain::for_address(address), Type::STREAM, None)?;
        if address.is_ipv6() {
            socket.set_only_v6(!whole_host)?;
        }
        Ok::<_, io::Error>((socket, address))
    };
    let (socket, address) = match open(address) {
        Err(_) if whole_host => open((Ipv4Addr::UNSPECIFIED, address.port()).into()),
        opened => opened,
    }?;
    // Allow a restarted server to listen while connections of the previous one are in TIME-WAIT.
    #[cfg(unix)]
    socket.set_reuse_address(true)?;
    socket.set_nonblocking(true)?;
    socket.bind(&address.into())?;
    socket.listen(WAITING)?;
    TcpListener::from_std(socket.into())
}

/// The listeners that systemd has opened, if any.
#[cfg(unix)]
fn passed(service: &Service) -> Result<Option<(Vec<TcpListener>, u16)>, Failure> {
    let passed = crate::activation::tcp_listeners(&service.listen.addresses, service.listen.port)?;
    let Some(first) = passed.first() else { return Ok(None) };
    let port = first.local_addr().map_err(Failure::failed)?.port();
    let adopted = passed.into_iter().map(|listener| {
        listener.set_nonblocking(true)?;
        TcpListener::from_std(listener)
    });
    let adopted: Result<_, io::Error> = adopted.collect();
    Ok(Some((adopted.map_err(Failure::failed)?, port)))
}

async fn answer(service: Service, stream: TcpStream, peer: SocketAddr, activity: Activity) {
    let files = service.files_for(&peer.to_string());
    let options =
        service.options_for(&peer.to_string()).with_activity(move |busy| activity.set_busy(busy));
    let served = async {
        let local = stream.local_addr()?;
        let local = SocketAddr::new(local.ip().to_canonical(), local.port());
        let connection = TcpServerConnection::new(stream)?;
        let served = serve_connection(connection, files, &options).await;
        Ok::<_, io::Error>((local, served.streams))
    };
    match served.await {
        Ok((local, streams)) => {
            service.ended(&peer.to_string(), None, &traffic(&streams, |_| Some((local, peer))));
        }
        Err(error) => debug!(%peer, %error, "connection failed"),
    }
}

/// Fetches over TCP, with a connection for each stream.
pub(crate) async fn fetch_all(order: Order<'_>) -> Result<Delivery, Failure> {
    let remotes = order.remotes.clone();
    let locals = order.locals.iter().map(|local| local.socket(0)).collect::<Result<_, _>>()?;
    let work = async {
        let client =
            TcpClient::connect(remotes, locals, order.connect_timeout).await.map_err(|error| {
                Failure::failed(format!("cannot connect to {}: {error}", order.authority))
            })?;
        let Order { work, observer, .. } = order;
        let report = work.run(&client, &order.fetch, observer).await;
        let done = Instant::now();
        let paths = client.paths();
        let addresses = |id| paths.iter().find(|p| p.id == id).map(|p| (p.local, p.remote));
        let traffic = traffic(&report.streams, addresses);
        Ok(Delivery { results: report.results, traffic, done, error: None })
    };
    tokio::select! {
        delivery = work => delivery,
        () = order.interrupt.wait() => Err(Failure::Interrupted),
    }
}

/// Sums up the streams between each pair of addresses.
fn traffic(
    streams: &[StreamTotals],
    addresses: impl Fn(u16) -> Option<(SocketAddr, SocketAddr)>,
) -> Traffic {
    let mut paths = BTreeMap::new();
    for totals in streams {
        let Some((local, remote)) = addresses(totals.id) else {
            continue;
        };
        let ends = (local.ip(), remote.ip());
        let path = paths.entry(ends).or_insert_with(|| PathReport::tcp(ends.0, ends.1));
        if let Figures::Tcp(path) = &mut path.figures {
            path.bytes_received += totals.bytes_received;
            path.bytes_sent += totals.bytes_sent;
        }
    }
    Traffic {
        paths: paths.into_values().collect(),
        streams: streams.iter().copied().map(Into::into).collect(),
        events: Vec::new(),
    }
}
