//! A binary format for long patterns.
//!
//! A file has a head and the patterns. Each pattern has its kind, basis, start, end and flags in a
//! byte each, its numbers, its texts with their lengths, the lists of bits, the triggers, and the
//! runs of its values ([`Runs`](super::Runs)). Numbers have 7 bits per byte, lowest bits first. The
//! last eight bytes are a checksum (FNV-1a) of everything before.

use super::runs::{read_number, write_number};
use super::{
    Action, Basis, End, Filter, Kind, Pattern, PatternError, Patterns, Runs, Start, Trigger,
};

const MAGIC: &[u8] = b"\x89ABP\r\n\x1a\x01";
const MOST_PATTERNS: u64 = 256;
const MOST_ENTRIES: u64 = 65_536;
const MOST_TEXT: u64 = 65_536;

pub(super) fn is_binary(bytes: &[u8]) -> bool {
    // The version may be newer; the file is binary nevertheless.
    bytes.starts_with(&MAGIC[..4])
}

pub(super) fn write(patterns: &Patterns) -> Vec<u8> {
    let mut out = MAGIC.to_vec();
    write_number(&mut out, patterns.list().len() as u64);
    for pattern in patterns.list() {
        write_pattern(&mut out, pattern);
    }
    let sum = checksum(&out);
    out.extend_from_slice(&sum.to_le_bytes());
    out
}

fn write_text(out: &mut Vec<u8>, text: &str) {
    write_number(out, text.len() as u64);
    out.extend_from_slice(text.as_bytes());
}

fn write_pattern(out: &mut Vec<u8>, pattern: &Pattern) {
    let kind = Kind::ALL.iter().position(|kind| *kind == pattern.kind).unwrap_or(0) as u8;
    let (start, number) = match pattern.start {
        Start::First => (0, 0),
        Start::Packet(number) => (1, number),
        Start::At(at) => (2, at),
        Start::Switch => (3, 0),
    };
    out.extend_from_slice(&[
        kind,
        pattern.basis as u8,
        start,
        pattern.end as u8,
        u8::from(pattern.overtake),
    ]);
    write_number(out, number);
    write_number(out, pattern.wait);
    write_text(out, pattern.name.as_deref().unwrap_or_default());
    let filter = if pattern.filter.is_any() { String::new() } else { pattern.filter.to_string() };
    write_text(out, &filter);
    write_number(out, pattern.bits.len() as u64);
    for list in &pattern.bits {
        write_number(out, list.len() as u64);
        for bit in list {
            // The lowest bit is the sign.
            write_number(out, (bit.unsigned_abs() << 1) | u64::from(*bit < 0));
        }
    }
    write_number(out, pattern.triggers.len() as u64);
    for trigger in &pattern.triggers {
        write_number(out, trigger.at);
        write_text(out, &trigger.action.write());
    }
    write_number(out, pattern.values.len());
    write_number(out, pattern.values.encoded().len() as u64);
    out.extend_from_slice(pattern.values.encoded());
}

/// FNV-1a detects damage, but no deliberate changes.
pub(super) fn checksum(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |sum, byte| {
        (sum ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

pub(super) fn read(bytes: &[u8]) -> Result<Patterns, PatternError> {
    if !bytes.starts_with(MAGIC) {
        let reason = "this is not a binary pattern of version 1";
        return Err(PatternError::new(reason).at_byte(0));
    }
    let body = bytes.len().saturating_sub(8);
    let mut reader = Reader { bytes: bytes.get(..body).unwrap_or_default(), at: MAGIC.len() };
    let count = reader.number(MOST_PATTERNS)?;
    let mut list = Vec::new();
    for _ in 0..count {
        list.push(reader.pattern()?);
    }
    if reader.at != body {
        let reason = "there is more in the file than it says, or less";
        return Err(PatternError::new(reason).at_byte(reader.at));
    }
    let sum = checksum(reader.bytes);
    if bytes.get(body..) != Some(&sum.to_le_bytes()) {
        let reason = "the checksum is wrong: the file is damaged";
        return Err(PatternError::new(reason).at_byte(body));
    }
    Patterns::new(list)
}

struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Reader<'a> {
    fn fail<V>(&self, reason: &str) -> Result<V, PatternError> {
        Err(PatternError::new(reason).at_byte(self.at))
    }

    fn short<V>(&self) -> Result<V, PatternError> {
        self.fail("the file is too short: it ends within a pattern")
    }

    fn byte(&mut self) -> Result<u8, PatternError> {
        let Some(byte) = self.bytes.get(self.at) else { return self.short() };
        self.at += 1;
        Ok(*byte)
    }

    fn number(&mut self, most: u64) -> Result<u64, PatternError> {
        let mut at = self.at;
        match read_number(self.bytes, &mut at) {
            Some(number) if number <= most => {
                self.at = at;
                Ok(number)
            }
            Some(_) => self.fail("a number is larger than it may be"),
            None => self.short(),
        }
    }

    fn take(&mut self, most: u64) -> Result<&'a [u8], PatternError> {
        let length = usize::try_from(self.number(most)?).unwrap_or(usize::MAX);
        let end = self.at.saturating_add(length);
        let Some(bytes) = self.bytes.get(self.at..end) else { return self.short() };
        self.at = end;
        Ok(bytes)
    }

    fn text(&mut self) -> Result<&'a str, PatternError> {
        let bytes = self.take(MOST_TEXT)?;
        match std::str::from_utf8(bytes) {
            Ok(text) => Ok(text),
            Err(_) => self.fail("a text is damaged"),
        }
    }

    fn pattern(&mut self) -> Result<Pattern, PatternError> {
        let begin = self.at;
        let Some(kind) = Kind::ALL.get(usize::from(self.byte()?)).copied() else {
            return self.fail("there is no such kind of pattern");
        };
        let basis = match self.byte()? {
            0 => Basis::Packet,
            1 => Basis::Millisecond,
            _ => return self.fail("there is no such basis of a pattern"),
        };
        let start = self.byte()?;
        let end = match self.byte()? {
            0 => End::Stop,
            1 => End::Hold,
            2 => End::Repeat,
            _ => return self.fail("there is no such end of a pattern"),
        };
        let mut pattern = Pattern::new(kind, basis).end(end);
        pattern.overtake = self.byte()? != 0;
        let number = self.number(u64::MAX)?;
        pattern.start = match start {
            0 => Start::First,
            1 => Start::Packet(number),
            2 => Start::At(number),
            3 => Start::Switch,
            _ => return self.fail("there is no such start of a pattern"),
        };
        pattern.wait = self.number(super::state::nanos(crate::MAX_SPAN))?;
        pattern.name = Some(self.text()?).filter(|name| !name.is_empty()).map(str::to_owned);
        let filter = self.text()?;
        pattern.filter =
            Filter::parse(filter).map_err(|reason| PatternError::new(reason).at_byte(begin))?;
        for _ in 0..self.number(MOST_ENTRIES)? {
            let mut list = Vec::new();
            for _ in 0..self.number(64)? {
                let coded = self.number(1 << 21)?;
                let size = i64::try_from(coded >> 1).unwrap_or(0);
                list.push(if coded & 1 == 1 { -size } else { size });
            }
            pattern.bits.push(list);
        }
        for _ in 0..self.number(MOST_ENTRIES)? {
            let at = self.number(u64::MAX)?;
            let action = Action::parse(self.text()?)
                .map_err(|reason| PatternError::new(reason).at_byte(begin))?;
            pattern.triggers.push(Trigger { at, action });
        }
        let length = self.number(u64::MAX)?;
        let begin = self.at;
        let values = self.take(super::MAX_ENCODED as u64 + 32)?;
        pattern.values = Runs::decode(values).map_err(|at| {
            PatternError::new("the values are damaged").at_byte(begin.saturating_add(at))
        })?;
        if pattern.values.len() != length {
            return self.fail("contradiction: there are not as many values as the file says");
        }
        Ok(pattern)
    }
}
