//! Draws a page at several moments, from the bytes that had arrived by then.

use std::fmt::Write as _;
use std::io::Cursor;
use std::path::Path;
use std::time::Duration;

use anabranch_http::{ObjectLoad, PageLoad};
use image::imageops::{FilterType, overlay};
use image::{ImageFormat, ImageReader, Limits, Rgb, RgbImage};
use serde::Serialize;

use crate::failure::Failure;

/// Size of a picture; below it, the height of the bar, and the gap between pictures.
const CELL: (u32, u32) = (160, 120);
const BAR: u32 = 6;
const GAP: u32 = 8;

/// Maximum number of pictures in a row, and in total.
const COLUMNS: u32 = 5;
const MOST: usize = 100;

/// Maximum pixels on a side, and maximum memory for one decoded picture.
const LONGEST_SIDE: u32 = 16_384;
const MOST_MEMORY: u64 = 256 << 20;

const PAPER: Rgb<u8> = Rgb([255, 255, 255]);
const MISSING: Rgb<u8> = Rgb([222, 222, 222]);
const THERE: Rgb<u8> = Rgb([38, 110, 180]);
const BROKEN: Rgb<u8> = Rgb([190, 60, 50]);

/// The page at a moment.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Frame {
    /// Seconds after the request for the document.
    pub(super) at_s: f64,
    pub(super) file: String,
    /// Number of pictures that are at least partly visible.
    shown: usize,
    /// Number of pictures that are complete.
    complete: usize,
}

/// The pictures of a page and the moments at which it is drawn.
pub(super) struct Filmstrip<'a> {
    pictures: Vec<&'a ObjectLoad>,
    moments: Vec<Duration>,
}

impl<'a> Filmstrip<'a> {
    /// Uses these moments, or the most informative ones if none are given.
    pub(super) fn new(page: &'a PageLoad, moments: &[Duration]) -> Self {
        let pictures: Vec<_> =
            page.objects.iter().filter(|object| format_of(object).is_some()).take(MOST).collect();
        let mut moments = moments.to_vec();
        if moments.is_empty() {
            let all_reached =
                |percent| pictures.iter().filter_map(|picture| picture.reached(percent)).max();
            moments.extend([25, 50, 75].into_iter().filter_map(all_reached));
            moments.extend(pictures.iter().filter_map(|picture| picture.completed).max());
            let firsts = pictures.iter().filter_map(|picture| picture.arrivals.first());
            moments.extend(firsts.map(|(at, _)| *at).max());
        }
        moments.sort_unstable();
        moments.dedup();
        Self { pictures, moments }
    }

    /// Draws all moments into a directory, and writes a page that shows them.
    pub(super) fn draw(&self, directory: &Path, title: &str) -> Result<Vec<Frame>, Failure> {
        let failed = |path: &Path, error: &dyn std::fmt::Display| {
            Failure::failed(format!("{} cannot be written: {error}", path.display()))
        };
        std::fs::create_dir_all(directory).map_err(|error| failed(directory, &error))?;
        let mut frames = Vec::new();
        for (number, moment) in self.moments.iter().enumerate() {
            let path = directory.join(format!("{:02}.png", number + 1));
            let (picture, shown) = self.page_at(*moment);
            picture.save(&path).map_err(|error| failed(&path, &error))?;
            let is_there = |o: &&&ObjectLoad| o.completed.is_some_and(|at| at <= *moment);
            frames.push(Frame {
                at_s: moment.as_secs_f64(),
                file: path.display().to_string(),
                shown,
                complete: self.pictures.iter().filter(is_there).count(),
            });
        }
        let index = directory.join("index.html");
        std::fs::write(&index, self.html(title, &frames))
            .map_err(|error| failed(&index, &error))?;
        Ok(frames)
    }

    /// Draws the page at this moment. Also returns how many of its pictures are at least partly visible.
    fn page_at(&self, moment: Duration) -> (RgbImage, usize) {
        let count = u32::try_from(self.pictures.len()).unwrap_or(u32::MAX).max(1);
        let columns = count.min(COLUMNS);
        let rows = count.div_ceil(columns);
        let (wide, high) = (CELL.0 + GAP, CELL.1 + BAR + GAP);
        let mut sheet = RgbImage::from_pixel(columns * wide + GAP, rows * high + GAP, PAPER);
        let mut shown = 0;
        for (number, object) in (0..).zip(&self.pictures) {
            let (left, top) = (GAP + number % columns * wide, GAP + number / columns * high);
            let there = object.bytes_at(moment);
            let mut cell = RgbImage::from_pixel(CELL.0, CELL.1, MISSING);
            if let Some(picture) = decoded(object, there) {
                let (x, y) = (CELL.0 - picture.width(), CELL.1 - picture.height());
                overlay(&mut cell, &picture, i64::from(x / 2), i64::from(y / 2));
                shown += 1;
            }
            overlay(&mut sheet, &cell, left.into(), top.into());
            let mut bar = RgbImage::from_pixel(CELL.0, BAR, MISSING);
            let total = object.announced.unwrap_or(0).max(object.bytes()).max(1);
            let filled = u64::from(CELL.0) * there.min(total) / total;
            let ink = if object.completed.is_some() { THERE } else { BROKEN };
            bar.enumerate_pixels_mut()
                .filter(|(x, ..)| u64::from(*x) < filled)
                .for_each(|(.., pixel)| *pixel = ink);
            overlay(&mut sheet, &bar, left.into(), (top + CELL.1).into());
        }
        (sheet, shown)
    }

    fn html(&self, title: &str, frames: &[Frame]) -> String {
        let title = escaped(title);
        let mut figures = String::new();
        let all = self.pictures.len();
        for (number, frame) in (1..).zip(frames) {
            let Frame { at_s, shown, complete, .. } = frame;
            let _ = writeln!(
                figures,
                "<figure><img src=\"{number:02}.png\" alt=\"{shown} of {all} pictures show something, \
                 {complete} are complete\"><figcaption>after {at_s:.3} s: {shown} of {all} pictures \
                 show something, {complete} are complete</figcaption></figure>"
            );
        }
        format!(
            "<!doctype html>\n<html lang=\"en\"><meta charset=\"utf-8\">\n\
             <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
             <meta name=\"color-scheme\" content=\"light dark\">\n<title>{title}</title>\n\
             <style>body{{font:16px/1.4 system-ui,sans-serif;margin:1rem auto;max-width:54rem;\
             padding:0 1rem}}figure{{margin:1.5rem 0}}img{{max-width:100%;height:auto}}</style>\n\
             <h1>{title}</h1>\n<p>Each picture has a bar of the bytes that had come.</p>\n{figures}</html>\n"
        )
    }
}

/// Escapes text for HTML.
fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('"', "&quot;")
}

/// The format of a picture, recognised by its bytes.
fn format_of(object: &ObjectLoad) -> Option<ImageFormat> {
    let format = image::guess_format(object.body.as_ref()?).ok()?;
    matches!(format, ImageFormat::Jpeg | ImageFormat::Png).then_some(format)
}

/// Decodes a picture from its first `bytes` bytes, at the size of a cell. A progressive JPEG shows
/// something once about a quarter of its bytes are there.
fn decoded(object: &ObjectLoad, bytes: u64) -> Option<RgbImage> {
    let body = object.body.as_ref()?;
    let there = usize::try_from(bytes).ok().map_or(body.len(), |bytes| bytes.min(body.len()));
    let mut prefix = body.get(..there)?.to_vec();
    let format = format_of(object)?;
    if format == ImageFormat::Jpeg && there < body.len() {
        // An end marker replaces the missing bytes.
        prefix.extend([0xff, 0xd9]);
    }
    let mut reader = ImageReader::with_format(Cursor::new(prefix), format);
    let mut limits = Limits::default();
    limits.max_image_width = Some(LONGEST_SIDE);
    limits.max_image_height = Some(LONGEST_SIDE);
    limits.max_alloc = Some(MOST_MEMORY);
    reader.limits(limits);
    let picture = reader.decode().ok()?;
    Some(picture.resize(CELL.0, CELL.1, FilterType::Triangle).to_rgb8())
}

#[cfg(test)]
mod tests {
    use anabranch_http::PageLoad;
    use bytes::Bytes;

    use super::*;

    fn picture(bytes: &'static [u8], arrivals: &[(u64, u64)], whole: bool) -> ObjectLoad {
        let mut object = ObjectLoad::default();
        object.arrivals =
            arrivals.iter().map(|(at, bytes)| (Duration::from_secs(*at), *bytes)).collect();
        object.announced = Some(bytes.len() as u64);
        object.completed = object.arrivals.last().filter(|_| whole).map(|(at, _)| *at);
        object.body = Some(Bytes::from_static(bytes));
        object
    }

    #[test]
    fn a_picture_is_shown_as_far_as_it_has_come() {
        let jpeg = include_bytes!("../../demo/page/1.jpg");
        let all = jpeg.len() as u64;
        let object = picture(jpeg, &[(1, all / 20), (2, all / 2), (3, all)], true);
        assert!(decoded(&object, 0).is_none());
        let half = decoded(&object, all / 2).unwrap();
        let whole = decoded(&object, all).unwrap();
        assert_eq!(half.dimensions(), whole.dimensions());
        // The picture is coarser, but still similar.
        let apart = |one: &RgbImage, other: &RgbImage| {
            let pairs = one.as_raw().iter().zip(other.as_raw());
            let sum: u64 = pairs.map(|(a, b)| u64::from(a.abs_diff(*b))).sum();
            sum as f64 / one.as_raw().len() as f64
        };
        let blank = RgbImage::from_pixel(whole.width(), whole.height(), MISSING);
        let (near, far) = (apart(&half, &whole), apart(&blank, &whole));
        assert!(near > 0.0 && near < far / 2.0, "{near} {far}");
    }

    #[test]
    fn what_is_no_picture_or_a_broken_one_is_left_empty() {
        let mut page = PageLoad::default();
        page.objects = vec![
            picture(b"body { color: red }", &[(1, 19)], true),
            picture(b"\xff\xd8\xff\xe0 and nothing that makes sense", &[(1, 34)], true),
            picture(b"\x89PNG\r\n\x1a\n", &[(2, 8)], false),
        ];
        let strip = Filmstrip::new(&page, &[Duration::ZERO, Duration::from_secs(3)]);
        assert_eq!(strip.pictures.len(), 2);
        let directory = tempfile::tempdir().unwrap();
        let frames = strip.draw(directory.path(), "a <page>").unwrap();
        let told: Vec<_> = frames.iter().map(|frame| (frame.shown, frame.complete)).collect();
        assert_eq!(told, [(0, 0), (0, 1)]);
        let html = std::fs::read_to_string(directory.path().join("index.html")).unwrap();
        assert!(html.contains("a &lt;page>") && html.contains("02.png"), "{html}");
        let drawn = image::open(directory.path().join("02.png")).unwrap().to_rgb8();
        let (x, y) = (GAP + CELL.0 + GAP + 1, GAP + CELL.1 + 1);
        assert_eq!(*drawn.get_pixel(GAP + 1, y), THERE);
        assert_eq!(*drawn.get_pixel(x, y), BROKEN);
    }
}
