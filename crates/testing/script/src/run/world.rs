//! The engine, virtual time, and the packets sent.

use std::collections::{BTreeMap, VecDeque};
use std::net::IpAddr;
use std::time::Duration;

use anabranch_proto::{AssociationId, Ecn, Endpoint, Instant};
use anabranch_testnet::pump::{self, Batch};
use anabranch_wire::{Packet, kind, parameter_kind};
use bytes::Bytes;

use super::BEGIN;
use super::authentication::Secrets;
use super::options::Options;
use super::sockets::{Link, Socket};
use crate::codec::Identities;
use crate::codec::chunks;

/// An engine and its environment.
pub(crate) struct World {
    pub(crate) options: Options,
    pub(crate) endpoint: Endpoint,
    pub(crate) now: Instant,
    /// Packets that the engine has sent and the script has not checked yet.
    pub(crate) sent: VecDeque<Seen>,
    /// All packets so far.
    pub(crate) history: Vec<Seen>,
    pub(crate) identities: Identities,
    /// Verification tags that the peer has announced, the latest last.
    pub(crate) peer_tags: Vec<u32>,
    /// What the peer's last INIT says of authentication.
    pub(crate) peer_vector: Vec<u8>,
    /// The peer's secrets.
    pub(crate) secrets: Secrets,
    /// Tag of the last incoming packet, which the T bit reflects.
    pub(crate) last_tag: u32,
    /// The information of the last heartbeat on each path (local, remote) and to each UDP port, in
    /// the order of their arrival.
    pub(crate) heartbeats: Vec<((IpAddr, IpAddr), u16, Vec<u8>)>,
    /// SCTP ports of this side and the peer, for packets that do not name them.
    pub(crate) ports: (u16, u16),
    pub(crate) sockets: BTreeMap<i64, Socket>,
    pub(crate) links: BTreeMap<AssociationId, Link>,
}

/// An incoming or outgoing packet.
#[derive(Clone, Debug)]
pub(crate) struct Seen {
    pub(crate) at: Instant,
    /// Whether the engine sent it.
    pub(crate) out: bool,
    pub(crate) local: IpAddr,
    pub(crate) remote: IpAddr,
    pub(crate) remote_udp_port: u16,
    pub(crate) ecn: Option<Ecn>,
    pub(crate) bytes: Bytes,
    /// The chunks as the script wrote them.
    pub(crate) text: Option<String>,
}

impl World {
    pub(crate) fn new(options: Options) -> Self {
        let mut endpoint = Endpoint::new(options.endpoint.clone(), [options.seed; 32]);
        let bound = options.bound.min(options.locals.len());
        endpoint.set_local_addresses(BEGIN, options.locals.get(..bound).unwrap_or_default());
        let ports = (options.bind_port, options.connect_port);
        Self {
            options,
            endpoint,
            now: BEGIN,
            sent: VecDeque::new(),
            history: Vec::new(),
            identities: Identities::default(),
            peer_tags: Vec::new(),
            peer_vector: Vec::new(),
            secrets: Secrets::new(),
            last_tag: 0,
            heartbeats: Vec::new(),
            ports,
            sockets: BTreeMap::new(),
            links: BTreeMap::new(),
        }
    }

    /// Advances the time, and lets the engine handle due deadlines.
    pub(crate) fn pass_to(&mut self, at: Instant) {
        if at > self.now {
            self.now = at;
        }
        if pump::expire(&mut self.endpoint, self.now) {
            self.drain();
        }
    }

    /// Collects the engine's packets and events.
    pub(crate) fn drain(&mut self) {
        loop {
            while let Some(Batch { transmit, bytes }) = Batch::take(&mut self.endpoint, self.now, 1)
            {
                let seen = Seen {
                    at: self.now,
                    out: true,
                    local: transmit.local,
                    remote: transmit.remote,
                    remote_udp_port: transmit.remote_udp_port,
                    ecn: transmit.ecn,
                    bytes,
                    text: None,
                };
                self.note_heartbeats(&seen);
                self.history.push(seen.clone());
                self.sent.push_back(seen);
            }
            let Some((id, event)) = self.endpoint.poll_event() else { return };
            self.told(id, event);
        }
    }

    fn note_heartbeats(&mut self, seen: &Seen) {
        let Ok(packet) = Packet::parse(&seen.bytes) else { return };
        for chunk in packet.chunks().map_while(Result::ok) {
            if chunk.kind != kind::HEARTBEAT {
                continue;
            }
            let parameters = anabranch_wire::Parameters::new(chunk.value);
            if let Some(info) = parameters.find(parameter_kind::HEARTBEAT_INFO) {
                let path = (seen.local, seen.remote);
                let port = seen.remote_udp_port;
                self.heartbeats.retain(|(known, to, _)| (*known, *to) != (path, port));
                self.heartbeats.push((path, port, info.value.to_vec()));
            }
        }
    }

    /// A path in the form used in scripts.
    fn path_name(&self, local: IpAddr, remote: IpAddr) -> String {
        let index = |list: &[IpAddr], address: IpAddr| {
            let found = list.iter().position(|known| *known == address);
            found.map_or_else(|| address.to_string(), |index| index.to_string())
        };
        let (local, remote) =
            (index(&self.options.locals, local), index(&self.options.remotes, remote));
        if local == remote { format!("@{local}") } else { format!("@{local}-{remote}") }
    }

    pub(crate) fn show_sent(&self, seen: &Seen) -> String {
        self.show(seen)
    }

    /// A packet in the form used in scripts.
    pub(crate) fn show(&self, seen: &Seen) -> String {
        let time = seen.at.saturating_since(BEGIN);
        let sign = if seen.out { '>' } else { '<' };
        let path = self.path_name(seen.local, seen.remote);
        let text = match Packet::parse(&seen.bytes) {
            Ok(packet) => {
                let tag = packet.header().verification_tag;
                let tag = if seen.out { u64::from(tag) } else { self.identities.script_tag(tag) };
                let text = seen.text.clone().unwrap_or_else(|| {
                    let nodes = chunks(&packet, Some(&self.identities));
                    nodes.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
                });
                format!("sctp(tag={tag}): {text}")
            }
            Err(error) => format!("sctp: {error}"),
        };
        let ecn = seen.ecn.map_or_else(String::new, |ecn| format!(" [{ecn:?}]").to_lowercase());
        format!("{} {sign} {path}{ecn} {text}", seconds(time))
    }
}

fn seconds(time: Duration) -> String {
    format!("{}.{:06}", time.as_secs(), time.subsec_micros())
}
