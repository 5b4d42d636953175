//! Frames around IP packets, and capture files around frames.

use super::packets::{Timed, checksum, ip4, udp};

/// Wraps an IP packet in a frame; `true` is the reverse direction.
pub(crate) type Wrap = fn(&[u8], bool) -> Vec<u8>;

fn join(parts: &[&[u8]]) -> Vec<u8> {
    parts.concat()
}

fn ether_type(ip: &[u8]) -> [u8; 2] {
    if ip[0] >> 4 == 6 { [0x86, 0xdd] } else { [0x08, 0x00] }
}

fn addresses(back: bool) -> [u8; 12] {
    let (one, other) = ([2, 0, 0, 0, 0, 1], [2, 0, 0, 0, 0, 2]);
    let ends = if back { [one, other] } else { [other, one] };
    ends.concat().try_into().unwrap()
}

/// An Ethernet frame with `head` between the addresses and the packet.
fn ethernet(back: bool, head: &[u8], inner: &[u8]) -> Vec<u8> {
    join(&[&addresses(back), head, inner])
}

fn plain(ip: &[u8], back: bool) -> Vec<u8> {
    ethernet(back, &ether_type(ip), ip)
}

fn cooked(head: &[u8], ip: &[u8], back: bool) -> Vec<u8> {
    let kind = if back { 0 } else { 4 };
    join(&[&[0, kind, 0, 1, 0, 6, 2, 0, 0, 0, 0, 1, 0, 0], head, ip])
}

pub(crate) fn cooked2(device: u8, head: &[u8], ip: &[u8], back: bool) -> Vec<u8> {
    let kind = if back { 0 } else { 4 };
    let rest = [0, 0, 0, 0, 0, device, 0, 1, kind, 6, 2, 0, 0, 0, 0, 1, 0, 0];
    join(&[&head[..2], &rest, &head[2..], ip])
}

/// An IPv4 packet between two tunnel ends.
fn outer(protocol: u8, inner: &[u8], back: bool) -> Vec<u8> {
    let ends = ([192, 0, 2, 1], [192, 0, 2, 2]);
    let ends = if back { (ends.1, ends.0) } else { ends };
    plain(&ip4(ends, protocol, 0, 0x4000, inner), back)
}

fn wifi(ip: &[u8], back: bool) -> Vec<u8> {
    let snap = [0xaa, 0xaa, 3, 0, 0, 0];
    let way = if back { 2 } else { 1 };
    let head = [8, way, 0, 0, 2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 3, 0, 0];
    join(&[&head, &snap, &ether_type(ip), ip])
}

/// Link types and encapsulations of IP with name, number and wrapper.
pub(crate) const LINKS: &[(&str, u32, Wrap)] = &[
    ("ethernet", 1, plain),
    ("ethernet-padded", 1, |ip, back| {
        let mut frame = plain(ip, back);
        frame.resize(frame.len().max(60), 0xaa);
        frame
    }),
    ("ethernet-with-fcs", 0x2400_0001, |ip, back| join(&[&plain(ip, back), &[1, 2, 3, 4]])),
    ("vlan", 1, |ip, back| ethernet(back, &join(&[&[0x81, 0, 0, 200], &ether_type(ip)]), ip)),
    ("qinq", 1, |ip, back| {
        let tags = [0x88, 0xa8, 0, 7, 0x81, 0, 0, 200];
        ethernet(back, &join(&[&tags, &ether_type(ip)]), ip)
    }),
    ("priority-tag", 1, |ip, back| {
        ethernet(back, &join(&[&[0x81, 0, 0x60, 0], &ether_type(ip)]), ip)
    }),
    ("snap", 1, |ip, back| {
        let length = ((8 + ip.len()) as u16).to_be_bytes();
        ethernet(back, &join(&[&length, &[0xaa, 0xaa, 3, 0, 0, 0], &ether_type(ip)]), ip)
    }),
    ("pppoe", 1, |ip, back| {
        let length = ((2 + ip.len()) as u16).to_be_bytes();
        let protocol = if ip[0] >> 4 == 6 { [0, 0x57] } else { [0, 0x21] };
        ethernet(back, &join(&[&[0x88, 0x64, 0x11, 0, 0, 1], &length, &protocol]), ip)
    }),
    ("mpls", 1, |ip, back| ethernet(back, &[0x88, 0x47, 0, 1, 0, 0x40, 0, 2, 1, 0x40], ip)),
    ("cooked", 113, |ip, back| cooked(&ether_type(ip), ip, back)),
    ("cooked-vlan", 113, |ip, back| {
        cooked(&join(&[&[0x81, 0, 0, 200], &ether_type(ip)]), ip, back)
    }),
    ("cooked2", 276, |ip, back| cooked2(2, &ether_type(ip), ip, back)),
    ("cooked2-vlan", 276, |ip, back| {
        cooked2(2, &join(&[&[0x81, 0, 0, 200], &ether_type(ip)]), ip, back)
    }),
    ("null", 0, |ip, _| join(&[&[if ip[0] >> 4 == 6 { 30 } else { 2 }, 0, 0, 0], ip])),
    ("null-big-endian", 0, |ip, _| join(&[&[0, 0, 0, if ip[0] >> 4 == 6 { 30 } else { 2 }], ip])),
    ("loop", 108, |ip, _| join(&[&[0, 0, 0, if ip[0] >> 4 == 6 { 24 } else { 2 }], ip])),
    ("raw", 101, |ip, _| ip.to_vec()),
    ("raw-12", 12, |ip, _| ip.to_vec()),
    ("ppp", 9, |ip, _| join(&[&[0xff, 3, 0, if ip[0] >> 4 == 6 { 0x57 } else { 0x21 }], ip])),
    ("ppp-bare", 9, |ip, _| join(&[&[0, if ip[0] >> 4 == 6 { 0x57 } else { 0x21 }], ip])),
    ("hdlc", 104, |ip, _| join(&[&[0x0f, 0], &ether_type(ip), ip])),
    ("wifi", 105, wifi),
    ("radiotap", 127, |ip, back| join(&[&[0, 0, 8, 0, 0, 0, 0, 0], &wifi(ip, back)])),
    ("vxlan", 1, |ip, back| {
        let head = [8, 0, 0, 0, 0, 0, 77, 0];
        outer(17, &udp(50_000, 4789, &join(&[&head, &plain(ip, back)])), back)
    }),
    ("geneve", 1, |ip, back| {
        let head = [0, 0, 0x65, 0x58, 0, 0, 77, 0];
        outer(17, &udp(50_000, 6081, &join(&[&head, &plain(ip, back)])), back)
    }),
    ("gre", 1, |ip, back| outer(47, &join(&[&[0, 0], &ether_type(ip), ip]), back)),
    ("gre-key", 1, |ip, back| {
        outer(47, &join(&[&[0x20, 0], &ether_type(ip), &[0, 0, 0, 9], ip]), back)
    }),
    ("gre-ethernet", 1, |ip, back| {
        outer(47, &join(&[&[0, 0, 0x65, 0x58], &plain(ip, back)]), back)
    }),
    ("ip-in-ip", 1, |ip, back| outer(if ip[0] >> 4 == 6 { 41 } else { 4 }, ip, back)),
    ("gtp-u", 1, |ip, back| {
        let length = (ip.len() as u16).to_be_bytes();
        // Each direction has its own tunnel.
        let head = join(&[&[0x30, 0xff], &length, &[0, 0, 0, if back { 8 } else { 7 }]]);
        outer(17, &udp(2152, 2152, &join(&[&head, ip])), back)
    }),
    ("ah", 1, |ip, back| {
        let head = [if ip[0] >> 4 == 6 { 41 } else { 4 }, 4, 0, 0, 0, 0, 0, 1, 0, 0, 0, 1];
        outer(51, &join(&[&head, &[0; 12], ip]), back)
    }),
];

/// A frame in a capture: time in microseconds, interface, bytes, and captured length.
pub(crate) struct Frame {
    pub(crate) time: u64,
    pub(crate) interface: u32,
    pub(crate) bytes: Vec<u8>,
    pub(crate) captured: usize,
}

/// Packets in frames.
pub(crate) fn frames(packets: &[Timed], wrap: Wrap) -> Vec<Frame> {
    let frame = |(time, back, ip): &Timed| {
        let bytes = wrap(ip, *back);
        Frame { time: *time, interface: 0, captured: bytes.len(), bytes }
    };
    packets.iter().map(frame).collect()
}

/// A file of pcap.
pub(crate) fn pcap(link: u32, frames: &[Frame]) -> Vec<u8> {
    let mut file = Vec::new();
    for field in [0xa1b2_c3d4, 0x0004_0002, 0, 0, 262_144, link] {
        file.extend(u32::to_le_bytes(field));
    }
    for frame in frames {
        let fields = [
            frame.time / 1_000_000,
            frame.time % 1_000_000,
            frame.captured as u64,
            frame.bytes.len() as u64,
        ];
        fields.iter().for_each(|field| file.extend((*field as u32).to_le_bytes()));
        file.extend(&frame.bytes[..frame.captured]);
    }
    file
}

/// A pcapng file in either byte order.
pub(crate) struct Ng {
    pub(crate) file: Vec<u8>,
    big: bool,
}

impl Ng {
    pub(crate) fn new(big: bool, links: &[u32]) -> Self {
        let mut ng = Self { file: Vec::new(), big };
        ng.section(big, links);
        ng
    }

    /// Adds a section, whose interfaces are numbered from 0.
    pub(crate) fn section(&mut self, big: bool, links: &[u32]) {
        self.big = big;
        let length = [self.u32(u32::MAX), self.u32(u32::MAX)].concat();
        let body = [self.u32(0x1a2b_3c4d), self.u16(1), self.u16(0), length].concat();
        self.block(0x0a0d_0d0a, &body);
        links.iter().for_each(|link| self.interface(*link, &[]));
    }

    pub(crate) fn interface(&mut self, link: u32, options: &[u8]) {
        let body =
            [self.u16(link as u16), self.u16(0), self.u32(262_144), options.to_vec()].concat();
        self.block(1, &body);
    }

    fn u16(&self, value: u16) -> Vec<u8> {
        if self.big { value.to_be_bytes().to_vec() } else { value.to_le_bytes().to_vec() }
    }

    fn u32(&self, value: u32) -> Vec<u8> {
        if self.big { value.to_be_bytes().to_vec() } else { value.to_le_bytes().to_vec() }
    }

    pub(crate) fn block(&mut self, kind: u32, body: &[u8]) {
        let mut body = body.to_vec();
        body.resize(body.len().next_multiple_of(4), 0);
        let length = self.u32(12 + body.len() as u32);
        let block = [self.u32(kind), length.clone(), body, length].concat();
        self.file.extend(block);
    }

    fn times(&self, frame: &Frame) -> Vec<u8> {
        let lengths = [frame.captured as u32, frame.bytes.len() as u32];
        let fields = [(frame.time >> 32) as u32, frame.time as u32, lengths[0], lengths[1]];
        let mut body: Vec<u8> = fields.iter().flat_map(|field| self.u32(*field)).collect();
        body.extend(&frame.bytes[..frame.captured]);
        body
    }

    pub(crate) fn enhanced(&mut self, frame: &Frame) {
        let body = [self.u32(frame.interface), self.times(frame)].concat();
        self.block(6, &body);
    }

    /// The packet block that preceded the enhanced one.
    pub(crate) fn old(&mut self, frame: &Frame) {
        let body = [self.u16(frame.interface as u16), self.u16(0), self.times(frame)].concat();
        self.block(2, &body);
    }

    pub(crate) fn simple(&mut self, frame: &Frame) {
        let body = [self.u32(frame.bytes.len() as u32), frame.bytes.clone()].concat();
        self.block(3, &body);
    }
}

/// Sets the total length of IPv4 packets to 0, as before segmentation by the interface.
pub(crate) fn without_length(packets: &mut [Timed]) {
    for (_, _, ip) in packets.iter_mut().filter(|(_, _, ip)| ip.len() > 100) {
        ip[2..4].copy_from_slice(&[0, 0]);
        ip[10..12].copy_from_slice(&[0, 0]);
        let sum = checksum(&ip[..20]).to_be_bytes();
        ip[10..12].copy_from_slice(&sum);
    }
}
