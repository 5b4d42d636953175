//! What lies between the endpoints and the network.

use super::Network;
use crate::{Datagram, Layer};

impl Network {
    /// Puts a layer between all endpoints and the network. Links are then between the addresses of the layer; scripts
    /// still see the packets of the endpoints. ICMP messages do not pass the layer.
    pub fn set_layer(&mut self, layer: impl Layer + 'static) {
        self.layer = Some(Box::new(layer));
    }

    /// Gives a packet to the layer below, if there is one, and otherwise to its link.
    pub(super) fn launch(&mut self, packet: Datagram) {
        let Some(layer) = &mut self.layer else { return self.carry(packet) };
        let Some(&node) = self.owners.get(&packet.from) else { return };
        let (local, remote, bytes) = (packet.from, packet.to, packet.bytes.clone());
        if !layer.send(self.now, node, packet) {
            let endpoint = &mut self.nodes[node].endpoint;
            endpoint.handle_send_error(self.now, local, remote, &bytes);
        }
        self.carry_what_the_layer_has();
    }

    /// Puts the datagrams of the layer on the network, and tells endpoints what it knows of paths.
    pub(super) fn carry_what_the_layer_has(&mut self) {
        for rounds in 0.. {
            assert!(rounds < 100_000, "the layer never stops sending");
            let Some(layer) = &mut self.layer else { return };
            if let Some((node, datagram)) = layer.poll_transmit() {
                if !self.is_too_big(node, &datagram) {
                    self.trace.carried(self.now, node, &datagram, "");
                    self.carry(datagram);
                }
            } else if let Some((node, local, remote)) = layer.poll_answer() {
                self.trace.note(self.now, format_args!("{node} {local} reaches {remote}"));
                self.nodes[node].endpoint.handle_path_answer(self.now, local, remote);
            } else {
                return;
            }
        }
    }

    /// Handles the timers of the layer, as late as those of the endpoints.
    pub(super) fn expire_layer(&mut self) {
        let Some(layer) = &mut self.layer else { return };
        let now = self.now;
        if layer.next_deadline().is_some_and(|deadline| deadline + self.lateness <= now) {
            layer.handle_timeout(now);
            let next = layer.next_deadline();
            assert!(next.is_none_or(|next| next > now), "a deadline that nothing moves");
        }
    }

    /// Lets a datagram arrive at the layer below the endpoints, as if it had just come from the network.
    pub fn arrive(&mut self, datagram: Datagram) {
        self.deliver_batch(&mut vec![datagram]);
    }
}
