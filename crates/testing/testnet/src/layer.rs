//! A layer between endpoints and the network, such as encryption.

use std::fmt;
use std::net::IpAddr;

use anabranch_proto::{Instant, Received};
use bytes::Bytes;

use crate::Datagram;

/// What lies between all endpoints and the network: it turns packets of endpoints into datagrams for the network, with
/// addresses of its own, and back.
///
/// The network calls [`poll_transmit`](Self::poll_transmit) and [`poll_answer`](Self::poll_answer) after all other calls.
pub trait Layer: fmt::Debug {
    /// Takes a packet of a node. Returns whether the node can send it now; its endpoint is notified of one that it cannot
    /// send.
    fn send(&mut self, now: Instant, node: usize, packet: Datagram) -> bool;

    /// Takes datagrams of equal size (except the last one) that arrived at a node together. Returns the packets for its
    /// endpoint.
    fn receive(
        &mut self,
        now: Instant,
        node: usize,
        received: &Received,
        bytes: Bytes,
    ) -> Option<(Received, Bytes)>;

    /// The next datagram for the network, and the node that sends it.
    fn poll_transmit(&mut self) -> Option<(usize, Datagram)>;

    /// The next path (node, local and remote address of the endpoint) that leads to the peer again.
    fn poll_answer(&mut self) -> Option<(usize, IpAddr, IpAddr)>;

    /// When [`handle_timeout`](Self::handle_timeout) must be called.
    fn next_deadline(&self) -> Option<Instant>;

    /// Does what is due.
    fn handle_timeout(&mut self, now: Instant);

    /// The node that has an address on the network.
    fn host(&self, address: IpAddr) -> Option<usize>;
}
