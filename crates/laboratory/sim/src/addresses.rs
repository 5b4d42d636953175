//! Addresses of hosts that come and go.

use std::net::IpAddr;

use anabranch_proto::{AddressChange, AssociationId};

use crate::network::{Network, NodeId};

impl Network {
    /// The addresses that a host has at present.
    pub(crate) fn usable_addresses(&self, host: NodeId) -> Vec<IpAddr> {
        let of_host = |ip: &IpAddr| {
            let id = self.address_ids.get(ip).and_then(|id| self.addresses.get(*id as usize));
            id.is_some_and(|address| address.usable)
        };
        self.addresses_of(host).filter(of_host).collect()
    }

    /// Gives a host one of its addresses, or takes it away. Its endpoint is told.
    pub(crate) fn set_usable(&mut self, ip: IpAddr, usable: bool) {
        let Some(address) =
            self.address_ids.get(&ip).and_then(|id| self.addresses.get_mut(*id as usize))
        else {
            return;
        };
        if std::mem::replace(&mut address.usable, usable) == usable {
            return;
        }
        let Some((number, host)) = self.endpoint_with(ip) else { return };
        let addresses = self.usable_addresses(host);
        let endpoint = &mut self.endpoints[number].endpoint;
        endpoint.set_local_addresses(self.now, &addresses);
        endpoint.handle_local_address(self.now, ip, usable);
        self.touched.push(number);
    }

    /// Asks for a change of an address in all associations of its host.
    pub(crate) fn readdress(&mut self, ip: IpAddr, change: AddressChange) {
        let Some((number, _)) = self.endpoint_with(ip) else { return };
        let endpoint = &mut self.endpoints[number].endpoint;
        let ids: Vec<AssociationId> = endpoint.associations().collect();
        for id in ids {
            let Some(mut association) = endpoint.association_mut(self.now, id) else { continue };
            // One that is impossible now changes nothing.
            let _ = match change {
                AddressChange::Added => association.add_address(self.now, ip),
                AddressChange::Removed => association.remove_address(self.now, ip),
                _ => association.prefer_address(self.now, ip),
            };
        }
        self.touched.push(number);
    }

    /// The endpoint of the host with an address, and the host.
    fn endpoint_with(&self, ip: IpAddr) -> Option<(usize, NodeId)> {
        let node = self.addresses.get(*self.address_ids.get(&ip)? as usize)?.node;
        Some((self.nodes.get(node)?.endpoint?, NodeId(node as u32)))
    }
}
