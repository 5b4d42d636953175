//! Sends messages about UDP in turn, and drops those that waited for too long.

use std::time::Instant;

use anabranch::{OutgoingMessage, Ppid, SendStream};
use tokio::sync::mpsc;
use tokio::time::timeout;

use super::LIFETIME;
use super::counters::{self, count};
use super::message::{Message, What};
use crate::urgency::Urgency;

/// Most messages that wait; at most 16 MiB.
const QUEUE: usize = 256;

/// The payload protocol identifier: unspecified (RFC 9260 section 3.3.1).
const UNSPECIFIED: Ppid = Ppid(0);

/// Queues messages. Clones queue to the same streams. The streams are given back when all clones are dropped.
#[derive(Clone, Debug)]
pub(crate) struct Outlet {
    queues: [mpsc::Sender<Waiting>; 2],
    counters: counters::Shared,
}

/// A message that waits for the send buffer.
#[derive(Debug)]
struct Waiting {
    bytes: Vec<u8>,
    since: Instant,
    /// It is never dropped.
    reliable: bool,
}

impl Outlet {
    /// Must be called within a tokio runtime.
    pub(super) fn new(streams: [SendStream; 2], counters: counters::Shared) -> Self {
        let priorities = [Urgency::first(), Urgency::large()];
        let mut priorities = priorities.into_iter();
        let queues = streams.map(|mut stream| {
            if let Some(priority) = priorities.next() {
                stream.set_priority(priority);
            }
            let (sender, receiver) = mpsc::channel(QUEUE);
            tokio::spawn(send_all(stream, receiver, counters.clone()));
            sender
        });
        Self { queues, counters }
    }

    /// Queues a message of a flow. Drops it if too many wait.
    pub(crate) fn send(&self, message: &Message, urgency: &mut Urgency) {
        let reliable = matches!(message.what, What::Close | What::Refused(..) | What::Mirror(_));
        let (bytes, since) = (message.encode(), Instant::now());
        urgency.sends(since, bytes.len());
        let queue = &self.queues[usize::from(urgency.is_large())];
        if queue.try_send(Waiting { bytes, since, reliable }).is_err() && !reliable {
            count(&self.counters.dropped);
        }
    }
}

/// Sends until the queue or the association ends.
async fn send_all(
    stream: SendStream,
    mut queue: mpsc::Receiver<Waiting>,
    counters: counters::Shared,
) {
    while let Some(Waiting { bytes, since, reliable }) = queue.recv().await {
        let message = OutgoingMessage::new(stream.id(), UNSPECIFIED, bytes).with_unordered();
        if reliable {
            if stream.send_message(message).await.is_err() {
                return;
            }
            continue;
        }
        let left = LIFETIME.saturating_sub(since.elapsed());
        if left.is_zero() {
            count(&counters.dropped);
            continue;
        }
        let message = message.with_lifetime(left);
        match timeout(left, stream.send_message(message)).await {
            Ok(Ok(())) => {}
            Ok(Err(_)) => return,
            Err(_) => count(&counters.dropped),
        }
    }
}
