//! Accepting associations.

use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::Poll;

use anabranch_proto::AssociationConfig;

use crate::association::Association;
use crate::error::ListenError;
use crate::shared::{Shared, State};
use crate::wakers::Key;

/// Accepts associations on one SCTP port of an endpoint. Dropping it frees the port and aborts
/// associations that were not accepted.
///
/// ```
/// # async fn example(endpoint: anabranch::Endpoint) -> Result<(), Box<dyn std::error::Error>> {
/// let listener = endpoint.listen(5000, anabranch::ListenOptions::default())?;
/// while let Some(association) = listener.accept().await {
///     tokio::spawn(async move {
///         while let Ok(Some(message)) = association.recv().await {
///             println!("stream {}: {} bytes", message.stream, message.payload.len());
///         }
///     });
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Listener {
    shards: Arc<[Arc<Shared>]>,
    port: u16,
    /// The shard to ask first next time.
    turn: AtomicUsize,
}

impl Listener {
    pub(crate) fn new(shards: Arc<[Arc<Shared>]>, port: u16) -> Self {
        Self { shards, port, turn: AtomicUsize::new(0) }
    }

    /// The SCTP port.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Changes the options of associations that begin from now on. A peer that has been answered, and has not completed
    /// the handshake, gets the new ones as well, but the streams and features that were agreed.
    ///
    /// # Errors
    /// An option is out of range; then nothing has changed. The endpoint was closed.
    pub fn reconfigure(&self, config: AssociationConfig) -> Result<(), ListenError> {
        config.validate().map_err(ListenError::Config)?;
        let config = Arc::new(config);
        let mut guards: Vec<_> = self.shards.iter().map(|shared| shared.lock()).collect();
        if guards.iter().any(|guard| guard.closing) {
            return Err(ListenError::EndpointClosed);
        }
        for guard in &mut guards {
            let Some(listener) = guard.listeners.get(&self.port) else { continue };
            let ip_versions = listener.ip_versions;
            // Nothing arrives in between, because the endpoint is locked.
            guard.engine.stop_listening(self.port);
            guard
                .engine
                .listen_within(self.port, config.clone(), ip_versions)
                .map_err(|reason| ListenError::refused(self.port, reason))?;
        }
        Ok(())
    }

    /// Waits for the next association; `None` when the endpoint is closed. Cancel-safe: dropping
    /// the future does not lose an association.
    pub async fn accept(&self) -> Option<Association> {
        let mut turn = Turn { listener: self, keys: vec![None; self.shards.len()] };
        poll_fn(|cx| {
            let mut closed = 0;
            let first = self.turn.fetch_add(1, Ordering::Relaxed);
            for index in 0..self.shards.len() {
                let index = (first + index) % self.shards.len();
                let (Some(shared), Some(key)) = (self.shards.get(index), turn.keys.get_mut(index))
                else {
                    continue;
                };
                let mut guard = shared.lock();
                match next(&mut guard, self.port) {
                    Some(Some(id)) => return Poll::Ready(Some((shared.clone(), id))),
                    Some(None) => closed += 1,
                    None => {
                        if let Some(listener) = guard.listeners.get_mut(&self.port) {
                            listener.waiting.register(key, cx.waker());
                        }
                    }
                }
            }
            if closed == self.shards.len() { Poll::Ready(None) } else { Poll::Pending }
        })
        .await
        .map(|(shared, id)| Association::new(shared, id))
    }
}

/// The next association in the backlog; `Some(None)` if there will not be another one.
fn next(state: &mut State, port: u16) -> Option<Option<anabranch_proto::AssociationId>> {
    let next = state.listeners.get_mut(&port)?.backlog.pop_front();
    if next.is_none() && !state.closing {
        return None;
    }
    Some(next)
}

struct Turn<'a> {
    listener: &'a Listener,
    /// One for each shard.
    keys: Vec<Option<Key>>,
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        for (shared, key) in self.listener.shards.iter().zip(&self.keys) {
            let Some(key) = *key else {
                continue;
            };
            let mut guard = shared.lock();
            if let Some(listener) = guard.listeners.get_mut(&self.listener.port) {
                listener.waiting.remove(key);
            }
        }
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        for shared in self.shards.iter() {
            let now = shared.runtime.now();
            let mut guard = shared.lock();
            guard.engine.stop_listening(self.port);
            let listener = guard.listeners.remove(&self.port);
            for id in listener.into_iter().flat_map(|listener| listener.backlog) {
                guard.reject(now, id);
            }
            guard.wake_driver();
        }
    }
}
