//! Multihoming.

use std::time::Duration;

use anabranch::{Association, PathState};

use super::meeting::Meeting;
use crate::lane::Lane;
use crate::net;
use crate::plan::{self, Expected};
use crate::side::{self, Setting};

/// Cuts and repairs each of two paths in turn, while the peer returns messages all the time.
pub(crate) async fn cut_each(lane: &Lane, slot: u16) -> Result<(), String> {
    let mut config = side::config();
    config.paths.path_max_retrans = 1;
    let setting = Setting { links: &[0, 1], config, ..Setting::default() };
    let meeting = Meeting::ours(lane, slot, setting).await?;
    let association = &meeting.association;
    for link in [0, 1] {
        state(lane, association, link, PathState::Active).await?;
    }
    let plan = plan::messages(plan::mixed_lengths().take(10_000), 10, |i| (i % 4) as u16);
    let (stop, mut stopped) = tokio::sync::watch::channel(false);
    let traffic = async {
        let mut expected = Expected::new(lane.kind.returns_ppid());
        let mut rest = plan.chunks(4);
        while !*stopped.borrow_and_update() {
            let some = rest.next().ok_or("the plan is too short")?;
            expected.add(some);
            for planned in some {
                association.send(planned.outgoing()).await.map_err(|e| format!("send: {e}"))?;
            }
            side::receive(association, &mut expected).await?;
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        Ok::<(), String>(())
    };
    let cuts = async {
        for link in [0, 1] {
            lane.set_cut(link, true).await?;
            state(lane, association, link, PathState::Inactive).await?;
            tokio::time::sleep(Duration::from_millis(500)).await;
            lane.set_cut(link, false).await?;
            state(lane, association, link, PathState::Active).await?;
        }
        tokio::time::sleep(Duration::from_millis(200)).await;
        stop.send_replace(true);
        Ok::<(), String>(())
    };
    tokio::try_join!(traffic, cuts)?;
    meeting.part().await
}

/// Waits until the path over a link is in a state.
pub(crate) async fn state(
    lane: &Lane,
    association: &Association,
    link: u8,
    wanted: PathState,
) -> Result<(), String> {
    let remote = net::far(lane.family, link);
    let wait = async {
        loop {
            let statistics = association.statistics();
            let mut paths = statistics.paths.iter();
            match paths.find(|path| path.remote == remote) {
                Some(path) if path.state == wanted => return Ok(()),
                _ if association.is_closed() => return Err("the association ended".to_string()),
                _ => tokio::time::sleep(Duration::from_millis(20)).await,
            }
        }
    };
    let reached = tokio::time::timeout(Duration::from_secs(15), wait).await;
    reached.unwrap_or_else(|_| Err(format!("the path to {remote} did not become {wanted}")))
}
