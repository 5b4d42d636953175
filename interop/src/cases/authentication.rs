//! Authenticated data (RFC 4895).

use std::time::Duration;

use anabranch::config::SharedKeys;
use anabranch::{ChunkTypes, Features};

use super::meeting::{Meeting, OTHER_ROLE};
use crate::lane::Lane;
use crate::peer::Kind;
use crate::plan;
use crate::side::{self, Setting};

/// The number of the secret, which the peer's program has as well.
const KEY: u16 = 1;
const SECRET: &str = "interoperability";

/// The types of DATA and SACK, which the peer wants authenticated, too.
const CHUNKS: &[u8] = &[0, 3];

fn setting<'a>(secret: &str) -> Setting<'a> {
    let mut setting = Setting { secret: Some(SECRET), ..Setting::default() };
    setting.config.authentication.authentication = true;
    setting.config.authentication.authenticated_chunks = ChunkTypes::of(CHUNKS);
    setting.config.keys = SharedKeys::new(KEY, secret.as_bytes());
    setting
}

/// An association begun by this side, and one begun by the peer; then one with another secret.
pub(super) async fn both(lane: &Lane, slot: u16) -> Result<(), String> {
    let losses = side::losses()?;
    for (ours, slot) in [(true, slot), (false, slot + OTHER_ROLE)] {
        let setting = Setting { impairment: Some(&losses), ..setting(SECRET) };
        one(lane, Meeting::begun(lane, slot, setting, ours).await?).await?;
    }
    if has_authentication(lane) {
        let meeting = Meeting::ours(lane, slot + 2 * OTHER_ROLE, setting("another")).await?;
        stranger(meeting).await?;
    }
    Ok(())
}

fn has_authentication(lane: &Lane) -> bool {
    matches!(lane.kind, Kind::Usrsctp | Kind::Linux)
}

async fn one(lane: &Lane, meeting: Meeting) -> Result<(), String> {
    let expected = has_authentication(lane);
    let messages = plan::messages(plan::mixed_lengths().take(60), 41, |index| (index % 4) as u16);
    side::echo(lane, &meeting.association, &messages).await?;
    let statistics = meeting.association.statistics();
    let (required, wanted) = meeting.association.authenticated_chunks();
    meeting.part().await?;
    let agreed = statistics.features.has(Features::AUTHENTICATION);
    let counters = statistics.counters;
    let (sent, failures) = (counters.authenticated_packets_sent, counters.authentication_failures);
    let all = |chunks: ChunkTypes| CHUNKS.iter().all(|kind| chunks.has(*kind));
    let right = match expected {
        true => agreed && sent > 60 && all(required) && all(wanted),
        false => !agreed && sent == 0,
    };
    // The last packets of an association may arrive without their keys.
    match right && failures == 0 && counters.unauthenticated_chunks == 0 {
        true => Ok(()),
        false => Err(format!(
            "agreed {agreed}, {sent} packets authenticated, {failures} wrong, {} chunks were not; {required} is \
             required here and {wanted} there",
            counters.unauthenticated_chunks
        )),
    }
}

/// The peer has another secret: nothing arrives.
async fn stranger(meeting: Meeting) -> Result<(), String> {
    let plan = plan::messages([100], 43, |_| 0);
    for planned in &plan {
        meeting
            .association
            .send(planned.outgoing())
            .await
            .map_err(|error| format!("send: {error}"))?;
    }
    let answer = tokio::time::timeout(Duration::from_secs(2), meeting.association.recv()).await;
    meeting.leave().await;
    match answer {
        Err(_) => Ok(()),
        Ok(answer) => Err(format!("with another secret the answer is {answer:?}")),
    }
}
