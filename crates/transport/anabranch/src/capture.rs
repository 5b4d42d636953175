//! Packet captures in pcapng format.
//!
//! A separate thread writes the file, so a slow disk does not slow the transport. If the thread cannot keep up, packets
//! are omitted. A full disk ends the capture.

use std::fs::File;
use std::io::{self, Write};
use std::net::SocketAddr;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anabranch_pcapng::{Carrier, Headers, interface_description, packet, section_header};
use anabranch_proto::{Ecn, Encapsulation, Instant};

/// Bytes collected before they are passed to the writing thread.
const CHUNK: usize = 64 * 1024;

/// Maximum number of bytes that wait for the disk; further packets are omitted.
const MOST_WAITING: usize = 64 << 20;

/// A pcapng file that several endpoints can write, at the same time or one after the other
/// ([`Builder::capture_into`](crate::Builder::capture_into)).
#[derive(Clone, Debug)]
pub struct CaptureFile(Arc<Mutex<Writer>>);

/// What waits for the file, and the thread that writes it.
#[derive(Debug)]
struct Writer {
    pending: Vec<u8>,
    /// `None` once the file is complete.
    chunks: Option<Sender<Vec<u8>>>,
    progress: Arc<Progress>,
    thread: Option<JoinHandle<()>>,
    left_out: u64,
}

#[derive(Debug, Default)]
struct Progress {
    waiting: AtomicUsize,
    failed: AtomicBool,
}

impl CaptureFile {
    /// Creates the file, or replaces it.
    ///
    /// # Errors
    /// The file or the thread that writes it cannot be created.
    pub fn create(path: impl AsRef<Path>) -> io::Result<Self> {
        let path = path.as_ref();
        let mut file = File::create(path)?;
        let mut head = Vec::with_capacity(64);
        section_header(&mut head);
        interface_description(&mut head, "");
        file.write_all(&head)?;
        let (chunks, received) = channel();
        let progress = Arc::<Progress>::default();
        let name = path.display().to_string();
        let shared = progress.clone();
        let thread = std::thread::Builder::new()
            .name("pcapng".into())
            .spawn(move || write_chunks(&name, file, &received, &shared))?;
        Ok(Self(Arc::new(Mutex::new(Writer {
            pending: Vec::with_capacity(CHUNK),
            chunks: Some(chunks),
            progress,
            thread: Some(thread),
            left_out: 0,
        }))))
    }

    /// Writes what waits. Packets that come later are not in the file. Without this call the file is complete when the
    /// last endpoint has been closed and all clones are dropped.
    pub fn finish(&self) {
        self.lock().finish();
    }

    fn lock(&self) -> MutexGuard<'_, Writer> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Writer {
    /// Passes the collected packets to the writing thread.
    fn flush(&mut self) {
        if self.pending.is_empty() {
            return;
        }
        let chunk = std::mem::replace(&mut self.pending, Vec::with_capacity(CHUNK));
        // The thread ends before us only after an error, which it has reported.
        if let Some(chunks) = &self.chunks {
            self.progress.waiting.fetch_add(chunk.len(), Ordering::Relaxed);
            let _ = chunks.send(chunk);
        }
    }

    fn finish(&mut self) {
        self.flush();
        self.chunks = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
        let packets = std::mem::take(&mut self.left_out);
        if packets > 0 {
            tracing::warn!(packets, "the disk was too slow for the capture");
        }
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        self.finish();
    }
}

/// The capture of one endpoint.
#[derive(Clone, Debug)]
pub(crate) struct Capture {
    file: CaptureFile,
    carrier: Carrier,
    /// Added to the engine's time to get nanoseconds since 1970.
    epoch: u64,
}

impl Capture {
    /// `wall_clock` is the time of day at the instant `now`.
    pub(crate) fn new(
        file: CaptureFile,
        encapsulation: Encapsulation,
        (wall_clock, now): (SystemTime, Instant),
    ) -> Self {
        let since_1970 = wall_clock.duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO);
        let carrier = match encapsulation {
            Encapsulation::Ip => Carrier::Ip,
            Encapsulation::Udp => Carrier::Udp,
        };
        let epoch = u64::try_from(since_1970.as_nanos()).unwrap_or(0);
        Self { file, carrier, epoch: epoch.saturating_sub(now.as_nanos()) }
    }

    /// Adds datagrams of equal size that were sent or received together.
    pub(crate) fn datagrams(
        &self,
        now: Instant,
        from: SocketAddr,
        to: SocketAddr,
        ecn: Option<Ecn>,
        segment_size: usize,
        contents: &[u8],
    ) {
        let mut writer = self.file.lock();
        if writer.progress.failed.load(Ordering::Relaxed) || writer.chunks.is_none() {
            return;
        }
        for payload in contents.chunks(segment_size.max(1)) {
            if writer.progress.waiting.load(Ordering::Relaxed) > MOST_WAITING {
                writer.left_out += 1;
                continue;
            }
            let time = self.epoch.saturating_add(now.as_nanos());
            let ecn = ecn.map_or(0, Ecn::bits);
            let headers = Headers { carrier: self.carrier, from, to, ecn };
            packet(&mut writer.pending, 0, time, &headers, payload);
            if writer.pending.len() >= CHUNK {
                writer.flush();
            }
        }
    }

    /// Passes the collected packets to the writing thread.
    pub(crate) fn flush(&self) {
        self.file.lock().flush();
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
        let file = CaptureFile::create(&path).unwrap();
        let clocks = (UNIX_EPOCH + Duration::from_secs(1), now);
        let capture = Capture::new(file.clone(), Encapsulation::Udp, clocks);
        let other = Capture::new(file.clone(), Encapsulation::Udp, clocks);
        let (from, to) = (from.parse().unwrap(), to.parse().unwrap());
        capture.datagrams(now, from, to, Some(Ecn::Ect0), 4, b"abcdefgh");
        drop(capture);
        other.datagrams(now, from, to, Some(Ecn::Ect0), 4, b"ij");
        file.finish();
        other.datagrams(now, from, to, Some(Ecn::Ect0), 4, b"too late");
        drop((file, other));
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
            // Section header, interface description, enhanced packets.
            let expected = [0x0a0d_0d0a, 1, 6, 6, 6];
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
        // Not even the header fits.
        assert!(CaptureFile::create("/dev/full").is_err());
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
