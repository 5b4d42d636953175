//! The event loop.

use std::mem::take;
use std::net::IpAddr;

use anabranch_impair::SendOutcome;
use anabranch_proto::{
    AssociationId, Event, IcmpKind, IcmpMessage, Instant, Notification, Received, Transmit,
};
use anabranch_testnet::pump;
use bytes::Bytes;

use crate::action::Action;
use crate::application::{Application, ApplicationId, Context};
use crate::channel::LinkId;
use crate::endpoint::{EndpointId, UDP_PORT, Way};
use crate::network::{ARENA, Network, Source};
use crate::packet::{AddressId, Kind, MAX_HOPS, Packet};
use crate::route_cache::CachedRoute;
use crate::tap::{Fate, Point, Sight};
use crate::transfer::TransferApplication;

/// Number of packets that one call of the engine may fill.
const SEGMENTS: usize = 16;

/// Bytes that a router quotes from a packet that is too big.
const QUOTED: usize = 512;

impl Network {
    /// Runs until all applications are done, no event is left, or `limit`. Returns the time
    /// reached. Transfers that have not ended by then are [`TimedOut`](crate::Outcome).
    pub fn run(&mut self, limit: Instant) -> Instant {
        while self.busy > 0
            && let Some((at, source)) = self.calendar.next()
            && at <= limit
        {
            self.happen(at, source);
        }
        if self.busy > 0 {
            self.now = self.now.max(limit);
        }
        let now = self.now;
        for running in &mut self.applications {
            let application = running.application.as_deref_mut();
            if let Some(application) = application
                && let Some(transfer) =
                    (application as &mut dyn std::any::Any).downcast_mut::<TransferApplication>()
            {
                transfer.finish(now);
            }
        }
        now
    }

    /// Runs until `until`, even if the applications are done.
    pub fn run_until(&mut self, until: Instant) {
        while let Some((at, source)) = self.calendar.next()
            && at <= until
        {
            self.happen(at, source);
        }
        self.now = self.now.max(until);
    }

    /// Runs until `until`, or until `stop` holds, which is asked before each event.
    pub fn run_until_or(&mut self, until: Instant, mut stop: impl FnMut(&Self) -> bool) {
        loop {
            if stop(self) {
                return;
            }
            let Some((at, source)) = self.calendar.next().filter(|(at, _)| *at <= until) else {
                break;
            };
            self.happen(at, source);
        }
        self.now = self.now.max(until);
    }

    /// Whether all applications and transfers are done.
    pub fn is_done(&self) -> bool {
        self.busy == 0
    }

    /// Runs while `condition` holds and there are events. The condition is checked after each
    /// event.
    pub fn run_while(&mut self, mut condition: impl FnMut(&Self) -> bool) {
        while condition(self) && self.step() {}
    }

    /// Processes the next event; false if there is none.
    pub fn step(&mut self) -> bool {
        match self.calendar.next() {
            Some((at, source)) => {
                self.happen(at, source);
                true
            }
            None => false,
        }
    }

    fn happen(&mut self, at: Instant, source: usize) {
        self.now = at;
        match self.sources[source] {
            Source::Channel(channel) => self.arrivals(channel),
            Source::Endpoint(endpoint) => {
                self.endpoints[endpoint].endpoint.handle_timeout(at);
                self.touched.push(endpoint);
            }
            Source::Application(number) => {
                self.calendar.set(source, None);
                let started = std::mem::replace(&mut self.applications[number].started, true);
                self.call(number, |application, context| {
                    if started { application.wake(context) } else { application.start(context) }
                });
            }
            Source::Traffic(number) => self.generate(number),
            Source::Feed(number) => self.feed_link(number),
            Source::Flow(number) => self.flow_wakes(number),
            Source::Web(number) => self.web_requests(number),
            Source::Route(endpoint, destination) => self.route_found(endpoint, destination),
            Source::Schedule => self.act(),
            Source::Series(number) => self.sample(number),
        }
        while let Some(endpoint) = self.touched.pop() {
            self.drain(endpoint);
        }
    }

    /// Reads a gauge.
    fn sample(&mut self, number: usize) {
        let Some(mut gauge) = self.series[number].gauge.take() else { return };
        let value = gauge(self);
        let series = &mut self.series[number];
        series.gauge = Some(gauge);
        series.points.extend(value.map(|value| (self.now, value)));
        self.calendar.set(series.source, Some(self.now + series.every));
    }

    // Links.

    /// Takes packets that have arrived at the end of a channel.
    fn arrivals(&mut self, number: usize) {
        let now = self.now.as_nanos();
        let next = loop {
            let channel = &mut self.channels[number];
            if let Some(packet) = channel.link.poll(now) {
                channel.delivered(&packet);
                let node = channel.to;
                if let Kind::Fed(feed) = packet.kind {
                    self.feeds[feed as usize].received += 1;
                    self.packets.give_back(packet);
                } else if self.nodes[node].is_router() {
                    self.forward(node, packet);
                } else {
                    self.deliver(node, number, packet);
                }
                // Do not poll again to find out: usually there is nothing more, and the link
                // already knows that.
                let next = self.channels[number].link.next_due();
                if next > now {
                    break next;
                }
            } else {
                break channel.link.next_due();
            }
        };
        let source = self.channels[number].source;
        self.calendar.set_nanos(source, next);
    }

    /// Enters the next arrival of a channel in the calendar.
    fn remind(&mut self, number: usize) {
        let channel = &self.channels[number];
        self.calendar.set_nanos(channel.source, channel.link.next_due());
    }

    fn forward(&mut self, node: usize, mut packet: Box<Packet>) {
        packet.hops += 1;
        if packet.hops >= MAX_HOPS {
            self.undeliverable.hops += 1;
            return;
        }
        match self.routes.next(node, packet.destination, || packet.flow()) {
            Some(channel) => self.launch(channel, packet),
            None => self.undeliverable.no_route += 1,
        }
    }

    /// Offers a packet to a channel.
    pub(crate) fn launch(&mut self, number: usize, packet: Box<Packet>) {
        let now = self.now.as_nanos();
        let channel = &mut self.channels[number];
        channel.offered(&packet);
        let limit = channel.link.config().mtu;
        let too_big = limit.is_some_and(|mtu| packet.size as usize > mtu) && packet.dont_fragment;
        let copy = too_big.then(|| packet.clone());
        let outcome = channel.link.send(now, packet);
        if let (SendOutcome::TooBig { mtu }, Some(packet)) = (outcome, &copy) {
            let node = channel.from;
            self.too_big(node, mtu, packet);
        }
        self.remind(number);
    }

    /// Notifies the sender of a packet that it is too big for the next link.
    fn too_big(&mut self, node: usize, mtu: usize, packet: &Packet) {
        let mtu = u16::try_from(mtu).unwrap_or(u16::MAX);
        if !self.nodes[node].is_router() {
            let Some(endpoint) = self.nodes[node].endpoint else { return };
            let (local, remote) = self.ips(packet.source, packet.destination);
            let state = &mut self.endpoints[endpoint];
            state.endpoint.handle_message_too_big(self.now, local, remote, mtu, &packet.bytes);
            return;
        }
        let Kind::Sctp = packet.kind else { return };
        let quoted = packet.bytes.slice(..packet.bytes.len().min(QUOTED));
        let answer = self.packets.boxed(Packet {
            size: quoted.len() as u32 + 56,
            bytes: quoted,
            // Routers have no addresses, so the answer comes from the packet's destination address.
            source: packet.destination,
            destination: packet.source,
            kind: Kind::Icmp(packet.destination, IcmpKind::PacketTooBig { mtu }),
            hops: 0,
            dont_fragment: false,
            ecn: None,
        });
        self.forward(node, answer);
    }

    fn ips(&self, a: u32, b: u32) -> (IpAddr, IpAddr) {
        (self.addresses[a as usize].ip, self.addresses[b as usize].ip)
    }

    // Hosts.

    /// Delivers a packet that has arrived at a host.
    fn deliver(&mut self, node: usize, channel: usize, mut packet: Box<Packet>) {
        self.hand_over(node, channel, &mut packet);
        self.packets.give_back(packet);
    }

    /// Passes the contents of a packet to their receiver.
    #[inline(never)]
    fn hand_over(&mut self, node: usize, channel: usize, packet: &mut Packet) {
        let address = &self.addresses[packet.destination as usize];
        if address.node != node || address.channel != channel ^ 1 || !address.usable {
            self.undeliverable.not_here += 1;
            return;
        }
        let endpoint = match packet.kind {
            Kind::Cross(number) => {
                self.traffic[number as usize].received += 1;
                return;
            }
            Kind::Tcp(number, turn) => {
                self.flow_receives((number as usize, turn), packet);
                return;
            }
            // It has ended at the link.
            Kind::Fed(_) => return,
            Kind::Sctp | Kind::Icmp(..) => self.nodes[node].endpoint,
        };
        let Some(number) = endpoint else {
            self.undeliverable.not_here += 1;
            return;
        };
        let (local, remote) = self.ips(packet.destination, packet.source);
        let now = self.now;
        if !self.taps.is_empty() && matches!(packet.kind, Kind::Sctp) {
            let sight = self.sight(number, channel, Point::Received, packet);
            self.show(&sight);
        }
        let state = &mut self.endpoints[number];
        match packet.kind {
            Kind::Icmp(destination, kind) => {
                let remote = self.addresses[destination as usize].ip;
                let message = IcmpMessage { local, remote, kind, quoted: &packet.bytes };
                state.endpoint.handle_icmp(now, &message);
            }
            Kind::Sctp | Kind::Cross(_) | Kind::Fed(_) | Kind::Tcp(..) => {
                let remote_udp_port = match state.encapsulation {
                    anabranch_proto::Encapsulation::Ip => 0,
                    anabranch_proto::Encapsulation::Udp => UDP_PORT,
                };
                let received = Received {
                    local,
                    remote,
                    remote_udp_port,
                    ecn: packet.ecn,
                    segment_size: packet.bytes.len(),
                };
                state.endpoint.handle_batch(now, &received, take(&mut packet.bytes));
            }
        }
        self.touched.push(number);
    }

    fn sight<'a>(
        &self,
        endpoint: usize,
        channel: usize,
        point: Point,
        packet: &'a Packet,
    ) -> Sight<'a> {
        let (from, to) = self.ips(packet.source, packet.destination);
        Sight {
            now: self.now,
            endpoint: EndpointId(endpoint as u32),
            link: LinkId((channel / 2) as u32),
            point,
            from,
            to,
            ecn: packet.ecn,
            encapsulation: self.endpoints[endpoint].encapsulation,
            bytes: &packet.bytes,
        }
    }

    fn show(&mut self, sight: &Sight<'_>) {
        for (only, tap) in &mut self.taps {
            if only.is_none_or(|only| only == sight.endpoint) {
                tap.packet(sight);
            }
        }
    }

    /// Collects all output of an endpoint: events to their applications, packets to the network.
    #[inline(never)]
    fn drain(&mut self, number: usize) {
        loop {
            while let Some((id, event)) = self.endpoints[number].endpoint.poll_event() {
                self.dispatch(number, id, event);
            }
            for index in 0..self.endpoints[number].eager.len() {
                let application = self.endpoints[number].eager[index].0 as usize;
                self.call(application, |application, context| application.wake(context));
                // Its output is collected below.
                self.touched.retain(|touched| *touched != number);
            }
            let mut sent = false;
            let mut scratch = take(&mut self.scratch);
            loop {
                scratch.clear();
                let endpoint = &mut self.endpoints[number].endpoint;
                let transmit = pump::poll(endpoint, self.now, SEGMENTS, &mut scratch);
                let Some(transmit) = &transmit else { break };
                self.output(number, transmit, &scratch);
                sent = true;
            }
            self.scratch = scratch;
            if !sent {
                break;
            }
        }
        let state = &self.endpoints[number];
        self.calendar.set(state.source, state.endpoint.next_deadline());
    }

    /// Sends packets of an endpoint.
    fn output(&mut self, number: usize, transmit: &Transmit, bytes: &[u8]) {
        let Some(way) = self.way(number, transmit.local, transmit.remote) else {
            self.undeliverable.no_route += 1;
            return;
        };
        if !self.addresses[way.source as usize].usable {
            self.undeliverable.no_route += 1;
            return;
        }
        if self.arena.capacity() - self.arena.len() < bytes.len() {
            self.arena.reserve(bytes.len().max(ARENA));
        }
        self.arena.extend_from_slice(bytes);
        let whole = self.arena.split().freeze();
        if whole.len() <= transmit.segment_size {
            self.depart(number, way, transmit, whole);
            return;
        }
        for packet in pump::packets(whole, transmit.segment_size) {
            self.depart(number, way, transmit, packet);
        }
    }

    /// Sends one packet of an endpoint.
    fn depart(&mut self, number: usize, way: Way, transmit: &Transmit, bytes: Bytes) {
        self.trace.packet(self.now, way.source, way.destination, &bytes);
        let packet = self.packets.boxed(Packet {
            size: (bytes.len() + way.overhead) as u32,
            bytes,
            source: way.source,
            destination: way.destination,
            kind: Kind::Sctp,
            hops: 0,
            dont_fragment: transmit.dont_fragment,
            ecn: transmit.ecn,
        });
        if !self.taps.is_empty() || self.script.is_some() {
            let sight = self.sight(number, way.channel, Point::Sent, &packet);
            self.show(&sight);
            match self.script.as_mut().map_or(Fate::Pass, |script| script(&sight)) {
                Fate::Pass => {}
                Fate::Drop => return,
                Fate::Then(after, action) => {
                    // An action that is invalid for its link changes nothing.
                    let _ = self.schedule(self.now + after, *action);
                }
            }
        }
        if self.endpoints[number].route_cache.is_some() {
            self.depart_by_route(number, way, packet);
        } else {
            self.launch(way.channel, packet);
        }
    }

    /// The interface and addresses of a pair.
    fn way(&mut self, number: usize, local: IpAddr, remote: IpAddr) -> Option<Way> {
        let state = &mut self.endpoints[number];
        let known = state.ways.iter().find(|way| way.local == local && way.remote == remote);
        if let Some(way) = known {
            return Some(*way);
        }
        let source = *self.address_ids.get(&local)?;
        let destination = *self.address_ids.get(&remote)?;
        let address = &self.addresses[source as usize];
        if address.node != state.node {
            return None;
        }
        let overhead = state.encapsulation.overhead(remote);
        let channel = address.channel;
        let way = Way { local, remote, source, destination, channel, overhead };
        state.ways.push(way);
        Some(way)
    }

    /// Sends a packet of a host that discovers its routes.
    fn depart_by_route(&mut self, number: usize, way: Way, packet: Box<Packet>) {
        if !self.endpoints[number].routes.contains_key(&way.destination) {
            let Some(config) = self.endpoints[number].route_cache else { return };
            self.sources.push(Source::Route(number, way.destination));
            let source = self.calendar.add();
            let route = CachedRoute::new(config, source);
            self.endpoints[number].routes.insert(way.destination, route);
        }
        let Some(route) = self.endpoints[number].routes.get_mut(&way.destination) else { return };
        let leaves = route.send(self.now, packet);
        self.calendar.set(route.source, route.found_at());
        leaves.into_iter().for_each(|packet| self.launch(way.channel, packet));
    }

    /// Sends the packets that waited for a completed discovery.
    fn route_found(&mut self, number: usize, destination: u32) {
        let Some(route) = self.endpoints[number].routes.get_mut(&destination) else { return };
        let waiting = route.found(self.now);
        self.calendar.set(route.source, None);
        for packet in waiting {
            let channel = self.addresses[packet.source as usize].channel;
            self.launch(channel, packet);
        }
    }

    // Applications.

    /// Notifies the owner of an association of an event.
    fn dispatch(&mut self, number: usize, id: AssociationId, event: Event) {
        let state = &mut self.endpoints[number];
        let owner = match state.owners.get(&id) {
            Some(owner) => *owner,
            None => {
                let port = state.endpoint.association(id).map(|a| a.local_port());
                let Some(owner) = port.and_then(|port| state.listeners.get(&port)) else { return };
                let owner = *owner;
                state.owners.insert(id, owner);
                owner
            }
        };
        let closed = matches!(event, Event::Notification(Notification::Closed(_)));
        self.call(owner.0 as usize, |application, context| {
            application.event(context, EndpointId(number as u32), id, event);
        });
        if closed {
            let state = &mut self.endpoints[number];
            state.endpoint.remove(id);
            state.owners.remove(&id);
        }
    }

    fn call(&mut self, number: usize, body: impl FnOnce(&mut dyn Application, &mut Context<'_>)) {
        let running = &mut self.applications[number];
        let Some(mut application) = running.application.take() else { return };
        let was_done = running.started && application.is_done();
        let mut context = Context {
            now: self.now,
            application: ApplicationId(number as u32),
            endpoints: &mut self.endpoints,
            touched: &mut self.touched,
            wake: None,
        };
        body(&mut *application, &mut context);
        if let Some(at) = context.wake {
            self.calendar.set(running.source, Some(at));
        }
        if application.is_done() && !was_done {
            self.busy -= 1;
        }
        running.application = Some(application);
    }

    // Cross-traffic and actions.

    fn generate(&mut self, number: usize) {
        let generator = &mut self.traffic[number];
        let (size, next) = generator.emission.fire(self.now);
        self.calendar.set(generator.source, next);
        let Some(size) = size else { return };
        generator.sent += 1;
        let channel = generator.channel;
        let packet = self.packets.boxed(Packet {
            bytes: Bytes::new(),
            size,
            source: generator.source_address,
            destination: generator.destination,
            kind: Kind::Cross(number as u32),
            hops: 0,
            dont_fragment: false,
            ecn: None,
        });
        self.launch(channel, packet);
    }

    /// Lets a packet of a feed enter its loaded link.
    fn feed_link(&mut self, number: usize) {
        let feeder = &mut self.feeds[number];
        let (size, next) = feeder.fire();
        let channel = feeder.channel;
        self.calendar.set_nanos(feeder.source, next);
        let Some(size) = size else { return };
        let packet = self.packets.boxed(Packet {
            bytes: Bytes::new(),
            size,
            source: AddressId::MAX,
            destination: AddressId::MAX,
            kind: Kind::Fed(number as u32),
            hops: 0,
            dont_fragment: false,
            ecn: None,
        });
        self.launch(channel, packet);
    }

    /// Executes the actions scheduled for now.
    fn act(&mut self) {
        while let Some(entry) = self.schedule.first_entry() {
            if entry.key().0 > self.now {
                break;
            }
            let action = entry.remove();
            self.apply(&action);
        }
        let next = self.schedule.keys().next().map(|(at, _)| *at);
        self.calendar.set(self.schedule_source, next);
    }

    fn apply(&mut self, action: &Action) {
        let now = self.now.as_nanos();
        match action {
            Action::SetUsable { address, usable } => return self.set_usable(*address, *usable),
            Action::Readdress { address, change } => return self.readdress(*address, *change),
            _ => {}
        }
        for number in action.channels() {
            let link = &mut self.channels[number].link;
            match action {
                Action::Cut { .. } => link.set_up(now, false),
                Action::Repair { .. } => link.set_up(now, true),
                _ => {
                    if let Some(config) = action.applied(link.config()) {
                        // The configuration was valid when scheduled. If the link has been
                        // reconfigured since and now refuses it, the link stays as it is.
                        let _ = link.set_config(now, config);
                    }
                }
            }
            self.remind(number);
        }
    }
}
