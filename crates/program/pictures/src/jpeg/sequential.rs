//! Reads the coefficients of a picture in sequential form (T.81 Annex F).

use super::frame::{Block, Component, Frame};
use super::huffman::{Decoder, tables};
use super::segments::{DHT, DRI, SOS, Segment, TRUNCATED};
use crate::Unchanged;

/// Most bits of a difference of DC coefficients, and of an AC coefficient, with samples of 8 bits (T.81 tables F.1, F.2).
const MOST_DC: u8 = 11;
const MOST_AC: u8 = 10;

const INVALID: Unchanged = Unchanged("its coded data are invalid");
const MALFORMED: Unchanged = Unchanged("the header of its scan is malformed");

/// The tables of a component.
struct Tables<'a> {
    dc: &'a Decoder,
    ac: &'a Decoder,
}

/// The blocks of each component, with those that only fill up units.
pub(super) fn read(frame: &Frame, segments: &[Segment<'_>]) -> Result<Vec<Vec<Block>>, Unchanged> {
    let mut dc: [Option<Decoder>; 4] = Default::default();
    let mut ac: [Option<Decoder>; 4] = Default::default();
    let mut restart = 0;
    let mut segments = segments.iter();
    let scan = loop {
        let segment = segments.next().ok_or(Unchanged("it has no scan"))?;
        match segment.marker {
            DHT => {
                for (class, number, table) in tables(segment.body)? {
                    let tables = if class == 0 { &mut dc } else { &mut ac };
                    tables[usize::from(number)] = Some(table);
                }
            }
            DRI => {
                let interval = segment.body.try_into().map_err(|_| MALFORMED)?;
                restart = u16::from_be_bytes(interval).into();
            }
            SOS => break segment,
            _ => {}
        }
    };
    if segments.next().is_some() {
        return Err(Unchanged("it has more after its first scan"));
    }
    let tables = scan_tables(frame, scan.body, &dc, &ac)?;
    units(frame, &tables, restart, scan.coded)
}

/// The tables that the header of a scan names, for all components in their order.
fn scan_tables<'a>(
    frame: &Frame,
    header: &[u8],
    dc: &'a [Option<Decoder>; 4],
    ac: &'a [Option<Decoder>; 4],
) -> Result<Vec<Tables<'a>>, Unchanged> {
    let (count, rest) = header.split_first().ok_or(MALFORMED)?;
    let (named, rest) = rest.as_chunks::<2>();
    if usize::from(*count) != frame.components.len() {
        return Err(Unchanged("its components are in several scans"));
    }
    // With an odd number of bytes after the components, the last one is the rest.
    let ([.., [0, 63]], [0]) = (named, rest) else { return Err(MALFORMED) };
    if named.len() != usize::from(*count) + 1 {
        return Err(MALFORMED);
    }
    let mut tables = Vec::new();
    for (component, [id, places]) in frame.components.iter().zip(named) {
        let table =
            |tables: &'a [Option<Decoder>; 4], place: u8| tables.get(usize::from(place))?.as_ref();
        match (table(dc, places >> 4), table(ac, places & 15)) {
            (Some(dc), Some(ac)) if *id == component.id => tables.push(Tables { dc, ac }),
            _ => return Err(MALFORMED),
        }
    }
    Ok(tables)
}

/// Reads all units of the scan.
fn units(
    frame: &Frame,
    tables: &[Tables<'_>],
    restart: usize,
    coded: &[u8],
) -> Result<Vec<Vec<Block>>, Unchanged> {
    // A block has at least two bits. A header alone must not take memory.
    let count: usize = frame.components.iter().map(|component| frame.count(component)).sum();
    if count / 4 > coded.len() {
        return Err(TRUNCATED);
    }
    let all = |component: &Component| vec![[0; 64]; frame.count(component)];
    let mut blocks: Vec<Vec<Block>> = frame.components.iter().map(all).collect();
    let mut bits = Bits { bytes: coded, at: 0, held: 0, count: 0 };
    let mut previous = vec![0; frame.components.len()];
    let mut restarts = 0_u8;
    let each =
        (0..frame.units.1).flat_map(|row| (0..frame.units.0).map(move |column| (column, row)));
    for (number, (column, row)) in each.enumerate() {
        if restart > 0 && number > 0 && number % restart == 0 {
            bits.restart(restarts)?;
            restarts = (restarts + 1) % 8;
            previous.fill(0);
        }
        for (index, component) in frame.components.iter().enumerate() {
            let (across, down) = component.per_unit;
            for (y, x) in (0..down).flat_map(|y| (0..across).map(move |x| (y, x))) {
                let at = (row * down + y) * frame.stride(component) + column * across + x;
                let block = blocks[index].get_mut(at).ok_or(INVALID)?;
                read_block(&mut bits, &tables[index], &mut previous[index], block)?;
            }
        }
    }
    bits.end()?;
    Ok(blocks)
}

fn read_block(
    bits: &mut Bits<'_>,
    tables: &Tables<'_>,
    previous: &mut i32,
    block: &mut Block,
) -> Result<(), Unchanged> {
    let size = bits.symbol(tables.dc)?;
    if size > MOST_DC {
        return Err(INVALID);
    }
    *previous += bits.value(size)?;
    if !(-2048..2048).contains(previous) {
        return Err(INVALID);
    }
    block[0] = i16::try_from(*previous).map_err(|_| INVALID)?;
    let mut at = 1;
    while at < 64 {
        let symbol = bits.symbol(tables.ac)?;
        let (run, size) = (usize::from(symbol >> 4), symbol & 15);
        match (run, size) {
            (0, 0) => break,
            (15, 0) => at += 16,
            (_, 1..=MOST_AC) => {
                at += run;
                let value = bits.value(size)?;
                *block.get_mut(at).ok_or(INVALID)? = i16::try_from(value).map_err(|_| INVALID)?;
                at += 1;
            }
            _ => return Err(INVALID),
        }
    }
    // A run of zeros must not lead out of the block.
    if at > 64 { Err(INVALID) } else { Ok(()) }
}

/// The bits of coded data.
struct Bits<'a> {
    bytes: &'a [u8],
    at: usize,
    /// The next bits, the first of them highest of `count`.
    held: u64,
    count: u32,
}

impl Bits<'_> {
    /// Holds at least 16 bits, unless fewer come before the next marker.
    fn fill(&mut self) {
        while self.count <= 48 {
            match self.bytes.get(self.at..) {
                // A zero is stuffed after each byte of ones.
                Some([0xff, 0, ..]) => (self.held, self.at) = (self.held << 8 | 0xff, self.at + 2),
                Some([0xff, ..] | []) | None => return,
                Some([byte, ..]) => {
                    (self.held, self.at) = (self.held << 8 | u64::from(*byte), self.at + 1);
                }
            }
            self.count += 8;
        }
    }

    /// Takes bits, at most 16.
    fn take(&mut self, count: u32) -> Result<u32, Unchanged> {
        if self.count < count {
            self.fill();
        }
        self.count = self.count.checked_sub(count).ok_or(TRUNCATED)?;
        let bits = self.held >> self.count & ((1 << count) - 1);
        u32::try_from(bits).map_err(|_| INVALID)
    }

    fn symbol(&mut self, table: &Decoder) -> Result<u8, Unchanged> {
        if self.count < 16 {
            self.fill();
        }
        let next = match self.count.checked_sub(16) {
            Some(after) => self.held >> after,
            None => self.held << (16 - self.count),
        };
        let next = u32::try_from(next & 0xffff).map_err(|_| INVALID)?;
        let (symbol, length) = table.symbol(next).ok_or(INVALID)?;
        self.take(length)?;
        Ok(symbol)
    }

    /// A value of this many bits (T.81 F.2.2.1).
    fn value(&mut self, size: u8) -> Result<i32, Unchanged> {
        let size = u32::from(size);
        if size == 0 {
            return Ok(0);
        }
        let bits = i32::try_from(self.take(size)?).map_err(|_| INVALID)?;
        Ok(if bits < 1 << (size - 1) { bits - (1 << size) + 1 } else { bits })
    }

    /// Skips the rest of a byte and the restart marker with this number.
    fn restart(&mut self, number: u8) -> Result<(), Unchanged> {
        self.fill();
        if self.count >= 8 || self.bytes.get(self.at..self.at + 2) != Some(&[0xff, 0xd0 + number]) {
            return Err(Unchanged("a restart marker is missing"));
        }
        (self.held, self.count) = (0, 0);
        self.at += 2;
        Ok(())
    }

    /// Nothing but the rest of a byte may be left.
    fn end(&mut self) -> Result<(), Unchanged> {
        self.fill();
        match self.count < 8 && self.at == self.bytes.len() {
            true => Ok(()),
            false => Err(Unchanged("there are data after its last block")),
        }
    }
}
