//! Reports of what links did.

use std::net::IpAddr;

use anabranch_impair::LinkStats;
use serde::Serialize;

/// What a link did for one pair of addresses in one direction.
#[derive(Clone, Debug, Serialize)]
pub struct LinkReport {
    /// The link's name in the impairment file.
    pub name: Option<String>,
    /// The address on the left side of a line, or the address where a relay listens.
    pub local: IpAddr,
    /// The address on the other side.
    pub remote: IpAddr,
    /// On a line, `send` is from `local` to `remote`; on a relay, to the server. The other
    /// direction is `receive`.
    pub direction: &'static str,
    /// The statistics of its packets.
    #[serde(flatten)]
    pub statistics: LinkStats,
}
