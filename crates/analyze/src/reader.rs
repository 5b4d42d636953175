//! Files of packets: pcap and pcapng, of whatever interfaces.

use std::io::{BufRead as _, BufReader, Read};

use pcap_parser::traits::{PcapNGPacketBlock as _, PcapReaderIterator};
use pcap_parser::{Block, Linktype, PcapBlockOwned, PcapError, create_reader};

/// Room for a block at first, and at the most.
const ROOM: (usize, usize) = (1 << 20, 1 << 26);
/// Interfaces of a section at the most.
const MOST_INTERFACES: usize = 65_536;

/// Why nothing could be read at all.
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
    /// To a place where it is cut off or damaged; the byte, and what is wrong.
    Damaged(u64, String),
}

/// A packet as it stands in a file.
pub(crate) struct Captured<'a> {
    /// Nanoseconds since 1970.
    pub(crate) time: u64,
    pub(crate) interface: u32,
    pub(crate) link: i32,
    pub(crate) data: &'a [u8],
}

#[derive(Clone, Copy)]
struct Interface {
    link: i32,
    /// Ticks a second, and seconds to add.
    resolution: u64,
    offset: i64,
}

/// Gives each packet to `take`.
pub(crate) fn read(
    source: impl Read + Send,
    mut take: impl FnMut(Captured<'_>),
) -> Result<Stopped, ReadError> {
    let mut source = BufReader::new(source);
    // The crate has one word for all that may go wrong.
    source.fill_buf().map_err(|error| ReadError(format!("the file cannot be read: {error}")))?;
    let mut reader = create_reader(ROOM.0, source).map_err(|error| {
        ReadError(match error {
            PcapError::Eof => "the file is empty".into(),
            PcapError::ReadError => "the file cannot be read".into(),
            _ => "this is neither pcap nor pcapng".into(),
        })
    })?;
    let mut interfaces: Vec<Interface> = Vec::new();
    let (mut room, mut at) = (ROOM.0, 0_u64);
    loop {
        let exhausted = reader.reader_exhausted();
        let step = match reader.next() {
            Ok((length, block)) => {
                block_in(&block, &mut interfaces, &mut take);
                Step::Read(length)
            }
            Err(PcapError::Eof) => return Ok(Stopped::End),
            Err(PcapError::Incomplete(_)) if !exhausted => Step::Refill,
            Err(PcapError::Incomplete(_) | PcapError::UnexpectedEof) => {
                return Ok(Stopped::Damaged(at, "the file is cut off here".into()));
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

/// What to do with what was read, or was not.
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

fn block_in(
    block: &PcapBlockOwned<'_>,
    interfaces: &mut Vec<Interface>,
    take: &mut impl FnMut(Captured<'_>),
) {
    match block {
        PcapBlockOwned::LegacyHeader(header) => {
            let Linktype(link) = header.network;
            let resolution =
                if header.is_nanosecond_precision() { 1_000_000_000 } else { 1_000_000 };
            *interfaces = vec![Interface { link, resolution, offset: 0 }];
        }
        PcapBlockOwned::Legacy(packet) => {
            let Some(interface) = interfaces.first() else { return };
            let fraction = u64::from(packet.ts_usec) * (1_000_000_000 / interface.resolution);
            let time = u64::from(packet.ts_sec) * 1_000_000_000 + fraction;
            let data = packet.data.get(..packet.caplen as usize).unwrap_or(packet.data);
            take(Captured { time, interface: 0, link: interface.link, data });
        }
        PcapBlockOwned::NG(Block::SectionHeader(_)) => interfaces.clear(),
        PcapBlockOwned::NG(Block::InterfaceDescription(description)) => {
            if interfaces.len() < MOST_INTERFACES {
                let Linktype(link) = description.linktype;
                let resolution = description.ts_resolution().unwrap_or(1_000_000).max(1);
                interfaces.push(Interface { link, resolution, offset: description.ts_offset() });
            }
        }
        PcapBlockOwned::NG(Block::EnhancedPacket(packet)) => {
            let Some(interface) = interfaces.get(packet.if_id as usize) else { return };
            let ticks = u128::from(packet.ts_high) << 32 | u128::from(packet.ts_low);
            let nanos = ticks * 1_000_000_000 / u128::from(interface.resolution);
            let nanos =
                i128::try_from(nanos).unwrap_or(0) + i128::from(interface.offset) * 1_000_000_000;
            let time = u64::try_from(nanos).unwrap_or(0);
            let data = packet.packet_data();
            take(Captured { time, interface: packet.if_id, link: interface.link, data });
        }
        // Without a time nothing can be said of order but the order itself.
        PcapBlockOwned::NG(Block::SimplePacket(packet)) => {
            let Some(interface) = interfaces.first() else { return };
            take(Captured {
                time: 0,
                interface: 0,
                link: interface.link,
                data: packet.packet_data(),
            });
        }
        PcapBlockOwned::NG(_) => {}
    }
}
