//! Changes of a network at a given time.

use std::net::IpAddr;
use std::time::Duration;

use anabranch_impair::{LinkConfig, Loss};
use anabranch_proto::AddressChange;

use crate::channel::{Direction, LinkId};

/// A change to a link or an address; see [`Network::schedule`](crate::Network::schedule).
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
    /// A host gets one of its addresses, or loses it: nothing leaves from it then, and what arrives for it is discarded.
    /// The endpoint is told, as by an operating system.
    SetUsable {
        /// The address.
        address: IpAddr,
        /// Whether the host has it from now on.
        usable: bool,
    },
    /// The applications of a host ask for a change of this address of it, in each of their associations (RFC 5061).
    /// A request that is impossible at that time changes nothing.
    Readdress {
        /// The address.
        address: IpAddr,
        /// The change.
        change: AddressChange,
    },
}

impl Action {
    /// The channels that it changes.
    pub(crate) fn channels(&self) -> impl Iterator<Item = usize> + use<> {
        let target = match self {
            Self::Cut { link, direction }
            | Self::Repair { link, direction }
            | Self::Configure { link, direction, .. }
            | Self::SetLoss { link, direction, .. }
            | Self::SetRate { link, direction, .. }
            | Self::SetDelay { link, direction, .. }
            | Self::SetMtu { link, direction, .. } => Some((*link, *direction)),
            Self::SetUsable { .. } | Self::Readdress { .. } => None,
        };
        target.into_iter().flat_map(|(link, direction)| direction.channels(link))
    }

    /// The address that it changes.
    pub(crate) fn address(&self) -> Option<IpAddr> {
        match self {
            Self::SetUsable { address, .. } | Self::Readdress { address, .. } => Some(*address),
            _ => None,
        }
    }

    /// The configuration after the action; `None` for those that change none.
    pub(crate) fn applied(&self, before: &LinkConfig) -> Option<LinkConfig> {
        let mut config = before.clone();
        match self {
            Self::Cut { .. }
            | Self::Repair { .. }
            | Self::SetUsable { .. }
            | Self::Readdress { .. } => return None,
            Self::Configure { config: new, .. } => config = new.clone(),
            Self::SetLoss { loss, .. } => config.loss = loss.clone(),
            Self::SetRate { rate, .. } => config.rate = *rate,
            Self::SetDelay { delay, .. } => config.delay = *delay,
            Self::SetMtu { mtu, .. } => config.mtu = *mtu,
        }
        Some(config)
    }
}
