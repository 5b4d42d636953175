//! One direction of a connection, which carries a piece when it is its turn.

use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use tokio::time::{Instant, Sleep, sleep_until};

use super::{Account, Direction, over};
use crate::urgency::Urgency;

/// One direction of a connection.
#[derive(Debug)]
pub(crate) struct Turn {
    /// `None` if there are no bounds.
    account: Option<Arc<Account>>,
    direction: Direction,
    urgency: Urgency,
    wait: Option<Pin<Box<Sleep>>>,
}

impl Turn {
    /// A connection of this user.
    pub(crate) fn of(account: &Arc<Account>, direction: Direction) -> Self {
        Self { account: Some(Arc::clone(account)), ..Self::unlimited(direction) }
    }

    /// A connection of nobody in particular.
    pub(crate) fn unlimited(direction: Direction) -> Self {
        let urgency = Urgency::new(Instant::now().into_std());
        Self { account: None, direction, urgency, wait: None }
    }

    /// The most bytes to carry at once.
    pub(crate) fn most(&self) -> usize {
        self.account.as_ref().map_or(usize::MAX, |account| account.most())
    }

    /// Waits until it is this connection's turn.
    pub(crate) fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if let Some(wait) = &mut self.wait {
            std::task::ready!(wait.as_mut().poll(cx));
            self.wait = None;
        }
        Poll::Ready(())
    }

    /// Waits until it is this connection's turn.
    pub(crate) async fn ready(&mut self) {
        poll_fn(|cx| self.poll_ready(cx)).await;
    }

    /// Counts bytes that were carried. The next ones have to wait for their turn.
    ///
    /// # Errors
    /// The user may carry nothing more.
    pub(crate) fn carried(&mut self, bytes: usize) -> io::Result<()> {
        let Some(account) = &self.account else { return Ok(()) };
        self.urgency.sends(Instant::now().into_std(), bytes);
        let carried = account.carried(self.direction, bytes, self.urgency.is_large());
        let next = carried.map_err(|refusal| over(&refusal))?;
        self.wait = next.map(|next| Box::pin(sleep_until(next)));
        Ok(())
    }
}
