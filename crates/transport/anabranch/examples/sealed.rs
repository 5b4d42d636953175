//! Data over sealed paths, with the rate of each second and the bytes of each path.
//!
//! ```text
//! sealed listen 198.51.100.7:9899           prints an invitation
//! sealed send INVITATION SECONDS UPLINK...  uplinks are interfaces or local addresses
//! ```

use std::error::Error;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use anabranch::config::MultipathMode;
use anabranch::seal::{Allow, Invitation, Seal, SecretKey, Uplink};
use anabranch::{Association, AssociationConfig, ConnectOptions, Endpoint};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

const PORT: u16 = 5000;
const USAGE: &str = "usage: sealed listen ADDRESS:PORT | sealed send INVITATION SECONDS UPLINK...";

fn config() -> AssociationConfig {
    let mut config = AssociationConfig::default();
    config.multipath.mode = MultipathMode::CmtPf;
    config
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["listen", address] => listen(address.parse()?).await,
        ["send", invitation, seconds, ref uplinks @ ..] => {
            send(&invitation.parse()?, seconds.parse()?, uplinks).await
        }
        _ => Err(USAGE.into()),
    }
}

async fn listen(address: SocketAddr) -> Result<(), Box<dyn Error>> {
    let secret = SecretKey::generate()?;
    let seal = Seal::listen(secret.clone(), [address]).allow(Allow::Any);
    let endpoint = Endpoint::builder().seal(seal).bind()?;
    let listener = endpoint.listen(PORT, config())?;
    println!("{}", Invitation::new(secret.public(), [address]));
    while let Some(association) = listener.accept().await {
        tokio::spawn(async move {
            let mut buffer = vec![0; 1 << 16];
            while let Ok(Some((_, mut stream))) = association.accept_stream().await {
                while stream.read(&mut buffer).await.is_ok_and(|len| len > 0) {}
            }
        });
    }
    Ok(())
}

async fn send(
    invitation: &Invitation,
    seconds: u64,
    uplinks: &[&str],
) -> Result<(), Box<dyn Error>> {
    let uplink = |name: &&str| match name.parse() {
        Ok(address) => Uplink::address(address),
        Err(_) => Uplink::interface(*name),
    };
    let seal = Seal::connect(SecretKey::generate()?, invitation);
    let seal = if uplinks.is_empty() { seal } else { seal.uplinks(uplinks.iter().map(uplink)) };
    let endpoint = Endpoint::builder().seal(seal).bind()?;
    let remotes = invitation.key().remotes(PORT);
    let connecting = endpoint.connect(remotes, ConnectOptions::from(config()));
    let limit = Duration::from_secs(10);
    let Ok(association) = tokio::time::timeout(limit, connecting).await else {
        return Err("no answer: the server is not reachable, or has another key".into());
    };
    let association = association?;
    let (mut stream, _) = association.open_stream().await?;
    let writer = tokio::spawn(async move {
        let block = vec![7; 1 << 16];
        while stream.write_all(&block).await.is_ok() {}
    });
    report(&association, seconds).await;
    writer.abort();
    association.abort(b"time is up");
    endpoint.close().await;
    Ok(())
}

async fn report(association: &Association, seconds: u64) {
    let begun = Instant::now();
    let mut before = Vec::new();
    for second in 1..=seconds {
        let next = begun + Duration::from_secs(second);
        tokio::time::sleep_until(next.into()).await;
        let paths = association.statistics().paths;
        let sent: Vec<u64> = paths.iter().map(|path| path.bytes_sent).collect();
        let rate = |(index, sent): (usize, &u64)| {
            let bytes = sent - before.get(index).copied().unwrap_or(0);
            format!("{:6.1}", bytes as f64 * 8e-6)
        };
        let rates: Vec<String> =
            sent.iter().enumerate().map(rate).filter(|rate| rate.trim() != "0.0").collect();
        println!("{second:3} s  Mb/s of paths that sent: {}", rates.join(" "));
        before = sent;
    }
}
