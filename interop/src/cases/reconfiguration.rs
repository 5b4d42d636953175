//! Streams that are reset and added while messages are in flight (RFC 6525).

use std::time::Duration;

use anabranch::{Association, Events, Notification, ReconfigurationResult, StreamDirection};

use super::meeting::{Meeting, OTHER_ROLE};
use super::reported;
use crate::lane::Lane;
use crate::peer::Kind;
use crate::plan::{self, Planned};
use crate::side::{self, Setting};

/// The stream on which this side sends.
const OURS: u16 = 4;

/// The stream on which the peer sends, and on which it gets commands.
const THEIRS: u16 = 0;

/// Messages before a reset, and after it.
const COUNT: usize = 30;

/// Length of the peer's messages.
const SIZE: usize = 3000;

/// How long an event may take.
const PATIENCE: Duration = Duration::from_secs(20);

/// Both roles, with losses.
async fn roles(
    lane: &Lane,
    slot: u16,
    streams: Option<u16>,
    act: impl AsyncFn(&Lane, &mut Meeting) -> Result<(), String>,
) -> Result<(), String> {
    let losses = side::losses()?;
    for (ours, slot) in [(true, slot), (false, slot + OTHER_ROLE)] {
        let mut setting = Setting { impairment: Some(&losses), streams, ..Setting::default() };
        if let Some(streams) = streams {
            setting.config.sending.outbound_streams = streams;
        }
        if lane.kind.is_pion() {
            // After a loss, it sends one packet at a time for long, and each would wait for a delayed SACK.
            setting.config.acknowledging.sack_delay = Duration::from_millis(10);
        }
        let mut meeting = Meeting::begun(lane, slot, setting, ours).await?;
        act(lane, &mut meeting).await?;
        meeting.part().await?;
    }
    Ok(())
}

/// How many resets of its own a peer adds to each of ours: engines for WebRTC close both directions of a stream.
fn answers(lane: &Lane) -> usize {
    usize::from(matches!(lane.kind, Kind::RtcSctp | Kind::SctpProto))
}

/// This side resets a stream with messages in flight. A peer that did not reset it would wait for other sequence
/// numbers, and a message that was lost by the reset would be missing.
pub(super) async fn reset_out(lane: &Lane, slot: u16) -> Result<(), String> {
    roles(lane, slot, None, async |_, meeting| {
        let association = meeting.association.clone();
        let mut resets = Resets::new(&association);
        reported::begin(&association, &mut meeting.peer).await?;
        let plan =
            plan::messages(plan::mixed_lengths().map(|l| l.min(5000)).take(2 * COUNT), 33, |_| {
                OURS
            });
        let (before, after) = plan.split_at(COUNT);
        send(&association, before).await?;
        let begun = association.reset_streams(StreamDirection::Outgoing, &[OURS]);
        begun.map_err(|error| format!("reset: {error}"))?;
        send(&association, after).await?;
        resets.next(true, OURS).await?;
        let reported =
            reported::read(&mut meeting.peer, &plan, |all| !all.reset.is_empty()).await?;
        match reported.reset.iter().all(|stream| *stream == OURS) {
            true => Ok(()),
            false => Err(format!("the peer saw resets of {:?}", reported.reset)),
        }
    })
    .await
}

/// The peer resets a stream, first by itself and then on request. Its messages begin with the sequence number 0 again.
pub(super) async fn reset_in(lane: &Lane, slot: u16) -> Result<(), String> {
    roles(lane, slot, None, async |lane, meeting| {
        let association = meeting.association.clone();
        let mut resets = Resets::new(&association);
        source(lane, &association, 34).await?;
        side::command(&association, &format!("reset {THEIRS}")).await?;
        resets.next(false, THEIRS).await?;
        // For WebRTC a stream can be used again when both directions are reset.
        let begun = association.reset_streams(StreamDirection::Outgoing, &[THEIRS]);
        begun.map_err(|error| format!("reset: {error}"))?;
        resets.next(true, THEIRS).await?;
        for _ in 0..answers(lane) {
            resets.next(false, THEIRS).await?;
        }
        source(lane, &association, 35).await?;
        if lane.kind.is_webrtc() {
            return Ok(());
        }
        let begun = association.reset_streams(StreamDirection::Incoming, &[THEIRS]);
        begun.map_err(|error| format!("reset on request: {error}"))?;
        resets.next(false, THEIRS).await?;
        source(lane, &association, 36).await
    })
    .await
}

/// Both sides have 4 streams at first. This side adds 3 and 4, the peer 2 and 1.
pub(super) async fn add_streams(lane: &Lane, slot: u16) -> Result<(), String> {
    roles(lane, slot, Some(4), async |lane, meeting| {
        let association = meeting.association.clone();
        let counts = || (association.outbound_streams(), association.inbound_streams());
        if counts() != (4, 4) {
            return Err(format!("{:?} streams at the beginning", counts()));
        }
        let mut events = association.events();
        association.add_streams(3, 4).map_err(|error| format!("streams: {error}"))?;
        while counts() != (7, 8) {
            more_streams(&mut events).await?;
        }
        echo_on(lane, &association, 7, 8).await?;
        side::command(&association, "add 2 1").await?;
        while counts() != (8, 10) {
            more_streams(&mut events).await?;
        }
        echo_on(lane, &association, 8, 10).await?;
        let kind = lane.kind;
        reported::read(&mut meeting.peer, &[], |all| are_added(kind, &all.streams)).await.map(drop)
    })
    .await
}

/// Whether the peer's events say that it has 10 outgoing and 8 incoming streams. Linux says how many are new.
fn are_added(kind: Kind, changes: &[(u16, u16)]) -> bool {
    let sum = || changes.iter().fold((4, 4), |all, more| (all.0 + more.0, all.1 + more.1));
    let count = if kind == Kind::Linux { Some(sum()) } else { changes.last().copied() };
    count == Some((10, 8))
}

/// Uses all streams: those on which this side sends, by messages that come back, and those on which the peer sends.
async fn echo_on(
    lane: &Lane,
    association: &Association,
    outgoing: u16,
    incoming: u16,
) -> Result<(), String> {
    let lengths = plan::mixed_lengths().take(2 * usize::from(outgoing));
    let plan = plan::messages(lengths, 37, |index| (index % u64::from(outgoing)) as u16);
    side::echo(lane, association, &plan).await?;
    let count = 2 * usize::from(incoming);
    side::command(association, &format!("source {count} {SIZE} {incoming} 38")).await?;
    let mut expected = plan::Expected::new(lane.kind.returns_ppid());
    expected.add(&plan::messages(std::iter::repeat_n(SIZE, count), 38, |index| {
        (index % u64::from(incoming)) as u16
    }));
    side::receive(association, &mut expected).await
}

/// Receives messages of the peer's own on one stream, whose sequence numbers are 0, 1 and so on.
async fn source(lane: &Lane, association: &Association, seed: u64) -> Result<(), String> {
    side::command(association, &format!("source {COUNT} {SIZE} 1 {seed}")).await?;
    let mut expected = plan::Expected::new(lane.kind.returns_ppid());
    expected.add(&plan::messages(std::iter::repeat_n(SIZE, COUNT), seed, |_| THEIRS));
    for number in 0..COUNT as u32 {
        let message = match association.recv().await {
            Ok(Some(message)) => message,
            Ok(None) => return Err("the peer shut down".to_owned()),
            Err(error) => return Err(error.to_string()),
        };
        let sequence = message.sequence;
        if sequence != number {
            return Err(format!("the sequence number {sequence} in place of {number}"));
        }
        expected.take(message)?;
    }
    Ok(())
}

async fn send(association: &Association, plan: &[Planned]) -> Result<(), String> {
    for planned in plan {
        association.send(planned.outgoing()).await.map_err(|error| format!("send: {error}"))?;
    }
    Ok(())
}

/// Resets that this side has heard of.
struct Resets {
    events: Events,
    /// Of each direction: those that nobody has waited for yet.
    waiting: [usize; 2],
}

impl Resets {
    fn new(association: &Association) -> Self {
        Self { events: association.events(), waiting: [0; 2] }
    }

    /// Waits for the end of the next reset in a direction. All resets must be of this stream.
    async fn next(&mut self, outgoing: bool, stream: u16) -> Result<(), String> {
        let ended = tokio::time::timeout(PATIENCE, self.wait(outgoing, stream)).await;
        ended
            .unwrap_or_else(|_| Err(format!("stream {stream} is not reset (outgoing: {outgoing})")))
    }

    async fn wait(&mut self, outgoing: bool, stream: u16) -> Result<(), String> {
        while self.waiting[usize::from(outgoing)] == 0 {
            let event = self.events.next().await.ok_or("the association ended")?;
            if let Notification::StreamsReset { outgoing, streams, result } = event {
                if *streams != [stream] || result != ReconfigurationResult::Performed {
                    return Err(format!(
                        "the reset of {streams:?} (outgoing: {outgoing}) is {result}"
                    ));
                }
                self.waiting[usize::from(outgoing)] += 1;
            }
        }
        self.waiting[usize::from(outgoing)] -= 1;
        Ok(())
    }
}

/// Waits for the next change of the number of streams.
async fn more_streams(events: &mut Events) -> Result<(), String> {
    let wait = async {
        while let Some(event) = events.next().await {
            if let Notification::StreamsAdded { result, .. } = event {
                return match result {
                    ReconfigurationResult::Performed => Ok(()),
                    _ => Err(format!("more streams: {result}")),
                };
            }
        }
        Err("the association ended".to_owned())
    };
    let ended = tokio::time::timeout(PATIENCE, wait).await;
    ended.unwrap_or_else(|_| Err("no more streams".to_owned()))
}
