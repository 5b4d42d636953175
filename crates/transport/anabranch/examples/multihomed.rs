//! A client with two addresses, and a server with two: an association over two paths.
//!
//! `cargo run -p anabranch --example multihomed`

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use anabranch::{AssociationConfig, ConnectOptions, Endpoint, OutgoingMessage, PathState, Ppid};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let addresses: [IpAddr; 2] = [[127, 0, 0, 1].into(), [127, 0, 0, 2].into()];
    let server = Endpoint::builder().local_addresses(addresses).bind()?;
    let listener = server.listen(5000, AssociationConfig::default())?;

    // Each local address has its own socket and is the source of its own paths. One error makes a
    // path inactive, and data goes over another one.
    let mut config = AssociationConfig::default();
    config.paths.path_max_retrans = 0;
    config.timers.rto_min = Duration::from_millis(200);
    config.timers.heartbeat_interval = Some(Duration::from_secs(5));
    let mut options = ConnectOptions::from(config);
    options.remote_udp_port = server.udp_port();
    let client = Endpoint::builder().local_addresses(addresses).bind()?;
    // One address of the server is enough: the server lists the others.
    let remotes = vec![SocketAddr::new(addresses[0], 5000)];
    let (near, far) = tokio::join!(client.connect(remotes, options), listener.accept());
    let (near, far) = (near?, far.ok_or("nobody came")?);

    // A path carries data once a heartbeat has shown that it leads to the peer.
    near.request_heartbeat(addresses[1])?;
    loop {
        let statistics = near.statistics();
        if statistics.paths.iter().all(|path| path.state == PathState::Active) {
            break;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    near.set_primary(addresses[1])?;
    near.send(OutgoingMessage::new(0, Ppid(0), "over the second path")).await?;
    far.recv().await?.ok_or("no message came")?;
    for path in near.statistics().paths {
        println!(
            "{} -> {}: {}, {} bytes of data",
            path.local, path.remote, path.state, path.data_bytes_sent
        );
    }
    near.close().await?;
    Ok(())
}
