//! How associations end.

use anabranch::{AssociationError, CloseReason};

use super::meeting::Meeting;
use crate::lane::Lane;
use crate::plan::{self, Expected};
use crate::side::{self, Setting};

pub(super) async fn close(lane: &Lane, slot: u16) -> Result<(), String> {
    let mut meeting = Meeting::ours(lane, slot, Setting::default()).await?;
    side::command(&meeting.association, "sink").await?;
    let plan = plan::messages(plan::mixed_lengths().take(120), 7, |_| 0);
    for planned in &plan {
        meeting.association.send(planned.outgoing()).await.map_err(|e| e.to_string())?;
    }
    side::close(&meeting.association).await?;
    let end = meeting.peer.end().await?;
    let bytes: usize = plan.iter().map(|planned| planned.data.len()).sum();
    if (end.bytes, &end.hash) != (bytes, &plan::hash(&plan)) || end.how != "shutdown" {
        return Err(format!("the peer did not receive exactly these {bytes} bytes: {end:?}"));
    }
    meeting.leave().await;
    Ok(())
}

pub(super) async fn closed(lane: &Lane, slot: u16) -> Result<(), String> {
    let mut meeting = Meeting::ours(lane, slot, Setting::default()).await?;
    side::command(&meeting.association, "source 200 5000 1 8").await?;
    side::command(&meeting.association, "shutdown").await?;
    let mut expected = Expected::new(lane.kind.returns_ppid());
    expected.add(&plan::messages(std::iter::repeat_n(5000, 200), 8, |_| 0));
    side::receive(&meeting.association, &mut expected).await?;
    match meeting.association.recv().await {
        Ok(None) => {}
        other => return Err(format!("not a graceful end but {other:?}")),
    }
    meeting.association.closed().await.map_err(|e| e.to_string())?;
    meeting.peer.end().await?;
    meeting.leave().await;
    Ok(())
}

/// Starts a long transfer, and waits until some of it has arrived.
async fn in_the_middle(lane: &Lane, slot: u16) -> Result<Meeting, String> {
    let meeting = Meeting::ours(lane, slot, Setting::default()).await?;
    let sender = meeting.association.clone();
    tokio::spawn(async move {
        for planned in plan::messages(std::iter::repeat_n(5000, 20_000), 9, |_| 0) {
            if sender.send(planned.outgoing()).await.is_err() {
                break;
            }
        }
    });
    for _ in 0..20 {
        let message = meeting.association.recv().await;
        message.map_err(|e| e.to_string())?.ok_or("the peer shut down")?;
    }
    Ok(meeting)
}

pub(super) async fn abort(lane: &Lane, slot: u16) -> Result<(), String> {
    let mut meeting = in_the_middle(lane, slot).await?;
    meeting.association.abort(b"interop");
    let end = meeting.peer.end().await?;
    if end.how == "shutdown" && !lane.kind.is_webrtc() {
        return Err("the peer saw a graceful end".into());
    }
    meeting.leave().await;
    Ok(())
}

pub(super) async fn aborted(lane: &Lane, slot: u16) -> Result<(), String> {
    let meeting = in_the_middle(lane, slot).await?;
    let sender = meeting.association.clone();
    tokio::spawn(async move { side::command(&sender, "abort").await });
    let error = loop {
        match meeting.association.recv().await {
            Ok(Some(_)) => {}
            Ok(None) => return Err("the peer shut down".into()),
            Err(error) => break error,
        }
    };
    if !matches!(error, AssociationError::Closed(CloseReason::PeerAbort { .. })) {
        return Err(format!("not aborted by the peer: {error}"));
    }
    meeting.leave().await;
    Ok(())
}
