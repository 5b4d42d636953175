//! Handles reports about packets of this endpoint: ICMP (RFC 9260 section 10), and errors of the host
//! itself.

use std::net::IpAddr;

use anabranch_wire::kind;

use super::Endpoint;
use crate::association::Association;
use crate::config::Encapsulation;
use crate::event::AssociationId;
use crate::time::Instant;

/// An ICMP or ICMPv6 message about a packet that this endpoint may have sent.
#[derive(Clone, Copy, Debug)]
pub struct IcmpMessage<'a> {
    /// Source address of the packet that the message quotes.
    pub local: IpAddr,
    /// Destination address of the packet that the message quotes.
    pub remote: IpAddr,
    /// The kind of message.
    pub kind: IcmpKind,
    /// The quoted SCTP packet from its common header on, as far as it was quoted.
    pub quoted: &'a [u8],
}

/// The kinds of ICMP messages that the engine distinguishes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum IcmpKind {
    /// ICMPv6 'packet too big', ICMPv4 'fragmentation needed'.
    PacketTooBig {
        /// MTU of the next hop: the maximum size of an IP packet in bytes.
        mtu: u16,
    },
    /// 'Protocol unreachable' or 'unrecognized next header': the peer does not support SCTP.
    ProtocolUnreachable,
    /// 'Port unreachable'.
    PortUnreachable,
    /// Any other 'destination unreachable'.
    OtherUnreachable,
}

impl Endpoint {
    /// Handles an ICMP message. Ignores messages that do not quote a packet with the right verification
    /// tag, so third parties cannot forge them.
    // req: rfc9260 10 "the following procedures MUST be followed"
    // req: rfc9260 12.4 "MUST implement the ICMP handling"
    // req: rfc6951 5.5 "cannot be verified, it MUST be discarded silently"
    // req: rfc8899 3 "received PTB message MUST be validated before it"
    // req: rfc8899 4.6.1 "supports PTB messages MUST validate these messages before"
    // req: rfc8899 4.6.1 "complete the validation MUST NOT be further utilized"
    // req: rfc8899 6.2.1.4 "Normal ICMP validation MUST be performed as specified"
    // req: rfc8899 6.2.2.4 "ICMP validation MUST be performed for PTB messages"
    // req: rfc8899 6.2.2.4 "the PTB message SHOULD be used with the"
    // req: rfc8899 8 "node supporting DPLPMTUD MUST therefore appropriately validate the"
    pub fn handle_icmp(&mut self, now: Instant, message: &IcmpMessage<'_>) {
        // req: rfc9260 10 "an implementation SHOULD ignore the ICMP message"
        let Some((id, is_init)) = self.quoted(message.remote, message.quoted) else { return };
        let encapsulation = self.config.encapsulation;
        let Some(association) = self.get_mut(id) else { return };
        match message.kind {
            // req: rfc9260 10 "implementation SHOULD process this information as defined"
            IcmpKind::PacketTooBig { mtu } => {
                let pair = (message.local, message.remote);
                association.on_packet_too_big(now, pair, mtu, false);
            }
            IcmpKind::ProtocolUnreachable => {
                let pair = (message.local, message.remote);
                association.on_protocol_unreachable(now, pair, is_init);
            }
            // req: rfc9260 10 "An implementation SHOULD ignore any ICMP messages where"
            IcmpKind::PortUnreachable if encapsulation == Encapsulation::Ip => {}
            IcmpKind::PortUnreachable => {
                let pair = (message.local, message.remote);
                association.on_port_unreachable(now, pair, is_init);
            }
            IcmpKind::OtherUnreachable => {
                association.on_unreachable(now, message.local, message.remote);
            }
        }
        self.after(now, id);
    }

    /// Finds the association that sent a packet to `remote` which starts with `quoted`, and whether the
    /// packet was an INIT. `None` if its verification tag is wrong.
    // req: rfc9260 10 "An implementation MUST use the payload of the"
    // req: rfc8899 4.6.1 "The PL MUST check the protocol information in"
    fn quoted(&self, remote: IpAddr, quoted: &[u8]) -> Option<(AssociationId, bool)> {
        // req: rfc8899 8 "This processing SHOULD be limited to avoid a"
        let field = |at: usize| -> Option<u32> {
            let bytes = quoted.get(at..at + 4)?;
            Some(bytes.iter().fold(0, |value, byte| (value << 8) | u32::from(*byte)))
        };
        let (ports, tag) = (field(0)?, field(4)?);
        let (local_port, remote_port) = ((ports >> 16) as u16, ports as u16);
        let is_init = quoted.get(12) == Some(&kind::INIT);
        let initiate_tag = field(16);
        // req: rfc9260 10 "An implementation MUST validate that the Verification Tag"
        // req: rfc8899 4.6.1 "The validation SHOULD utilize information that is not"
        let valid = |association: &Association| {
            if tag == 0 {
                is_init && initiate_tag == Some(association.verification_tag())
            } else {
                tag == association.peer_tag()
            }
        };
        let mut candidates = self.demux.between(remote, remote_port, local_port);
        let id = candidates.find(|id| self.association(*id).is_some_and(valid))?;
        Some((id, is_init))
    }

    /// Handles a report that the driver could not send a packet to `remote` from `local`, because there
    /// is no route, the network is down or the like. `quoted` is the SCTP packet from its common header
    /// on, or its start; 20 bytes are enough.
    ///
    /// The error counts against the path of the association that sent the packet, and is never fatal by
    /// itself. The cost does not depend on the number of associations with the same address.
    pub fn handle_send_error(
        &mut self,
        now: Instant,
        local: IpAddr,
        remote: IpAddr,
        quoted: &[u8],
    ) {
        let Some((id, _)) = self.quoted(remote, quoted) else { return };
        if let Some(association) = self.get_mut(id) {
            association.on_send_error(now, local, remote);
        }
        self.after(now, id);
    }

    /// Handles a report that the local interface refused a packet that starts with `quoted`, because it
    /// sends IP packets of at most `mtu` bytes from `local` to `remote`. `quoted` is as for
    /// [`handle_send_error`](Self::handle_send_error).
    pub fn handle_message_too_big(
        &mut self,
        now: Instant,
        local: IpAddr,
        remote: IpAddr,
        mtu: u16,
        quoted: &[u8],
    ) {
        let Some((id, _)) = self.quoted(remote, quoted) else { return };
        if let Some(association) = self.get_mut(id) {
            association.on_packet_too_big(now, (local, remote), mtu, true);
        }
        self.after(now, id);
    }
}
