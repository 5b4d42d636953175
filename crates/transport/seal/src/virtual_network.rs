//! The private addresses that the layer above sees instead of real ones.

use std::net::{IpAddr, Ipv6Addr};

use ring::digest::{Context, SHA256};

use crate::PATHS;
use crate::keys::PublicKey;

/// Bytes of an address that name the endpoint; one byte, the path number, follows.
const PREFIX: usize = 15;

/// Names the purpose of the hash.
const LABEL: &[u8] = b"anabranch seal virtual network";

/// The virtual addresses of one endpoint: unique local IPv6 addresses (RFC 4193) that differ in the last byte, which is
/// the path number.
///
/// They follow from the endpoint's public key and its instance, so both sides know them without asking. The instance is
/// 0 for an endpoint that listens, and random for one that connects: two programs with one key are two endpoints, and
/// nobody else knows the address of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct VirtualNetwork([u8; PREFIX]);

impl VirtualNetwork {
    /// The addresses of an instance of the endpoint with this key.
    pub fn of(key: &PublicKey, instance: u64) -> Self {
        let mut hash = Context::new(&SHA256);
        hash.update(LABEL);
        hash.update(key.as_bytes());
        hash.update(&instance.to_be_bytes());
        let digest = hash.finish();
        let mut prefix = [0xfd; PREFIX];
        prefix[1..].copy_from_slice(&digest.as_ref()[..PREFIX - 1]);
        Self(prefix)
    }

    /// The address of a path.
    pub fn address(&self, path: u8) -> Ipv6Addr {
        let mut bytes = [path; PREFIX + 1];
        bytes[..PREFIX].copy_from_slice(&self.0);
        bytes.into()
    }

    /// The addresses of all paths.
    pub fn addresses(&self) -> impl Iterator<Item = Ipv6Addr> + use<> {
        let network = *self;
        (0..PATHS).map(move |path| network.address(path))
    }

    /// The network that an address belongs to, and its path number; `None` if it is not a virtual address.
    pub fn split(address: IpAddr) -> Option<(Self, u8)> {
        let IpAddr::V6(v6) = address else { return None };
        let octets = v6.octets();
        let (prefix, path) = (*octets.first_chunk::<PREFIX>()?, octets[PREFIX]);
        (prefix[0] == 0xfd && path < PATHS).then_some((Self(prefix), path))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    /// The vectors of `docs/sealed.md`.
    #[test]
    fn the_addresses_stay() {
        let address = |secret, instance, path| {
            let key = crate::SecretKey::from_bytes([secret; 32]).public();
            VirtualNetwork::of(&key, instance).address(path).to_string()
        };
        assert_eq!(address(2, 0, 0), "fd4d:a2dc:4086:1502:5c1b:dd64:1036:2c00");
        assert_eq!(address(1, 7, 1), "fddc:2631:8d7:ea7f:7606:a80d:8010:fd01");
    }

    #[test]
    fn addresses_name_endpoint_and_path() {
        let keys = [[1; 32], [2; 32]].map(PublicKey::from_bytes);
        let mut seen = BTreeSet::new();
        for (key, instance) in [(keys[0], 0), (keys[0], 1), (keys[1], 0), (keys[1], 1)] {
            let network = VirtualNetwork::of(&key, instance);
            for (path, address) in (0..).zip(network.addresses()) {
                assert!(seen.insert(address));
                assert_eq!(VirtualNetwork::split(address.into()), Some((network, path)));
            }
        }
        assert_eq!(seen.len(), 4 * usize::from(PATHS));
        let network = VirtualNetwork::of(&keys[0], 0);
        assert_eq!(VirtualNetwork::split(network.address(PATHS).into()), None);
        assert_eq!(VirtualNetwork::split([127, 0, 0, 1].into()), None);
        assert_eq!(keys[0].remotes(5000)[7], (network.address(7), 5000).into());
    }
}
