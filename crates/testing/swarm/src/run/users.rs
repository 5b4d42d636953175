//! The users of both ends, which send and read.

use anabranch_proto::{AddressChange, Reliability, SendErrorReason};

use super::Run;
use super::byte_streams::is_of_bytes;
use crate::options::{Draw, Reader, Whim};
use crate::oracle::Shape;

impl Run {
    /// The user of `node` reads up to `count` messages or parts from each association.
    pub(super) fn read(&mut self, node: usize, count: u32) {
        let now = self.net.now();
        let ids: Vec<_> = self.users[node].ends.iter().map(|end| end.id).collect();
        for id in ids {
            let slow = matches!(self.users[node].reader, Reader::Slow { .. });
            for _ in 0..count {
                let endpoint = &mut self.net.node_mut(node).endpoint;
                let Some(mut association) = endpoint.association_mut(now, id) else { break };
                let Some(message) = association.receive() else { break };
                if is_of_bytes(&message) {
                    drop(association);
                    self.byte_message(node, id, message);
                    continue;
                }
                let judged = self.oracle.received(1 - node, id, &message);
                judged.unwrap_or_else(|what| panic!("node {node} at {now:?}: {what}"));
                if slow && count != u32::MAX {
                    self.users[node].kept.push((id, message.charge()));
                } else {
                    association.release(message.charge());
                }
            }
        }
        if self.users[node].reader == Reader::Eager {
            self.give_back(node);
        }
    }

    pub(super) fn give_back(&mut self, node: usize) {
        let now = self.net.now();
        for (id, charge) in std::mem::take(&mut self.users[node].kept) {
            if let Some(mut association) = self.net.node_mut(node).endpoint.association_mut(now, id)
            {
                association.release(charge);
            }
        }
    }

    /// Performs a user's request to its associations.
    pub(super) fn whim(&mut self, index: usize) {
        let now = self.net.now();
        let (node, _, whim) = self.options.whims[index];
        self.report.whims += 1;
        let ids: Vec<_> = self.users[node].ends.iter().map(|end| end.id).collect();
        for id in ids {
            let endpoint = &mut self.net.node_mut(node).endpoint;
            let Some(mut association) = endpoint.association_mut(now, id) else { continue };
            // An error for a missing path is also a valid answer.
            let peer = &self.addresses[1 - node];
            match whim {
                Whim::Primary(number) => drop(association.set_primary(peer[number])),
                Whim::Heartbeat(number) => drop(association.request_heartbeat(now, peer[number])),
                Whim::Priority(stream, priority) => {
                    association.set_stream_priority(stream, priority);
                }
                Whim::Reset(direction, stream) => {
                    let _ = association.reset_streams(now, direction, stream.as_slice());
                }
                Whim::AddStreams(outgoing, incoming) => {
                    let _ = association.add_streams(now, outgoing, incoming);
                }
                Whim::ResetAssociation => {
                    let _ = association.reset_association(now);
                }
                Whim::Address(change, number) => {
                    let local = self.addresses[node][number];
                    let _ = match change {
                        AddressChange::Added => association.add_address(now, local),
                        AddressChange::Removed => association.remove_address(now, local),
                        _ => association.prefer_address(now, local),
                    };
                }
            }
        }
    }

    /// The user of `node` sends a burst of messages.
    pub(super) fn send(&mut self, node: usize) {
        let now = self.net.now();
        let user = &mut self.users[node];
        let Some(end) = user.ends.iter().rev().find(|end| end.closed.is_none()) else { return };
        let (id, streams, up) = (end.id, end.streams, end.up);
        for _ in 0..user.traffic.burst {
            let traffic = &user.traffic;
            if user.messages >= traffic.messages || user.bytes >= traffic.bytes {
                user.next_send = None;
                return;
            }
            let draw = &mut user.draw;
            let length = draw.scale(1, traffic.longest as u64) as usize;
            let streams = traffic.streams.min(streams).max(1);
            let shape = Shape {
                stream: draw.0.below(u64::from(streams)) as u16,
                unordered: draw.0.chance(traffic.unordered),
                immediate: draw.0.chance(traffic.immediate),
                length: length.min(traffic.bytes - user.bytes),
                reliability: match draw.0.chance(traffic.mortal) {
                    true => mortal(draw),
                    false => Reliability::Full,
                },
            };
            let message = self.oracle.message(node, id, shape);
            let endpoint = &mut self.net.node_mut(node).endpoint;
            let Some(mut association) = endpoint.association_mut(now, id) else { return };
            match association.send(now, message) {
                Ok(()) => {
                    user.messages += 1;
                    user.bytes += length;
                    self.report.messages += 1;
                }
                Err(error) => {
                    self.oracle.retract();
                    if error.reason == SendErrorReason::Blocked {
                        drop(association);
                        if let Some(end) = user.end(id) {
                            end.waits = true;
                        }
                    }
                    // The number of streams is unknown before the association is up.
                    let refused = match error.reason {
                        SendErrorReason::Blocked | SendErrorReason::Closed => true,
                        SendErrorReason::NoSuchStream(_) => !up,
                        _ => false,
                    };
                    assert!(refused, "refused: {error}");
                    return;
                }
            }
        }
    }
}

/// When a message is given up.
fn mortal(draw: &mut Draw) -> Reliability {
    match draw.between(0, 3) {
        0 => Reliability::Retransmissions(draw.scale(0, 5) as u16),
        1 => Reliability::Priority(draw.between(0, 4) as u32),
        _ => Reliability::Lifetime(draw.millis(1, 5000)),
    }
}
