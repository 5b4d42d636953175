//! Messages that do not wait for a long one on another stream (RFC 8260).

use std::time::Duration;

use anabranch::config::SchedulerKind;
use anabranch::{Association, Features};

use super::meeting::{Meeting, OTHER_ROLE};
use super::reported;
use crate::lane::Lane;
use crate::peer::Kind;
use crate::plan::{self, Expected};
use crate::side::{self, Setting};

/// Length of the long message, in bytes.
const LONG: usize = 200_000;

/// Length of the short ones.
const SHORT: usize = 100;

/// Number of the short ones.
const COUNT: usize = 40;

/// An association begun by this side, and one begun by the peer.
pub(super) async fn both(lane: &Lane, slot: u16) -> Result<(), String> {
    let losses = side::losses()?;
    for (ours, slot) in [(true, slot), (false, slot + OTHER_ROLE)] {
        let mut setting = Setting { impairment: Some(&losses), ..Setting::default() };
        setting.config.sending.interleaving = true;
        setting.config.sending.scheduler = SchedulerKind::RoundRobin;
        // Linux does not understand fragments of others.
        setting.config.sending.fill_packets = lane.kind != Kind::Linux;
        if lane.kind.is_pion() {
            // After a loss, it sends one packet at a time for long, and each would wait for a delayed SACK.
            setting.config.acknowledging.sack_delay = Duration::from_millis(10);
        }
        let meeting = Meeting::begun(lane, slot, setting, ours).await?;
        one(lane, meeting).await?;
    }
    Ok(())
}

async fn one(lane: &Lane, mut meeting: Meeting) -> Result<(), String> {
    let expected = matches!(lane.kind, Kind::Usrsctp | Kind::Linux | Kind::Dcsctp | Kind::Pion);
    let agreed = meeting.association.statistics().features.has(Features::INTERLEAVING);
    if agreed != expected {
        return Err(format!("agreed on interleaving: {agreed}"));
    }
    let long = match lane.kind {
        Kind::Linux => 1000,
        _ if agreed => LONG,
        _ => LONG / 4,
    };
    let ours = plan::mixed(long, SHORT, COUNT, 31);
    let association = meeting.association.clone();
    reported::begin(&association, &mut meeting.peer).await?;
    side::command(&association, &format!("mixed {long} {SHORT} {COUNT} 32")).await?;
    let send = async {
        for planned in &ours {
            association.send(planned.outgoing()).await.map_err(|e| format!("send: {e}"))?;
        }
        Ok::<(), String>(())
    };
    let mut theirs = Expected::new(lane.kind.returns_ppid());
    theirs.add(&plan::mixed(long, SHORT, COUNT, 32));
    let (sent, reported, arrived) = tokio::join!(
        send,
        reported::read(&mut meeting.peer, &ours, |_| true),
        receive(&association, &mut theirs)
    );
    sent?;
    let reported = reported.map_err(|error| format!("at the peer: {error}"))?;
    let orders = [("of this side", reported.arrived), ("of the peer", arrived?)];
    meeting.part().await?;
    for (whose, order) in orders {
        let before = order.iter().take_while(|stream| **stream != 0).count();
        if agreed && long == LONG && before < COUNT / 2 {
            return Err(format!("{before} short messages {whose} overtook the long one"));
        }
    }
    Ok(())
}

/// Receives until nothing is missing. Returns the streams of the messages in the order of their ends.
async fn receive(association: &Association, expected: &mut Expected) -> Result<Vec<u16>, String> {
    let mut order = Vec::new();
    while expected.missing() > 0 {
        let message = match association.recv().await {
            Ok(Some(message)) => message,
            Ok(None) => {
                return Err(format!("shut down with {} messages missing", expected.missing()));
            }
            Err(error) => return Err(error.to_string()),
        };
        order.extend(message.end.then_some(message.stream));
        expected.take(message)?;
    }
    Ok(order)
}
