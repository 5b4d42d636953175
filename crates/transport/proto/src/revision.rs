//! The revision of the protocol that an association follows.

use crate::named::named;
use crate::options::words;

/// A revision of the protocol, for small rules in which the RFCs differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Revision {
    /// RFC 2960: cwnd changes only with SACKs that advance the Cumulative TSN Ack Point, every fast
    /// retransmission sends one packet at once regardless of cwnd, and every SACK with gaps is a
    /// missing report for every TSN that it shows as missing. The packet that fills the last gap
    /// may wait for its SACK.
    Rfc2960,
    /// RFC 4960: the same, but a SACK is a missing report only for TSNs below the highest TSN that
    /// it newly acknowledges (Highest TSN Newly Acknowledged). Idle time lowers cwnd and leaves
    /// ssthresh alone.
    Rfc4960,
    /// RFC 9260: cwnd grows with every SACK that acknowledges something new, and only entering fast
    /// recovery sends a packet regardless of cwnd. The packet that fills a gap is acknowledged at
    /// once. Before idle time lowers cwnd, ssthresh is set to the old cwnd.
    Rfc9260,
}

named!(Revision { Rfc2960 = "rfc2960", Rfc4960 = "rfc4960", Rfc9260 = "rfc9260", });
words!(Revision);
