//! Generates a capture of TCP at a receiving host: concurrent connections with repaired losses and overtaken packets.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;

/// Number of concurrent connections.
const OPEN: usize = 32;
/// Number of data segments per connection.
const SEGMENTS: u32 = 800;
const SEGMENT: usize = 1448;
/// One in this many data segments is lost, and one in this many is overtaken by two others.
const RARELY: u64 = 100;
/// Number of segments between a loss and its retransmission.
const REPAIR: usize = 20;
/// Time between two packets of the capture in nanoseconds.
const STEP: u64 = 10_000;

const SYN: u8 = 2;
const ACK: u8 = 16;

/// Writes a capture of about `bytes` bytes; returns the actual number.
pub(crate) fn generate(path: &Path, bytes: u64) -> io::Result<u64> {
    let mut out = Output {
        file: BufWriter::with_capacity(1 << 20, File::create(path)?),
        block: Vec::new(),
        packet: Vec::new(),
        time: 1_700_000_000_000_000_000,
        written: 0,
        random: 0x9e37_79b9_7f4a_7c15,
    };
    anabranch_pcapng::section_header(&mut out.block);
    anabranch_pcapng::interface_description(&mut out.block, "generated");
    out.put()?;
    let mut ports = (1024..=u16::MAX).cycle();
    let mut open: Vec<Connection> = Vec::new();
    while out.written < bytes {
        while open.len() < OPEN {
            let connection = Connection::new(ports.next().unwrap_or(1024));
            connection.begin(&mut out)?;
            open.push(connection);
        }
        for connection in &mut open {
            connection.step(&mut out)?;
        }
        open.retain(|connection| connection.sent < SEGMENTS);
    }
    out.file.flush()?;
    Ok(out.written)
}

/// A file that is being written.
struct Output {
    file: BufWriter<File>,
    block: Vec<u8>,
    packet: Vec<u8>,
    time: u64,
    written: u64,
    random: u64,
}

impl Output {
    fn put(&mut self) -> io::Result<()> {
        self.file.write_all(&self.block)?;
        self.written += self.block.len() as u64;
        self.block.clear();
        Ok(())
    }

    /// Returns true for one in `many` calls, at random (xorshift).
    fn once_in(&mut self, many: u64) -> bool {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        self.random.is_multiple_of(many)
    }
}

/// A segment of a connection.
struct Segment {
    sequence: u32,
    identification: u16,
}

struct Connection {
    port: u16,
    /// Number of data segments sent for the first time.
    sent: u32,
    identification: u16,
    /// Segments that arrive later, each with the number of segments that arrive before it.
    later: VecDeque<(usize, Segment)>,
    /// The first missing segment, and the segments that have arrived after it.
    missing: u32,
    beyond: Vec<u32>,
}

impl Connection {
    fn new(port: u16) -> Self {
        Self {
            port,
            sent: 0,
            identification: port,
            later: VecDeque::new(),
            missing: 0,
            beyond: Vec::new(),
        }
    }

    fn begin(&self, out: &mut Output) -> io::Result<()> {
        self.write(out, true, SYN, 0, 0, 0, 0)?;
        self.write(out, false, SYN | ACK, 0, 1, 0, 0)?;
        self.write(out, true, ACK, 1, 1, 1, 0)
    }

    /// Sends the next segment, and delivers those that are due.
    fn step(&mut self, out: &mut Output) -> io::Result<()> {
        let sequence = self.sent;
        self.sent += 1;
        let segment = Segment { sequence, identification: self.next() };
        for (wait, _) in &mut self.later {
            *wait -= 1;
        }
        if out.once_in(RARELY) {
            // Lost; the retransmission is sent when it is due.
            let again = Segment { sequence, identification: 0 };
            self.later.push_back((REPAIR, again));
        } else if out.once_in(RARELY) {
            self.later.push_back((2, segment));
        } else {
            self.arrive(out, &segment)?;
        }
        while let Some(at) = self.later.iter().position(|(wait, _)| *wait == 0) {
            if let Some((_, mut segment)) = self.later.remove(at) {
                if segment.identification == 0 {
                    segment.identification = self.next();
                }
                self.arrive(out, &segment)?;
            }
        }
        Ok(())
    }

    fn next(&mut self) -> u16 {
        self.identification = self.identification.checked_add(1).unwrap_or(1);
        self.identification
    }

    /// Delivers a data segment. Every second one is acknowledged, and each one immediately while something is missing.
    fn arrive(&mut self, out: &mut Output, segment: &Segment) -> io::Result<()> {
        let sequence = 1 + segment.sequence * SEGMENT as u32;
        self.write(out, true, ACK, sequence, 1, segment.identification, SEGMENT)?;
        self.beyond.push(segment.sequence);
        while let Some(at) = self.beyond.iter().position(|number| *number == self.missing) {
            self.beyond.swap_remove(at);
            self.missing += 1;
        }
        if !self.beyond.is_empty() || segment.sequence % 2 == 1 {
            let acknowledged = 1 + self.missing * SEGMENT as u32;
            self.write(out, false, ACK, 1, acknowledged, 0, 0)?;
        }
        Ok(())
    }

    #[expect(clippy::too_many_arguments, reason = "they are the fields of the headers")]
    fn write(
        &self,
        out: &mut Output,
        to_server: bool,
        flags: u8,
        sequence: u32,
        acknowledged: u32,
        identification: u16,
        payload: usize,
    ) -> io::Result<()> {
        out.time += STEP;
        let stamp = (out.time / 1_000_000) as u32;
        let mut packet = std::mem::take(&mut out.packet);
        packet.clear();
        let size = (20 + 32 + payload) as u16;
        packet.extend_from_slice(&[0x45, 0]);
        packet.extend_from_slice(&size.to_be_bytes());
        packet.extend_from_slice(&identification.to_be_bytes());
        packet.extend_from_slice(&[0x40, 0, 64, 6, 0, 0]);
        let addresses = [[10, 0, 0, 1], [10, 0, 0, 2]];
        let ports = [self.port, 80];
        let from = usize::from(!to_server);
        packet.extend_from_slice(&addresses[from]);
        packet.extend_from_slice(&addresses[1 - from]);
        packet.extend_from_slice(&ports[from].to_be_bytes());
        packet.extend_from_slice(&ports[1 - from].to_be_bytes());
        packet.extend_from_slice(&sequence.to_be_bytes());
        packet.extend_from_slice(&acknowledged.to_be_bytes());
        packet.extend_from_slice(&[0x80, flags, 0xff, 0xff, 0, 0, 0, 0]);
        // Two NOPs, then timestamps.
        packet.extend_from_slice(&[1, 1, 8, 10]);
        packet.extend_from_slice(&stamp.to_be_bytes());
        packet.extend_from_slice(&stamp.wrapping_sub(20).to_be_bytes());
        packet.resize(packet.len() + payload, 0x5a);
        anabranch_pcapng::raw_packet(&mut out.block, 0, out.time, &packet, "");
        out.packet = packet;
        out.put()
    }
}
