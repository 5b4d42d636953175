//! Reads capture files: pcap and pcapng with any interfaces, optionally compressed with gzip.

use std::io::{self, Cursor, Read};
use std::sync::{Arc, OnceLock};

use flate2::read::MultiGzDecoder;
use pcap_parser::traits::{PcapNGPacketBlock as _, PcapReaderIterator};
use pcap_parser::{Block, Linktype, PcapBlockOwned, PcapError, create_reader};

use crate::bytes::Piece;

/// Buffer size for a block, initially and at most.
const ROOM: (usize, usize) = (1 << 20, 1 << 26);
/// Number of bytes read to determine the type of a file.
const HEAD: u64 = 1 << 16;
/// Maximum number of interfaces in a section.
const MOST_INTERFACES: usize = 65_536;
/// Maximum number of interfaces whose names are examined, and maximum length of a host name in them.
const MOST_NAMED: usize = 1024;
const LONGEST_OWNER: usize = 64;
/// The pcapng packet block that preceded the enhanced one.
const OLD_PACKET_BLOCK: u32 = 2;

/// Why the input could not be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReadError(pub String);

impl std::fmt::Display for ReadError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for ReadError {}

/// How far a file was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Stopped {
    /// To its end.
    End,
    /// To a byte where it is truncated or damaged, with the error.
    Damaged(u64, String),
}

/// A packet from a file.
pub(crate) struct Captured<'a> {
    /// Nanoseconds since 1970.
    pub(crate) time: u64,
    /// Number of the interface in the section.
    pub(crate) interface: u32,
    /// `None` if the file does not describe the interface.
    pub(crate) link: Option<u32>,
    /// The first interface of the same host, for names of the form `host:link`.
    pub(crate) host: Option<u32>,
    pub(crate) piece: Piece<'a>,
}

#[derive(Clone)]
struct Interface {
    link: u32,
    /// Ticks per second, and seconds to add.
    resolution: u64,
    offset: i64,
    /// The host in a name such as `host:link`.
    owner: String,
    host: Option<u32>,
}

/// State of a file's current section.
#[derive(Default)]
struct Section {
    interfaces: Vec<Interface>,
    big_endian: bool,
}

/// A reader without bytes that fails once, if there is an error.
struct Failing(Option<io::Error>);

impl Read for Failing {
    fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
        self.0.take().map_or(Ok(0), Err)
    }
}

/// Ends where its source fails and keeps the reason. Readers of pcap read twice before they return the first packet,
/// and an error in the second read would hide what the first one has read.
struct Ending<R> {
    source: R,
    failed: Arc<OnceLock<String>>,
}

impl<R: Read> Read for Ending<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while self.failed.get().is_none() {
            match self.source.read(buffer) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => drop(self.failed.set(error.to_string())),
                result => return result,
            }
        }
        Ok(0)
    }
}

/// Reads the start of a source, and returns it with a reader that still begins there.
fn begin<'a>(
    mut source: impl Read + Send + 'a,
) -> io::Result<(Vec<u8>, Box<dyn Read + Send + 'a>)> {
    let mut head = Vec::new();
    let failed = match source.by_ref().take(HEAD).read_to_end(&mut head) {
        Err(error) if head.is_empty() => return Err(error),
        // Use the data that was read before an error.
        result => result.err(),
    };
    let again = Cursor::new(head.clone()).chain(Failing(failed)).chain(source);
    Ok((head, Box::new(again)))
}

/// The input, decompressed.
fn open<'a>(source: impl Read + Send + 'a) -> Result<Box<dyn Read + Send + 'a>, ReadError> {
    let failed = |error: io::Error| ReadError(format!("the file cannot be read: {error}"));
    let (head, source) = begin(source).map_err(failed)?;
    let compressed = |by: &str| {
        Err(ReadError(format!(
            "this is compressed by {by}: decompress it, and analyze what comes out"
        )))
    };
    match head.as_slice() {
        [0x1f, 0x8b, ..] => {
            let failed = |error| ReadError(format!("the file cannot be decompressed: {error}"));
            begin(MultiGzDecoder::new(source)).map_err(failed).map(|(_, source)| source)
        }
        [0x28, 0xb5, 0x2f, 0xfd, ..] => compressed("zstd"),
        [0x04, 0x22, 0x4d, 0x18, ..] => compressed("lz4"),
        [0xfd, b'7', b'z', b'X', b'Z', ..] => compressed("xz"),
        [b'B', b'Z', b'h', ..] => compressed("bzip2"),
        _ => Ok(source),
    }
}

/// Passes each packet to `take`.
pub(crate) fn read(
    source: impl Read + Send,
    mut take: impl FnMut(Captured<'_>),
) -> Result<Stopped, ReadError> {
    let failed = Arc::new(OnceLock::new());
    let source = Ending { source: open(source)?, failed: Arc::clone(&failed) };
    let damaged = |at: u64, otherwise: &str| {
        let unread = |error: &String| format!("the file cannot be read any further: {error}");
        Stopped::Damaged(at, failed.get().map_or(otherwise.to_owned(), unread))
    };
    let mut reader = create_reader(ROOM.0, source).map_err(|error| {
        ReadError(match error {
            PcapError::Eof => "the file is empty".into(),
            PcapError::ReadError => "the file cannot be read".into(),
            _ => "this is neither pcap nor pcapng".into(),
        })
    })?;
    let mut section = Section::default();
    let (mut room, mut at) = (ROOM.0, 0_u64);
    loop {
        let exhausted = reader.reader_exhausted();
        let step = match reader.next() {
            Ok((length, block)) => {
                section.block(&block, &mut take);
                Step::Read(length)
            }
            Err(PcapError::Eof) if failed.get().is_none() => return Ok(Stopped::End),
            Err(PcapError::Incomplete(_)) if !exhausted => Step::Refill,
            Err(PcapError::Incomplete(_) | PcapError::UnexpectedEof | PcapError::Eof) => {
                return Ok(damaged(at, "the file is cut off here"));
            }
            Err(PcapError::BufferTooSmall) if room < ROOM.1 => Step::Grow,
            Err(_) => return Ok(Stopped::Damaged(at, "the file is damaged here".into())),
        };
        match step {
            Step::Read(length) => {
                at += length as u64;
                reader.consume(length);
            }
            Step::Grow => {
                room *= 2;
                reader.grow(room);
            }
            Step::Refill => {
                if let Some(stopped) = refill(reader.as_mut(), &mut room, at) {
                    return Ok(stopped);
                }
            }
        }
    }
}

/// What to do after a read.
enum Step {
    Read(usize),
    Refill,
    Grow,
}

fn refill(reader: &mut dyn PcapReaderIterator, room: &mut usize, at: u64) -> Option<Stopped> {
    match reader.refill() {
        Ok(()) => None,
        Err(PcapError::BufferTooSmall) if *room < ROOM.1 => {
            *room *= 2;
            reader.grow(*room);
            None
        }
        Err(PcapError::BufferTooSmall) => {
            Some(Stopped::Damaged(at, "a block is longer than any may be".into()))
        }
        Err(_) => Some(Stopped::Damaged(at, "the file cannot be read any further".into())),
    }
}

impl Section {
    fn block(&mut self, block: &PcapBlockOwned<'_>, take: &mut impl FnMut(Captured<'_>)) {
        match block {
            PcapBlockOwned::LegacyHeader(header) => {
                let Linktype(link) = header.network;
                let resolution =
                    if header.is_nanosecond_precision() { 1_000_000_000 } else { 1_000_000 };
                self.interfaces = vec![Interface::new(link, resolution, 0, "")];
            }
            PcapBlockOwned::Legacy(packet) => {
                let nanoseconds = self.interfaces.first().is_some_and(Interface::is_exact);
                let fraction = u64::from(packet.ts_usec) * if nanoseconds { 1 } else { 1000 };
                let time = u64::from(packet.ts_sec) * 1_000_000_000 + fraction;
                let data = packet.data.get(..packet.caplen as usize).unwrap_or(packet.data);
                take(self.captured(0, time, Piece::new(data, packet.origlen as usize)));
            }
            PcapBlockOwned::NG(Block::SectionHeader(header)) => {
                self.interfaces.clear();
                self.big_endian = header.big_endian();
            }
            PcapBlockOwned::NG(Block::InterfaceDescription(description)) => {
                let Linktype(link) = description.linktype;
                let resolution = description.ts_resolution().unwrap_or(1_000_000).max(1);
                let name = description.if_name().and_then(Result::ok).unwrap_or_default();
                self.describe(Interface::new(link, resolution, description.ts_offset(), name));
            }
            PcapBlockOwned::NG(Block::EnhancedPacket(packet)) => {
                let time = self.time(packet.if_id, packet.ts_high, packet.ts_low);
                let piece = Piece::new(packet.packet_data(), packet.orig_len() as usize);
                take(self.captured(packet.if_id, time, piece));
            }
            // Without times only the order of the packets is known.
            PcapBlockOwned::NG(Block::SimplePacket(packet)) => {
                let piece = Piece::new(packet.packet_data(), packet.orig_len() as usize);
                take(self.captured(0, 0, piece));
            }
            PcapBlockOwned::NG(Block::Unknown(block)) => {
                let kind = block.block_type;
                let kind = if self.big_endian { kind.swap_bytes() } else { kind };
                if kind == OLD_PACKET_BLOCK {
                    self.old_packet(block.data, take);
                }
            }
            PcapBlockOwned::NG(_) => {}
        }
    }

    fn describe(&mut self, mut interface: Interface) {
        if self.interfaces.len() >= MOST_INTERFACES {
            return;
        }
        if self.interfaces.len() < MOST_NAMED && !interface.owner.is_empty() {
            let first = self
                .interfaces
                .iter()
                .position(|other| other.owner == interface.owner)
                .unwrap_or(self.interfaces.len());
            interface.host = u32::try_from(first).ok();
        } else {
            interface.owner.clear();
        }
        self.interfaces.push(interface);
    }

    fn captured<'a>(&self, interface: u32, time: u64, piece: Piece<'a>) -> Captured<'a> {
        let described = self.interfaces.get(interface as usize);
        let (link, host) = (described.map(|own| own.link), described.and_then(|own| own.host));
        Captured { time, interface, link, host, piece }
    }

    /// Converts a timestamp to nanoseconds since 1970.
    fn time(&self, interface: u32, high: u32, low: u32) -> u64 {
        let Some(interface) = self.interfaces.get(interface as usize) else { return 0 };
        let ticks = u128::from(high) << 32 | u128::from(low);
        let nanos = ticks * 1_000_000_000 / u128::from(interface.resolution);
        let offset = i128::from(interface.offset) * 1_000_000_000;
        u64::try_from(i128::try_from(nanos).unwrap_or(0) + offset).unwrap_or(0)
    }

    /// The block of type 2: interface and drops of 16 bits each, time, lengths, and the packet.
    fn old_packet(&self, block: &[u8], take: &mut impl FnMut(Captured<'_>)) {
        let number = |at: usize| {
            let bytes = block.get(at..at + 4)?.try_into().ok()?;
            Some(if self.big_endian {
                u32::from_be_bytes(bytes)
            } else {
                u32::from_le_bytes(bytes)
            })
        };
        let numbers = [0, 4, 8, 12, 16].map(number);
        let [Some(first), Some(high), Some(low), Some(captured), Some(whole)] = numbers else {
            return;
        };
        let interface = if self.big_endian { first >> 16 } else { first & 0xffff };
        let data = block.get(20..).unwrap_or_default();
        let data = data.get(..captured as usize).unwrap_or(data);
        let time = self.time(interface, high, low);
        take(self.captured(interface, time, Piece::new(data, whole as usize)));
    }
}

impl Interface {
    fn new(link: i32, resolution: u64, offset: i64, name: &str) -> Self {
        let owner = name.split_once(':').map(|(host, _)| host).unwrap_or_default();
        let owner = if owner.len() <= LONGEST_OWNER { owner.to_owned() } else { String::new() };
        Self { link: link.cast_unsigned(), resolution, offset, owner, host: None }
    }

    fn is_exact(&self) -> bool {
        self.resolution == 1_000_000_000
    }
}
