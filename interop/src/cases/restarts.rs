//! One side loses its state and comes back from the same addresses and ports
//! (RFC 9260 section 5.2).

use std::time::Duration;

use anabranch::Notification;

use super::meeting::Meeting;
use crate::lane::Lane;
use crate::peer::Kind;
use crate::plan;
use crate::side::{self, Setting, Side};

pub(super) async fn of_the_peer(lane: &Lane, slot: u16) -> Result<(), String> {
    let mut meeting = Meeting::theirs(lane, slot, Setting::default()).await?;
    let plan = plan::messages(plan::mixed_lengths().take(16), 14, |_| 2);
    side::echo(lane, &meeting.association, &plan).await?;
    let mut events = meeting.association.events();
    if lane.kind == Kind::Linux {
        // A kernel ends the associations of killed processes; drop its packets.
        lane.set_cut_far(0, true).await?;
        side::command(&meeting.association, "abort").await?;
        meeting.peer.end().await?;
        // Before the new association begins, it must not answer packets of this side for the old one,
        // either.
        lane.set_cut_near(0, true).await?;
        lane.set_cut_far(0, false).await?;
    }
    meeting.peer.kill().await;
    meeting.peer = Setting::default().start(lane, slot, false).start().await?;
    if lane.kind == Kind::Linux {
        tokio::time::sleep(Duration::from_millis(300)).await;
        lane.set_cut_near(0, false).await?;
    }
    let restarted = async {
        while let Some(event) = events.next().await {
            if matches!(event, Notification::Restarted { .. }) {
                return Ok(());
            }
        }
        Err("the association ended".to_string())
    };
    let noticed = tokio::time::timeout(Duration::from_secs(20), restarted).await;
    noticed.unwrap_or_else(|_| Err("the restart was not noticed".into()))?;
    side::echo(lane, &meeting.association, &plan).await?;
    meeting.part().await
}

pub(super) async fn of_ours(lane: &Lane, slot: u16) -> Result<(), String> {
    let meeting = Meeting::ours(lane, slot, Setting::default()).await?;
    let plan = plan::messages(plan::mixed_lengths().take(16), 15, |_| 2);
    side::echo(lane, &meeting.association, &plan).await?;
    // The peer does not learn of the end.
    lane.set_cut(0, true).await?;
    let Meeting { side, peer, association, listener } = meeting;
    association.abort(b"unheard");
    drop(association);
    side.endpoint.close().await;
    lane.set_cut(0, false).await?;
    let side = Side::new(lane, slot, &Setting::default())?;
    let association = side.connect().await?;
    side::echo(lane, &association, &plan).await?;
    Meeting { side, peer, association, listener }.part().await
}
