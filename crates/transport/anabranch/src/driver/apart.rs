//! The driver's work for packets without an association, which the sockets can queue separately.

use std::io::IoSliceMut;
use std::task::{Context, Poll};

use anabranch_proto::{Encapsulation, Instant};

use super::{BATCHES, Driver, MOST_ERRORS, ROUNDS, take_handed};
use crate::runtime::Apart;
use crate::shared::Handed;

impl Driver {
    /// Receives packets without an association, if they have separate queues and their share of the time allows it.
    /// `idle`: there is nothing else to do. Returns whether there may be more.
    pub(super) fn receive_apart(
        &mut self,
        cx: &mut Context<'_>,
        now: Instant,
        mut idle: bool,
    ) -> bool {
        if !self.sockets.are_apart() {
            return false;
        }
        let mut ended = now;
        for _ in 0..ROUNDS {
            if !self.strangers.may_look(ended, std::mem::take(&mut idle)) {
                return true;
            }
            let Some(begun) = self.look_apart(cx, now) else { return false };
            ended = self.shared.runtime.now();
            self.strangers.looked(begun, ended);
        }
        true
    }

    /// Receives a few packets from each of these queues. If there were any, returns when receiving them began.
    fn look_apart(&mut self, cx: &mut Context<'_>, now: Instant) -> Option<Instant> {
        let mut begun = None;
        for apart in Apart::ALL {
            for index in 0..self.sockets.len() {
                let mut buffers: [IoSliceMut<'_>; BATCHES] =
                    self.receive_buffers.each_mut().map(|buffer| IoSliceMut::new(buffer));
                let Some((socket, bound)) = self.sockets.get(index) else {
                    break;
                };
                let batches = &mut self.batches;
                let looked = socket.poll_receive_apart(apart, cx, &mut buffers, batches);
                if looked.is_ready() {
                    begun.get_or_insert_with(|| self.shared.runtime.now());
                }
                match looked {
                    Poll::Pending => {}
                    Poll::Ready(Ok(count)) => {
                        self.receive_errors = 0;
                        self.take_batches(now, bound, count, Handed::Strangers);
                    }
                    // A socket that always fails must not keep the task busy.
                    Poll::Ready(Err(_)) => {
                        self.receive_errors += 1;
                        if self.receive_errors >= MOST_ERRORS {
                            return None;
                        }
                    }
                }
            }
        }
        if self.take_handed_strangers(now) {
            begun.get_or_insert(now);
        }
        begun
    }

    /// Passes a few packets without an association that other shards have received to this shard's engine. Returns
    /// whether there were any.
    fn take_handed_strangers(&mut self, now: Instant) -> bool {
        if self.siblings.count() == 1 {
            return false;
        }
        let mut any = false;
        self.drain(now, |guard| {
            let few = guard.handed.take_strangers(BATCHES);
            any = !few.is_empty();
            take_handed(guard, now, few);
        });
        any
    }

    /// Starts to use separate queues for packets without an association. Over UDP this is done at the first listener,
    /// to be ready for a flood. With raw sockets it costs another copy of each packet, so it is done only at the first
    /// flood.
    pub(super) fn guard_associations(&mut self, now: Instant, packets: u64, listening: bool) {
        if self.sockets.are_apart() {
            return;
        }
        let cheap = self.sockets.encapsulation() == Encapsulation::Udp;
        if listening && cheap || self.strangers.flooded(now, packets) {
            self.sockets.keep_apart(self.mark);
        }
    }
}
