//! Messages that are given up: by lifetime, by retransmissions, by priority (RFC 3758, RFC 7496).

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use anabranch::{
    Association, Events, Features, Notification, OutgoingMessage, Ppid, Reliability,
    SendErrorReason,
};
use bytes::{BufMut as _, Bytes, BytesMut};

use super::meeting::Meeting;
use crate::lane::Lane;
use crate::peer::Kind;
use crate::plan;
use crate::side::{self, Setting};

/// An ordered and an unordered stream.
const STREAMS: [u16; 2] = [4, 5];

/// Messages of each case, besides the last one.
const COUNT: u32 = 120;

/// WebRTC engines interpret small ones.
const PPID: Ppid = Ppid(1000);

/// The message that must arrive after all the others.
const LAST: u32 = u32::MAX;

/// Message `index`: its number, and a pattern.
fn message(index: u32, length: usize) -> OutgoingMessage {
    let stream = if index == LAST { STREAMS[0] } else { STREAMS[(index / 8 % 2) as usize] };
    let mut data = BytesMut::new();
    data.put_u32(index);
    data.put(plan::pattern(length, 21, index.into()));
    let mut message = OutgoingMessage::new(stream, PPID, data.freeze());
    message.unordered = stream % 2 == 1;
    message.context = index.into();
    message
}

/// Every seventh packet with data is lost on the way to the peer. Messages of one and of several chunks are given up
/// where they would be sent again.
pub(super) async fn by_loss(lane: &Lane, slot: u16, policy: Reliability) -> Result<(), String> {
    let losses = side::pattern("......x")?;
    let setting = Setting { impairment: Some(&losses), ..Setting::default() };
    let meeting = Meeting::ours(lane, slot, setting).await?;
    let mut returned = Returned::new(&meeting.association);
    returned.may_miss = lane.kind == Kind::Usrsctp;
    for (index, length) in (0..COUNT).zip(plan::mixed_lengths()) {
        let message = message(index, length.min(5000)).with_reliability(policy);
        let given = meeting.association.send(message).await;
        given.map_err(|error| format!("send: {error}"))?;
        returned.given.insert(index);
    }
    let agreed = returned.finish(&meeting.association).await?;
    meeting.part().await?;
    returned.judge(agreed)
}

/// Less important messages fill the send buffer, and a more important one takes their place.
pub(super) async fn by_priority(lane: &Lane, slot: u16) -> Result<(), String> {
    let losses = side::losses()?;
    let mut setting = Setting { impairment: Some(&losses), ..Setting::default() };
    setting.config.sending.send_buffer = 64 << 10;
    let meeting = Meeting::ours(lane, slot, setting).await?;
    let mut returned = Returned::new(&meeting.association);
    for index in 0..COUNT {
        let important = index % 10 == 9;
        let priority = Reliability::Priority(if important { 1 } else { 5 });
        match meeting.association.try_send(message(index, 2000).with_reliability(priority)) {
            Ok(()) => {
                returned.given.insert(index);
                returned.must.extend(important.then_some(index));
            }
            Err(error) if error.reason == SendErrorReason::Blocked && !important => {}
            Err(error) => return Err(format!("message {index}: {error}")),
        }
    }
    returned.finish(&meeting.association).await?;
    meeting.part().await?;
    // Messages that wait are given up whatever the peer can do.
    returned.judge(true)
}

/// What came back: from the peer, or as given up.
struct Returned {
    events: Events,
    given: BTreeSet<u32>,
    /// These may not be given up.
    must: BTreeSet<u32>,
    given_up: BTreeSet<u32>,
    echoed: BTreeMap<u32, u16>,
    /// The peer may discard messages that it has received when FORWARD TSN skips others.
    may_miss: bool,
}

/// How long nothing happens before messages count as missing: the longest, and where they may be missing and the last
/// one is back.
const QUIET: [Duration; 2] = [Duration::from_secs(20), Duration::from_secs(3)];

impl Returned {
    fn new(association: &Association) -> Self {
        let (given, must, given_up, echoed) = Default::default();
        let events = association.events();
        Self { events, given, must, given_up, echoed, may_miss: false }
    }

    /// Sends the last message, and waits until everything that was not given up is back. Returns whether the peer
    /// agreed to skip messages.
    async fn finish(&mut self, association: &Association) -> Result<bool, String> {
        let last = message(LAST, 10).with_reliability(Reliability::Full);
        association.send(last).await.map_err(|error| format!("send: {error}"))?;
        self.given.insert(LAST);
        let mut parts = BTreeMap::<u16, BytesMut>::new();
        while !self.given.iter().all(|index| self.is_back(*index)) {
            let may_miss = self.may_miss && self.is_back(LAST);
            let received = tokio::select! {
                received = association.recv() => received,
                event = self.events.next() => {
                    if let Some(Notification::SendFailed { message, .. }) = event {
                        self.given_up.insert(message.context as u32);
                    }
                    continue;
                }
                () = tokio::time::sleep(QUIET[usize::from(may_miss)]) => {
                    if may_miss {
                        break;
                    }
                    let missing = self.given.iter().filter(|index| !self.is_back(**index));
                    return Err(format!("missing {:?}", missing.collect::<Vec<_>>()));
                }
            };
            let message = match received {
                Ok(Some(message)) => message,
                Ok(None) => return Err("the peer shut down".to_owned()),
                Err(error) => return Err(error.to_string()),
            };
            let (stream, end) = (message.stream, message.end);
            let whole = parts.entry(stream).or_default();
            whole.extend_from_slice(&message.payload.into_bytes());
            if end {
                self.take(stream, whole.split().freeze())?;
            }
        }
        Ok(association.statistics().features.has(Features::PARTIAL_RELIABILITY))
    }

    fn is_back(&self, index: u32) -> bool {
        self.echoed.contains_key(&index) || self.given_up.contains(&index)
    }

    /// A message came back from the peer.
    fn take(&mut self, stream: u16, data: Bytes) -> Result<(), String> {
        let Some((number, rest)) = data.split_first_chunk() else {
            return Err(format!("a message of {} bytes", data.len()));
        };
        let index = u32::from_be_bytes(*number);
        let sent = message(index, rest.len());
        if sent.stream != stream || sent.data != data || !self.given.contains(&index) {
            return Err(format!("message {index} with {} bytes on stream {stream}", data.len()));
        }
        let later = self.echoed.iter().any(|(other, of)| *of == stream && *other > index);
        if later && !sent.unordered {
            return Err(format!("message {index} comes after a later one"));
        }
        match self.echoed.insert(index, stream) {
            Some(_) => Err(format!("message {index} comes twice")),
            None => Ok(()),
        }
    }

    fn judge(&self, may_give_up: bool) -> Result<(), String> {
        let kept = self.given_up.intersection(&self.must).count();
        match self.given_up.len() {
            _ if kept > 0 => Err(format!("{kept} important messages were given up")),
            0 if may_give_up => Err("nothing was given up".to_owned()),
            count if count > 0 && !may_give_up => {
                Err(format!("{count} messages were given up, but the peer cannot skip any"))
            }
            _ => Ok(()),
        }
    }
}
