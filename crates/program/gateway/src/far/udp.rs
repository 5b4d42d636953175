//! The far side of UDP: sockets for the flows of near sides.
//!
//! A flow has a socket for each version of IP from its first datagram on, until it was idle for a while or near ends
//! it. Answers are passed on only from addresses to which the flow has sent (address-dependent filtering, RFC 4787
//! section 5), so nobody else can use the flow.

mod flow;

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use anabranch::Association;
use bytes::Bytes;
use tokio::sync::mpsc::error::TrySendError;
use tokio::sync::{Semaphore, mpsc};
use tokio::task::JoinSet;

use self::flow::Flow;
use crate::access::Log;
use crate::accounts::Account;
use crate::dial::Dialler;
use crate::target::Target;
use crate::udp::counters::{self, count};
use crate::udp::message::{Message, What};
use crate::udp::{MOST_PAYLOAD, Outlet, Streams};

/// Most datagrams of a flow that wait for it.
const QUEUE: usize = 64;

/// What all flows of a far side share.
pub(super) struct Udp {
    pub(super) dialler: Arc<Dialler>,
    /// One for each flow.
    pub(super) places: Arc<Semaphore>,
    /// How long a flow may be silent.
    pub(super) idle: Duration,
    pub(super) log: Log,
    pub(super) counters: counters::Shared,
    /// A datagram is received into this, then copied. Thus idle flows need no memory for it.
    pub(super) buffer: Mutex<Vec<u8>>,
}

/// A buffer for any datagram.
pub(super) fn buffer() -> Mutex<Vec<u8>> {
    Mutex::new(vec![0; MOST_PAYLOAD + 1])
}

impl Udp {
    /// Carries datagrams until the association has ended. Takes the streams at once, not when polled for the first time.
    pub(super) fn serve(
        self: &Arc<Self>,
        association: &Association,
        client: Option<SocketAddr>,
        account: &Arc<Account>,
    ) -> impl Future<Output = ()> + use<> {
        let udp = Arc::clone(self);
        let streams = Streams::take(association);
        let (association, account) = (association.clone(), Arc::clone(account));
        async move {
            let Some(streams) = streams else { return };
            let (outlet, mut inlet) = streams.split(udp.counters.clone());
            let (open, tasks) = (HashMap::new(), JoinSet::new());
            let mut flows =
                Flows { udp, association, account, outlet, client, mirrored: 0, open, tasks };
            loop {
                tokio::select! {
                    message = inlet.recv() => match message {
                        Some(message) => flows.receive(&message),
                        None => return,
                    },
                    Some(ended) = flows.tasks.join_next() => {
                        // A flow with the same number may have begun since.
                        if let Ok(number) = ended
                            && flows.open.get(&number).is_some_and(mpsc::Sender::is_closed)
                        {
                            flows.open.remove(&number);
                        }
                    }
                }
            }
        }
    }
}

/// The flows of one association.
struct Flows {
    udp: Arc<Udp>,
    association: Association,
    account: Arc<Account>,
    outlet: Outlet,
    client: Option<SocketAddr>,
    /// Most bytes of a message that goes on two paths.
    mirrored: u16,
    open: HashMap<u32, mpsc::Sender<(Target, Bytes)>>,
    tasks: JoinSet<u32>,
}

impl Flows {
    fn receive(&mut self, bytes: &Bytes) {
        match Message::parse(bytes) {
            Some(Message { flow, what: What::Datagram(to, payload) }) => {
                self.send(flow, to, payload);
            }
            Some(Message { flow, what: What::Close }) => {
                // The task ends when its queue is empty.
                self.open.remove(&flow);
            }
            Some(Message { what: What::Mirror(most), .. }) => self.mirror(most),
            _ => count(&self.udp.counters.dropped),
        }
    }

    /// Sends small messages on two paths from now on, because near does.
    fn mirror(&mut self, most: u16) {
        // To change options costs more than to read a message.
        if most <= self.mirrored {
            return;
        }
        self.mirrored = most;
        let changed = self.association.reconfigure(|config| {
            let copied = &mut config.paths.copies_up_to;
            *copied = (*copied).max(Some(most.into()));
        });
        if let Err(error) = changed {
            tracing::debug!(%error, "small messages go on one path");
        }
    }

    /// Passes a datagram to its flow, which begins if it is new.
    fn send(&mut self, number: u32, to: Target, payload: Bytes) {
        if payload.len() > MOST_PAYLOAD {
            return count(&self.udp.counters.dropped);
        }
        let mut datagram = (to, payload);
        if let Some(flow) = self.open.get(&number) {
            match flow.try_send(datagram) {
                Ok(()) => return,
                Err(TrySendError::Full(_)) => return count(&self.udp.counters.dropped),
                // It was idle.
                Err(TrySendError::Closed(back)) => datagram = back,
            }
        }
        match self.begin(number) {
            Some(flow) => {
                // The queue is empty.
                let _ = flow.try_send(datagram);
                self.open.insert(number, flow);
            }
            None => count(&self.udp.counters.dropped),
        }
    }

    /// Begins a flow, if there is a place for it.
    fn begin(&mut self, number: u32) -> Option<mpsc::Sender<(Target, Bytes)>> {
        let place = Arc::clone(&self.udp.places).try_acquire_owned().ok()?;
        let own = self.account.place().ok()?;
        let (sender, queue) = mpsc::channel(QUEUE);
        let flow = Flow::new(&self.udp, &self.account, number, self.outlet.clone());
        let client = self.client;
        self.tasks.spawn(async move {
            let _places = (place, own);
            flow.run(queue, client).await;
            number
        });
        Some(sender)
    }
}
