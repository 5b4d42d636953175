//! The credit of an association's byte streams: what may be sent, and which signals are due.

use std::collections::{BTreeMap, VecDeque};

use super::{FIRST_CREDIT, Signal};
use crate::message::OutgoingMessage;

/// A reader with this many unread bytes signals credit to its peer even if none is used up, because the
/// peer may not know yet that this side supports signals.
const SPEAK_UP: u64 = FIRST_CREDIT / 4;

/// Bytes of memory for one stream number: its row, and its place in the queue of signals.
const ROW: usize = 192;

/// The reader of a byte stream does not want more of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stopped;

/// The credit account of one association.
///
/// Streams are numbered as in SCTP. A stream number may carry one byte stream after another in each
/// direction; offsets keep counting, so that a late signal about one is not applied to the next.
#[derive(Debug)]
pub struct Ledger {
    /// The peer keeps an account: it has sent a message that only version 2 has.
    peer_speaks: bool,
    /// This side has sent such a message.
    spoken: bool,
    streams: BTreeMap<u16, Stream>,
    /// Streams with signals due, each once.
    owing: VecDeque<u16>,
    /// Unused credit of the peer, beyond the first credit of each stream.
    extended: u64,
    /// Maximum of `extended`.
    most: u64,
}

/// The maximum of [`Ledger::extended`].
fn most(receive_buffer: usize) -> u64 {
    (receive_buffer as u64 / 4 * 3).saturating_sub(FIRST_CREDIT)
}

#[derive(Debug, Default)]
struct Stream {
    out: Outgoing,
    inc: Incoming,
    owing: bool,
}

/// The outgoing direction. Offsets count bytes and marks.
#[derive(Debug, Default)]
struct Outgoing {
    sent: u64,
    limit: u64,
    /// Offset at which the byte stream began that is being written, or will be next.
    began: u64,
    /// Offset at which the previous one ended.
    before: u64,
    stop: Option<u64>,
}

/// The incoming direction.
#[derive(Debug)]
struct Incoming {
    received: u64,
    consumed: u64,
    granted: u64,
    /// How far the credit extends beyond the consumed data.
    window: u64,
    owes_credit: bool,
    stop: Stop,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stop {
    /// The stream is being read.
    No,
    /// The peer must be notified, once it is known to support signals.
    Wanted,
    Told,
}

impl Default for Incoming {
    fn default() -> Self {
        Self {
            received: 0,
            consumed: 0,
            granted: FIRST_CREDIT,
            window: FIRST_CREDIT,
            owes_credit: false,
            stop: Stop::No,
        }
    }
}

impl Incoming {
    /// Unused credit of the peer, beyond the first.
    fn extended(&self) -> u64 {
        self.granted.saturating_sub(self.consumed).saturating_sub(FIRST_CREDIT)
    }
}

impl Ledger {
    /// The account of an association with `receive_buffer` bytes. A quarter is reserved for
    /// streams that have not been read yet.
    pub fn new(receive_buffer: usize) -> Self {
        Self {
            peer_speaks: false,
            spoken: false,
            streams: BTreeMap::new(),
            owing: VecDeque::new(),
            extended: 0,
            most: most(receive_buffer),
        }
    }

    /// Records that the receive buffer has grown to `receive_buffer` bytes.
    pub fn set_receive_buffer(&mut self, receive_buffer: usize) {
        self.most = self.most.max(most(receive_buffer));
    }

    /// The number of bytes that may be sent on a stream now.
    ///
    /// # Errors
    /// The peer does not want more of this byte stream.
    pub fn credit(&self, stream: u16) -> Result<u64, Stopped> {
        let Some(Stream { out, .. }) = self.streams.get(&stream) else {
            return Ok(if self.peer_speaks { FIRST_CREDIT } else { u64::MAX });
        };
        if out.stop.is_some_and(|at| at >= out.began) {
            return Err(Stopped);
        }
        let limit = if self.peer_speaks { out.limit.max(FIRST_CREDIT) } else { u64::MAX };
        Ok(limit.saturating_sub(out.sent))
    }

    /// Records that bytes were passed on for sending.
    pub fn on_written(&mut self, stream: u16, length: usize) {
        self.spoken = true;
        self.streams.entry(stream).or_default().out.sent += length as u64;
    }

    /// Records that a mark was passed on for sending: the byte stream has ended.
    pub fn on_ended(&mut self, stream: u16) {
        let out = &mut self.streams.entry(stream).or_default().out;
        out.sent += 1;
        out.before = out.began;
        out.began = out.sent;
        out.stop = None;
    }

    /// Records that `length` bytes that were passed on will not be sent after all.
    pub fn on_discarded(&mut self, stream: u16, length: usize) {
        let out = &mut self.streams.entry(stream).or_default().out;
        let is_over = out.began == out.sent;
        out.sent -= (length as u64).min(out.sent);
        if is_over {
            out.began = out.sent;
        }
    }

    /// Handles a signal. Returns `true` if queued data of the stream should be discarded, because the peer
    /// does not want more of the byte stream that is being written, or of the previous one.
    pub fn on_signal(&mut self, stream: u16, signal: Signal) -> bool {
        self.hear();
        let out = &mut self.streams.entry(stream).or_default().out;
        match signal {
            // A signal that was overtaken by a later one has a lower limit.
            Signal::Credit(limit) => {
                out.limit = out.limit.max(limit);
                false
            }
            // The peer cannot have received what was not sent.
            Signal::Stop(at) if at > out.sent => false,
            Signal::Stop(at) if at >= out.began => {
                let first = out.stop.is_none();
                out.stop = Some(at);
                first
            }
            Signal::Stop(at) => at >= out.before && out.sent == out.began,
        }
    }

    /// Records bytes received from the peer.
    pub fn on_bytes(&mut self, stream: u16, length: usize) {
        self.hear();
        let spoken = self.spoken;
        let Stream { inc, .. } = self.streams.entry(stream).or_default();
        inc.received += length as u64;
        if !spoken && inc.stop == Stop::No && inc.received - inc.consumed >= SPEAK_UP {
            inc.owes_credit = true;
            self.owe(stream);
        }
    }

    /// Records a mark received from the peer.
    pub fn on_mark(&mut self, stream: u16) {
        let inc = &mut self.streams.entry(stream).or_default().inc;
        inc.received += 1;
        inc.stop = Stop::No;
        inc.window = FIRST_CREDIT;
        self.on_read(stream, 1);
    }

    /// `length` bytes of the received data were read or discarded.
    pub fn on_read(&mut self, stream: u16, length: usize) {
        let Some(Stream { inc, .. }) = self.streams.get_mut(&stream) else { return };
        self.extended -= inc.extended();
        inc.consumed = (inc.consumed + length as u64).min(inc.received);
        self.extended += inc.extended();
        let left = inc.granted.saturating_sub(inc.consumed);
        if inc.stop != Stop::No || left > inc.window - inc.window / 4 {
            return;
        }
        // If the reader keeps up, or the writer has used up nearly all its credit, more credit may be
        // useful: the window may be smaller than the capacity of the path.
        let keeps_up = inc.consumed == inc.received;
        if keeps_up || inc.granted.saturating_sub(inc.received) < inc.window / 4 {
            inc.window = (inc.window * 2).min(FIRST_CREDIT + self.most);
        }
        inc.owes_credit = true;
        self.owe(stream);
    }

    /// From now on, discards data of a byte stream up to the next mark.
    pub fn stop(&mut self, stream: u16) {
        let Stream { inc, .. } = self.streams.entry(stream).or_default();
        if inc.stop == Stop::No {
            inc.stop = Stop::Wanted;
            inc.owes_credit = false;
        }
        self.owe(stream);
    }

    /// Sends the signals that are due. `send` sends a message, or returns `false` if there is no room.
    pub fn tell(&mut self, mut send: impl FnMut(OutgoingMessage) -> bool) {
        while let Some(&number) = self.owing.front() {
            if let Some(stream) = self.streams.get_mut(&number) {
                let inc = &mut stream.inc;
                // Credit given to other streams is not available here.
                let room = self.most.saturating_sub(self.extended - inc.extended());
                inc.window = inc.window.min(FIRST_CREDIT + room);
                let limit = inc.granted.max(inc.consumed + inc.window);
                let signal = match inc.stop {
                    Stop::Wanted => Some(Signal::Stop(inc.received)),
                    Stop::No if inc.owes_credit && (limit > inc.granted || !self.spoken) => {
                        Some(Signal::Credit(limit))
                    }
                    Stop::No | Stop::Told => None,
                };
                if let Some(signal) = signal
                    && !send(signal.message(number))
                {
                    return;
                }
                match signal {
                    Some(Signal::Stop(_)) => inc.stop = Stop::Told,
                    Some(Signal::Credit(limit)) => {
                        self.extended -= inc.extended();
                        inc.granted = limit;
                        self.extended += inc.extended();
                    }
                    None => {}
                }
                inc.owes_credit = false;
                self.spoken |= signal.is_some();
                stream.owing = false;
            }
            self.owing.pop_front();
        }
    }

    /// Memory of the account in bytes. It never shrinks, because offsets are not forgotten.
    pub fn memory(&self) -> usize {
        self.streams.len() * ROW
    }

    /// Whether signals are due.
    pub fn owes(&self) -> bool {
        !self.owing.is_empty()
    }

    /// Records that the peer keeps an account.
    fn hear(&mut self) {
        if !self.peer_speaks {
            self.peer_speaks = true;
            let wanted = self.streams.iter().filter(|(_, s)| s.inc.stop == Stop::Wanted);
            let wanted: Vec<u16> = wanted.map(|(number, _)| *number).collect();
            wanted.into_iter().for_each(|stream| self.owe(stream));
        }
    }

    fn owe(&mut self, number: u16) {
        if let Some(stream) = self.streams.get_mut(&number)
            && self.peer_speaks
            && !stream.owing
        {
            stream.owing = true;
            self.owing.push_back(number);
        }
    }
}

#[cfg(test)]
mod tests;
