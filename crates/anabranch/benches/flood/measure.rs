//! The measurement.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use crate::common::{Pair, V4, pattern};
use crate::flooder::{FLOODS, Flooder};
use anabranch::{Association, AssociationConfig, OutgoingMessage, Ppid};

/// CPU time of this thread, in seconds.
fn cpu() -> f64 {
    let clock = nix::time::ClockId::CLOCK_THREAD_CPUTIME_ID;
    let now = nix::time::clock_gettime(clock).unwrap();
    now.tv_sec() as f64 + now.tv_nsec() as f64 / 1e9
}

/// MB/s and MB for each second of CPU time from `from` to `to`, for two seconds.
async fn goodput(from: &Association, to: &Association) -> (f64, f64) {
    let data = bytes::Bytes::from(pattern(16_384, 7));
    let sending = from.clone();
    let sender = tokio::spawn(async move {
        while sending.send(OutgoingMessage::new(0, Ppid(0), data.clone())).await.is_ok() {}
    });
    let (begun, before, mut bytes) = (Instant::now(), cpu(), 0);
    while begun.elapsed() < Duration::from_secs(2) {
        bytes += to.recv().await.unwrap().unwrap().payload.len();
    }
    let megabytes = bytes as f64 / 1e6;
    sender.abort();
    (megabytes / begun.elapsed().as_secs_f64(), megabytes / (cpu() - before))
}

/// Measures every flood towards either end, and prints a table.
pub(crate) fn run() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        println!("flood   towards   packets/s | MB/s alone flooded share | per CPU s: the same");
        for flood in FLOODS {
            for receiving in [true, false] {
                let default = AssociationConfig::default;
                let pair = Pair::with(&[V4], default(), default()).await;
                let (from, to) =
                    if receiving { (&pair.near, &pair.far) } else { (&pair.far, &pair.near) };
                let alone = goodput(from, to).await;
                let flooder = Flooder::start(flood, &pair);
                let before = flooder.sent.load(Ordering::Relaxed);
                let flooded = goodput(from, to).await;
                let rate = (flooder.sent.load(Ordering::Relaxed) - before) / 2;
                drop(flooder);
                let name = format!("{flood:?}");
                let whom = if receiving { "receiver" } else { "sender" };
                print!("{name:<8}{whom:<9}{rate:>10}");
                for (alone, flooded) in [(alone.0, flooded.0), (alone.1, flooded.1)] {
                    print!(" |{alone:>9.1}{flooded:>9.1}{:>7.2}", flooded / alone);
                }
                println!();
            }
        }
    });
}
