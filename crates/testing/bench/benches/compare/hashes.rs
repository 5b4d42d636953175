//! What authentication would cost if nothing else did: the MACs over packets that are full of data, one at each end.

use std::hint::black_box;

use hmac::{Hmac, Mac as _};
use sha2::Sha256;

use crate::cpu::Stopwatch;
use crate::measure::Sample;

/// Bytes of a packet that its MAC covers: 1500 without the headers of IPv4, UDP and SCTP.
const COVERED: usize = 1460;
/// User bytes among them: without the AUTH chunk and the header of a DATA chunk.
const USER: usize = COVERED - 40 - 16;
/// Packets between two readings of the clock.
const SLICE: u64 = 700;

/// Megabytes of user data a CPU second, over `seconds` of CPU time.
pub(crate) fn rate(seconds: f64) -> Result<Sample, String> {
    let key = Hmac::<Sha256>::new_from_slice(&[7; 64]).map_err(|error| error.to_string())?;
    let packet = vec![7; COVERED];
    let watch = Stopwatch::start();
    let (mut packets, mut cpu) = (0, 0.0);
    while cpu < seconds {
        for _ in 0..2 * SLICE {
            black_box(key.clone().chain_update(black_box(&packet)).finalize());
        }
        packets += SLICE;
        cpu = watch.seconds();
    }
    let value = packets as f64 * USER as f64 / 1e6 / cpu;
    Ok(Sample { value, cpu, notes: Vec::new() })
}
