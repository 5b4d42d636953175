//! Forwards packets from device to device over the links of the network.

use std::io;
use std::net::IpAddr;
use std::os::fd::AsFd as _;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anabranch_impair::pattern::Facts;
use anabranch_impair::{Link, LinkConfig, LinkStats, Loss, Packet as _, Probability, Record, Rng};
use anabranch_lab::setup::Change;
use hdrhistogram::Histogram;
use nix::poll::{PollFd, PollFlags, ppoll};
use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::{TimeSpec, TimeVal, TimeValLike as _};
use tun_rs::{SyncDevice, VIRTIO_NET_HDR_LEN};

use super::capture::{Capture, comment};
use super::fates::FateLog;
use super::icmp::{self, Reason};
use super::join::{Joiner, Piece};
use super::packet::IpPacket;
use super::replay::Replay;
use super::rest::Rests;
use super::routing::{Attachment, Routes};
use super::topology::Topology;
use super::ways::Way;
use crate::Error;

/// Largest IP packet; also the most that the kernel hands over in one read.
const MOST_BYTES: usize = 65_535;
/// Maximum number of pieces that a packet is cut into, with the smallest segments that TCP sends.
const MOST_PIECES: usize = 1024;
/// Reads from one device before the next device is served.
const READS: usize = 16;
/// Maximum number of packets in one direction of a link.
const MOST_HELD: usize = 1 << 20;
/// Buffers kept for reuse.
const MOST_SPARE: usize = 4096;
/// Interval for checking the stop flag.
const LOOK: Duration = Duration::from_millis(20);

/// Observers of the packets.
#[derive(Default)]
pub struct Observers {
    /// Records the fate of each packet.
    pub log: Option<FateLog>,
    /// Compares packets with the log of an earlier run.
    pub replay: Option<Replay>,
    /// Captures packets as they leave and reach hosts.
    pub capture: Option<Capture>,
}

/// An end of a link at a host.
struct Port {
    attachment: Attachment,
    device: SyncDevice,
    /// Every packet gets a buffer of this size, which holds the device's largest packet.
    room: usize,
}

/// The results of a run.
#[derive(Debug, Default)]
pub struct Summary {
    /// Statistics of each way.
    pub statistics: Vec<LinkStats>,
    /// Packets whose destination is not in the network.
    pub astray: u64,
    /// Delay between the computed and the actual forwarding time in nanoseconds: median and 99th percentile.
    pub late: (u64, u64),
    /// Processor time of forwarding in nanoseconds. It is spent on one thread and includes the kernel's work for that
    /// thread.
    pub cpu: u64,
    /// Number of packets compared with a log, and of packets in the log.
    pub replayed: Option<(u64, u64)>,
}

/// A running network.
pub(crate) struct Network {
    routes: Routes,
    ways: Vec<Way>,
    ends: Vec<[usize; 2]>,
    /// The addresses of both ends of each link, including ends at routers.
    addresses: Vec<[[IpAddr; 2]; 2]>,
    is_host: Vec<bool>,
    links: Vec<Link<IpPacket>>,
    /// Whether each link does nothing to packets.
    plain: Vec<bool>,
    ports: Vec<Port>,
    /// The port of each attachment.
    port_of: Vec<Option<usize>>,
    observers: Observers,
    records: bool,
    spare: Vec<Vec<u8>>,
    joiner: Joiner,
    /// Reads that returned several packets.
    groups: u64,
    /// Reads of this round that returned packets.
    taken: u32,
    astray: u64,
    late: Histogram<u64>,
    commands: Vec<String>,
    /// Scheduled changes of links, the last one first.
    schedule: Vec<(u64, usize, Change)>,
}

/// Buffers for the packets of one read.
struct Batch {
    raw: Vec<u8>,
    pieces: Vec<Vec<u8>>,
    sizes: Vec<usize>,
}

impl Network {
    pub(crate) fn new(
        topology: &Topology,
        routes: Routes,
        ways: Vec<Way>,
        devices: Vec<(usize, SyncDevice)>,
        observers: Observers,
        seed: u64,
    ) -> Result<Self, Error> {
        let records =
            observers.log.is_some() || observers.replay.is_some() || observers.capture.is_some();
        let (mut links, mut plain) = (Vec::new(), Vec::new());
        for (index, config) in topology.links.iter().flat_map(|link| &link.configs).enumerate() {
            let seed = Rng::stream(seed, index as u64).next_u64();
            let mut link = Link::new(config.clone(), seed).map_err(Error::Link)?;
            if records {
                link.record();
            }
            plain.push(*config == LinkConfig::default());
            links.push(link);
        }
        let mut port_of = vec![None; routes.attachments.len()];
        let mut ports = Vec::new();
        for (index, device) in devices {
            let Some(attachment) = routes.attachments.get(index).copied() else { continue };
            let mtu = topology.links.get(attachment.link).map_or(1500, |link| link.mtu);
            if let Some(place) = port_of.get_mut(index) {
                *place = Some(ports.len());
            }
            let room = VIRTIO_NET_HDR_LEN + usize::from(mtu);
            ports.push(Port { attachment, device, room });
        }
        let late = Histogram::new_with_bounds(1, 60_000_000_000, 3)
            .map_err(|error| Error::Io(io::Error::other(error)))?;
        Ok(Self {
            ends: topology.links.iter().map(|link| link.ends).collect(),
            addresses: topology.links.iter().map(|l| [l.addresses(0), l.addresses(1)]).collect(),
            is_host: topology.nodes.iter().map(|node| node.is_host).collect(),
            routes,
            ways,
            links,
            plain,
            ports,
            port_of,
            observers,
            records,
            spare: Vec::new(),
            joiner: Joiner::default(),
            groups: 0,
            taken: 0,
            astray: 0,
            late,
            commands: Vec::new(),
            schedule: Vec::new(),
        })
    }

    /// Schedules a change of a link in one direction.
    pub(crate) fn schedule(&mut self, at: Duration, way: usize, change: Change) {
        let at = u64::try_from(at.as_nanos()).unwrap_or(u64::MAX);
        // Changes at the same time happen in the order in which they were requested.
        let place = self.schedule.iter().position(|(other, ..)| *other <= at);
        self.schedule.insert(place.unwrap_or(self.schedule.len()), (at, way, change));
    }

    /// Applies the changes that are due.
    fn happen(&mut self, now: u64) {
        while let Some((at, way, change)) = self.schedule.pop_if(|(at, ..)| *at <= now) {
            let Some(link) = self.links.get_mut(way) else { continue };
            let mut config = link.config().clone();
            match change {
                Change::Cut => link.set_up(at, false),
                Change::Repair => link.set_up(at, true),
                Change::Loss(share) => {
                    config.loss = Probability::fraction(share).map_or(Loss::None, Loss::Uniform);
                }
                Change::Rate(rate) => config.rate = Some(rate),
                Change::Delay(delay) => config.delay = delay,
                Change::Mtu(mtu) => config.mtu = Some(mtu),
            }
            if config != *link.config() {
                // Every value is valid for a link.
                let _ = link.set_config(at, config);
                if let Some(plain) = self.plain.get_mut(way) {
                    *plain = *link.config() == LinkConfig::default();
                }
            }
        }
    }

    /// Forwards until the stop flag is set; `run` executes the commands of triggers.
    pub(crate) fn run(
        mut self,
        stop: &AtomicBool,
        mut run: impl FnMut(&str),
    ) -> Result<Summary, Error> {
        let begun = Instant::now();
        let now = || u64::try_from(begun.elapsed().as_nanos()).unwrap_or(u64::MAX);
        let room = self.ports.iter().map(|port| port.room).max().unwrap_or(0);
        let mut batch = Batch {
            raw: vec![0; VIRTIO_NET_HDR_LEN + MOST_BYTES],
            pieces: vec![vec![0; room]; MOST_PIECES],
            sizes: vec![0; MOST_PIECES],
        };
        let mut ran = self.forward(stop, &now, &mut batch, &mut run);
        for index in 0..self.links.len() {
            if let Some(link) = self.links.get_mut(index) {
                link.give_up_records();
            }
            let noted = self.note(index).map(|_| ());
            ran = ran.and(noted);
        }
        let summary = self.summary();
        let precision = format!(
            "handed on later than computed: median {} ns, 99 % below {} ns",
            summary.late.0, summary.late.1
        );
        let log = self.observers.log.take().map_or(Ok(()), |log| log.finish(&precision));
        let capture = self.observers.capture.take().map_or(Ok(()), Capture::finish);
        ran.and(log).and(capture).map(|()| summary)
    }

    fn forward(
        &mut self,
        stop: &AtomicBool,
        now: &impl Fn() -> u64,
        batch: &mut Batch,
        run: &mut impl FnMut(&str),
    ) -> Result<(), Error> {
        let mut rests = Rests::default();
        while !stop.load(Ordering::Relaxed) {
            let mut more = false;
            let begun = now();
            self.taken = 0;
            self.happen(begun);
            for port in 0..self.ports.len() {
                more |= self.take_in(port, now, batch)?;
                self.hand_on(now)?;
            }
            self.hand_on(now)?;
            for command in self.commands.drain(..) {
                run(&command);
            }
            if more {
                continue;
            }
            if let Some(rest) = rests.next(self.taken, begun) {
                std::thread::sleep(rest);
            } else {
                let due = self.schedule.last().map(|(at, ..)| *at);
                let deadline = self.links.iter().filter_map(Link::next_deadline).chain(due).min();
                let wait =
                    deadline.map_or(LOOK, |at| Duration::from_nanos(at.saturating_sub(now())));
                self.wait(wait.min(LOOK))?;
            }
        }
        Ok(())
    }

    /// Reads from a port. Returns whether there may be more.
    fn take_in(
        &mut self,
        port: usize,
        now: &impl Fn() -> u64,
        batch: &mut Batch,
    ) -> Result<bool, Error> {
        for _ in 0..READS {
            let Some(from) = self.ports.get(port) else { return Ok(false) };
            let Attachment { link, node, .. } = from.attachment;
            let received = from.device.recv_multiple(
                &mut batch.raw,
                &mut batch.pieces,
                &mut batch.sizes,
                VIRTIO_NET_HDR_LEN,
            );
            let count = match received {
                Ok(count) => count,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(false),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                // A packet that cannot be cut is lost: a network card also drops what it does not understand.
                Err(error) if error.raw_os_error().is_none() => continue,
                Err(error) => return Err(Error::DeviceFailed(error)),
            };
            let datagrams = from.device.udp_gso();
            let now = now();
            self.groups += u64::from(count > 1);
            self.taken += 1;
            let pieces = batch.pieces.iter_mut().zip(&batch.sizes).take(count);
            for (index, (piece, size)) in pieces.enumerate() {
                let room = piece.len();
                let spare = self.spare.pop().filter(|spare| spare.len() == room);
                let mut buffer = std::mem::replace(piece, spare.unwrap_or_else(|| vec![0; room]));
                let given = batch.raw.get(..VIRTIO_NET_HDR_LEN).unwrap_or_default();
                if let Some(head) = buffer.get_mut(..given.len()) {
                    head.copy_from_slice(given);
                }
                let piece = Piece::of(given, index, count, self.groups, datagrams);
                let packet = IpPacket { buffer, end: VIRTIO_NET_HDR_LEN + size, to: 0, piece };
                self.enter(port, node, link, packet, now)?;
            }
        }
        Ok(true)
    }

    /// Takes a packet from a host.
    fn enter(
        &mut self,
        port: usize,
        node: usize,
        link: usize,
        mut packet: IpPacket,
        now: u64,
    ) -> Result<(), Error> {
        let Some(facts) = Facts::of_ip(packet.bytes()) else { return Ok(()) };
        // Drop multicast: nobody listens to what hosts announce to all their neighbours.
        let Some(to) = facts.destination.filter(|to| !to.is_multicast()) else { return Ok(()) };
        let found = self.routes.find(to);
        let chosen = found.and_then(|to| self.routes.choose(node, to, Some(link), &facts));
        let (Some(to), Some(link)) = (found, chosen) else {
            self.astray += 1;
            self.recycle(packet);
            return Ok(());
        };
        packet.to = to;
        let copy = self.observers.capture.is_some().then(|| packet.bytes().to_vec());
        let said = self.offer(node, link, packet, now)?;
        if let (Some(bytes), Some(capture)) = (copy, &mut self.observers.capture) {
            capture.packet(port, now, &bytes, &said);
        }
        Ok(())
    }

    /// Offers a packet to a link of a node. Returns the comment for a capture.
    fn offer(
        &mut self,
        node: usize,
        link: usize,
        mut packet: IpPacket,
        now: u64,
    ) -> Result<String, Error> {
        let index = self.way(node, link);
        let Some(link) = self.links.get_mut(index) else { return Ok(String::new()) };
        if link.in_transit() >= MOST_HELD {
            return Ok(String::new());
        }
        if !self.plain.get(index).copied().unwrap_or(false) {
            packet.piece = None;
        }
        link.send(now, packet);
        self.commands.extend(link.take_commands());
        let number = link.stats().offered;
        let lost = self.note(index)?;
        if self.observers.capture.is_none() {
            return Ok(String::new());
        }
        let short = self.ways.get(index).map_or("", |way| way.short.as_str());
        Ok(lost.unwrap_or_else(|| format!("{short} packet {number}")))
    }

    /// Records the fates of packets. Returns the capture's comment for the last one.
    fn note(&mut self, index: usize) -> Result<Option<String>, Error> {
        if !self.records {
            return Ok(None);
        }
        let (Some(link), Some(way)) = (self.links.get_mut(index), self.ways.get(index)) else {
            return Ok(None);
        };
        let mut last: Option<Record> = None;
        for record in link.take_records() {
            if let Some(log) = &mut self.observers.log {
                log.packet(way, &record);
            }
            if let Some(replay) = &mut self.observers.replay {
                replay.compare(index, way, &record)?;
            }
            last = Some(record);
        }
        let wanted = self.observers.capture.is_some();
        Ok(last.filter(|_| wanted).map(|record| comment(way, &record)))
    }

    /// Forwards the packets that have reached the ends of their links.
    fn hand_on(&mut self, now: &impl Fn() -> u64) -> Result<(), Error> {
        for index in 0..self.links.len() {
            if self.links.get(index).is_none_or(|link| link.next_deadline().is_none()) {
                continue;
            }
            let at = now();
            while let Some(link) = self.links.get_mut(index) {
                let due = link.next_arrival();
                let Some(packet) = link.poll(at) else {
                    self.commands.extend(link.take_commands());
                    break;
                };
                if let Some(due) = due {
                    self.late.saturating_record(at.saturating_sub(due).max(1));
                }
                let said = self.note(index)?;
                self.arrive(index, packet, at, said)?;
            }
            self.hand_on_joined();
        }
        Ok(())
    }

    /// Forwards the pieces that have arrived together.
    fn hand_on_joined(&mut self) {
        if let Some((port, bytes)) = self.joiner.take()
            && let Some(port) = self.ports.get(port)
        {
            // A device that is down loses packets, as a cable does.
            let _ = port.device.send(bytes);
        }
    }

    fn arrive(
        &mut self,
        index: usize,
        mut packet: IpPacket,
        now: u64,
        said: Option<String>,
    ) -> Result<(), Error> {
        let link = index / 2;
        let Some(ends) = self.ends.get(link).copied() else { return Ok(()) };
        let node = ends[1 - index % 2];
        if !self.is_host.get(node).copied().unwrap_or(false) {
            let next = Facts::of_ip(packet.bytes())
                .and_then(|facts| self.routes.choose(node, packet.to, None, &facts));
            match next {
                Some(next) if packet.hop() => {
                    if let Some(most) = self.too_big(node, next, &packet) {
                        self.answer(node, link, &packet, Reason::TooBig(most), now)?;
                    }
                    self.offer(node, next, packet, now)?;
                }
                next => {
                    self.astray += 1;
                    if next.is_some() {
                        self.answer(node, link, &packet, Reason::TimeExceeded, now)?;
                    }
                    self.recycle(packet);
                }
            }
            return Ok(());
        }
        // The port of the link that it arrived on, which may not be the port of its address.
        let here = self.routes.attachments.iter().position(|a| a.link == link && a.node == node);
        if let Some(port) = here.and_then(|at| self.port_of.get(at).copied().flatten()) {
            if let (Some(capture), Some(said)) = (&mut self.observers.capture, said) {
                capture.packet(port, now, packet.bytes(), &said);
            }
            self.hand_over(port, &mut packet);
        }
        self.recycle(packet);
        Ok(())
    }

    /// If the packet is too large for a link of a node: the largest packet that the link carries.
    fn too_big(&self, node: usize, link: usize, packet: &IpPacket) -> Option<u16> {
        let config = self.links.get(self.way(node, link))?.config();
        let mtu = config.mtu?.saturating_sub(config.overhead);
        (!config.mtu_blackhole && packet.size() > mtu)
            .then(|| u16::try_from(mtu).unwrap_or(u16::MAX))
    }

    /// Sends a router's answer to a packet that came over a link.
    fn answer(
        &mut self,
        node: usize,
        link: usize,
        packet: &IpPacket,
        reason: Reason,
        now: u64,
    ) -> Result<(), Error> {
        let end = usize::from(self.ends.get(link).is_some_and(|ends| ends[1] == node));
        let own = self.addresses.get(link).map(|addresses| addresses[end]);
        let Some(bytes) = own.and_then(|own| icmp::answer(packet.bytes(), own, reason)) else {
            return Ok(());
        };
        let Some(facts) = Facts::of_ip(&bytes) else { return Ok(()) };
        let to = facts.destination.and_then(|to| self.routes.find(to));
        let next = to.and_then(|to| self.routes.choose(node, to, None, &facts));
        if let (Some(to), Some(next)) = (to, next) {
            let mut buffer = vec![0; VIRTIO_NET_HDR_LEN];
            buffer.extend_from_slice(&bytes);
            let packet = IpPacket { end: buffer.len(), buffer, to, piece: None };
            self.offer(node, next, packet, now)?;
        }
        Ok(())
    }

    /// The direction of a link that leads away from a node.
    fn way(&self, node: usize, link: usize) -> usize {
        2 * link + usize::from(self.ends.get(link).is_some_and(|ends| ends[1] == node))
    }

    /// Sends a packet to a port, or keeps it for those that came with it.
    fn hand_over(&mut self, port: usize, packet: &mut IpPacket) {
        if self.joiner.add(port, packet) {
            return;
        }
        self.hand_on_joined();
        if self.joiner.begin(port, packet) {
            return;
        }
        if let Some(port) = self.ports.get(port) {
            // A device that is down loses packets, as a cable does.
            let _ = port.device.send(packet.with_head());
        }
    }

    fn recycle(&mut self, packet: IpPacket) {
        if self.spare.len() < MOST_SPARE {
            self.spare.push(packet.buffer);
        }
    }

    /// Waits at most `time` for a packet at any device.
    fn wait(&self, time: Duration) -> Result<(), Error> {
        let mut waited: Vec<_> = self
            .ports
            .iter()
            .map(|port| PollFd::new(port.device.as_fd(), PollFlags::POLLIN))
            .collect();
        match ppoll(&mut waited, Some(TimeSpec::from_duration(time)), None) {
            Ok(_) | Err(nix::errno::Errno::EINTR) => Ok(()),
            Err(error) => Err(Error::Wait(error.to_string())),
        }
    }

    fn summary(&self) -> Summary {
        Summary {
            statistics: self.links.iter().map(|link| *link.stats()).collect(),
            astray: self.astray,
            late: (self.late.value_at_quantile(0.5), self.late.value_at_quantile(0.99)),
            cpu: spent(),
            replayed: self.observers.replay.as_ref().map(Replay::counts),
        }
    }
}

/// Processor time of this thread so far in nanoseconds.
fn spent() -> u64 {
    let Ok(usage) = getrusage(UsageWho::RUSAGE_THREAD) else { return 0 };
    let nanos = |time: TimeVal| u64::try_from(time.num_microseconds()).unwrap_or(0) * 1000;
    nanos(usage.user_time()) + nanos(usage.system_time())
}
