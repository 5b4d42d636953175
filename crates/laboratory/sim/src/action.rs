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
        /// Its new configuration.
        config: LinkConfig,
    },
    /// Changes only the loss model.
    SetLoss {
        /// The link.
        link: LinkId,
        /// The direction.
        direction: Direction,
        /// The new model.
        loss: Loss,
    },
    /// Changes only the rate.
    SetRate {
        /// The link.
        link: LinkId,
        /// The direction.
        direction: Direction,
        /// The new rate in bits per second; `None` sends immediately.
        rate: Option<u64>,
    },
    /// Changes only the propagation delay.
    SetDelay {
        /// The link.
        link: LinkId,
        /// The direction.
        direction: Direction,
        /// The new delay.
        delay: Duration,
    },
    /// Changes only the MTU.
    SetMtu {
        /// The link.
        link: LinkId,
        /// The direction.
        direction: Direction,
        /// Largest IP packet in bytes; `None` is unlimited.
        mtu: Option<usize>,
    },
}

impl Action {
    /// The link and direction that it changes.
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
