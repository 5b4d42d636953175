//! Gives messages up: those whose lifetime has ended, whose chunks were retransmitted often enough, or that are less
//! important than others (RFC 3758 section 3.5, RFC 7496 section 4).
//!
//! A chunk in flight is never given up, because it may have arrived, and because its loss must lower the window (rule
//! F5). When it is lost, it is given up in place of its retransmission. Before the next packet leaves,
//! [`Sender::give_up_lost`] judges the chunks lost since then.

use std::collections::BTreeMap;

use super::Sender;
use super::forward_tsn::PeerPoint;
use super::rules::MAX_OUTSTANDING;
use crate::marks::mark;
use crate::message::{OutgoingMessage, Payload};
use crate::reliability::{Fate, GivenUpBy, GivenUpMessages};
use crate::send::{Queued, SlotState};
use crate::time::Instant;

/// A message that was given up, for a report to the user.
#[derive(Debug)]
pub(crate) struct GivenUp {
    /// With the data that was not acknowledged for good.
    pub(crate) message: OutgoingMessage,
    /// Whether a part of it was sent.
    pub(crate) sent: bool,
}

/// State of the messages that were sent and may be given up.
#[derive(Debug, Default)]
pub(super) struct Partial {
    /// Chunks of these messages that are, or were, lost and wait for their retransmission.
    lost: Vec<u64>,
    /// Some of `lost` were not judged yet.
    judge: bool,
    /// When the first lifetime of a message in `lost` ends.
    next: Option<Instant>,
    pub(super) peer: PeerPoint,
    /// Messages that were given up and not yet reported to the user.
    pub(super) reports: Vec<GivenUp>,
    /// The messages that were given up, by policy, for each stream that has any.
    counts: BTreeMap<u16, [GivenUpMessages; 3]>,
}

impl Partial {
    /// What stays when nothing is outstanding, or the peer has lost its state.
    pub(super) fn lasting(old: Option<Box<Self>>) -> Option<Box<Self>> {
        let Self { reports, counts, .. } = *old?;
        let keeps = !reports.is_empty() || !counts.is_empty();
        keeps.then(|| Box::new(Self { reports, counts, ..Self::default() }))
    }
}

impl Sender {
    /// Gives up expired messages at the head of the queue, before one of them gets a TSN.
    // req: rfc3758 4.1 "Before assigning a TSN to any message, the SCTP sender MUST"
    // req: rfc3758 4.1 "the SCTP sender MUST NOT assign a TSN to that message"
    // req: rfc3758 4.1 "SHOULD delay TSN assignment as mentioned"
    pub(super) fn expire(&mut self, now: Instant) {
        while let Some(message) = self.queue.expire(now) {
            mark!(LifetimeOver);
            self.report(message);
        }
    }

    /// Gives up all expired messages, wherever they are.
    pub(crate) fn expire_all(&mut self, now: Instant) {
        for message in self.queue.expire_all(now) {
            mark!(LifetimeOverInQueue);
            self.report(message);
        }
        self.expire_begun(now);
        self.give_up_lost(now);
    }

    /// When [`expire_all`](Self::expire_all) must be called.
    pub(crate) fn next_expiry(&self) -> Option<Instant> {
        let lost = self.partial.as_ref().and_then(|partial| partial.next);
        self.queue.next_expiry().into_iter().chain(lost).min()
    }

    /// The messages that were given up by a policy, on one stream or on all.
    pub(crate) fn given_up(&self, by: GivenUpBy, stream: Option<u16>) -> GivenUpMessages {
        let Some(partial) = &self.partial else { return GivenUpMessages::default() };
        let of = |counts: &[GivenUpMessages; 3]| counts[by as usize];
        if let Some(stream) = stream {
            return partial.counts.get(&stream).map(of).unwrap_or_default();
        }
        let all = partial.counts.values().map(of);
        all.fold(GivenUpMessages::default(), add)
    }

    /// The messages that were given up by any policy.
    pub(super) fn all_given_up(&self) -> GivenUpMessages {
        let policies = [GivenUpBy::Lifetime, GivenUpBy::Retransmissions, GivenUpBy::Priority];
        policies.into_iter().map(|by| self.given_up(by, None)).fold(Default::default(), add)
    }

    /// Takes the messages that were given up, to report them to the user.
    pub(crate) fn take_given_up(&mut self) -> Vec<GivenUp> {
        self.partial
            .as_mut()
            .map(|partial| std::mem::take(&mut partial.reports))
            .unwrap_or_default()
    }

    /// Gives up less important messages if there is no room for this one.
    // req: rfc7496 3.2 "MAY abandon other user message(s) of the same"
    pub(super) fn make_room(&mut self, now: Instant, message: &OutgoingMessage) {
        let Some(value) = self.queue.priority_without_room(now, message) else { return };
        for message in self.queue.displace(value, message.data.len()) {
            mark!(Displaced);
            self.report(message);
        }
        if self.queue.priority_without_room(now, message).is_some() {
            self.displace_lost(now, value);
        }
    }

    /// The same for messages that wait for a retransmission.
    fn displace_lost(&mut self, now: Instant, value: u64) {
        let Some(partial) = &self.partial else { return };
        let less = |tsn: &&u64| {
            let slot = self.outstanding.get(**tsn);
            let message = slot.and_then(|slot| self.outstanding.message(slot));
            message.is_some_and(|message| matches!(message.fate, Fate::Priority(of) if of > value))
        };
        let lost: Vec<u64> = partial.lost.iter().filter(less).copied().collect();
        for tsn in lost {
            if self.waits(tsn) {
                mark!(Displaced);
                self.give_up_with(now, tsn);
            }
        }
    }

    /// Whether a chunk in flight would be sent again if it were lost.
    pub(super) fn may_repeat(&self, now: Instant, tsn: u64) -> bool {
        let message = self.outstanding.get(tsn).and_then(|slot| self.outstanding.message(slot));
        let times = || self.outstanding.retransmission(tsn).map_or(0, |known| known.times);
        !self.may_skip || message.is_none_or(|message| !message.fate.forbids(now, times()))
    }

    /// Whether a chunk is lost and waits for its retransmission.
    fn waits(&self, tsn: u64) -> bool {
        self.outstanding.get(tsn).is_some_and(|slot| slot.state == SlotState::Lost)
    }

    /// Gives up partly sent messages whose lifetime has ended.
    fn expire_begun(&mut self, now: Instant) {
        if !self.may_skip {
            return;
        }
        for number in self.queue.begun_expired(now) {
            if self.outstanding.len() < MAX_OUTSTANDING {
                mark!(GivenUpBegun);
                self.give_up(now, number);
            }
        }
    }

    /// Notes a chunk that was just lost, if its message may be given up.
    // req: rfc3758 4.1 "then the message MUST be sent as a normal reliable message"
    pub(super) fn doubt(&mut self, tsn: u64, message: u32) {
        let Some(message) = self.outstanding.message_of(message) else { return };
        if message.fate == Fate::Sure || !self.may_skip {
            return;
        }
        let partial = self.partial.get_or_insert_default();
        partial.lost.push(tsn);
        partial.judge = true;
    }

    /// Gives up the messages of lost chunks that must not be sent again.
    // req: rfc3758 4.1 "Before transmitting or retransmitting a message for which a TSN"
    // req: rfc3758 4.1 "SCTP sender MUST abandon the message as per the rules"
    pub(super) fn give_up_lost(&mut self, now: Instant) {
        let Some(partial) = self.partial.as_deref_mut() else { return };
        if !partial.judge && partial.next.is_none_or(|next| now < next) {
            return;
        }
        partial.judge = false;
        partial.next = None;
        let mut lost = std::mem::take(&mut partial.lost);
        lost.retain(|tsn| !self.is_decided(now, *tsn));
        let expires = lost.iter().filter_map(|tsn| self.fate_of(*tsn)?.expires()).min();
        if let Some(partial) = self.partial.as_deref_mut() {
            (partial.lost, partial.next) = (lost, expires);
        }
    }

    /// Gives up the message of a lost chunk if the chunk must not be sent again. Returns whether nothing is left to
    /// decide: that was done, or the chunk no longer waits for its retransmission.
    fn is_decided(&mut self, now: Instant, tsn: u64) -> bool {
        let Some(fate) = self.fate_of(tsn) else { return true };
        let times = self.outstanding.retransmission(tsn).map_or(0, |known| known.times);
        let forbidden = fate.forbids(now, times);
        if forbidden {
            self.give_up_with(now, tsn);
        }
        forbidden
    }

    /// The fate of the message of a lost chunk. `None` if the chunk no longer waits for its retransmission. A chunk of
    /// a message that was given up must not be sent again.
    fn fate_of(&self, tsn: u64) -> Option<Fate> {
        let slot = self.outstanding.get(tsn).filter(|slot| slot.state == SlotState::Lost)?;
        let message = self.outstanding.message(slot)?;
        Some(if message.given_up { Fate::Retransmissions(0) } else { message.fate })
    }

    /// Gives up the message that an outstanding chunk belongs to.
    fn give_up_with(&mut self, now: Instant, tsn: u64) {
        if let Some(slot) = self.outstanding.get(tsn) {
            self.give_up(now, slot.message);
        }
    }

    /// Gives up a message. If it was given up before, gives up those of its chunks that were in flight then.
    // req: rfc3758 3.5 "that has already been assigned a TSN SHOULD be abandoned"
    // req: rfc3758 3.5 "The sender MUST NOT credit an abandoned data chunk"
    // req: rfc3758 4.3 "the sender side MUST mark that TSN as eligible for forward TSN"
    fn give_up(&mut self, now: Instant, number: u32) {
        let Some(message) = self.outstanding.message_of(number).copied() else { return };
        if !message.given_up {
            self.report_sent(number);
            self.partial.get_or_insert_default();
            let interleaved = self.queue.interleaves();
            if self.outstanding.give_up_message(number, self.last_new, interleaved) {
                self.queue.give_up_begun(message.stream);
            }
        }
        for tsn in self.outstanding.chunks_of(number) {
            let freed = self.outstanding.give_up_chunk(tsn);
            self.queue.release_payload(freed);
        }
        self.advance_peer_point(now);
    }

    /// Returns an unsent message to the user.
    // req: rfc3758 4.1 "SHOULD issue a notification to the upper layer"
    fn report(&mut self, message: Queued) {
        self.count_given_up(message.fate, message.stream, false);
        let report = GivenUp { message: message.into_message(), sent: false };
        self.partial.get_or_insert_default().reports.push(report);
    }

    /// Returns a message to the user that was sent, at least in part.
    fn report_sent(&mut self, number: u32) {
        let Some(message) = self.outstanding.message_of(number).copied() else { return };
        mark!(GivenUp);
        let mut data = Payload::default();
        for tsn in self.outstanding.chunks_of(number) {
            if let Some(slot) = self.outstanding.get(tsn).filter(|slot| !slot.state.is_final()) {
                data.push(slot.payload.clone());
            }
        }
        if !message.complete
            && let Some(rest) = self.queue.begun(message.stream)
        {
            data.push(rest.rest.clone());
        }
        self.count_given_up(message.fate, message.stream, true);
        let whole = OutgoingMessage {
            unordered: message.unordered,
            context: message.context,
            ..OutgoingMessage::new(message.stream, message.ppid, data.into_bytes())
        };
        let report = GivenUp { message: whole, sent: true };
        self.partial.get_or_insert_default().reports.push(report);
    }

    fn count_given_up(&mut self, fate: Fate, stream: u16, sent: bool) {
        let by = match fate {
            Fate::Sure => return,
            Fate::Expires(_) => GivenUpBy::Lifetime,
            Fate::Retransmissions(_) => GivenUpBy::Retransmissions,
            Fate::Priority(_) => GivenUpBy::Priority,
        };
        let partial = self.partial.get_or_insert_default();
        let messages = &mut partial.counts.entry(stream).or_default()[by as usize];
        let count = if sent { &mut messages.sent } else { &mut messages.unsent };
        *count = count.wrapping_add(1);
    }
}

fn add(sum: GivenUpMessages, more: GivenUpMessages) -> GivenUpMessages {
    GivenUpMessages {
        unsent: sum.unsent.wrapping_add(more.unsent),
        sent: sum.sent.wrapping_add(more.sent),
    }
}
