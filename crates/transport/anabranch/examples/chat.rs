//! A chat room with three streams: names on 0, lines on 1, and on 2, unordered, who is typing.
//!
//! `cargo run -p anabranch --example chat` starts it with two guests.
use std::sync::{Arc, Mutex};

use anabranch::{Association, AssociationConfig, ConnectOptions, Endpoint, OutgoingMessage, Ppid};

const NAME: u16 = 0;
const LINE: u16 = 1;
const TYPING: u16 = 2;
type Room = Arc<Mutex<Vec<Association>>>;
type Result<T> = std::result::Result<T, Box<dyn std::error::Error + Send + Sync>>;

/// Sends everything that one guest says to all others, until it leaves.
async fn guest(room: Room, association: Association) {
    let mut name = "somebody".to_owned();
    // A guest has also left if its association ended without a shutdown.
    while let Ok(Some(message)) = association.recv().await {
        let (stream, text) = (message.stream, message.payload.into_bytes());
        let text = String::from_utf8_lossy(&text).into_owned();
        if stream == NAME {
            name = text;
            continue;
        }
        let guests = room.lock().unwrap().clone();
        for guest in guests.iter().filter(|guest| guest.id() != association.id()) {
            let said = OutgoingMessage::new(stream, Ppid(0), format!("{name}: {text}"));
            // A guest that does not keep up misses what others type.
            let _ = match stream {
                TYPING => guest.try_send(said.with_unordered()).is_ok(),
                _ => guest.send(said).await.is_ok(),
            };
        }
    }
    room.lock().unwrap().retain(|guest| guest.id() != association.id());
}

#[tokio::main]
async fn main() -> Result<()> {
    let server = Endpoint::builder().local_addresses([[127, 0, 0, 1].into()]).bind()?;
    let listener = server.listen(5000, AssociationConfig::default())?;
    let udp_port = server.udp_port();
    tokio::spawn(async move {
        let room = Room::default();
        while let Some(association) = listener.accept().await {
            room.lock().unwrap().push(association.clone());
            tokio::spawn(guest(room.clone(), association));
        }
    });
    let client = Endpoint::builder().local_addresses([[127, 0, 0, 1].into()]).bind()?;
    let to = || ConnectOptions::default().with_remote_udp_port(udp_port);
    let ada = client.connect(([127, 0, 0, 1], 5000), to()).await?;
    let bob = client.connect(([127, 0, 0, 1], 5000), to()).await?;
    bob.send(OutgoingMessage::new(NAME, Ppid(0), "Bob")).await?;
    bob.send(OutgoingMessage::new(LINE, Ppid(0), "hello")).await?;
    let heard = ada.recv().await?.ok_or("nothing was said")?;
    println!("stream {}: {}", heard.stream, String::from_utf8_lossy(&heard.payload.into_bytes()));
    Ok(())
}
