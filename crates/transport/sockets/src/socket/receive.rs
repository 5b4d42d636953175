//! Receiving.

use std::net::SocketAddr;
use std::ops::Range;

use bytes::{Buf, Bytes};

use super::notifications::TakenNotification;
use super::{Peer, Socket, State, Style};
use crate::assoc_id::AssocId;
use crate::error::Error;
use crate::message::{NextInfo, ReceiveInfo};
use crate::notification::{EventKind, Notification};

/// How a call receives.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Receiving {
    /// MSG_PEEK: what is received stays in the queue.
    pub peek: bool,
    /// MSG_DONTWAIT: the call does not block.
    pub dont_wait: bool,
}

/// What a call received.
#[derive(Debug)]
pub struct Received {
    /// A message, a notification, or the end.
    pub taken: Taken,
    /// The peer's primary address.
    pub from: Option<SocketAddr>,
    /// Whether the call took the message or notification up to its end.
    pub end: bool,
}

/// A received message or notification, or the end.
#[derive(Debug)]
pub enum Taken {
    /// A message or a part of one.
    Message {
        /// Its ancillary data.
        info: ReceiveInfo,
        /// The next message, if it is known.
        next: Option<NextInfo>,
        /// The data in pieces, in total at most `room` bytes.
        data: Vec<Bytes>,
    },
    /// A notification.
    Notification {
        /// The notification, whole.
        notification: Notification,
        /// The bytes of the caller's representation that this call takes.
        part: Range<usize>,
    },
    /// The peer sends nothing more.
    End,
}

impl Socket {
    /// Takes up to `room` bytes of the next message, or a notification (RFC 6458 sections 3.1.4 and 9.13).
    /// Notifications come first. The next call takes the rest of a message that is longer.
    ///
    /// # Errors
    /// [`Error::WouldBlock`]: there is nothing, and the socket is non-blocking or SO_RCVTIMEO has expired.
    /// [`Error::NotConnected`]: there is no association, and none can be set up. Otherwise the error that ended the
    /// association of a one-to-one socket; it is returned once.
    pub fn receive(&self, room: usize, how: Receiving) -> Result<Received, Error> {
        self.receive_bytes(room, how, |_| 0)
    }

    /// As [`receive`](Self::receive), for callers that represent notifications as bytes: `length` returns the
    /// number of bytes of one. A notification longer than `room` is taken in several parts.
    ///
    /// # Errors
    /// As [`receive`](Self::receive).
    pub fn receive_bytes(
        &self,
        room: usize,
        how: Receiving,
        length: impl Fn(&Notification) -> usize,
    ) -> Result<Received, Error> {
        let limit = self.look(|state| state.options.receive_timeout);
        let peek = how.peek;
        let nonblocking = self.is_nonblocking(how.dont_wait);
        self.wait(nonblocking, limit, |state| {
            if let Some(received) = state.take_notification(room, peek, &length) {
                return Some(Ok(received));
            }
            if let Some(received) = state.take_message(room, peek) {
                return Some(Ok(received));
            }
            if self.style == Style::OneToMany {
                // Without an association, and without a chance of one, the caller would wait forever.
                let is_hopeless = state.peers.is_empty() && !state.listening && !nonblocking;
                return is_hopeless.then_some(Err(Error::NotConnected));
            }
            if let Some(error) = state.error.take() {
                return Some(Err(error));
            }
            let Some(peer) = state.peers.values_mut().next() else {
                return Some(Err(Error::NotConnected));
            };
            match peer.end {
                None => None,
                Some(Ok(())) => {
                    Some(Ok(Received { taken: Taken::End, from: Some(peer.remote), end: false }))
                }
                Some(Err(error)) => {
                    peer.end = Some(Ok(()));
                    Some(Err(error))
                }
            }
        })
    }
}

impl State {
    fn take_notification(
        &mut self,
        room: usize,
        peek: bool,
        length: impl Fn(&Notification) -> usize,
    ) -> Option<Received> {
        let TakenNotification { notification, from, part, end } =
            self.notifications.take(room, peek, length)?;
        Some(Received { taken: Taken::Notification { notification, part }, from, end })
    }

    fn take_message(&mut self, room: usize, peek: bool) -> Option<Received> {
        let id = self.turn()?;
        // Only if wanted, because asking the association takes a lock.
        let is_wanted =
            self.options.receive_info || self.own(id).events.contains(&EventKind::DataIo);
        let context = self.own(id).context;
        let peer = self.peers.get_mut(&id)?;
        let head = peer.head.as_mut()?;
        let association = peer.association.as_ref().filter(|_| is_wanted);
        let cumulative = association.and_then(anabranch::Association::cumulative_tsn);
        let info = ReceiveInfo::of(head, id);
        // After the end no TSN is missing.
        let cumulative_tsn = cumulative.unwrap_or(head.tsn);
        let info = ReceiveInfo { cumulative_tsn, context, ..info };
        let from = Some(peer.remote);
        let mut data = Vec::new();
        if peek {
            let mut left = room;
            for piece in head.payload.pieces() {
                data.push(piece.slice(..piece.len().min(left)));
                left -= data.last().map_or(0, Bytes::len);
            }
            let end = head.end && room >= head.payload.len();
            return Some(Received { taken: Taken::Message { info, next: None, data }, from, end });
        }
        let count = head.payload.len().min(room);
        if count > 0 {
            data.push(head.payload.copy_to_bytes(count));
        }
        let finished = head.payload.is_empty();
        let end = finished && head.end;
        if finished {
            self.refill(id, end);
        }
        let is_open = |peer: &Peer| peer.partial.is_open();
        self.amid = (!end || self.peers.get(&id).is_some_and(is_open)).then_some(id);
        let next = self.turn().and_then(|id| {
            let head = self.peers.get(&id)?.head.as_ref()?;
            Some(NextInfo {
                stream: head.stream,
                unordered: head.unordered,
                complete: head.end,
                ppid: head.ppid,
                length: head.payload.len(),
                id,
            })
        });
        Some(Received { taken: Taken::Message { info, next, data }, from, end })
    }

    /// The association whose message is to be taken now, which becomes the first one that is ready.
    fn turn(&mut self) -> Option<AssocId> {
        if let Some(id) = self.held_by() {
            self.peers.get(&id)?.head.as_ref()?;
            self.ready.retain(|ready| *ready != id);
            self.ready.push_front(id);
            return Some(id);
        }
        loop {
            let id = *self.ready.front()?;
            if self.peers.get(&id).is_some_and(|peer| peer.head.is_some()) {
                return Some(id);
            }
            self.ready.pop_front();
        }
    }

    /// At level 0 of SCTP_FRAGMENT_INTERLEAVE: the association with a message that was taken in part, before whose end no
    /// other association has its turn.
    fn held_by(&self) -> Option<AssocId> {
        let id = self.amid.filter(|_| self.options.interleave == 0)?;
        let is_amid = |peer: &Peer| peer.head.is_some() || peer.partial.is_open();
        self.peers.get(&id).is_some_and(is_amid).then_some(id)
    }

    /// Whether a call would find a message.
    pub(super) fn has_message(&self) -> bool {
        match self.held_by() {
            Some(id) => self.peers.get(&id).is_some_and(|peer| peer.head.is_some()),
            None => !self.ready.is_empty(),
        }
    }

    /// Fetches the next message of an association whose last one, or part of one, was taken; `ended`: it was the last
    /// part.
    fn refill(&mut self, id: AssocId, ended: bool) {
        let Some(peer) = self.peers.get_mut(&id) else { return };
        peer.head = peer.association.as_ref().and_then(anabranch::Association::try_recv);
        let cut_short = match &peer.head {
            Some(next) => peer.partial.next(next),
            None => {
                peer.link.taken.notify_one();
                peer.partial.all_taken()
            }
        };
        let has_next = peer.head.is_some();
        // Associations take turns, but only between messages where possible.
        if ended || !has_next {
            self.ready.pop_front();
            if has_next {
                self.ready.push_back(id);
            }
        }
        self.report_cut_short(id, cut_short);
    }
}
