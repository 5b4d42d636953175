//! Options of authentication.

use super::{ChunkTypes, HmacAlgorithm};
use crate::options::section;

section! {
    /// Authentication of chunks (RFC 4895). The secrets are [`AssociationConfig::keys`](crate::AssociationConfig::keys).
    pub struct AuthenticationConfig {
        /// Offer and accept the authentication of chunks (RFC 4895). Without a shared secret it protects against those
        /// who did not see the handshake. Off.
        authentication: bool = false, Kind::Switch;
        /// Refuse peers that do not offer authentication, in place of doing without it. Somebody between the two sides
        /// could otherwise remove the offer from the handshake. Needs `authentication`. Off.
        require_authentication: bool = false, Kind::Switch;
        /// Chunks that are accepted only if the peer authenticates them. Without `authentication`, and from a peer
        /// without it, they are accepted as they are. None.
        authenticated_chunks: ChunkTypes = ChunkTypes::NONE, Kind::List(ChunkTypes::NAMES);
        /// The algorithm that the peer is asked to use: `sha-256`, or `sha-1`. Either is accepted with the first, and
        /// only SHA-1 with the second.
        // req: rfc4895 6.1 "MUST be supported and included in the HMAC-ALGO"
        authentication_hmac: HmacAlgorithm = HmacAlgorithm::Sha256, Kind::Word(HmacAlgorithm::NAMES);
    }
}
