//! PNG (W3C PNG third edition): from one pass to Adam7's seven.
//!
//! `oxipng` reorders and compresses the pixels. All chunks but these come from the original, byte for byte.

use std::io::Cursor;

use oxipng::{Deflater, FilterStrategy, Options, StripChunks, indexset};

use crate::{MOST_PIXELS, Unchanged};

const SIGNATURE: &[u8] = b"\x89PNG\r\n\x1a\n";

/// Most bytes of decoded pixels.
const MOST_DECODED: usize = 4 * MOST_PIXELS as usize;

/// Most chunks. Some writers make one for every 8 KiB of pixels.
const MOST_CHUNKS: usize = 4096;

/// Chunks that do not depend on how the pixels are coded. Others stay only if their names say that they may.
const KNOWN: [&[u8; 4]; 19] = [
    b"IHDR", b"PLTE", b"IDAT", b"IEND", b"tRNS", b"cHRM", b"gAMA", b"iCCP", b"sBIT", b"sRGB",
    b"cICP", b"bKGD", b"hIST", b"pHYs", b"sPLT", b"tIME", b"mDCV", b"cLLI", b"eXIf",
];

/// Animations, and signatures of the file (the last is for C2PA).
const REFUSED: [&[u8; 4]; 5] = [b"acTL", b"fcTL", b"fdAT", b"dSIG", b"caBX"];

pub(crate) fn is_png(picture: &[u8]) -> bool {
    picture.starts_with(SIGNATURE)
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Chunk<'a> {
    name: [u8; 4],
    body: &'a [u8],
    /// With its length and its checksum.
    whole: &'a [u8],
}

/// The parts of a file.
#[derive(Debug)]
struct Parts<'a> {
    header: [u8; 13],
    /// Chunks between the header and the pixels, and those after the pixels.
    before: Vec<Chunk<'a>>,
    after: Vec<Chunk<'a>>,
}

const MALFORMED: Unchanged = Unchanged("it is malformed");

fn chunks(picture: &[u8]) -> Result<Vec<Chunk<'_>>, Unchanged> {
    let mut rest = picture.strip_prefix(SIGNATURE).ok_or(Unchanged("it is no PNG"))?;
    let mut chunks = Vec::new();
    loop {
        let [a, b, c, d, after @ ..] = rest else { return Err(Unchanged("it is cut off")) };
        let length = u32::from_be_bytes([*a, *b, *c, *d]) as usize;
        let whole = length.checked_add(12).and_then(|whole| rest.get(..whole));
        let whole = whole.ok_or(Unchanged("it is cut off"))?;
        let (named, sum) = after[..length + 8].split_at(length + 4);
        let (name, body) = named.split_first_chunk::<4>().ok_or(MALFORMED)?;
        if crc32fast::hash(named).to_be_bytes() != *sum {
            return Err(Unchanged("a checksum is wrong"));
        }
        if REFUSED.contains(&name) {
            return Err(Unchanged("it is animated or signed"));
        }
        let (critical, safe_to_copy) = (name[0] & 0x20 == 0, name[3] & 0x20 != 0);
        if !KNOWN.contains(&name) && (critical || !safe_to_copy) || chunks.len() == MOST_CHUNKS {
            return Err(Unchanged("it has a chunk that is not known, or too many"));
        }
        chunks.push(Chunk { name: *name, body, whole });
        rest = &rest[whole.len()..];
        if name == b"IEND" {
            return if rest.is_empty() {
                Ok(chunks)
            } else {
                Err(Unchanged("there are data after its end"))
            };
        }
    }
}

fn parts(picture: &[u8]) -> Result<Parts<'_>, Unchanged> {
    let mut chunks = chunks(picture)?.into_iter().peekable();
    let header = chunks.next().filter(|chunk| chunk.name == *b"IHDR").ok_or(MALFORMED)?;
    let header = header.body.try_into().map_err(|_| MALFORMED)?;
    let is_pixels = |chunk: &Chunk<'_>| chunk.name == *b"IDAT";
    let mut before = Vec::new();
    while let Some(chunk) = chunks.next_if(|chunk| !is_pixels(chunk)) {
        before.push(chunk);
    }
    let mut pixels = 0;
    while let Some(chunk) = chunks.next_if(is_pixels) {
        pixels += chunk.body.len();
    }
    let after: Vec<_> = chunks.collect();
    let names = |chunks: &[Chunk<'_>], name| chunks.iter().filter(|c| c.name == name).count();
    let again = names(&before, *b"IHDR") + names(&after, *b"IHDR") + names(&after, *b"IDAT");
    let misplaced = names(&before, *b"PLTE") > 1 || names(&after, *b"PLTE") > 0;
    if again > 0 || misplaced || pixels == 0 {
        return Err(MALFORMED);
    }
    let parts = Parts { header, before, after };
    let (width, height) = parts.size();
    if width == 0 || height == 0 || u64::from(width) * u64::from(height) > MOST_PIXELS {
        return Err(Unchanged("it has no pixels, or too many"));
    }
    Ok(parts)
}

impl Parts<'_> {
    fn size(&self) -> (u32, u32) {
        let [a, b, c, d, e, f, g, h, ..] = self.header;
        (u32::from_be_bytes([a, b, c, d]), u32::from_be_bytes([e, f, g, h]))
    }

    fn is_interlaced(&self) -> bool {
        self.header[12] != 0
    }
}

/// The picture with its pixels in seven passes.
pub(crate) fn convert(picture: &[u8]) -> Result<Vec<u8>, Unchanged> {
    let parts = parts(picture)?;
    if parts.is_interlaced() {
        return Err(Unchanged("it is interlaced already"));
    }
    let interlaced = oxipng::optimize_from_memory(picture, &options())
        .map_err(|_| Unchanged("it cannot be interlaced"))?;
    let header = Parts { header: parts.header, before: Vec::new(), after: Vec::new() }.interlaced();
    let mut out = SIGNATURE.to_vec();
    write(*b"IHDR", &header, &mut out)?;
    parts.before.iter().for_each(|chunk| out.extend(chunk.whole));
    let coded: Vec<_> = chunks(&interlaced)?;
    if coded.first().is_none_or(|first| first.body != header) {
        return Err(Unchanged("its colours would be coded in another way"));
    }
    let coded = coded.iter().filter(|chunk| chunk.name == *b"IDAT");
    coded.for_each(|chunk| out.extend(chunk.whole));
    parts.after.iter().for_each(|chunk| out.extend(chunk.whole));
    if pixels(picture)? != pixels(&out)? {
        return Err(Unchanged("its pixels would change"));
    }
    Ok(out)
}

impl Parts<'_> {
    fn interlaced(&self) -> [u8; 13] {
        let mut header = self.header;
        header[12] = 1;
        header
    }
}

fn options() -> Options {
    Options {
        force: true,
        interlace: Some(true),
        filters: indexset! {
            FilterStrategy::NONE,
            FilterStrategy::SUB,
            FilterStrategy::MinSum,
            FilterStrategy::Entropy,
            FilterStrategy::Bigrams,
        },
        bit_depth_reduction: false,
        color_type_reduction: false,
        palette_reduction: false,
        grayscale_reduction: false,
        strip: StripChunks::None,
        deflater: Deflater::Libdeflater { compression: 12 },
        max_decompressed_size: Some(MOST_DECODED),
        ..Options::default()
    }
}

fn write(name: [u8; 4], body: &[u8], out: &mut Vec<u8>) -> Result<(), Unchanged> {
    out.extend(u32::try_from(body.len()).map_err(|_| MALFORMED)?.to_be_bytes());
    let start = out.len();
    out.extend(name);
    out.extend(body);
    let sum = crc32fast::hash(&out[start..]);
    out.extend(sum.to_be_bytes());
    Ok(())
}

/// The decoded picture, with the depth and the colours of the file.
fn pixels(picture: &[u8]) -> Result<Vec<u8>, Unchanged> {
    const UNREADABLE: Unchanged = Unchanged("it cannot be decoded");
    let limits = png::Limits { bytes: 2 * MOST_DECODED };
    let decoder = png::Decoder::new_with_limits(Cursor::new(picture), limits);
    let mut reader = decoder.read_info().map_err(|_| UNREADABLE)?;
    let length = reader.output_buffer_size().filter(|length| *length <= MOST_DECODED);
    let mut pixels = vec![0; length.ok_or(Unchanged("it has too many pixels"))?];
    reader.next_frame(&mut pixels).map_err(|_| UNREADABLE)?;
    Ok(pixels)
}

/// Whether `converted` can be what [`convert`] made of the original, as far as that shows without decoding.
pub(crate) fn check(original: &[u8], converted: &[u8]) -> Result<(), Unchanged> {
    let (before, after) = (parts(original)?, parts(converted)?);
    let same = before.interlaced() == after.header
        && before.before == after.before
        && before.after == after.after;
    if same { Ok(()) } else { Err(Unchanged("the result is another picture")) }
}
