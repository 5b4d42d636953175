//! Huffman tables (T.81 Annexes C, F.2.2.3 and K.2).

use crate::Unchanged;

const MALFORMED: Unchanged = Unchanged("a Huffman table is malformed");

/// A table for reading.
#[derive(Clone, Debug)]
pub(super) struct Decoder {
    /// For each length of a code, one more than the largest code, aligned to 16 bits; and what leads from a code to
    /// its symbol.
    ends: [(u32, i32); 17],
    symbols: Vec<u8>,
}

impl Decoder {
    /// The table with these numbers of codes for each length, and these symbols.
    pub(super) fn new(counts: &[u8; 16], symbols: &[u8]) -> Result<Self, Unchanged> {
        let mut ends = [(0, 0); 17];
        let (mut code, mut index) = (0_u32, 0_i32);
        for (length, count) in (1..=16).zip(counts) {
            let first = index - i32::try_from(code).map_err(|_| MALFORMED)?;
            code += u32::from(*count);
            index += i32::from(*count);
            if code > 1 << length {
                return Err(MALFORMED);
            }
            ends[length] = (code << (16 - length), first);
            code <<= 1;
        }
        Ok(Self { ends, symbols: symbols.to_vec() })
    }

    /// The symbol whose code these 16 bits begin with, and the length of that code.
    pub(super) fn symbol(&self, bits: u32) -> Option<(u8, u32)> {
        let length = (1..=16).find(|length| bits < self.ends[*length].0)?;
        let code = i32::try_from(bits >> (16 - length)).ok()?;
        let index = usize::try_from(code + self.ends[length].1).ok()?;
        Some((*self.symbols.get(index)?, u32::try_from(length).ok()?))
    }
}

/// The tables of a segment: class, number and table each.
pub(super) fn tables(mut body: &[u8]) -> Result<Vec<(u8, u8, Decoder)>, Unchanged> {
    let mut tables = Vec::new();
    while let Some((place, rest)) = body.split_first() {
        let (counts, rest) = rest.split_first_chunk::<16>().ok_or(MALFORMED)?;
        let count = counts.iter().map(|count| usize::from(*count)).sum();
        let (symbols, rest) = rest.split_at_checked(count).ok_or(MALFORMED)?;
        let (class, number) = (place >> 4, place & 15);
        if class > 1 || number > 3 || count > 256 {
            return Err(MALFORMED);
        }
        tables.push((class, number, Decoder::new(counts, symbols)?));
        body = rest;
    }
    Ok(tables)
}

/// A table for writing that is the best for given frequencies.
#[derive(Debug)]
pub(super) struct Encoder {
    counts: [u8; 16],
    symbols: Vec<u8>,
    /// For each symbol its code and the code's length.
    codes: [(u16, u8); 256],
}

impl Encoder {
    /// The table for symbols that occur this often.
    pub(super) fn new(frequencies: &[u32; 256]) -> Self {
        let sizes = code_sizes(frequencies);
        let mut counts = [0_u32; 64];
        for size in sizes.iter().filter(|size| **size > 0) {
            counts[usize::from(*size).min(63)] += 1;
        }
        let counts = limited(counts);
        // Symbols with longer codes come later, and the reserved one gets none.
        let mut symbols: Vec<u8> = (0..=255).filter(|s| sizes[usize::from(*s)] > 0).collect();
        symbols.sort_by_key(|symbol| sizes[usize::from(*symbol)]);
        let mut codes = [(0, 0); 256];
        let (mut code, mut next) = (0_u16, symbols.iter());
        for (length, count) in (1..=16).zip(&counts) {
            for symbol in next.by_ref().take(usize::from(*count)) {
                codes[usize::from(*symbol)] = (code, length);
                code += 1;
            }
            code <<= 1;
        }
        Self { counts, symbols, codes }
    }

    pub(super) fn code(&self, symbol: u8) -> (u16, u8) {
        self.codes[usize::from(symbol)]
    }

    /// Adds the table to the body of a segment.
    pub(super) fn write(&self, class: u8, number: u8, out: &mut Vec<u8>) {
        out.push(class << 4 | number);
        out.extend(self.counts);
        out.extend(&self.symbols);
    }
}

/// The lengths of unlimited codes (T.81 figure K.1). The last one is that of the reserved symbol, which keeps the code of
/// all ones free.
fn code_sizes(frequencies: &[u32; 256]) -> [u8; 257] {
    let mut weights = [0_u64; 257];
    weights.iter_mut().zip(frequencies).for_each(|(weight, count)| *weight = u64::from(*count));
    weights[256] = 1;
    let mut sizes = [0_u8; 257];
    // The tree to which each symbol belongs.
    let mut trees: Vec<Vec<usize>> = (0..257).map(|symbol| vec![symbol]).collect();
    loop {
        // Of equal weights the last goes first, so the reserved symbol gets the longest code.
        let lightest = |but: Option<usize>| {
            let live = (0..257).filter(|tree| weights[*tree] > 0 && Some(*tree) != but);
            live.min_by_key(|tree| (weights[*tree], std::cmp::Reverse(*tree)))
        };
        let Some(least) = lightest(None) else { return sizes };
        let Some(next) = lightest(Some(least)) else { return sizes };
        weights[least] += std::mem::take(&mut weights[next]);
        let joined = std::mem::take(&mut trees[next]);
        trees[least].extend(joined);
        for symbol in &trees[least] {
            sizes[*symbol] = sizes[*symbol].saturating_add(1);
        }
    }
}

/// Shortens codes to 16 bits, and removes the reserved one (T.81 figure K.3).
fn limited(mut counts: [u32; 64]) -> [u8; 16] {
    for length in (17..64).rev() {
        while counts[length] > 0 {
            let Some(shorter) = (1..length - 1).rev().find(|at| counts[*at] > 0) else { break };
            counts[length] -= 2;
            counts[length - 1] += 1;
            counts[shorter + 1] += 2;
            counts[shorter] -= 1;
        }
    }
    if let Some(longest) = (1..=16).rev().find(|length| counts[*length] > 0) {
        counts[longest] -= 1;
    }
    std::array::from_fn(|at| u8::try_from(counts[at + 1]).unwrap_or(u8::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is written with a table is read with it.
    fn agree(frequencies: &[u32; 256]) {
        let encoder = Encoder::new(frequencies);
        let mut body = Vec::new();
        encoder.write(1, 2, &mut body);
        let tables = tables(&body).unwrap();
        let [(1, 2, decoder)] = &tables[..] else { panic!("{tables:?}") };
        for symbol in (0..=255).filter(|symbol| frequencies[usize::from(*symbol)] > 0) {
            let (code, length) = encoder.code(symbol);
            assert!((1..=16).contains(&length));
            let bits = u32::from(code) << (16 - length);
            assert_ne!(bits >> (16 - length), (1 << length) - 1, "all ones are reserved");
            assert_eq!(decoder.symbol(bits), Some((symbol, length.into())));
        }
    }

    #[test]
    fn codes_are_limited_to_16_bits() {
        agree(&[1; 256]);
        let mut one = [0; 256];
        one[7] = 1;
        agree(&one);
        // Fibonacci's numbers make the longest codes.
        let mut skewed = [0; 256];
        let (mut a, mut b) = (1, 1);
        for frequency in skewed.iter_mut().take(40) {
            *frequency = a;
            (a, b) = (b, a + b);
        }
        assert!(code_sizes(&skewed).iter().any(|size| *size > 16));
        agree(&skewed);
    }

    #[test]
    fn frequent_symbols_have_short_codes() {
        let mut frequencies = [1; 256];
        frequencies[200] = 100_000;
        let encoder = Encoder::new(&frequencies);
        assert_eq!(encoder.code(200).1, 1);
        assert!(encoder.code(3).1 >= 8);
    }

    #[test]
    fn malformed_tables_are_refused() {
        assert!(tables(&[0]).is_err() && tables(&[0x20; 17]).is_err());
        let mut body = [0; 20];
        body[1] = 3;
        assert!(tables(&body).is_err(), "three codes of one bit");
        body[1] = 2;
        body[16] = 1;
        assert!(tables(&body).is_err(), "no code is left");
    }
}
