//! Limits: of a message, of a stream, of an association, of a listener and of an endpoint.
//!
//! `cargo run -p anabranch --example limits`

use std::time::Duration;

use anabranch::{
    AssociationConfig, ConnectOptions, Endpoint, EndpointConfig, ListenOptions, OutgoingMessage,
    Ppid, SendErrorReason,
};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    // The limits of associations in an endpoint, and of those in a listener that wait to be
    // accepted.
    let mut endpoint = EndpointConfig::default();
    endpoint.max_associations = 100;
    let mut accepted = AssociationConfig::default();
    accepted.receiving.inbound_streams = 16;
    accepted.receiving.receive_buffer = 64 * 1024;
    let mut listen = ListenOptions::from(accepted);
    listen.backlog = 10;
    let address = [127, 0, 0, 1].into();
    let server = Endpoint::builder().config(endpoint).local_addresses([address]).bind()?;
    let listener = server.listen(5000, listen)?;

    let mut config = AssociationConfig::default();
    config.sending.max_message_size = 100_000;
    config.sending.send_buffer = 256 * 1024;
    config.sending.stream_send_buffer = 32 * 1024;
    // Options are checked when they are used, and named if they are out of range.
    config.validate()?;
    let mut options = ConnectOptions::from(config);
    options.remote_udp_port = server.udp_port();
    options.linger = Duration::from_secs(1);
    let client = Endpoint::builder().bind()?;
    let (near, far) = tokio::join!(client.connect((address, 5000), options), listener.accept());
    let (near, far) = (near?, far.ok_or("nobody came")?);
    println!("{} streams", near.outbound_streams());

    let too_long = near.try_send(OutgoingMessage::new(0, Ppid(0), vec![0; 100_001]));
    println!("{}", too_long.err().ok_or("it was taken")?);
    // The peer does not read, so the buffers fill: first the peer's, then the stream's.
    let blocked = loop {
        match near.try_send(OutgoingMessage::new(1, Ppid(0), vec![0; 10_000])) {
            Ok(()) => tokio::task::yield_now().await,
            Err(refused) => break refused,
        }
    };
    println!("{}", blocked.reason);
    if blocked.reason != SendErrorReason::Blocked {
        return Err(blocked.into());
    }
    // Another stream has separate room; `send` waits for it where `try_send` returns an error.
    near.try_send(OutgoingMessage::new(2, Ppid(0), vec![0; 10_000]))?;
    let (sent, read) = tokio::join!(near.send(blocked.message), far.recv());
    sent?;
    println!("{} bytes read, and there is room", read?.ok_or("no message came")?.payload.len());
    near.abort(b"enough");
    Ok(())
}
