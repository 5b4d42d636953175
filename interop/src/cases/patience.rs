//! Closed windows and idle times.

use std::time::Duration;

use super::meeting::Meeting;
use crate::lane::Lane;
use crate::net;
use crate::plan::{self, Expected};
use crate::side::{self, Setting};

/// Small enough to be filled many times over.
const BUFFER: usize = 128 << 10;

/// How long a side does not read.
const PAUSE: Duration = Duration::from_millis(1500);

pub(super) async fn window(lane: &Lane, slot: u16) -> Result<(), String> {
    let mut config = side::config();
    config.receiving.receive_buffer = BUFFER;
    let setting = Setting { buffer: BUFFER, config, ..Setting::default() };
    let meeting = Meeting::ours(lane, slot, setting).await?;
    let association = &meeting.association;

    // The peer does not read.
    side::command(association, &format!("pause {}", PAUSE.as_millis())).await?;
    let plan = plan::messages(std::iter::repeat_n(10_000, 200), 11, |_| 2);
    let closed = async {
        tokio::time::sleep(PAUSE / 2).await;
        association.statistics().peer_rwnd
    };
    let (echoed, window) = tokio::join!(side::echo(lane, association, &plan), closed);
    echoed?;
    if window > 20_000 {
        return Err(format!("the peer's window did not close: {window} bytes"));
    }

    // This side does not read.
    side::command(association, "source 200 10000 1 12").await?;
    tokio::time::sleep(PAUSE).await;
    let mut expected = Expected::new(lane.kind.returns_ppid());
    expected.add(&plan::messages(std::iter::repeat_n(10_000, 200), 12, |_| 0));
    side::receive(association, &mut expected).await?;
    meeting.part().await
}

pub(super) async fn idle(lane: &Lane, slot: u16) -> Result<(), String> {
    let setting = Setting { links: &[net::STEADY], ..Setting::default() };
    let meeting = Meeting::ours(lane, slot, setting).await?;
    let association = &meeting.association;
    let heartbeats = || {
        let statistics = association.statistics();
        let path = statistics.paths.first().copied().ok_or("no path")?;
        Ok::<_, String>((path.heartbeats_sent, path.heartbeats_acked))
    };
    let before = heartbeats()?;
    tokio::time::sleep(Duration::from_secs(30)).await;
    let after = heartbeats()?;
    let (sent, acked) = (after.0 - before.0, after.1 - before.1);
    // The interval is about a second, plus the RTO and jitter.
    if sent < 10 || acked + 1 < sent {
        return Err(format!("{acked} of {sent} heartbeats acknowledged in 30 s"));
    }
    let plan = plan::messages(plan::mixed_lengths().take(8), 13, |_| 0);
    side::echo(lane, association, &plan).await?;
    meeting.part().await
}
