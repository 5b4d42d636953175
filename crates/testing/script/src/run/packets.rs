//! Injects packets, and compares outgoing packets with the expected ones.

use std::net::IpAddr;

use anabranch_proto::{Ecn, IcmpKind, IcmpMessage, Received};
use anabranch_wire::{Packet, Parameters, crc32c, kind, parameter_kind};
use bytes::Bytes;

use super::authentication;
use super::world::{Seen, World};
use crate::codec::{Identity, Sources, chunk, chunks};
use crate::failure::{Failure, Place};
use crate::node::{Item, Node, Value, list_mismatch};
use crate::read::{Body, End, Icmp, PacketSpec, Route};

impl World {
    /// The local and remote address of a path.
    pub(crate) fn path(&self, place: &Place, route: Route) -> Result<(IpAddr, IpAddr), Failure> {
        let Route::Pair(local, remote) = route else {
            return Err(Failure::script(place, "one path is needed here, not any"));
        };
        let end = |list: &[IpAddr], end: End, side: &str| match end {
            End::Address(address) => Ok(address),
            End::Index(index) => list.get(index).copied().ok_or_else(|| {
                Failure::script(place, format!("there is no {side} address {index}"))
            }),
        };
        Ok((
            end(&self.options.locals, local, "local")?,
            end(&self.options.remotes, remote, "remote")?,
        ))
    }

    /// Injects a packet of the script into the engine.
    pub(crate) fn inject(&mut self, spec: &PacketSpec) -> Result<(), Failure> {
        let (local, remote) = self.path(&spec.place, spec.route)?;
        let (source, destination) = spec.ports.unwrap_or((self.ports.1, self.ports.0));
        let (body, tag, text) = self.body(spec, (local, remote))?;
        let mut bytes = Vec::with_capacity(body.len() + 12);
        bytes.extend(source.to_be_bytes());
        bytes.extend(destination.to_be_bytes());
        bytes.extend(tag.to_be_bytes());
        bytes.extend([0; 4]);
        bytes.extend(body);
        let checksum = crc32c(&bytes) ^ u32::from(spec.bad_checksum);
        if let Some(field) = bytes.get_mut(8..12) {
            field.copy_from_slice(&checksum.to_le_bytes());
        }
        let remote_udp_port = self.udp_source(spec);
        let ecn = spec.ecn.flatten();
        let received = Received { local, remote, remote_udp_port, ecn, segment_size: bytes.len() };
        let bytes = Bytes::from(bytes);
        self.last_tag = tag;
        self.history.push(Seen {
            at: self.now,
            out: false,
            local,
            remote,
            remote_udp_port,
            ecn,
            bytes: bytes.clone(),
            text: Some(text),
        });
        self.endpoint.handle_batch(self.now, &received, bytes);
        self.drain();
        Ok(())
    }

    /// UDP source port of a packet; 0 without UDP.
    fn udp_source(&self, spec: &PacketSpec) -> u16 {
        let written = spec.udp.map(|(source, _)| source);
        written.or(self.options.udp.map(|(_, remote)| remote)).unwrap_or(0)
    }

    /// The bytes after the common header, and the verification tag.
    fn body(
        &mut self,
        spec: &PacketSpec,
        path: (IpAddr, IpAddr),
    ) -> Result<(Vec<u8>, u32, String), Failure> {
        let items = match &spec.body {
            Body::Chunks(items) => items,
            Body::Bytes(bytes) => {
                let tag = self.tag(spec.tag, bytes.first() == Some(&kind::INIT), false);
                return Ok((bytes.clone(), tag, Value::Bytes(bytes.clone()).to_string()));
            }
        };
        let nodes: Vec<&Node> = items
            .iter()
            .filter_map(|item| match item {
                Item::Node(node) => Some(node),
                Item::Gap => None,
            })
            .collect();
        let has = |name: &str| nodes.iter().any(|node| node.name == name);
        let mut identity = self.identities.current;
        if let Some(echo) = nodes.iter().find(|node| node.name == "COOKIE_ECHO") {
            let known = match echo.get("val") {
                Some(Value::Cookie { tag, .. }) => self.identities.of_script_tag(*tag),
                Some(Value::Bytes(_)) => None,
                _ => self.identities.all.iter().rposition(|known| !known.cookie.is_empty()),
            };
            identity = known.unwrap_or(identity);
        }
        let explicit = spec.tag.and_then(|tag| self.identities.of_script_tag(tag));
        identity = explicit.unwrap_or(identity);
        // After its cookie has been echoed, the association uses these numbers. An explicit tag
        // means that the script refers to another association.
        if has("COOKIE_ECHO") && spec.tag.is_none() {
            self.identities.current = identity;
        }
        let reflected = nodes.iter().any(|node| {
            matches!(node.name.as_str(), "ABORT" | "SHUTDOWN_COMPLETE")
                && node.number("flgs").is_some_and(|flags| flags & 1 == 1)
        });
        let port = self.udp_source(spec);
        let to_port = self.heartbeats.iter().find(|(known, to, _)| (*known, *to) == (path, port));
        let on_path = self.heartbeats.iter().rfind(|(known, ..)| *known == path);
        let heartbeat = to_port.or(on_path).or(self.heartbeats.last());
        let heartbeat = heartbeat.map(|(.., info)| info.as_slice());
        let sources = Sources { identities: &self.identities, identity, heartbeat };
        let mut bytes = Vec::new();
        let mut macs = Vec::new();
        for node in &nodes {
            if node.name == "AUTH" {
                macs.push((bytes.len(), *node));
            }
            chunk(node, &sources, &mut bytes)?;
        }
        // The last one first, because an AUTH chunk covers those after it.
        for (at, node) in macs.into_iter().rev() {
            let identity = self.identities.all.get(identity);
            authentication::fill(node, &mut bytes, at, &self.secrets, identity);
        }
        let tag = match spec.tag {
            None if !has("INIT") && !reflected => {
                self.identities.all.get(identity).map_or(0, |identity| identity.live_tag)
            }
            tag => self.tag(tag, has("INIT"), reflected),
        };
        for node in &nodes {
            if matches!(node.name.as_str(), "INIT" | "INIT_ACK")
                && let Some(tag) = node.number("tag").or(Some(1))
            {
                self.peer_tags.push(tag as u32);
            }
        }
        self.note_vector(identity, &bytes);
        let shown: Vec<_> = nodes.iter().map(ToString::to_string).collect();
        Ok((bytes, tag, shown.join("; ")))
    }

    /// Records what the peer says of authentication in an INIT or INIT ACK.
    fn note_vector(&mut self, identity: usize, chunks: &[u8]) {
        let Some([kind, ..]) = chunks.first_chunk::<4>() else { return };
        let vector = authentication::vector(chunks.get(4..).unwrap_or_default());
        if *kind == kind::INIT {
            self.peer_vector = vector;
        } else if let (kind::INIT_ACK, Some(known)) = (*kind, self.identities.all.get_mut(identity))
        {
            known.vectors[1] = vector;
        }
    }

    /// Verifies the MACs of a packet.
    fn check_macs(&self, packet: &Packet<'_>) -> Result<(), String> {
        let mut chunks = packet.chunks();
        loop {
            let at = chunks.offset();
            let Some(Ok(chunk)) = chunks.next() else { return Ok(()) };
            let covered = packet.bytes().get(at..).unwrap_or_default();
            let identity = self.identities.current();
            if chunk.kind == kind::AUTH
                && !authentication::verifies(covered, &self.secrets, identity)
            {
                return Err("the MAC of the AUTH chunk is wrong".to_owned());
            }
        }
    }

    fn tag(&self, explicit: Option<u64>, is_init: bool, reflected: bool) -> u32 {
        match explicit {
            Some(0) => 0,
            Some(tag) if reflected => tag as u32,
            Some(tag) => self.identities.live_tag(tag),
            None if is_init => 0,
            None if reflected => self.peer_tags.last().copied().unwrap_or(0),
            None => self.identities.current().map_or(0, |identity| identity.live_tag),
        }
    }

    /// Compares a sent packet with the expected one.
    ///
    /// # Errors
    /// Returns a description of the difference.
    pub(crate) fn expect(&mut self, spec: &PacketSpec, seen: &Seen) -> Result<(), String> {
        let packet = Packet::parse(&seen.bytes).map_err(|error| format!("{error}"))?;
        if !packet.checksum_ok() {
            return Err("the checksum is wrong".to_owned());
        }
        if spec.route != Route::Any {
            let path = self.path(&spec.place, spec.route).map_err(|failure| failure.message)?;
            if path != (seen.local, seen.remote) {
                return Err(format!(
                    "the packet went from {} to {}, not from {} to {}",
                    seen.local, seen.remote, path.0, path.1
                ));
            }
        }
        let header = packet.header();
        let ports = (header.source_port, header.destination_port);
        if ports != spec.ports.unwrap_or(self.ports) {
            return Err(format!("the packet's ports are {} > {}", ports.0, ports.1));
        }
        if let Some(ecn) = spec.ecn.filter(|ecn| *ecn != seen.ecn) {
            let name = |ecn: Option<Ecn>| {
                ecn.map_or("noecn".to_owned(), |ecn| format!("{ecn:?}").to_lowercase())
            };
            return Err(format!("[{}] expected, [{}] sent", name(ecn), name(seen.ecn)));
        }
        if let Some((_, port)) = spec.udp.or(self.options.udp)
            && port != seen.remote_udp_port
        {
            return Err(format!("the packet went to UDP port {}", seen.remote_udp_port));
        }
        let expected = match &spec.body {
            Body::Bytes(expected) => {
                let there = seen.bytes.get(12..).unwrap_or_default();
                let same = there == expected.as_slice();
                return if same { Ok(()) } else { Err("the bytes differ".to_owned()) };
            }
            Body::Chunks(expected) => expected,
        };
        self.learn(&packet, expected);
        let nodes = chunks(&packet, Some(&self.identities));
        let actual: Vec<Item> = nodes.into_iter().map(Item::Node).collect();
        if let Some(difference) = list_mismatch(expected, &actual) {
            return Err(difference);
        }
        self.check_macs(&packet)?;
        self.check_tag(spec, &packet)
    }

    fn check_tag(&self, spec: &PacketSpec, packet: &Packet<'_>) -> Result<(), String> {
        let tag = packet.header().verification_tag;
        let mut is_init = false;
        let mut reflected = false;
        for chunk in packet.chunks().map_while(Result::ok) {
            is_init |= chunk.kind == kind::INIT;
            reflected |=
                matches!(chunk.kind, kind::ABORT | kind::SHUTDOWN_COMPLETE) && chunk.flags & 1 == 1;
        }
        let shown = if reflected { self.identities.script_tag(tag) } else { u64::from(tag) };
        let right = match spec.tag {
            Some(expected) => shown == expected,
            None if is_init => tag == 0,
            None if reflected => tag == self.last_tag,
            None => self.peer_tags.contains(&tag),
        };
        if right { Ok(()) } else { Err(format!("the verification tag is {shown}")) }
    }

    /// Records the tags, TSNs and cookies that an INIT or INIT ACK announces.
    fn learn(&mut self, packet: &Packet<'_>, expected: &[Item]) {
        let nodes = chunks(packet, None);
        for node in &nodes {
            let is_ack = node.name == "INIT_ACK";
            if !is_ack && node.name != "INIT" {
                continue;
            }
            let (Some(tag), Some(tsn)) = (node.number("tag"), node.number("tsn")) else { continue };
            let wanted = expected.iter().find_map(|item| match item {
                Item::Node(wanted) if wanted.name == node.name => Some(wanted),
                _ => None,
            });
            let script_tag = wanted
                .and_then(|wanted| wanted.number("tag"))
                .filter(|tag| self.identities.of_script_tag(*tag).is_none());
            let script_tsn = wanted.and_then(|wanted| wanted.number("tsn")).unwrap_or(1) as u32;
            let index = self.identities.of_live_tag(tag as u32).unwrap_or_else(|| {
                self.identities.all.push(Identity {
                    script_tag,
                    live_tag: tag as u32,
                    script_tsn,
                    live_tsn: tsn as u32,
                    cookie: Vec::new(),
                    vectors: Default::default(),
                });
                self.identities.all.len() - 1
            });
            if !is_ack {
                self.identities.current = index;
            }
            let own = node.raw.as_ref().map(|raw| authentication::vector(&raw.value));
            if let (Some(own), Some(identity)) = (own, self.identities.all.get_mut(index)) {
                identity.vectors[0] = own;
                if is_ack {
                    identity.vectors[1].clone_from(&self.peer_vector);
                }
            }
            let cookie = node
                .raw
                .as_ref()
                .and_then(|raw| raw.value.get(16..))
                .and_then(|bytes| Parameters::new(bytes).find(parameter_kind::STATE_COOKIE));
            if let (Some(cookie), Some(identity)) = (cookie, self.identities.all.get_mut(index)) {
                identity.cookie = cookie.value.to_vec();
            }
        }
    }

    /// Injects an ICMP message about a packet of the engine.
    pub(crate) fn icmp(&mut self, icmp: &Icmp) -> Result<(), Failure> {
        let (local, remote) = self.path(&icmp.place, icmp.route)?;
        let (source, destination) = icmp.ports.unwrap_or(self.ports);
        let kind = match (icmp.kind.as_str(), icmp.mtu) {
            ("unreachable frag_needed" | "packet_too_big", Some(mtu)) => {
                IcmpKind::PacketTooBig { mtu }
            }
            ("unreachable protocol_unreachable" | "unreachable proto_unreachable", _) => {
                IcmpKind::ProtocolUnreachable
            }
            ("unreachable port_unreachable", _) => IcmpKind::PortUnreachable,
            (kind, None) if kind.starts_with("unreachable") => IcmpKind::OtherUnreachable,
            (kind, _) => {
                let message = format!("no ICMP message '{kind}' is known here");
                return Err(Failure::script(&icmp.place, message));
            }
        };
        let tag = match (icmp.tag, icmp.init) {
            // The engine sent the quoted packet, so it has the peer's tag as given in the script.
            (Some(tag), _) => tag as u32,
            (None, Some(_)) => 0,
            (None, None) => self.peer_tags.last().copied().unwrap_or(0),
        };
        let mut quoted = Vec::new();
        quoted.extend(source.to_be_bytes());
        quoted.extend(destination.to_be_bytes());
        quoted.extend(tag.to_be_bytes());
        quoted.extend([0; 4]);
        if let Some(init) = icmp.init {
            quoted.extend([anabranch_wire::kind::INIT, 0, 0, 20]);
            quoted.extend(self.identities.live_tag(init).to_be_bytes());
        }
        let message = IcmpMessage { local, remote, kind, quoted: &quoted };
        self.endpoint.handle_icmp(self.now, &message);
        self.drain();
        Ok(())
    }
}
