//! Sends back every message, and demonstrates it with a client.
//!
//! `cargo run -p anabranch --example echo` starts both on the loopback interface, with two paths.

use anabranch::{Association, AssociationConfig, ConnectOptions, Endpoint, OutgoingMessage, Ppid};

/// Returns each message on its stream, until the peer shuts down.
async fn echo(association: Association) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    while let Some(message) = association.recv().await? {
        // Large messages arrive in parts; here each part is echoed as a separate message.
        let (stream, ppid) = (message.stream, message.ppid);
        association.send(OutgoingMessage::new(stream, ppid, message.payload.into_bytes())).await?;
    }
    association.closed().await?;
    Ok(())
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    let addresses = [[127, 0, 0, 1].into(), [127, 0, 0, 2].into()];
    let server = Endpoint::builder().local_addresses(addresses).bind()?;
    let listener = server.listen(7, AssociationConfig::default())?;
    tokio::spawn(async move {
        while let Some(association) = listener.accept().await {
            tokio::spawn(async move {
                if let Err(error) = echo(association).await {
                    eprintln!("echo: {error}");
                }
            });
        }
    });

    let client = Endpoint::builder().local_addresses(addresses).bind()?;
    let mut options = ConnectOptions::default();
    options.remote_udp_port = server.udp_port();
    let remotes: Vec<_> = addresses.map(|ip| (ip, 7).into()).into();
    let association = client.connect(remotes, options).await?;
    for (stream, text) in ["many", "streams,", "one", "association"].into_iter().enumerate() {
        let stream = u16::try_from(stream)?;
        association.send(OutgoingMessage::new(stream, Ppid(0), text)).await?;
        if let Some(message) = association.recv().await? {
            let bytes = message.payload.into_bytes();
            println!("stream {}: {}", message.stream, String::from_utf8_lossy(&bytes));
        }
    }
    for path in association.statistics().paths {
        let (local, remote) = (path.local, path.remote);
        println!("{local} -> {remote}: {} packets sent, {}", path.packets_sent, path.state);
    }
    association.close().await?;
    client.close().await;
    server.close().await;
    Ok(())
}
