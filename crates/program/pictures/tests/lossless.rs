//! What is converted keeps its pixels and its metadata; what is in doubt is not converted.
//!
//! The JPEG files were made from noise with cjpeg of libjpeg-turbo and with Pillow; their names say what they have.

use std::path::{Path, PathBuf};

use anabranch_pictures::{check, check_conversion, convert};
use image::codecs::png::{CompressionType, FilterType, PngEncoder};
use image::{DynamicImage, ExtendedColorType, ImageEncoder as _, ImageFormat, RgbImage};
use proptest::prelude::*;

fn files(folder: &str) -> Vec<(PathBuf, Vec<u8>)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/pictures").join(folder);
    let files = std::fs::read_dir(folder).unwrap().map(|file| file.unwrap().path());
    let mut files: Vec<_> =
        files.map(|path| (path.clone(), std::fs::read(path).unwrap())).collect();
    files.sort();
    files
}

fn file(name: &str) -> Vec<u8> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/pictures/converted").join(name);
    std::fs::read(path).unwrap()
}

/// The reason why this picture stays as it is.
fn reason(picture: &[u8]) -> String {
    let Err(error) = convert(picture) else { panic!("it was converted") };
    error.to_string()
}

fn decoded(picture: &[u8]) -> DynamicImage {
    image::load_from_memory(picture).unwrap()
}

/// The segments of a JPEG file up to its first scan: markers and bodies.
fn segments(mut rest: &[u8]) -> Vec<(u8, &[u8])> {
    let mut segments = Vec::new();
    rest = &rest[2..];
    while let [0xff, marker, high, low, ..] = *rest {
        let end = 2 + usize::from(u16::from_be_bytes([high, low]));
        segments.push((marker, &rest[4..end]));
        rest = &rest[end..];
        if marker == 0xda {
            break;
        }
    }
    segments
}

/// The chunks of a PNG file: names and bodies.
fn chunks(mut rest: &[u8]) -> Vec<([u8; 4], &[u8])> {
    let mut chunks = Vec::new();
    rest = &rest[8..];
    while let Some((length, after)) = rest.split_first_chunk::<4>() {
        let length = u32::from_be_bytes(*length) as usize;
        chunks.push((after[..4].try_into().unwrap(), &after[4..4 + length]));
        rest = &after[8 + length..];
    }
    chunks
}

fn chunk(name: &[u8; 4], body: &[u8]) -> Vec<u8> {
    let named = [&name[..], body].concat();
    let sum = crc32fast::hash(&named).to_be_bytes();
    [&u32::try_from(body.len()).unwrap().to_be_bytes()[..], &named, &sum].concat()
}

/// A PNG file of these chunks.
fn png_of(chunks: &[([u8; 4], &[u8])]) -> Vec<u8> {
    let chunks = chunks.iter().flat_map(|(name, body)| chunk(name, body));
    b"\x89PNG\r\n\x1a\n".iter().copied().chain(chunks).collect()
}

/// Smooth colours with some noise.
fn colours(width: u32, height: u32) -> RgbImage {
    RgbImage::from_fn(width, height, |x, y| {
        let noise = (x * 7919 + y * 104_729).wrapping_mul(2_654_435_761) >> 29;
        [x * 255 / width + noise, y * 255 / height, (x + y) * 127 / height]
            .map(|c| c.min(255) as u8)
            .into()
    })
}

/// Noise, which becomes hardly larger or smaller in any order.
fn noise(width: u32, height: u32) -> RgbImage {
    let mut state = 1_u32;
    RgbImage::from_fn(width, height, |_, _| {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        [(state >> 24) as u8, (state >> 16) as u8, (state >> 8) as u8].into()
    })
}

fn png(picture: &DynamicImage) -> Vec<u8> {
    let mut file = Vec::new();
    let encoder =
        PngEncoder::new_with_quality(&mut file, CompressionType::Default, FilterType::Adaptive);
    let kind = ExtendedColorType::from(picture.color());
    encoder.write_image(picture.as_bytes(), picture.width(), picture.height(), kind).unwrap();
    file
}

fn jpeg(picture: &RgbImage, quality: u8) -> Vec<u8> {
    let mut file = Vec::new();
    image::codecs::jpeg::JpegEncoder::new_with_quality(&mut file, quality)
        .encode_image(picture)
        .unwrap();
    file
}

#[test]
fn jpegs_become_progressive_and_keep_pixels_and_metadata() {
    let files = files("converted");
    assert!(files.len() >= 8);
    for (path, original) in files {
        let converted =
            convert(&original).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        assert!(decoded(&original) == decoded(&converted), "{}", path.display());
        let kept = |picture| {
            let coding = |marker| matches!(marker, 0xc0..=0xc4 | 0xda | 0xdd);
            let mut segments = segments(picture);
            segments.retain(|(marker, _)| !coding(*marker));
            segments
        };
        assert_eq!(kept(&original), kept(&converted), "{}", path.display());
        let frames = |picture| segments(picture).iter().filter(|(m, _)| *m == 0xc2).count();
        assert_eq!((frames(&original), frames(&converted)), (0, 1));
        assert_eq!(reason(&converted), "it is progressive already");
    }
}

#[test]
fn pngs_become_interlaced_and_keep_pixels_and_metadata() {
    let noise = DynamicImage::from(noise(61, 47));
    let pictures = [
        noise.clone(),
        noise.to_luma8().into(),
        noise.to_luma_alpha8().into(),
        noise.to_rgba8().into(),
        noise.to_luma16().into(),
        noise.to_rgba16().into(),
    ];
    for picture in pictures {
        let original = png(&picture);
        let mut parts = chunks(&original);
        // One chunk before the pixels, and one after them.
        parts.insert(1, (*b"tEXt", b"Comment\0before"));
        parts.insert(parts.len() - 1, (*b"tIME", &[7, 234, 1, 2, 3, 4, 5]));
        let original = png_of(&parts);
        let converted = convert(&original).unwrap();
        assert!(decoded(&converted) == picture, "{:?}", picture.color());
        let (before, after) = (chunks(&original), chunks(&converted));
        assert_eq!((before[0].1[12], after[0].1[12]), (0, 1), "interlaced");
        let others = |chunks: &[([u8; 4], &[u8])]| -> Vec<([u8; 4], Vec<u8>)> {
            let others = chunks[1..].iter().filter(|(name, _)| name != b"IDAT");
            others.map(|(name, body)| (*name, body.to_vec())).collect()
        };
        assert_eq!(others(&before), others(&after));
        assert_eq!(after.iter().map(|(name, _)| *name).nth(1), Some(*b"tEXt"));
        assert_eq!(reason(&converted), "it is interlaced already");
    }
}

/// The mean difference of two pictures' samples.
fn difference(a: &RgbImage, b: &RgbImage) -> f64 {
    let sum: u64 = a.as_raw().iter().zip(b.as_raw()).map(|(a, b)| u64::from(a.abs_diff(*b))).sum();
    sum as f64 / a.as_raw().len() as f64
}

/// What this share of a file shows; the rest of the picture is grey.
fn partial(picture: &[u8], share: f64) -> Option<RgbImage> {
    let length = (picture.len() as f64 * share) as usize;
    image::load_from_memory_with_format(&picture[..length], ImageFormat::Jpeg).ok().map(Into::into)
}

#[test]
fn a_third_of_a_converted_file_shows_the_whole_picture() {
    let original = jpeg(&colours(512, 384), 85);
    let whole = decoded(&original).to_rgb8();
    let error = |picture: &[u8]| partial(picture, 0.33).map(|part| difference(&part, &whole));
    let (before, after) =
        (error(&original).unwrap_or(f64::MAX), error(&convert(&original).unwrap()));
    assert!(after.is_some_and(|after| after < 5.0 && 4.0 * after < before), "{before} {after:?}");
}

#[test]
fn what_is_in_doubt_stays() {
    for (path, picture) in files("unchanged") {
        assert!(convert(&picture).is_err(), "{}", path.display());
    }
    assert_eq!(reason(b""), "it is neither a JPEG nor a PNG");
    assert_eq!(reason(b"GIF89a"), "it is neither a JPEG nor a PNG");
    let original = file("444.jpg");
    assert_eq!(reason(&[&original[..], b"\0"].concat()), "there are data after its end");
    assert_eq!(reason(&original[..original.len() - 2]), "there is no marker where one must be");
    let header = original.windows(2).position(|at| at == [0xff, 0xc0]).unwrap();
    let with = |offset: usize, bytes: &[u8]| {
        let mut picture = original.clone();
        picture[header + offset..header + offset + bytes.len()].copy_from_slice(bytes);
        picture
    };
    assert_eq!(reason(&with(4, &[12])), "its samples do not have 8 bits");
    assert_eq!(reason(&with(5, &[0, 0])), "its size is unknown");
    assert_eq!(reason(&with(5, &[0xff; 4])), "it has too many pixels");
    assert_eq!(reason(&with(5, &[0, 8])), "there are data after its last block");
    assert_eq!(reason(&with(5, &[8, 0])), "it is cut off");
    let signed = [&original[..2], b"\xff\xeb\0\x04JP", &original[2..]].concat();
    assert_eq!(reason(&signed), "it may be signed");
    let filled = [&original[..2], b"\xff", &original[2..]].concat();
    assert_eq!(reason(&filled), "it has a segment of another kind");
}

#[test]
fn unusual_pngs_stay() {
    let original = png(&noise(61, 47).into());
    let with = |name: &[u8; 4], body: &'static [u8], at: usize| {
        let mut parts = chunks(&original);
        parts.insert(at, (*name, body));
        reason(&png_of(&parts))
    };
    assert_eq!(with(b"acTL", &[0; 8], 1), "it is animated or signed");
    assert_eq!(with(b"caBX", &[0; 8], 1), "it is animated or signed");
    let unknown = "it has a chunk that is not known, or too many";
    assert_eq!((with(b"anAN", b"x", 1), with(b"AnAn", b"x", 1)), (unknown.into(), unknown.into()));
    assert_eq!(with(b"IHDR", &[0; 13], 2), "it is malformed");
    assert_eq!(reason(&[&original[..], b"\0"].concat()), "there are data after its end");
    assert_eq!(reason(&original[..original.len() - 1]), "it is cut off");
    let mut wrong = original.clone();
    *wrong.last_mut().unwrap() ^= 1;
    assert_eq!(reason(&wrong), "a checksum is wrong");
    let mut split = chunks(&original);
    let pixels = split.iter().position(|(name, _)| name == b"IDAT").unwrap();
    let (first, second) = split[pixels].1.split_at(10);
    split.splice(pixels..=pixels, [(*b"IDAT", first), (*b"tEXt", b"a\0b"), (*b"IDAT", second)]);
    assert_eq!(reason(&png_of(&split)), "it is malformed");
    // A copy that only has a chunk that may be copied is converted.
    let mut parts = chunks(&original);
    parts.insert(1, (*b"anAn", b"x"));
    assert!(convert(&png_of(&parts)).is_ok());
}

#[test]
fn bombs_are_refused_before_they_are_decoded() {
    let original = png(&colours(61, 47).into());
    let mut parts = chunks(&original);
    let mut header = parts[0].1.to_vec();
    header[..8].copy_from_slice(&[0, 1, 0, 0, 0, 1, 0, 0]);
    parts[0].1 = &header;
    assert_eq!(reason(&png_of(&parts)), "it has no pixels, or too many");
    // Few pixels of much more than their share.
    let mut header = chunks(&original)[0].1.to_vec();
    header[..10].copy_from_slice(&[0, 0, 0x10, 0, 0, 0, 0x10, 0, 16, 6]);
    parts[0].1 = &header;
    assert!(convert(&png_of(&parts)).is_err());
}

#[test]
fn pictures_that_grow_stay() {
    // Tables for each scan are most of a small picture.
    let (_, small) =
        files("unchanged").into_iter().find(|(path, _)| path.ends_with("grows.jpg")).unwrap();
    assert_eq!(reason(&small), "it would become larger by a tenth");
    // Lines resemble those above, and in seven passes they do not.
    let original = png(&colours(61, 47).into());
    assert_eq!(reason(&original), "it would become larger by a tenth");
    let (before, same) = (vec![0; 1000], vec![0; 1100]);
    assert_eq!(check(&before, &same).unwrap_err().to_string(), "it would become larger by a tenth");
}

#[test]
fn another_picture_is_no_result() {
    let (a, b) = (file("444.jpg"), file("411.jpg"));
    let other = "the result is another picture";
    let said = |a: &[u8], b: &[u8]| check(a, b).unwrap_err().to_string();
    assert_eq!(said(&a, &a), other, "it is not progressive");
    assert_eq!(said(&a, &convert(&b).unwrap()), other, "other components");
    let without = file("metadata.jpg");
    let mut stripped = convert(&without).unwrap();
    let comment = stripped.windows(9).position(|at| at == b"a comment").unwrap();
    stripped[comment] = b'A';
    assert_eq!(said(&without, &stripped), other, "a comment has changed");
    let png = png(&noise(61, 47).into());
    assert_eq!(said(&png, &png), other);
    assert_eq!(said(&png, &convert(&b).unwrap()), "the result is of another form");
    assert!(check(&b, &convert(&b).unwrap()[1..]).is_err());
    let cut = convert(&b).unwrap();
    assert!(check(&b, &cut[..cut.len() / 2]).is_err());
}

/// The inputs of the fuzz target.
#[test]
fn the_corpus_is_survived() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../fuzz/corpus-seed/pictures");
    let files: Vec<_> = std::fs::read_dir(folder).unwrap().collect();
    assert!(files.len() >= 7);
    for file in files {
        check_conversion(&std::fs::read(file.unwrap().path()).unwrap());
    }
}

/// A picture of the tests with changes at random.
fn mutated() -> impl Strategy<Value = Vec<u8>> {
    let mut pictures: Vec<_> = files("converted").into_iter().map(|(_, picture)| picture).collect();
    pictures.push(png(&colours(31, 17).into()));
    let change = (any::<proptest::sample::Index>(), any::<u8>());
    let changes = proptest::collection::vec(change, 0..6);
    (proptest::sample::select(pictures), changes, any::<proptest::sample::Index>(), any::<bool>())
        .prop_map(|(mut picture, changes, end, cut)| {
            for (at, byte) in changes {
                let at = at.index(picture.len());
                picture[at] = byte;
            }
            if cut {
                picture.truncate(end.index(picture.len()));
            }
            picture
        })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    /// Whatever comes, there is no panic, and what is converted has the same pixels.
    #[test]
    fn hostile_pictures_are_survived(picture in mutated()) {
        if let Ok(converted) = convert(&picture) {
            let same = decoded(&picture) == decoded(&converted);
            prop_assert!(same);
        }
    }

    #[test]
    fn pictures_of_all_sizes_keep_their_pixels(width in 1_u32..70, height in 1_u32..70, quality in 1_u8..=100) {
        let picture = colours(width, height);
        for original in [jpeg(&picture, quality), png(&picture.clone().into())] {
            if let Ok(converted) = convert(&original) {
                let same = decoded(&original) == decoded(&converted);
                prop_assert!(same);
            }
        }
    }
}
