//! TCP and SCTP packets, and the IP packets around them.

use std::net::IpAddr;

/// Time in microseconds, whether it goes back, and the IP packet.
pub(crate) type Timed = (u64, bool, Vec<u8>);

const MS: u64 = 1000;
const FIN: u8 = 1;
const SYN: u8 = 2;
const ACK: u8 = 16;

pub(crate) fn checksum(bytes: &[u8]) -> u16 {
    let words = bytes
        .chunks(2)
        .map(|pair| u32::from(pair[0]) << 8 | pair.get(1).map_or(0, |low| u32::from(*low)));
    let sum: u32 = words.sum();
    let sum = (sum & 0xffff) + (sum >> 16);
    !((sum & 0xffff) + (sum >> 16)) as u16
}

/// An IPv4 packet; `flags` also contains the fragment offset.
pub(crate) fn ip4(
    ends: ([u8; 4], [u8; 4]),
    protocol: u8,
    id: u16,
    flags: u16,
    inner: &[u8],
) -> Vec<u8> {
    let mut packet = vec![0x45, 0];
    packet.extend(((20 + inner.len()) as u16).to_be_bytes());
    packet.extend(id.to_be_bytes());
    packet.extend(flags.to_be_bytes());
    packet.extend([64, protocol, 0, 0]);
    packet.extend(ends.0);
    packet.extend(ends.1);
    let sum = checksum(&packet).to_be_bytes();
    packet[10..12].copy_from_slice(&sum);
    packet.extend(inner);
    packet
}

/// An IPv6 packet; `inner` begins with the header given by `next`.
pub(crate) fn ip6(ends: ([u8; 16], [u8; 16]), next: u8, inner: &[u8]) -> Vec<u8> {
    let mut packet = vec![0x60, 0, 0, 0];
    packet.extend((inner.len() as u16).to_be_bytes());
    packet.extend([next, 64]);
    packet.extend(ends.0);
    packet.extend(ends.1);
    packet.extend(inner);
    packet
}

pub(crate) fn udp(from: u16, to: u16, inner: &[u8]) -> Vec<u8> {
    let mut datagram = Vec::new();
    for field in [from, to, (8 + inner.len()) as u16, 0] {
        datagram.extend(field.to_be_bytes());
    }
    datagram.extend(inner);
    datagram
}

/// Two hosts that talk to each other.
pub(crate) struct Talk {
    pub(crate) packets: Vec<Timed>,
    pub(crate) now: u64,
    pub(crate) hosts: [IpAddr; 2],
    /// The UDP ports of encapsulated SCTP.
    pub(crate) udp: Option<(u16, u16)>,
    ids: [u16; 2],
}

impl Talk {
    pub(crate) fn new(v6: bool) -> Self {
        let hosts: [IpAddr; 2] = match v6 {
            false => [[10, 0, 0, 1].into(), [10, 0, 0, 2].into()],
            true => ["fd00::1".parse().unwrap(), "fd00::2".parse().unwrap()],
        };
        Self { packets: Vec::new(), now: 1_000_000_000, hosts, udp: None, ids: [100, 9000] }
    }

    pub(crate) fn wait(&mut self, ms: u64) {
        self.now += ms * MS;
    }

    pub(crate) fn ip(&mut self, back: bool, protocol: u8, inner: &[u8]) {
        let (from, to) =
            if back { (self.hosts[1], self.hosts[0]) } else { (self.hosts[0], self.hosts[1]) };
        let id = &mut self.ids[usize::from(back)];
        *id = id.wrapping_add(1);
        let packet = match (from, to) {
            (IpAddr::V4(from), IpAddr::V4(to)) => {
                ip4((from.octets(), to.octets()), protocol, *id, 0x4000, inner)
            }
            (IpAddr::V6(from), IpAddr::V6(to)) => {
                ip6((from.octets(), to.octets()), protocol, inner)
            }
            _ => unreachable!("hosts have addresses of one family"),
        };
        self.packets.push((self.now, back, packet));
    }
}

/// A connection; numbers are relative to its initial ones.
pub(crate) struct Tcp {
    pub(crate) talk: Talk,
    pub(crate) ports: (u16, u16),
    pub(crate) initial: (u32, u32),
    /// The next byte, from 0.
    pub(crate) next: u32,
    pub(crate) options: Vec<u8>,
}

impl Tcp {
    pub(crate) fn new(talk: Talk) -> Self {
        Self { talk, ports: (40_000, 80), initial: (1000, 5000), next: 0, options: Vec::new() }
    }

    /// A segment from the client or the server; `at` counts bytes, and -1 is the SYN.
    pub(crate) fn segment(
        &mut self,
        back: bool,
        flags: u8,
        at: i64,
        ack: i64,
        window: u16,
        data: &[u8],
    ) {
        let (ports, initial) = match back {
            false => (self.ports, self.initial),
            true => ((self.ports.1, self.ports.0), (self.initial.1, self.initial.0)),
        };
        let number = |initial: u32, at: i64| initial.wrapping_add(1).wrapping_add(at as u32);
        let mut segment = Vec::new();
        segment.extend(ports.0.to_be_bytes());
        segment.extend(ports.1.to_be_bytes());
        segment.extend(number(initial.0, at).to_be_bytes());
        let ack = if flags & ACK == 0 { 0 } else { number(initial.1, ack) };
        segment.extend(ack.to_be_bytes());
        segment.extend([((20 + self.options.len()) as u8 / 4) << 4, flags]);
        segment.extend(window.to_be_bytes());
        segment.extend([0; 4]);
        segment.extend(&self.options);
        segment.extend(data);
        self.talk.ip(back, 6, &segment);
    }

    pub(crate) fn open(&mut self) {
        self.segment(false, SYN, -1, 0, 65_535, &[]);
        self.talk.wait(20);
        self.segment(true, SYN | ACK, -1, 0, 65_535, &[]);
        self.segment(false, ACK, 0, 0, 65_535, &[]);
    }

    /// Data at an offset.
    pub(crate) fn data(&mut self, at: u32, length: usize) {
        self.segment(false, ACK | 8, i64::from(at), 0, 65_535, &vec![b'x'; length]);
    }

    pub(crate) fn ack(&mut self, at: u32, window: u16) {
        self.segment(true, ACK, 0, i64::from(at), window, &[]);
    }

    /// Segments of 100 bytes, each with its acknowledgement.
    pub(crate) fn send(&mut self, segments: u32) {
        for _ in 0..segments {
            self.data(self.next, 100);
            self.next += 100;
            self.talk.wait(20);
            self.ack(self.next, 65_535);
            self.talk.wait(1);
        }
    }

    /// A segment that is lost after the point of capture, and retransmitted after duplicate
    /// acknowledgements.
    pub(crate) fn lose(&mut self) {
        let at = self.next;
        for n in 0..5 {
            self.data(at + n * 100, 100);
        }
        self.talk.wait(20);
        for _ in 0..4 {
            self.ack(at, 65_535);
        }
        self.data(at, 100);
        self.talk.wait(20);
        self.next = at + 500;
        self.ack(self.next, 65_535);
        self.talk.wait(1);
    }

    /// A segment that is lost without duplicate acknowledgements, so its timer expires.
    pub(crate) fn time_out(&mut self) {
        self.data(self.next, 100);
        self.talk.wait(1000);
        self.send(1);
    }

    /// A keep-alive, with or without the previous byte.
    pub(crate) fn keep_alive(&mut self, bytes: usize) {
        self.talk.wait(60_000);
        self.segment(false, ACK, i64::from(self.next) - 1, 0, 65_535, &vec![0; bytes]);
        self.talk.wait(20);
        self.ack(self.next, 65_535);
    }

    /// The window closes, is probed with a byte of new data, and opens.
    pub(crate) fn probe(&mut self, times: u32) {
        self.send(1);
        self.data(self.next, 100);
        self.next += 100;
        self.talk.wait(20);
        self.ack(self.next, 0);
        for n in 0..times {
            self.talk.wait(300 << n);
            self.data(self.next, 1);
            self.talk.wait(20);
            self.ack(self.next, 0);
        }
        self.talk.wait(100);
        self.ack(self.next, 65_535);
        self.talk.wait(20);
        self.send(2);
    }

    pub(crate) fn close(&mut self) {
        let next = i64::from(self.next);
        self.segment(false, FIN | ACK, next, 0, 65_535, &[]);
        self.talk.wait(20);
        self.segment(true, FIN | ACK, 0, next + 1, 65_535, &[]);
        self.segment(false, ACK, next + 1, 1, 65_535, &[]);
        self.talk.wait(100);
    }

    /// A connection with all of these.
    pub(crate) fn whole(mut self) -> Vec<Timed> {
        self.open();
        self.send(4);
        self.lose();
        self.time_out();
        self.keep_alive(0);
        self.keep_alive(1);
        self.probe(3);
        self.close();
        self.talk.packets
    }
}

/// An association.
pub(crate) struct Sctp {
    pub(crate) talk: Talk,
    pub(crate) ports: (u16, u16),
    pub(crate) tags: (u32, u32),
    pub(crate) next: u32,
    /// User bytes per chunk.
    pub(crate) size: usize,
}

pub(crate) fn chunk(kind: u8, flags: u8, body: &[u8]) -> Vec<u8> {
    let mut chunk = vec![kind, flags];
    chunk.extend(((4 + body.len()) as u16).to_be_bytes());
    chunk.extend(body);
    chunk.resize(chunk.len().next_multiple_of(4), 0);
    chunk
}

fn crc32c(bytes: &[u8]) -> u32 {
    let step = |crc: u32, byte: &u8| {
        (0..8).fold(crc ^ u32::from(*byte), |crc, _| {
            (crc >> 1) ^ (0x82f6_3b78 & (crc & 1).wrapping_neg())
        })
    };
    !bytes.iter().fold(u32::MAX, step)
}

impl Sctp {
    pub(crate) fn new(talk: Talk) -> Self {
        Self {
            talk,
            ports: (3868, 3868),
            tags: (0x1234_5678, 0x8765_4321),
            next: 3_000_000_000,
            size: 100,
        }
    }

    pub(crate) fn packet(&mut self, back: bool, tag: u32, chunks: &[Vec<u8>]) {
        let ports = if back { (self.ports.1, self.ports.0) } else { self.ports };
        let mut packet = Vec::new();
        packet.extend(ports.0.to_be_bytes());
        packet.extend(ports.1.to_be_bytes());
        packet.extend(tag.to_be_bytes());
        packet.extend([0; 4]);
        packet.extend(chunks.concat());
        let sum = crc32c(&packet).to_le_bytes();
        packet[8..12].copy_from_slice(&sum);
        match self.talk.udp {
            None => self.talk.ip(back, 132, &packet),
            Some((from, to)) => {
                let (from, to) = if back { (to, from) } else { (from, to) };
                self.talk.ip(back, 17, &udp(from, to, &packet));
            }
        }
    }

    /// A packet from the client or the server, with the other side's tag.
    pub(crate) fn say(&mut self, back: bool, chunks: &[Vec<u8>]) {
        let tag = if back { self.tags.0 } else { self.tags.1 };
        self.packet(back, tag, chunks);
    }

    pub(crate) fn init(&self, kind: u8, tag: u32, tsn: u32, more: &[u8]) -> Vec<u8> {
        let mut body = tag.to_be_bytes().to_vec();
        body.extend(65_536_u32.to_be_bytes());
        body.extend([0, 10, 0, 10]);
        body.extend(tsn.to_be_bytes());
        body.extend(more);
        chunk(kind, 0, &body)
    }

    pub(crate) fn open(&mut self) {
        self.open_at([&[], &[]]);
    }

    /// The handshake, with the address parameters of both sides.
    pub(crate) fn open_at(&mut self, addresses: [&[u8]; 2]) {
        self.packet(false, 0, &[self.init(1, self.tags.0, self.next, addresses[0])]);
        self.talk.wait(20);
        let more = [addresses[1], &[0, 7, 0, 8, b'c', b'o', b'o', b'k']].concat();
        self.say(true, &[self.init(2, self.tags.1, 50, &more)]);
        self.say(false, &[chunk(10, 0, b"cook")]);
        self.talk.wait(20);
        self.say(true, &[chunk(11, 0, &[])]);
        self.talk.wait(20);
    }

    pub(crate) fn chunk(&self, tsn: u32) -> Vec<u8> {
        let mut body = tsn.to_be_bytes().to_vec();
        body.extend([0; 8]);
        body.extend(vec![b'x'; self.size]);
        chunk(0, 3, &body)
    }

    pub(crate) fn data(&mut self, tsn: u32) {
        self.say(false, &[self.chunk(tsn)]);
    }

    pub(crate) fn sack(&mut self, cumulative: u32, window: u32, gaps: &[(u16, u16)]) {
        let mut body = cumulative.to_be_bytes().to_vec();
        body.extend(window.to_be_bytes());
        body.extend((gaps.len() as u16).to_be_bytes());
        body.extend([0, 0]);
        for (from, to) in gaps {
            body.extend(from.to_be_bytes());
            body.extend(to.to_be_bytes());
        }
        self.say(true, &[chunk(3, 0, &body)]);
    }

    pub(crate) fn send(&mut self, chunks: u32) {
        for _ in 0..chunks {
            self.data(self.next);
            self.talk.wait(20);
            self.sack(self.next, 65_536, &[]);
            self.next = self.next.wrapping_add(1);
            self.talk.wait(5);
        }
    }

    /// A chunk that is lost after the point of capture, and retransmitted after gap reports.
    pub(crate) fn lose(&mut self) {
        let lost = self.next;
        for n in 0..4 {
            self.data(lost.wrapping_add(n));
        }
        self.talk.wait(20);
        for n in 2..5 {
            self.sack(lost.wrapping_sub(1), 65_536, &[(2, n)]);
        }
        self.data(lost);
        self.talk.wait(20);
        self.next = lost.wrapping_add(4);
        self.sack(lost.wrapping_add(3), 65_536, &[]);
        self.talk.wait(5);
    }

    pub(crate) fn time_out(&mut self) {
        self.data(self.next);
        self.talk.wait(1000);
        self.send(1);
    }

    pub(crate) fn close(&mut self) {
        self.say(false, &[chunk(7, 0, &49_u32.to_be_bytes())]);
        self.talk.wait(20);
        self.say(true, &[chunk(8, 0, &[])]);
        self.say(false, &[chunk(14, 0, &[])]);
        self.talk.wait(100);
    }

    pub(crate) fn whole(mut self) -> Vec<Timed> {
        self.open();
        self.send(4);
        self.lose();
        self.time_out();
        self.send(2);
        self.close();
        self.talk.packets
    }
}
