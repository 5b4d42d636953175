//! Sends a file over a stream, as bytes, and compares what arrived.
//!
//! `cargo run -p anabranch --example file [FILE]`

use std::path::PathBuf;

use anabranch::{AssociationConfig, ConnectOptions, Endpoint};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let path = std::env::args_os().nth(1).map(PathBuf::from);
    let path = path.unwrap_or_else(|| concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml").into());
    let contents = std::fs::read(path)?;

    let server = Endpoint::builder().local_addresses([[127, 0, 0, 1].into()]).bind()?;
    let listener = server.listen(5000, AssociationConfig::default())?;
    let mut options = ConnectOptions::default();
    options.remote_udp_port = server.udp_port();
    let client = Endpoint::builder().bind()?;

    let send = async {
        let association = client.connect(([127, 0, 0, 1], 5000), options).await?;
        let (mut stream, _) = association.open_stream().await?;
        stream.write_all(&contents).await?;
        // Ends the stream: the reader sees the end of the file.
        stream.shutdown().await?;
        // Everything has arrived when this returns.
        association.close().await?;
        Ok::<_, Box<dyn std::error::Error>>(())
    };
    let receive = async {
        let association = listener.accept().await.ok_or("nobody came")?;
        let (_, mut stream) = association.accept_stream().await?.ok_or("no stream came")?;
        let mut copy = Vec::new();
        stream.read_to_end(&mut copy).await?;
        Ok(copy)
    };
    let ((), copy) = tokio::try_join!(send, receive)?;
    println!("{} bytes arrived", copy.len());
    if copy != contents {
        return Err("they are not the same".into());
    }
    Ok(())
}
