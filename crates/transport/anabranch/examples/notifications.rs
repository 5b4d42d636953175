//! The notifications of an association besides its data, from its beginning to its end.
//!
//! `cargo run -p anabranch --example notifications`

use std::net::IpAddr;

use anabranch::{AssociationConfig, ConnectOptions, Endpoint, Notification, OutgoingMessage, Ppid};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let addresses: [IpAddr; 2] = [[127, 0, 0, 1].into(), [127, 0, 0, 2].into()];
    let server = Endpoint::builder().local_addresses(addresses).bind()?;
    let mut config = AssociationConfig::default();
    config.adaptation_indication = Some(7);
    let listener = server.listen(5000, config)?;
    let mut options = ConnectOptions::default();
    options.remote_udp_port = server.udp_port();
    let client = Endpoint::builder().local_addresses(addresses).bind()?;
    let (near, far) =
        tokio::join!(client.connect((addresses[0], 5000), options), listener.accept());
    let (near, far) = (near?, far.ok_or("nobody came")?);

    let mut events = near.events();
    let telling = tokio::spawn(async move {
        while let Some(notification) = events.next().await {
            match notification {
                Notification::Up { outbound_streams, .. } => {
                    println!("up, with {outbound_streams} streams to send on");
                }
                Notification::PathChanged { local, remote, state, .. } => {
                    println!("the path {local} -> {remote} is {state}");
                }
                Notification::SendFailed { message, sent } => {
                    println!("{} bytes come back, sent: {sent}", message.data.len());
                }
                Notification::AdaptationIndication(code) => println!("adaptation layer {code}"),
                Notification::PeerShutdown => println!("the peer sends nothing more"),
                Notification::Closed(reason) => println!("the end: {reason}"),
                other => println!("{other:?}"),
            }
        }
    });
    near.send(OutgoingMessage::new(0, Ppid(0), "hello")).await?;
    far.recv().await?;
    far.close().await?;
    drop(near);
    telling.await?;
    Ok(())
}
