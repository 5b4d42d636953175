//! Run-length encoding of a pattern's values, with a few bytes per run.

use std::sync::Arc;

use super::PatternError;

/// Maximum size of a pattern's encoded values in bytes: enough for far more than 10^8 packets with
/// random losses.
pub const MAX_ENCODED: usize = 256 << 20;

/// A sequence of values as runs of equal values.
///
/// The lowest bit of a run's first number shows whether a count follows: `value * 2` is a single
/// value; `value * 2 + 1` and then `count - 2` are several. Numbers have 7 bits per byte, lowest
/// bits first. A lost packet needs one byte, and the packets between two losses need two or three.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Runs {
    bytes: Arc<[u8]>,
    length: u64,
    runs: u64,
}

impl std::fmt::Debug for Runs {
    /// Prints a digest, because there may be millions of values.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let sum = super::binary::checksum(&self.bytes);
        write!(f, "Runs({} values, {} runs, {sum:016x})", self.length, self.runs)
    }
}

impl Runs {
    /// Number of values, not runs.
    pub fn len(&self) -> u64 {
        self.length
    }

    /// Whether there are no values.
    pub fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// Number of runs of equal values.
    pub fn runs(&self) -> u64 {
        self.runs
    }

    /// The runs, as value and count.
    pub fn iter(&self) -> impl Iterator<Item = (u64, u64)> {
        let mut cursor = Cursor::default();
        std::iter::from_fn(move || cursor.next_run(self))
    }

    /// The runs as bytes.
    pub(crate) fn encoded(&self) -> &[u8] {
        &self.bytes
    }

    /// Decodes the output of [`encoded`](Self::encoded). An error is the offset of the invalid
    /// byte.
    pub(crate) fn decode(bytes: &[u8]) -> Result<Self, usize> {
        let (mut at, mut length, mut runs) = (0, 0_u64, 0);
        while at < bytes.len() {
            let start = at;
            let (_, count) = read_run(bytes, &mut at).ok_or(start)?;
            length = length.checked_add(count).ok_or(start)?;
            runs += 1;
        }
        Ok(Self { bytes: bytes.into(), length, runs })
    }
}

/// Builds runs from values.
#[derive(Debug, Default)]
pub struct RunsBuilder {
    bytes: Vec<u8>,
    last: Option<(u64, u64)>,
    length: u64,
    runs: u64,
}

impl RunsBuilder {
    /// Adds `value` `count` times; it must be less than 2^63.
    ///
    /// # Errors
    /// Fails for more than 2^63 values, or if the runs need more than [`MAX_ENCODED`] bytes.
    pub fn push(&mut self, value: u64, count: u64) -> Result<(), PatternError> {
        if count == 0 {
            return Ok(());
        }
        self.length =
            self.length.checked_add(count).filter(|length| *length < 1 << 63).ok_or_else(|| {
                PatternError::new("the pattern has more values than can be counted")
            })?;
        match &mut self.last {
            Some((last, already)) if *last == value => *already += count,
            _ => {
                self.flush();
                self.last = Some((value, count));
            }
        }
        if self.bytes.len() > MAX_ENCODED {
            let reason = "the pattern has too many changes: its values take more than 256 MiB";
            return Err(PatternError::new(reason));
        }
        Ok(())
    }

    fn flush(&mut self) {
        let Some((value, count)) = self.last.take() else { return };
        self.runs += 1;
        write_number(&mut self.bytes, value << 1 | u64::from(count > 1));
        if count > 1 {
            write_number(&mut self.bytes, count - 2);
        }
    }

    /// Number of values so far.
    pub fn len(&self) -> u64 {
        self.length
    }

    /// Whether there are no values yet.
    pub fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// All runs.
    pub fn finish(mut self) -> Runs {
        self.flush();
        Runs { bytes: self.bytes.into(), length: self.length, runs: self.runs }
    }
}

pub(crate) fn write_number(out: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

/// Reads a number of at most ten bytes; `None` if it is longer or the bytes end.
pub(crate) fn read_number(bytes: &[u8], at: &mut usize) -> Option<u64> {
    let mut number = 0_u64;
    for shift in (0..64).step_by(7) {
        let byte = *bytes.get(*at)?;
        *at += 1;
        let part = u64::from(byte & 0x7f);
        if shift == 63 && part > 1 {
            return None;
        }
        number |= part << shift;
        if byte < 0x80 {
            return Some(number);
        }
    }
    None
}

fn read_run(bytes: &[u8], at: &mut usize) -> Option<(u64, u64)> {
    let head = read_number(bytes, at)?;
    let count = match head & 1 {
        0 => 1,
        _ => read_number(bytes, at)?.checked_add(2)?,
    };
    Some((head >> 1, count))
}

/// A position in a sequence of values. It only moves forward, or back to the start.
#[derive(Clone, Debug, Default)]
pub(crate) struct Cursor {
    at: usize,
    value: u64,
    left: u64,
    /// Number of values before this position, including those of the current run.
    passed: u64,
}

impl Cursor {
    fn next_run(&mut self, runs: &Runs) -> Option<(u64, u64)> {
        read_run(&runs.bytes, &mut self.at)
    }

    /// The next value.
    pub(crate) fn next(&mut self, runs: &Runs) -> Option<u64> {
        if self.left == 0 {
            (self.value, self.left) = self.next_run(runs)?;
            self.passed += self.left;
        }
        self.left -= 1;
        Some(self.value)
    }

    /// The value at a position from 0, and the position after its run. Positions before the current
    /// run are searched from the start.
    pub(crate) fn seek(&mut self, runs: &Runs, position: u64) -> Option<(u64, u64)> {
        let begin = self.passed.saturating_sub(self.left);
        if position < begin {
            *self = Self::default();
        }
        while self.passed <= position {
            (self.value, self.left) = self.next_run(runs)?;
            self.passed += self.left;
        }
        // Treat the current run as not consumed, so that finding an earlier position in it needs no
        // search.
        Some((self.value, self.passed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn runs(list: &[(u64, u64)]) -> Runs {
        let mut builder = RunsBuilder::default();
        for (value, count) in list {
            builder.push(*value, *count).unwrap();
        }
        builder.finish()
    }

    #[test]
    fn equal_neighbours_are_one_run() {
        let runs = runs(&[(0, 9), (1, 1), (1, 2), (0, 0), (7 << 50, 1_000_000_000_000)]);
        assert_eq!(runs.iter().collect::<Vec<_>>(), [(0, 9), (1, 3), (7 << 50, 1_000_000_000_000)]);
        assert_eq!((runs.len(), runs.runs()), (1_000_000_000_012, 3));
        assert_eq!(Runs::decode(runs.encoded()), Ok(runs));
    }

    #[test]
    fn a_hundred_million_packets_take_few_bytes() {
        // Every 50th packet is lost, with different gaps so that no two runs merge.
        let mut builder = RunsBuilder::default();
        let mut packets = 0_u64;
        while packets < 100_000_000 {
            builder.push(0, 40 + packets % 19).unwrap();
            builder.push(1, 1).unwrap();
            packets = builder.len();
        }
        let runs = builder.finish();
        assert!(runs.runs() > 4_000_000 && runs.encoded().len() < 7_000_000);
        let lost: u64 = runs.iter().filter(|(value, _)| *value == 1).map(|(_, count)| count).sum();
        assert_eq!(lost, runs.runs() / 2);
    }

    #[test]
    fn a_cursor_goes_forward_and_back_to_the_beginning() {
        let runs = runs(&[(0, 3), (5, 1), (2, 4)]);
        let mut cursor = Cursor::default();
        let values: Vec<_> = std::iter::from_fn(|| cursor.next(&runs)).collect();
        assert_eq!(values, [0, 0, 0, 5, 2, 2, 2, 2]);
        let mut cursor = Cursor::default();
        let sought = [2, 3, 4, 0, 7].map(|position| cursor.seek(&runs, position).unwrap());
        assert_eq!(sought, [(0, 3), (5, 4), (2, 8), (0, 3), (2, 8)]);
        assert_eq!(cursor.seek(&runs, 8), None);
    }

    #[test]
    fn damaged_bytes_are_found() {
        assert_eq!(Runs::decode(&[0, 0x81]), Err(1));
        assert_eq!(Runs::decode(&[0, 0, 3]), Err(2));
        assert_eq!(Runs::decode(&[0xff; 12]), Err(0));
    }
}
