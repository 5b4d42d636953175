//! Writes coefficients in progressive form (T.81 Annex G), by spectral selection and successive approximation.
//!
//! Each scan is coded twice: to count its symbols, and to write it with the best tables for them.

use super::frame::{Block, Component, Frame};
use super::huffman::Encoder;
use super::segments::{DHT, SOS, write};

/// The longest run of blocks that end early.
const LONGEST_RUN: u32 = 0x7fff;

/// Most correction bits that wait for the end of such a run. A decoder needs no space for them; we do.
const MOST_WAITING: usize = 4096;

/// What a scan has.
#[derive(Clone, Copy, Debug)]
pub(super) struct Scan {
    /// One component, or `None` for all.
    component: Option<usize>,
    /// The first and the last coefficient.
    band: (usize, usize),
    /// Whether an earlier scan had the higher bits.
    refines: bool,
    /// Lower bits that later scans have.
    low: u32,
}

const fn scan(component: Option<usize>, band: (usize, usize), refines: bool, low: u32) -> Scan {
    Scan { component, band, refines, low }
}

/// The scans of pictures with colours: as of libjpeg and what uses it, so browsers are used to it. The first tells the
/// mean of each block, and so the whole picture at an eighth of its size.
const COLOURS: [Scan; 10] = [
    scan(None, (0, 0), false, 1),
    scan(Some(0), (1, 5), false, 2),
    scan(Some(2), (1, 63), false, 1),
    scan(Some(1), (1, 63), false, 1),
    scan(Some(0), (6, 63), false, 2),
    scan(Some(0), (1, 63), true, 1),
    scan(None, (0, 0), true, 0),
    scan(Some(2), (1, 63), true, 0),
    scan(Some(1), (1, 63), true, 0),
    scan(Some(0), (1, 63), true, 0),
];

/// The scans of grey pictures.
const GREY: [Scan; 6] = [
    scan(None, (0, 0), false, 1),
    scan(Some(0), (1, 5), false, 2),
    scan(Some(0), (6, 63), false, 2),
    scan(Some(0), (1, 63), true, 1),
    scan(None, (0, 0), true, 0),
    scan(Some(0), (1, 63), true, 0),
];

/// Adds all scans with their tables.
pub(super) fn write_scans(frame: &Frame, blocks: &[Vec<Block>], out: &mut Vec<u8>) {
    let scans = if frame.components.len() == 1 { &GREY[..] } else { &COLOURS[..] };
    for scan in scans {
        let mut counted = Counted([[0; 256]; 2]);
        code(frame, blocks, *scan, &mut counted);
        let class = u8::from(scan.component.is_some());
        let mut tables = Vec::new();
        let encoders = counted.0.map(|frequencies| Encoder::new(&frequencies));
        for ((number, encoder), frequencies) in (0..).zip(&encoders).zip(&counted.0) {
            if frequencies.iter().any(|count| *count > 0) {
                encoder.write(class, number, &mut tables);
            }
        }
        if !tables.is_empty() {
            write(DHT, &tables, out);
        }
        write(SOS, &header(frame, *scan), out);
        let mut written = Written { out, encoders: &encoders, held: 0, count: 0 };
        code(frame, blocks, *scan, &mut written);
        written.end();
    }
}

fn header(frame: &Frame, scan: Scan) -> Vec<u8> {
    let components: Vec<_> = frame.components.iter().enumerate().collect();
    let within = |number: usize| scan.component.is_none_or(|only| only == number);
    let named: Vec<_> = components.into_iter().filter(|(number, _)| within(*number)).collect();
    let mut header = vec![u8::try_from(named.len()).unwrap_or(0)];
    for (number, component) in named {
        // Tables of AC coefficients have number 0.
        let dc = if scan.component.is_none() { dc_table(number) } else { 0 };
        header.extend([component.id, if dc == 0 { 0 } else { 0x10 }]);
    }
    let byte = |number: usize| u8::try_from(number).unwrap_or(0);
    let (low, high) = (scan.low, if scan.refines { scan.low + 1 } else { 0 });
    header.extend([
        byte(scan.band.0),
        byte(scan.band.1),
        u8::try_from(high << 4 | low).unwrap_or(0),
    ]);
    header
}

/// The components besides the first, which have the colours, share a table.
fn dc_table(component: usize) -> usize {
    usize::from(component > 0)
}

/// Where symbols and bits go.
trait Sink {
    /// A symbol of a table.
    fn symbol(&mut self, table: usize, symbol: u8);
    /// The lowest bits of a value, at most 16.
    fn bits(&mut self, value: u32, count: u32);
}

struct Counted([[u32; 256]; 2]);

impl Sink for Counted {
    fn symbol(&mut self, table: usize, symbol: u8) {
        self.0[table][usize::from(symbol)] += 1;
    }

    fn bits(&mut self, _: u32, _: u32) {}
}

struct Written<'a> {
    out: &'a mut Vec<u8>,
    encoders: &'a [Encoder; 2],
    held: u64,
    count: u32,
}

impl Sink for Written<'_> {
    fn symbol(&mut self, table: usize, symbol: u8) {
        let (code, length) = self.encoders[table].code(symbol);
        self.bits(code.into(), length.into());
    }

    fn bits(&mut self, value: u32, count: u32) {
        self.held = self.held << count | u64::from(value) & ((1 << count) - 1);
        self.count += count;
        while self.count >= 8 {
            self.count -= 8;
            let byte = (self.held >> self.count & 0xff) as u8;
            self.out.push(byte);
            if byte == 0xff {
                self.out.push(0);
            }
        }
    }
}

impl Written<'_> {
    /// Fills the last byte with ones.
    fn end(mut self) {
        self.bits(0x7f, 7);
    }
}

fn code(frame: &Frame, blocks: &[Vec<Block>], scan: Scan, sink: &mut impl Sink) {
    let Some(only) = scan.component else { return code_dc(frame, blocks, scan, sink) };
    let (component, blocks) = (&frame.components[only], &blocks[only]);
    let mut ac = Ac { scan, run: 0, waiting: Vec::new(), sink };
    for block in visible(frame, component, blocks) {
        if scan.refines {
            ac.refine(block);
        } else {
            ac.first(block);
        }
    }
    ac.flush();
}

/// The blocks of a scan with one component, row by row.
fn visible<'a>(
    frame: &Frame,
    component: &Component,
    blocks: &'a [Block],
) -> impl Iterator<Item = &'a Block> {
    let (across, down) = component.blocks;
    blocks.chunks(frame.stride(component)).take(down).flat_map(move |row| row.iter().take(across))
}

/// The mean values of all blocks.
fn code_dc(frame: &Frame, blocks: &[Vec<Block>], scan: Scan, sink: &mut impl Sink) {
    let mut previous = vec![0; frame.components.len()];
    let each =
        (0..frame.units.1).flat_map(|row| (0..frame.units.0).map(move |column| (column, row)));
    for (column, row) in each {
        for (index, component) in frame.components.iter().enumerate() {
            let (across, down) = component.per_unit;
            for (y, x) in (0..down).flat_map(|y| (0..across).map(move |x| (y, x))) {
                let at = (row * down + y) * frame.stride(component) + column * across + x;
                let value = i32::from(blocks[index][at][0]) >> scan.low;
                if scan.refines {
                    sink.bits(u32::from(value & 1 != 0), 1);
                    continue;
                }
                let difference = value - previous[index];
                previous[index] = value;
                let size = bits_of(difference.unsigned_abs());
                sink.symbol(dc_table(index), size);
                sink.bits(sign_coded(difference, difference.unsigned_abs()), size.into());
            }
        }
    }
}

/// The number of bits of a magnitude.
fn bits_of(magnitude: u32) -> u8 {
    (u32::BITS - magnitude.leading_zeros()) as u8
}

/// A magnitude with a sign: a negative one is inverted (T.81 F.1.2.1).
fn sign_coded(sign: i32, magnitude: u32) -> u32 {
    if sign < 0 { !magnitude } else { magnitude }
}

/// The coefficients of a scan's band, and their magnitudes without the lower bits.
fn band(scan: Scan, block: &Block) -> impl Iterator<Item = (i32, u32)> {
    let values = block[scan.band.0..=scan.band.1].iter();
    values.map(move |value| ((*value).into(), u32::from(value.unsigned_abs()) >> scan.low))
}

/// The coding of AC coefficients.
struct Ac<'a, S> {
    scan: Scan,
    /// Blocks that end before their last coefficient.
    run: u32,
    /// Correction bits of these blocks.
    waiting: Vec<bool>,
    sink: &'a mut S,
}

impl<S: Sink> Ac<'_, S> {
    /// The first bits of a block's coefficients (T.81 G.1.2.2).
    fn first(&mut self, block: &Block) {
        let mut zeros = 0;
        for (value, magnitude) in band(self.scan, block) {
            if magnitude == 0 {
                zeros += 1;
                continue;
            }
            self.flush();
            while zeros > 15 {
                self.sink.symbol(0, 0xf0);
                zeros -= 16;
            }
            let size = bits_of(magnitude);
            self.sink.symbol(0, zeros << 4 | size);
            self.sink.bits(sign_coded(value, magnitude), size.into());
            zeros = 0;
        }
        if zeros > 0 {
            self.ends_early(&[]);
        }
    }

    /// One more bit of a block's coefficients (T.81 G.1.2.3).
    fn refine(&mut self, block: &Block) {
        let last_new = band(self.scan, block).enumerate().filter(|(_, (_, m))| *m == 1).last();
        let last_new = last_new.map(|(at, _)| at);
        let (mut zeros, mut corrections) = (0, Vec::new());
        for (at, (value, magnitude)) in band(self.scan, block).enumerate() {
            if magnitude == 0 {
                zeros += 1;
                continue;
            }
            while zeros > 15 && last_new.is_some_and(|last| at <= last) {
                self.flush();
                self.sink.symbol(0, 0xf0);
                zeros -= 16;
                self.correct(&mut corrections);
            }
            if magnitude > 1 {
                corrections.push(magnitude & 1 != 0);
                continue;
            }
            self.flush();
            self.sink.symbol(0, zeros << 4 | 1);
            self.sink.bits(u32::from(value >= 0), 1);
            self.correct(&mut corrections);
            zeros = 0;
        }
        if zeros > 0 || !corrections.is_empty() {
            self.ends_early(&corrections);
        }
    }

    fn correct(&mut self, corrections: &mut Vec<bool>) {
        corrections.drain(..).for_each(|bit| self.sink.bits(bit.into(), 1));
    }

    fn ends_early(&mut self, corrections: &[bool]) {
        self.run += 1;
        self.waiting.extend(corrections);
        if self.run == LONGEST_RUN || self.waiting.len() > MOST_WAITING {
            self.flush();
        }
    }

    /// Writes the run of blocks that ended early.
    fn flush(&mut self) {
        if self.run > 0 {
            let size = bits_of(self.run) - 1;
            self.sink.symbol(0, size << 4);
            self.sink.bits(self.run, size.into());
            self.run = 0;
            let mut waiting = std::mem::take(&mut self.waiting);
            self.correct(&mut waiting);
            self.waiting = waiting;
        }
    }
}
