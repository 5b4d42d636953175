//! How long new associations wait, with and without a flood of INITs.

use std::time::Instant;

use anabranch::{AssociationConfig, Endpoint};

use crate::common::{PORT, V4, endpoint, remotes, towards};
use crate::flooder::{Flood, Flooder};

/// INITs per second.
const RATE: u32 = 20_000;

/// Connects `times` times, one after another. Returns the median in milliseconds and the number of
/// refusals.
async fn connect(server: &Endpoint, client: &Endpoint, times: usize) -> (f64, usize) {
    let mut waited = Vec::with_capacity(times);
    let mut refused = 0;
    for _ in 0..times {
        let begun = Instant::now();
        let options = towards(server, AssociationConfig::default());
        match client.connect(remotes(server), options).await {
            Ok(association) => {
                waited.push(begun.elapsed().as_secs_f64() * 1e3);
                association.abort(b"the next one");
            }
            Err(_) => refused += 1,
        }
    }
    waited.sort_by(f64::total_cmp);
    (waited.get(waited.len() / 2).copied().unwrap_or(f64::NAN), refused)
}

/// Measures, and prints a line. Returns it as JSON.
pub(crate) async fn newcomers(quick: bool) -> String {
    let times = if quick { 500 } else { 3000 };
    let (server, client) = (endpoint(&[V4]), endpoint(&[V4]));
    let listener = server.listen(PORT, AssociationConfig::default()).unwrap();
    tokio::spawn(async move { while listener.accept().await.is_some() {} });
    let (before, _) = connect(&server, &client, times).await;
    let flooder = Flooder::towards(Flood::Init, (V4, server.udp_port()), 0, Some(RATE));
    let (flooded, refused) = connect(&server, &client, times).await;
    drop(flooder);
    let (after, _) = connect(&server, &client, times).await;
    let alone = (before + after) / 2.0;
    let factor = flooded / alone;
    println!(
        "newcomers under {RATE} INITs/s: median {flooded:.3} ms, without {alone:.3} ms: {factor:.2}; \
         {refused} of {times} refused"
    );
    format!(
        "{{\"name\":\"flood_connect\",\"milliseconds\":[{alone:.4},{flooded:.4}],\
         \"factor\":{factor:.3},\"refused\":{refused}}}\n"
    )
}
