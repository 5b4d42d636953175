//! Packet captures in pcapng format.
//!
//! Packets are raw IP (link type 101) with synthesised IP headers and, over UDP, UDP headers, so that Wireshark
//! shows addresses, ports and the SCTP packet within. A thread writes the file, so that a slow
//! disk does not slow the transport; what it cannot keep up with is left out, and a full disk
//! ends the capture.

use std::fs::File;
use std::io::{self, Write};
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anabranch_proto::{Ecn, Encapsulation, Instant};
use etherparse::{IpNumber, Ipv4Header, Ipv6FlowLabel, Ipv6Header, UdpHeader};

/// Bytes collected before they are handed to the writing thread.
const CHUNK: usize = 64 * 1024;

/// Bytes that may wait for the disk; packets beyond are left out.
const MOST_WAITING: usize = 64 << 20;

/// Block types of pcapng.
const SECTION_HEADER: u32 = 0x0a0d_0d0a;
const INTERFACE_DESCRIPTION: u32 = 1;
const ENHANCED_PACKET: u32 = 6;

/// Link type of packets that start with their IP header.
const LINKTYPE_RAW: u16 = 101;

/// A capture in progress.
#[derive(Debug)]
pub(crate) struct Capture {
    encapsulation: Encapsulation,
    pending: Vec<u8>,
    /// Added to the engine's time to get nanoseconds since 1970.
    epoch: u64,
    chunks: Option<Sender<Vec<u8>>>,
    progress: Arc<Progress>,
    writer: Option<JoinHandle<()>>,
    left_out: u64,
}

#[derive(Debug, Default)]
struct Progress {
    waiting: AtomicUsize,
    failed: AtomicBool,
}

impl Capture {
    /// Creates the file. The wall clock is the time of day at the instant beside it.
    pub(crate) fn create(
        path: &Path,
        encapsulation: Encapsulation,
        (wall_clock, now): (SystemTime, Instant),
    ) -> io::Result<Self> {
        let mut file = File::create(path)?;
        let mut head = Vec::with_capacity(64);
        section_header(&mut head);
        interface_description(&mut head);
        file.write_all(&head)?;
        let since_1970 = wall_clock.duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO);
        let (chunks, received) = channel();
        let progress = Arc::<Progress>::default();
        let name = path.display().to_string();
        let shared = progress.clone();
        let writer = std::thread::Builder::new()
            .name("pcapng".into())
            .spawn(move || write_chunks(&name, file, &received, &shared))?;
        Ok(Self {
            encapsulation,
            pending: Vec::with_capacity(CHUNK),
            epoch: u64::try_from(since_1970.as_nanos()).unwrap_or(0).saturating_sub(now.as_nanos()),
            chunks: Some(chunks),
            progress,
            writer: Some(writer),
            left_out: 0,
        })
    }

    /// Adds datagrams of equal size that were sent or received together.
    pub(crate) fn datagrams(
        &mut self,
        now: Instant,
        from: SocketAddr,
        to: SocketAddr,
        ecn: Option<Ecn>,
        segment_size: usize,
        contents: &[u8],
    ) {
        if self.progress.failed.load(Ordering::Relaxed) {
            return;
        }
        for payload in contents.chunks(segment_size.max(1)) {
            if self.progress.waiting.load(Ordering::Relaxed) > MOST_WAITING {
                self.left_out += 1;
                continue;
            }
            let time = self.epoch.saturating_add(now.as_nanos());
            let headers = Headers { encapsulation: self.encapsulation, from, to, ecn };
            packet(&mut self.pending, time, &headers, payload);
            if self.pending.len() >= CHUNK {
                self.flush();
            }
        }
    }

    /// Hands what was collected to the writing thread.
    pub(crate) fn flush(&mut self) {
        if self.pending.is_empty() {
            return;
        }
        let chunk = std::mem::replace(&mut self.pending, Vec::with_capacity(CHUNK));
        self.progress.waiting.fetch_add(chunk.len(), Ordering::Relaxed);
        // The thread ends before us only when it has said why.
        if let Some(chunks) = &self.chunks {
            let _ = chunks.send(chunk);
        }
    }
}

impl Drop for Capture {
    fn drop(&mut self) {
        self.flush();
        self.chunks = None;
        if let Some(writer) = self.writer.take() {
            let _ = writer.join();
        }
        if self.left_out > 0 {
            tracing::warn!(packets = self.left_out, "the disk was too slow for the capture");
        }
    }
}

fn write_chunks(name: &str, mut file: File, chunks: &Receiver<Vec<u8>>, progress: &Progress) {
    for chunk in chunks {
        if let Err(error) = file.write_all(&chunk) {
            tracing::warn!(file = name, %error, "the capture ends here");
            progress.failed.store(true, Ordering::Relaxed);
            return;
        }
        progress.waiting.fetch_sub(chunk.len(), Ordering::Relaxed);
    }
}

/// Appends a block with its lengths; `body` yields its inside.
fn block(out: &mut Vec<u8>, kind: u32, body: impl FnOnce(&mut Vec<u8>)) {
    let start = out.len();
    out.extend_from_slice(&kind.to_le_bytes());
    out.extend_from_slice(&[0; 4]);
    body(out);
    pad(out, start);
    let length = u32::try_from(out.len() - start + 4).unwrap_or(u32::MAX).to_le_bytes();
    out.extend_from_slice(&length);
    if let Some(field) = out.get_mut(start + 4..start + 8) {
        field.copy_from_slice(&length);
    }
}

/// Pads with zeros to a multiple of 4 bytes from `start`.
fn pad(out: &mut Vec<u8>, start: usize) {
    let length = out.len() - start;
    out.resize(start + length.next_multiple_of(4), 0);
}

fn section_header(out: &mut Vec<u8>) {
    block(out, SECTION_HEADER, |out| {
        out.extend_from_slice(&0x1a2b_3c4d_u32.to_le_bytes());
        out.extend_from_slice(&1_u16.to_le_bytes());
        out.extend_from_slice(&0_u16.to_le_bytes());
        // The section's length is not given.
        out.extend_from_slice(&u64::MAX.to_le_bytes());
    });
}

fn interface_description(out: &mut Vec<u8>) {
    block(out, INTERFACE_DESCRIPTION, |out| {
        out.extend_from_slice(&LINKTYPE_RAW.to_le_bytes());
        out.extend_from_slice(&[0; 2]);
        // No limit to the packets' length.
        out.extend_from_slice(&0_u32.to_le_bytes());
        // if_tsresol: nanoseconds.
        out.extend_from_slice(&9_u16.to_le_bytes());
        out.extend_from_slice(&1_u16.to_le_bytes());
        out.extend_from_slice(&[9, 0, 0, 0]);
        // opt_endofopt.
        out.extend_from_slice(&[0; 4]);
    });
}

fn packet(out: &mut Vec<u8>, time: u64, headers: &Headers, payload: &[u8]) {
    block(out, ENHANCED_PACKET, |out| {
        out.extend_from_slice(&0_u32.to_le_bytes());
        let [high, low] = [time >> 32, time & u64::from(u32::MAX)];
        for half in [high, low] {
            out.extend_from_slice(&u32::try_from(half).unwrap_or(0).to_le_bytes());
        }
        let lengths = out.len();
        out.extend_from_slice(&[0; 8]);
        let start = out.len();
        headers.write(out, payload);
        out.extend_from_slice(payload);
        let length = u32::try_from(out.len() - start).unwrap_or(u32::MAX).to_le_bytes();
        if let Some(field) = out.get_mut(lengths..lengths + 8) {
            let (captured, original) = field.split_at_mut(4);
            captured.copy_from_slice(&length);
            original.copy_from_slice(&length);
        }
    });
}

/// What the headers before an SCTP packet say.
struct Headers {
    encapsulation: Encapsulation,
    from: SocketAddr,
    to: SocketAddr,
    ecn: Option<Ecn>,
}

impl Headers {
    /// Appends the IP header, and the UDP header if there is one.
    fn write(&self, out: &mut Vec<u8>, payload: &[u8]) {
        const HOPS: u8 = 64;
        let ecn = self.ecn.map_or(0, Ecn::bits);
        let (protocol, header) = match self.encapsulation {
            Encapsulation::Udp => (IpNumber::UDP, UdpHeader::LEN),
            Encapsulation::Ip => (IpNumber::SCTP, 0),
        };
        let length = u16::try_from(header + payload.len()).unwrap_or(u16::MAX);
        let (source, destination) = (self.from.port(), self.to.port());
        let udp = match (self.from, self.to) {
            (SocketAddr::V4(from), SocketAddr::V4(to)) => {
                let addresses = (from.ip().octets(), to.ip().octets());
                let Ok(mut ip) = Ipv4Header::new(length, HOPS, protocol, addresses.0, addresses.1)
                else {
                    return;
                };
                ip.dont_fragment = true;
                ip.ecn = etherparse::IpEcn::try_new(ecn).unwrap_or_default();
                ip.header_checksum = ip.calc_header_checksum();
                out.extend_from_slice(&ip.to_bytes());
                UdpHeader::with_ipv4_checksum(source, destination, &ip, payload)
            }
            (SocketAddr::V6(from), SocketAddr::V6(to)) => {
                let ip = Ipv6Header {
                    traffic_class: ecn,
                    flow_label: Ipv6FlowLabel::default(),
                    payload_length: length,
                    next_header: protocol,
                    hop_limit: HOPS,
                    source: from.ip().octets(),
                    destination: to.ip().octets(),
                };
                out.extend_from_slice(&ip.to_bytes());
                UdpHeader::with_ipv6_checksum(source, destination, &ip, payload)
            }
            _ => return,
        };
        if let (Encapsulation::Udp, Ok(udp)) = (self.encapsulation, udp) {
            out.extend_from_slice(&udp.to_bytes());
        }
    }
}

#[cfg(test)]
mod tests {
    use etherparse::PacketHeaders;

    use super::*;

    /// The blocks of a capture: type and body.
    fn blocks(mut bytes: &[u8]) -> Vec<(u32, Vec<u8>)> {
        let mut blocks = Vec::new();
        while !bytes.is_empty() {
            let word = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap());
            let length = word(4) as usize;
            assert_eq!(length % 4, 0);
            assert_eq!(word(length - 4) as usize, length);
            blocks.push((word(0), bytes[8..length - 4].to_vec()));
            bytes = &bytes[length..];
        }
        blocks
    }

    fn record(from: &str, to: &str) -> Vec<(u32, Vec<u8>)> {
        let path = std::env::temp_dir().join(format!(
            "anabranch-capture-{}-{}",
            std::process::id(),
            from.len()
        ));
        let now = Instant::from_nanos(500);
        let mut capture =
            Capture::create(&path, Encapsulation::Udp, (UNIX_EPOCH + Duration::from_secs(1), now))
                .unwrap();
        let (from, to) = (from.parse().unwrap(), to.parse().unwrap());
        capture.datagrams(now, from, to, Some(Ecn::Ect0), 4, b"abcdefghij");
        drop(capture);
        let bytes = std::fs::read(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        blocks(&bytes)
    }

    #[test]
    fn packets_have_valid_headers() {
        for (from, to) in [("10.0.0.1:9899", "10.0.0.2:5000"), ("[fd00::1]:9899", "[fd00::2]:5000")]
        {
            let blocks = record(from, to);
            let kinds: Vec<u32> = blocks.iter().map(|block| block.0).collect();
            let packet = ENHANCED_PACKET;
            let expected = [SECTION_HEADER, INTERFACE_DESCRIPTION, packet, packet, packet];
            assert_eq!(kinds, expected);
            for ((_, body), payload) in blocks[2..].iter().zip(["abcd", "efgh", "ij"]) {
                let time = 1_000_000_000_u64;
                assert_eq!(body[4..8], u32::try_from(time >> 32).unwrap().to_le_bytes());
                assert_eq!(body[8..12], u32::try_from(time).unwrap().to_le_bytes());
                let length = u32::from_le_bytes(body[12..16].try_into().unwrap()) as usize;
                let ip = &body[20..20 + length];
                let headers = PacketHeaders::from_ip_slice(ip).unwrap();
                assert_eq!(headers.payload.slice(), payload.as_bytes());
                let udp = headers.transport.unwrap().udp().unwrap();
                let checksum = match headers.net.unwrap() {
                    etherparse::NetHeaders::Ipv4(ip, _) => {
                        assert_eq!(ip.header_checksum, ip.calc_header_checksum());
                        assert_eq!(ip.ecn.value(), 2);
                        udp.calc_checksum_ipv4(&ip, payload.as_bytes())
                    }
                    etherparse::NetHeaders::Ipv6(ip, _) => {
                        assert_eq!(ip.traffic_class, 2);
                        udp.calc_checksum_ipv6(&ip, payload.as_bytes())
                    }
                    etherparse::NetHeaders::Arp(_) => panic!("neither IPv4 nor IPv6"),
                };
                assert_eq!(udp.checksum, checksum.unwrap());
                assert_eq!((udp.source_port, udp.destination_port), (9899, 5000));
            }
        }
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn a_full_disk_ends_the_capture_only() {
        let now = Instant::ZERO;
        // The header does not fit already.
        assert!(
            Capture::create(Path::new("/dev/full"), Encapsulation::Udp, (UNIX_EPOCH, now)).is_err()
        );
        let (chunks, received) = channel();
        let progress = Progress::default();
        chunks.send(vec![0; 10]).unwrap();
        chunks.send(vec![0; 10]).unwrap();
        write_chunks(
            "full",
            File::options().write(true).open("/dev/full").unwrap(),
            &received,
            &progress,
        );
        assert!(progress.failed.load(Ordering::Relaxed));
    }
}
