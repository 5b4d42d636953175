//! Accepting associations.

use std::future::poll_fn;
use std::sync::Arc;
use std::task::Poll;

use crate::association::Association;
use crate::shared::{Shared, State};
use crate::wakers::Key;

/// Accepts associations on one SCTP port of an endpoint. When it is dropped the port is free
/// again, and associations that were not accepted are aborted.
#[derive(Debug)]
pub struct Listener {
    shared: Arc<Shared>,
    port: u16,
}

impl Listener {
    pub(crate) fn new(shared: Arc<Shared>, port: u16) -> Self {
        Self { shared, port }
    }

    /// The SCTP port.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Waits for the next association; `None` when the endpoint is closed. Cancel-safe: an
    /// association is not lost when the future is dropped.
    pub async fn accept(&self) -> Option<Association> {
        let mut turn = Turn { listener: self, key: None };
        poll_fn(|cx| {
            let mut guard = self.shared.lock();
            match next(&mut guard, self.port) {
                Some(next) => Poll::Ready(next),
                None => {
                    if let Some(listener) = guard.listeners.get_mut(&self.port) {
                        listener.waiting.register(&mut turn.key, cx.waker());
                    }
                    Poll::Pending
                }
            }
        })
        .await
        .map(|id| Association::new(self.shared.clone(), id))
    }
}

/// The next association in the backlog, `Some(None)` if none will come.
fn next(state: &mut State, port: u16) -> Option<Option<anabranch_proto::AssociationId>> {
    let next = state.listeners.get_mut(&port)?.backlog.pop_front();
    if next.is_none() && !state.closing {
        return None;
    }
    Some(next)
}

struct Turn<'a> {
    listener: &'a Listener,
    key: Option<Key>,
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        if let Some(key) = self.key {
            let mut guard = self.listener.shared.lock();
            if let Some(listener) = guard.listeners.get_mut(&self.listener.port) {
                listener.waiting.remove(key);
            }
        }
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        let now = self.shared.runtime.now();
        let mut guard = self.shared.lock();
        guard.engine.stop_listening(self.port);
        let listener = guard.listeners.remove(&self.port);
        for id in listener.into_iter().flat_map(|listener| listener.backlog) {
            guard.reject(now, id);
        }
        guard.wake_driver();
    }
}
