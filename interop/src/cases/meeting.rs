//! An association with a peer, from start to end.

use std::time::Duration;

use anabranch::{Association, Listener};

use crate::lane::Lane;
use crate::peer::Peer;
use crate::side::{self, Setting, Side};

/// What the slot of a second association of a case, begun by the other side, is larger. Packets that are delayed may
/// hold the sockets of the first one for a while.
pub(crate) const OTHER_ROLE: u16 = 100;

/// Both sides of an association.
pub(crate) struct Meeting {
    pub(crate) side: Side,
    pub(crate) peer: Peer,
    pub(crate) association: Association,
    /// Kept while the peer may come back.
    pub(crate) listener: Option<Listener>,
}

impl Meeting {
    /// Either side begins the association.
    pub(crate) async fn begun(
        lane: &Lane,
        slot: u16,
        setting: Setting<'_>,
        ours: bool,
    ) -> Result<Self, String> {
        if ours {
            Self::ours(lane, slot, setting).await
        } else {
            Self::theirs(lane, slot, setting).await
        }
    }

    /// This side begins the association.
    pub(crate) async fn ours(lane: &Lane, slot: u16, setting: Setting<'_>) -> Result<Self, String> {
        let peer = setting.start(lane, slot, true).start().await?;
        let side = Side::new(lane, slot, &setting)?;
        let association = side.connect().await?;
        Ok(Self { side, peer, association, listener: None })
    }

    /// The peer begins the association.
    pub(crate) async fn theirs(
        lane: &Lane,
        slot: u16,
        setting: Setting<'_>,
    ) -> Result<Self, String> {
        let side = Side::new(lane, slot, &setting)?;
        let listener = side.listen()?;
        let peer = setting.start(lane, slot, false).start().await?;
        let accepted = tokio::time::timeout(Duration::from_secs(20), listener.accept()).await;
        let accepted = accepted.map_err(|_| "the peer does not connect")?;
        let association = accepted.ok_or("the endpoint closed")?;
        Ok(Self { side, peer, association, listener: Some(listener) })
    }

    /// Ends the association gracefully and checks that the peer saw a graceful end.
    pub(crate) async fn part(mut self) -> Result<(), String> {
        side::close(&self.association).await?;
        let end = self.peer.end().await?;
        if end.how != "shutdown" {
            return Err(format!("the peer did not see a graceful end but '{}'", end.how));
        }
        self.leave().await;
        Ok(())
    }

    /// Ends everything.
    pub(crate) async fn leave(mut self) {
        self.peer.kill().await;
        drop(self.listener);
        drop(self.association);
        self.side.endpoint.close().await;
    }
}
