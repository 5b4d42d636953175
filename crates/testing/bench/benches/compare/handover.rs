//! The longest time without a delivery while a host changes networks, in virtual time: the same on every machine.

use anabranch_harness::handover::{config, hand_over};
use anabranch_proto::Handover;

use crate::measure::Sample;

/// The longer one of the gaps in milliseconds: of data that the host sends, and of data that it receives. Fails if a chunk
/// was sent again that was not in flight when the old network was given up.
pub(crate) fn gap() -> Result<Sample, String> {
    let [sends, receives] = [0, 1].map(|from| hand_over(&config(Handover::MakeFirst), from));
    for (moved, whose) in [(&sends, "sends"), (&receives, "receives")] {
        if moved.twice != moved.in_flight {
            let more = moved.twice - moved.in_flight;
            return Err(format!("{more} chunks that the host {whose} were sent again needlessly"));
        }
    }
    let [sends, receives] = [sends.gap, receives.gap].map(|gap| gap.as_secs_f64() * 1e3);
    let notes = vec![("sends_ms", sends), ("receives_ms", receives)];
    Ok(Sample { value: sends.max(receives), cpu: 0.0, notes })
}
