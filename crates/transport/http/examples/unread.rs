//! Asks a server for a file on many streams of many associations, and reads nothing of the answers: for scripts/crowd.
//!
//! usage: unread ADDRESS SCTP-PORT UDP-PORT PATH ASSOCIATIONS REQUESTS
//!
//! Prints a line once all have asked, and then waits for the end of its standard input.

use std::error::Error;
use std::net::IpAddr;

use anabranch::{ConnectOptions, Endpoint};
use tokio::io::AsyncWriteExt;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [address, port, udp_port, path, associations, requests] = arguments.as_slice() else {
        return Err("usage: unread ADDRESS SCTP-PORT UDP-PORT PATH ASSOCIATIONS REQUESTS".into());
    };
    let address: IpAddr = address.parse()?;
    let request = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n");
    let endpoint = Endpoint::builder().local_addresses([address]).bind()?;
    let mut kept = Vec::new();
    let mut asked = 0;
    for _ in 0..associations.parse::<usize>()? {
        let mut options = ConnectOptions::default();
        options.remote_udp_port = udp_port.parse()?;
        options.config.sending.outbound_streams = 1024;
        let association = match endpoint.connect((address, port.parse()?), options).await {
            Ok(association) => association,
            Err(error) => {
                eprintln!("unread: {error}");
                continue;
            }
        };
        for _ in 0..requests.parse::<usize>()? {
            let (mut send, receive) = association.open_stream().await?;
            send.write_all(request.as_bytes()).await?;
            asked += 1;
            kept.push((send, receive));
        }
    }
    println!("{asked} requests on {} streams", kept.len());
    tokio::task::spawn_blocking(|| std::io::stdin().lines().for_each(drop)).await?;
    Ok(())
}
