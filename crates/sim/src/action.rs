//! Changes of a network at a given time.

use std::time::Duration;

use anabranch_impair::{LinkConfig, Loss};

use crate::channel::{Direction, LinkId};

/// A change to a link; see [`Network::schedule`](crate::Network::schedule).
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Action {
    /// The link goes down: packets in it, and packets offered until it is repaired, are lost.
    Cut {
        /// The link.
        link: LinkId,
        /// The direction.
        direction: Direction,
    },
    /// The link comes up again.
    Repair {
        /// The link.
        link: LinkId,
        /// The direction.
        direction: Direction,
    },
    /// The link is reconfigured; packets on the wire keep their arrival time.
    Configure {
        /// The link.
        link: LinkId,
        /// The direction.
        direction: Direction,
        /// Its configuration from now on.
        config: LinkConfig,
    },
    /// Only its loss model changes.
    SetLoss {
        /// The link.
        link: LinkId,
        /// The direction.
        direction: Direction,
        /// The model from now on.
        loss: Loss,
    },
    /// Only its rate changes.
    SetRate {
        /// The link.
        link: LinkId,
        /// The direction.
        direction: Direction,
        /// Bits per second from now on; `None` sends at once.
        rate: Option<u64>,
    },
    /// Only its propagation delay changes.
    SetDelay {
        /// The link.
        link: LinkId,
        /// The direction.
        direction: Direction,
        /// The delay from now on.
        delay: Duration,
    },
    /// Only the largest packet that it carries changes.
    SetMtu {
        /// The link.
        link: LinkId,
        /// The direction.
        direction: Direction,
        /// Largest IP packet in bytes from now on; `None` is unlimited.
        mtu: Option<usize>,
    },
}

impl Action {
    /// The link and direction meant.
    pub(crate) fn target(&self) -> (LinkId, Direction) {
        match self {
            Self::Cut { link, direction }
            | Self::Repair { link, direction }
            | Self::Configure { link, direction, .. }
            | Self::SetLoss { link, direction, .. }
            | Self::SetRate { link, direction, .. }
            | Self::SetDelay { link, direction, .. }
            | Self::SetMtu { link, direction, .. } => (*link, *direction),
        }
    }

    /// The configuration after the action; `None` for cuts and repairs.
    pub(crate) fn applied(&self, before: &LinkConfig) -> Option<LinkConfig> {
        let mut config = before.clone();
        match self {
            Self::Cut { .. } | Self::Repair { .. } => return None,
            Self::Configure { config: new, .. } => config = new.clone(),
            Self::SetLoss { loss, .. } => config.loss = loss.clone(),
            Self::SetRate { rate, .. } => config.rate = *rate,
            Self::SetDelay { delay, .. } => config.delay = *delay,
            Self::SetMtu { mtu, .. } => config.mtu = *mtu,
        }
        Some(config)
    }
}
