//! What links did.

use std::net::IpAddr;

use anabranch_impair::LinkStats;
use serde::Serialize;

/// What the link of one direction of one pair of addresses did.
#[derive(Clone, Debug, Serialize)]
pub struct LinkReport {
    /// Its name in the impairment file.
    pub name: Option<String>,
    /// The address on the left side of a line, or where a relay listens.
    pub local: IpAddr,
    /// The address on the other side.
    pub remote: IpAddr,
    /// `send` from `local` to `remote` of a line, and to the server of a relay; otherwise `receive`.
    pub direction: &'static str,
    /// Its packets.
    #[serde(flatten)]
    pub statistics: LinkStats,
}
