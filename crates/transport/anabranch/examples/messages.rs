//! Messages with payload protocol identifiers, on several streams, ordered and unordered, with a
//! lifetime.
//!
//! `cargo run -p anabranch --example messages`

use std::time::Duration;

use anabranch::{AssociationConfig, ConnectOptions, Endpoint, OutgoingMessage, Ppid, Reliability};

/// Identifiers as an application chooses them; SCTP only carries them.
const TEXT: Ppid = Ppid(51);
const POSITION: Ppid = Ppid(1000);

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let server = Endpoint::builder().local_addresses([[127, 0, 0, 1].into()]).bind()?;
    let listener = server.listen(5000, AssociationConfig::default())?;
    let mut options = ConnectOptions::default();
    options.remote_udp_port = server.udp_port();
    let client = Endpoint::builder().bind()?;
    let (near, far) =
        tokio::join!(client.connect(([127, 0, 0, 1], 5000), options), listener.accept());
    let (near, far) = (near?, far.ok_or("nobody came")?);

    // In order on stream 3; losses on another stream do not hold it up.
    near.send(OutgoingMessage::new(3, TEXT, "first")).await?;
    near.send(OutgoingMessage::new(3, TEXT, "second")).await?;
    // Delivered as soon as it arrives, and given up if it is lost, or cannot leave, after 50 ms.
    let mut position = OutgoingMessage::new(4, POSITION, vec![48, 16]);
    position.unordered = true;
    position.reliability = Reliability::Lifetime(Duration::from_millis(50));
    // Without waiting: a message comes back if there is no room for it.
    if let Err(refused) = near.try_send(position) {
        println!("{}: {} bytes come back", refused.reason, refused.message.data.len());
    }
    let (closed, ()) = tokio::join!(near.close(), async {
        while let Ok(Some(message)) = far.recv().await {
            let kind = match message.ppid {
                TEXT => String::from_utf8_lossy(&message.payload.into_bytes()).into_owned(),
                ppid => format!("identifier {}, {} bytes", ppid.0, message.payload.len()),
            };
            println!("stream {}: {kind}", message.stream);
        }
    });
    closed?;
    Ok(())
}
