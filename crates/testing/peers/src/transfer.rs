//! The two measured runs: for a number of bytes, and for a time.
//!
//! In both, the client sends messages of one size as fast as its engine accepts them and the server
//! reads everything, so only windows and congestion control limit the client.

use bytes::Bytes;

use crate::engine::Engine;
use crate::pair::{Pair, Stalled};

/// The client's messages.
#[derive(Clone, Debug)]
pub struct Load {
    /// The message that is sent repeatedly.
    pub message: Bytes,
    /// Number of streams, used in rotation.
    pub streams: u16,
    /// Whether messages are ordered within their stream.
    pub ordered: bool,
}

impl Load {
    /// Ordered messages of `length` bytes on one stream.
    pub fn messages_of(length: usize) -> Self {
        let pattern = (0..length).map(|n| (n % 251) as u8);
        Load { message: pattern.collect(), streams: 1, ordered: true }
    }
}

/// The received data.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Delivered {
    /// Whole messages.
    pub messages: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Virtual time in nanoseconds.
    pub time: u64,
}

/// Sends until the server has read `bytes` bytes of messages.
pub fn bytes(pair: &mut Pair, load: &Load, bytes: u64) -> Result<Delivered, Stalled> {
    let mut traffic = Traffic::new(load);
    let start = pair.now();
    pair.wake(&mut |end, now, engine| traffic.act(end, now, engine));
    while traffic.delivered.bytes < bytes {
        if !pair.step(&mut |end, now, engine| traffic.act(end, now, engine)) {
            return Err(Stalled { at: pair.now() });
        }
    }
    Ok(Delivered { time: pair.now() - start, ..traffic.delivered })
}

/// Sends for `time` nanoseconds of virtual time.
pub fn time(pair: &mut Pair, load: &Load, time: u64) -> Result<Delivered, Stalled> {
    let mut traffic = Traffic::new(load);
    let end = pair.now() + time;
    pair.wake(&mut |end, now, engine| traffic.act(end, now, engine));
    while let Some(next) = pair.next_event() {
        if next > end {
            return Ok(Delivered { time, ..traffic.delivered });
        }
        pair.step(&mut |end, now, engine| traffic.act(end, now, engine));
    }
    Err(Stalled { at: pair.now() })
}

/// The applications of both ends.
struct Traffic<'a> {
    load: &'a Load,
    stream: u16,
    delivered: Delivered,
}

impl<'a> Traffic<'a> {
    fn new(load: &'a Load) -> Self {
        Traffic { load, stream: 0, delivered: Delivered::default() }
    }

    fn act(&mut self, end: usize, now: u64, engine: &mut dyn Engine) {
        if end == 0 {
            let Load { message, ordered, .. } = self.load;
            while engine.send(now, self.stream, *ordered, message) {
                self.stream = (self.stream + 1) % self.load.streams.max(1);
            }
        } else {
            while let Some(received) = engine.receive() {
                self.delivered.messages += 1;
                self.delivered.bytes += received.body.len() as u64;
            }
        }
    }
}
