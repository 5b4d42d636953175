//! The near side of UDP: flows, over whatever association there is.
//!
//! A flow outlives associations: its datagrams are dropped while there is none, and the next one carries them on. The
//! far side then sends them from another port.

use std::collections::HashMap;
use std::fmt;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use anabranch::Association;
use bytes::Bytes;
use tokio::sync::mpsc;

use crate::status::Status;
use crate::target::Target;
use crate::udp::counters::{self, OpenFlow, UdpStatistics, count};
use crate::udp::message::{Message, What};
use crate::udp::{MOST_PAYLOAD, Outlet, Streams};
use crate::urgency::Urgency;

/// Most answers of a flow that wait for its client.
const QUEUE: usize = 256;

/// What the far side says to a flow.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    /// A datagram from this address, and the name under which the flow has sent to it, if it did.
    Datagram { from: SocketAddr, name: Option<String>, payload: Bytes },
    /// Datagrams to this target are dropped.
    Refused(Target, Status),
}

/// All flows of a near side.
#[derive(Default)]
pub(crate) struct Flows {
    next: AtomicU32,
    open: Mutex<HashMap<u32, mpsc::Sender<Answer>>>,
    outlet: Mutex<Option<Outlet>>,
    counters: counters::Shared,
}

impl fmt::Debug for Flows {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Flows").field("counters", &self.counters).finish_non_exhaustive()
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Flows {
    pub(crate) fn statistics(&self) -> UdpStatistics {
        self.counters.statistics()
    }

    /// Carries datagrams over an association until it ends. Takes the streams at once, not when polled for the first
    /// time.
    pub(super) fn carry(
        self: &Arc<Self>,
        association: &Association,
    ) -> impl Future<Output = ()> + Send + use<> {
        let flows = Arc::clone(self);
        let streams = Streams::take(association);
        let mirror = association.config().paths.copies_up_to;
        async move {
            let Some(streams) = streams else { return };
            let (outlet, mut inlet) = streams.split(flows.counters.clone());
            if let Some(most) = mirror {
                // The user wants it for both directions.
                let most = u16::try_from(most).unwrap_or(u16::MAX);
                let message = Message { flow: 0, what: What::Mirror(most) };
                outlet.send(&message, &mut Urgency::new(Instant::now()));
            }
            *lock(&flows.outlet) = Some(outlet);
            while let Some(bytes) = inlet.recv().await {
                flows.receive(&bytes);
            }
            *lock(&flows.outlet) = None;
        }
    }

    /// Passes a message of the far side to its flow.
    fn receive(&self, bytes: &Bytes) {
        let (flow, answer) = match Message::parse(bytes) {
            Some(Message { flow, what: What::Answer { from, name, payload } }) => {
                (flow, Answer::Datagram { from, name, payload })
            }
            Some(Message { flow, what: What::Refused(target, status) }) => {
                (flow, Answer::Refused(target, status))
            }
            _ => return count(&self.counters.dropped),
        };
        let is_datagram = matches!(answer, Answer::Datagram { .. });
        let passed = lock(&self.open).get(&flow).map(|flow| flow.try_send(answer));
        match passed {
            Some(Ok(())) if is_datagram => count(&self.counters.received),
            Some(Ok(())) => {}
            _ => count(&self.counters.dropped),
        }
    }

    /// Begins a flow.
    pub(crate) fn begin(self: &Arc<Self>) -> Flow {
        let number = self.next.fetch_add(1, Relaxed);
        let (sender, answers) = mpsc::channel(QUEUE);
        lock(&self.open).insert(number, sender);
        Flow {
            number,
            answers,
            urgency: Urgency::new(Instant::now()),
            flows: Arc::clone(self),
            _open: self.counters.flow(),
        }
    }

    /// Counts a datagram that a client sent and that goes nowhere.
    pub(crate) fn drop_one(&self) {
        count(&self.counters.dropped);
    }
}

/// What one socket of a client sends and receives. It ends when it is dropped.
#[derive(Debug)]
pub(crate) struct Flow {
    number: u32,
    answers: mpsc::Receiver<Answer>,
    urgency: Urgency,
    flows: Arc<Flows>,
    _open: OpenFlow,
}

impl Flow {
    /// Sends a datagram, or drops it if there is no association or too many wait.
    pub(crate) fn send(&mut self, to: Target, payload: Bytes) {
        let outlet = lock(&self.flows.outlet).clone();
        match outlet {
            Some(outlet) if payload.len() <= MOST_PAYLOAD => {
                count(&self.flows.counters.sent);
                let what = What::Datagram(to, payload);
                outlet.send(&Message { flow: self.number, what }, &mut self.urgency);
            }
            _ => self.flows.drop_one(),
        }
    }

    /// Waits for an answer. Cancel-safe.
    pub(crate) async fn recv(&mut self) -> Answer {
        match self.answers.recv().await {
            Some(answer) => answer,
            // The table has the sender as long as the flow exists.
            None => std::future::pending().await,
        }
    }
}

impl Drop for Flow {
    fn drop(&mut self) {
        lock(&self.flows.open).remove(&self.number);
        if let Some(outlet) = &*lock(&self.flows.outlet) {
            outlet.send(&Message { flow: self.number, what: What::Close }, &mut self.urgency);
        }
    }
}
