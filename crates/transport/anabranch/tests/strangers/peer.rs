//! A peer that sets up associations with the endpoint of a [`World`].

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use anabranch_proto::{
    AssociationId, ConnectRequest, Endpoint, EndpointConfig, Event, Instant, Notification,
    OutgoingMessage, Ppid, Received,
};
use bytes::Bytes;

use crate::PORT;
use crate::world::{SERVER, UDP_PORT, World};

const ADDRESS: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, 2));

/// A separate engine, without delay and loss between it and the world.
pub(crate) struct Peer {
    engine: Endpoint,
    pub(crate) associations: Vec<AssociationId>,
    pub(crate) connected: usize,
    /// Packets that were sent, and those without room.
    pub(crate) sent: u64,
    pub(crate) lost: u64,
}

impl Peer {
    pub(crate) fn new() -> Self {
        let mut engine = Endpoint::new(EndpointConfig::default(), [9; 32]);
        engine.set_local_addresses(Instant::ZERO, &[ADDRESS]);
        Self { engine, associations: Vec::new(), connected: 0, sent: 0, lost: 0 }
    }

    /// Begins an association.
    pub(crate) fn connect(&mut self, world: &mut World) {
        let mut request = ConnectRequest::new(vec![SERVER], PORT);
        request.remote_udp_port = UDP_PORT;
        self.associations.push(self.engine.connect(world.now(), request).unwrap());
    }

    /// Sends a message on an association.
    pub(crate) fn send(&mut self, world: &World, association: AssociationId) {
        let message = OutgoingMessage::new(0, Ppid(0), Bytes::from_static(&[7; 100]));
        let now = world.now();
        self.engine.association_mut(now, association).unwrap().send(now, message).unwrap();
    }

    /// Retransmissions of this end of an association, and its timeouts.
    pub(crate) fn repeated(&self, association: AssociationId) -> u64 {
        let statistics = self.engine.association(association).unwrap().statistics();
        statistics.paths[0].retransmitted_chunks + statistics.paths[0].timeouts
    }

    /// Whether all that was sent is acknowledged.
    pub(crate) fn is_acknowledged(&self, association: AssociationId) -> bool {
        self.engine.association(association).unwrap().statistics().outstanding_bytes == 0
    }

    /// Continues for this time.
    pub(crate) fn run(&mut self, world: &mut World, time: Duration) {
        let until = world.now() + time;
        loop {
            self.exchange(world);
            let due = self.engine.next_deadline().unwrap_or(Instant::FAR_FUTURE);
            if !world.step(until.min(due.max(world.now() + Duration::from_micros(1)))) {
                if world.now() >= until {
                    return;
                }
                self.engine.handle_timeout(world.now());
            }
        }
    }

    fn exchange(&mut self, world: &mut World) {
        let now = world.now();
        let arrived: Vec<_> = world.machine.lock().sent.drain(..).collect();
        for (_, packet) in arrived.into_iter().filter(|(to, _)| to.ip() == ADDRESS) {
            let received = Received {
                local: ADDRESS,
                remote: SERVER,
                remote_udp_port: UDP_PORT,
                ecn: None,
                segment_size: packet.len(),
            };
            self.engine.handle_batch(now, &received, Bytes::from(packet));
        }
        let mut packet = Vec::new();
        while self.engine.poll_transmit(now, 1, &mut packet).is_some() {
            self.sent += 1;
            let from = SocketAddr::new(ADDRESS, UDP_PORT);
            self.lost += u64::from(!world.arrive(from, &packet));
            packet.clear();
        }
        while let Some((_, event)) = self.engine.poll_event() {
            self.connected +=
                usize::from(matches!(event, Event::Notification(Notification::Up { .. })));
        }
    }
}
