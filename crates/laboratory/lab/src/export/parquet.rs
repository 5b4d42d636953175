//! A file of Apache Parquet (format 2, <https://parquet.apache.org/docs/file-format/>): the minimum for a
//! table of numbers and texts. One row group, one page for each column, no compression.
//!
//! Its metadata are structures of Thrift's compact protocol. Each field begins with a byte that contains its type and
//! the difference from the previous field's number. Numbers are zigzag varints.

use super::{Column, Values};

const MAGIC: &[u8] = b"PAR1";

// Types of fields in Thrift's compact protocol.
const I32: u8 = 5;
const I64: u8 = 6;
const BINARY: u8 = 8;
const LIST: u8 = 9;
const STRUCT: u8 = 12;

// Numbers of the format's enumerations.
const INT64: i64 = 2;
const DOUBLE: i64 = 5;
const BYTE_ARRAY: i64 = 6;
const UTF8: i64 = 0;
const UINT_64: i64 = 14;
const REQUIRED: i64 = 0;
const OPTIONAL: i64 = 1;
const PLAIN: i64 = 0;
const RLE: i64 = 3;
const UNCOMPRESSED: i64 = 0;

/// Writes the columns as a file.
pub(super) fn write(columns: &[&Column]) -> Vec<u8> {
    let rows = columns.first().map_or(0, |column| column.values.len());
    let mut file = MAGIC.to_vec();
    let chunks: Vec<Chunk> = columns.iter().map(|column| Chunk::write(column, &mut file)).collect();
    let metadata = metadata(columns, &chunks, rows);
    file.extend_from_slice(&metadata);
    file.extend_from_slice(&(metadata.len() as u32).to_le_bytes());
    file.extend_from_slice(MAGIC);
    file
}

/// The position of a column's page.
struct Chunk {
    offset: usize,
    /// Includes its header.
    size: usize,
}

impl Chunk {
    fn write(column: &Column, file: &mut Vec<u8>) -> Self {
        let data = data(&column.values);
        let mut page = Structure::default();
        page.number(1, I32, 0); // DATA_PAGE
        page.number(2, I32, data.len() as i64);
        page.number(3, I32, data.len() as i64);
        let mut header = Structure::default();
        header.number(1, I32, column.values.len() as i64);
        header.number(2, I32, PLAIN);
        header.number(3, I32, RLE);
        header.number(4, I32, RLE);
        page.structure(5, header);
        let offset = file.len();
        file.extend_from_slice(&page.finish());
        file.extend_from_slice(&data);
        Self { offset, size: file.len() - offset }
    }
}

/// The data of a page: the values that are present, preceded by their definition levels if values may be missing.
fn data(values: &Values) -> Vec<u8> {
    let mut data = Vec::new();
    match values {
        Values::Numbers(numbers) => {
            let levels = levels(numbers.iter().map(|number| number.is_some()));
            data.extend_from_slice(&(levels.len() as u32).to_le_bytes());
            data.extend_from_slice(&levels);
            numbers.iter().flatten().for_each(|value| data.extend_from_slice(&value.to_le_bytes()));
        }
        Values::Spelled(chosen) => {
            chosen.iter().for_each(|(_, value)| data.extend_from_slice(&value.to_le_bytes()));
        }
        Values::Counts(values) => {
            values.iter().for_each(|value| data.extend_from_slice(&value.to_le_bytes()));
        }
        Values::Texts(values) => values.iter().for_each(|value| text(&mut data, value)),
        Values::Named(chosen) => chosen.iter().for_each(|value| text(&mut data, value)),
        Values::Same(value, rows) => (0..*rows).for_each(|_| text(&mut data, value)),
    }
    data
}

/// A text, preceded by its length.
fn text(data: &mut Vec<u8>, text: &str) {
    data.extend_from_slice(&(text.len() as u32).to_le_bytes());
    data.extend_from_slice(text.as_bytes());
}

/// Run-length encoded definition levels of one bit: for each run, twice its length, then the level.
fn levels(present: impl Iterator<Item = bool>) -> Vec<u8> {
    let mut runs: Vec<(bool, u64)> = Vec::new();
    for level in present {
        match runs.last_mut() {
            Some((last, length)) if *last == level => *length += 1,
            _ => runs.push((level, 1)),
        }
    }
    let mut bytes = Vec::new();
    for (level, length) in runs {
        varint(&mut bytes, length << 1);
        bytes.push(u8::from(level));
    }
    bytes
}

/// Physical type, converted type, and whether values may be missing.
fn kind(values: &Values) -> (i64, Option<i64>, i64) {
    match values {
        Values::Numbers(_) => (DOUBLE, None, OPTIONAL),
        Values::Spelled(_) => (DOUBLE, None, REQUIRED),
        Values::Counts(_) => (INT64, Some(UINT_64), REQUIRED),
        Values::Texts(_) | Values::Named(_) | Values::Same(..) => {
            (BYTE_ARRAY, Some(UTF8), REQUIRED)
        }
    }
}

fn metadata(columns: &[&Column], chunks: &[Chunk], rows: usize) -> Vec<u8> {
    let mut root = Structure::default();
    root.text(4, "runs");
    root.number(5, I32, columns.len() as i64);
    let leaves = columns.iter().map(|column| {
        let (physical, converted, repetition) = kind(&column.values);
        let mut leaf = Structure::default();
        leaf.number(1, I32, physical);
        leaf.number(3, I32, repetition);
        leaf.text(4, &column.name);
        if let Some(converted) = converted {
            leaf.number(6, I32, converted);
        }
        leaf
    });
    let schema: Vec<Structure> = std::iter::once(root).chain(leaves).collect();
    let mut group = Structure::default();
    group.list(1, columns.iter().zip(chunks).map(|(column, chunk)| place(column, chunk)).collect());
    group.number(2, I64, chunks.iter().map(|chunk| chunk.size as i64).sum());
    group.number(3, I64, rows as i64);
    let mut file = Structure::default();
    file.number(1, I32, 2);
    file.list(2, schema);
    file.number(3, I64, rows as i64);
    file.list(4, vec![group]);
    file.text(6, concat!("anabranch version ", env!("CARGO_PKG_VERSION")));
    file.finish()
}

/// A column in a row group.
fn place(column: &Column, chunk: &Chunk) -> Structure {
    let mut about = Structure::default();
    about.number(1, I32, kind(&column.values).0);
    about.numbers(2, &[PLAIN, RLE]);
    about.texts(3, &[&column.name]);
    about.number(4, I32, UNCOMPRESSED);
    about.number(5, I64, column.values.len() as i64);
    about.number(6, I64, chunk.size as i64);
    about.number(7, I64, chunk.size as i64);
    about.number(9, I64, chunk.offset as i64);
    let mut place = Structure::default();
    place.number(2, I64, chunk.offset as i64);
    place.structure(3, about);
    place
}

/// A structure of Thrift's compact protocol. Fields must be written in the order of their numbers.
#[derive(Default)]
struct Structure {
    bytes: Vec<u8>,
    last: u8,
}

impl Structure {
    fn field(&mut self, number: u8, kind: u8) {
        // The fields of these structures are never more than 15 apart.
        self.bytes.push((number - self.last) << 4 | kind);
        self.last = number;
    }

    fn number(&mut self, number: u8, kind: u8, value: i64) {
        self.field(number, kind);
        varint(&mut self.bytes, zigzag(value));
    }

    fn text(&mut self, number: u8, text: &str) {
        self.field(number, BINARY);
        binary(&mut self.bytes, text);
    }

    fn structure(&mut self, number: u8, value: Self) {
        self.field(number, STRUCT);
        self.bytes.extend(value.finish());
    }

    fn begin_list(&mut self, number: u8, kind: u8, length: usize) {
        self.field(number, LIST);
        if length < 15 {
            self.bytes.push((length as u8) << 4 | kind);
        } else {
            self.bytes.push(0xf0 | kind);
            varint(&mut self.bytes, length as u64);
        }
    }

    fn list(&mut self, number: u8, values: Vec<Self>) {
        self.begin_list(number, STRUCT, values.len());
        values.into_iter().for_each(|value| self.bytes.extend(value.finish()));
    }

    fn numbers(&mut self, number: u8, values: &[i64]) {
        self.begin_list(number, I32, values.len());
        values.iter().for_each(|value| varint(&mut self.bytes, zigzag(*value)));
    }

    fn texts(&mut self, number: u8, values: &[&str]) {
        self.begin_list(number, BINARY, values.len());
        values.iter().for_each(|value| binary(&mut self.bytes, value));
    }

    /// Its bytes, including the end marker.
    fn finish(mut self) -> Vec<u8> {
        self.bytes.push(0);
        self.bytes
    }
}

fn binary(bytes: &mut Vec<u8>, text: &str) {
    varint(bytes, text.len() as u64);
    bytes.extend_from_slice(text.as_bytes());
}

fn zigzag(value: i64) -> u64 {
    ((value << 1) ^ (value >> 63)) as u64
}

fn varint(bytes: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        bytes.push(value as u8 | 0x80);
        value >>= 7;
    }
    bytes.push(value as u8);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// scripts/three-paths.py checks what other programs read from such a file.
    #[test]
    fn a_file_has_its_parts() {
        let numbers = [Some(1.5), None, None, Some(2.5)];
        let numbers = Values::Numbers(numbers.into_iter().collect());
        let columns = [
            Column { name: "a (%)".into(), values: numbers },
            Column { name: "run".into(), values: Values::Counts(vec![0, 1, 2, u64::MAX]) },
            Column { name: "w".into(), values: Values::Texts(vec!["x".into(); 4]) },
        ];
        let file = write(&columns.each_ref());
        assert!(file.starts_with(MAGIC) && file.ends_with(MAGIC));
        let length = u32::from_le_bytes(file[file.len() - 8..file.len() - 4].try_into().unwrap());
        let metadata = &file[file.len() - 8 - length as usize..file.len() - 8];
        // Version 2, and a schema of a root and three leaves.
        assert_eq!(metadata[..4], [0x15, 4, 0x19, 0x4c]);
        let data = data(&columns[0].values);
        // One present, two missing, one present; then the two values.
        assert_eq!(data[..10], [6, 0, 0, 0, 2, 1, 4, 0, 2, 1]);
        assert_eq!(data[10..18], 1.5_f64.to_le_bytes());
        assert_eq!(data.len(), 10 + 16);
        assert_eq!(super::data(&Values::Same("x".into(), 4)), super::data(&columns[2].values));
    }

    #[test]
    fn numbers_have_the_length_that_they_need() {
        let written = |value| {
            let mut bytes = Vec::new();
            varint(&mut bytes, value);
            bytes
        };
        assert_eq!((written(127), written(300)), (vec![0x7f], vec![0xac, 2]));
        assert_eq!(written(u64::MAX).len(), 10);
        assert_eq!([0, -1, 1, -2].map(zigzag), [0, 1, 2, 3]);
        let many = vec!["a"; 20];
        let mut structure = Structure::default();
        structure.texts(3, &many);
        assert_eq!(structure.finish()[..3], [0x39, 0xf8, 20]);
    }
}
