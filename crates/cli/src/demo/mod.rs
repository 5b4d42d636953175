//! The demonstration: one page of pictures, carried in different ways.

mod compute;
mod serve;
mod summary;

pub(crate) use compute::{Conditions, Way};
pub(crate) use serve::serve;
pub(crate) use summary::{Outcome, headless};

use anabranch_web::Site;
use bytes::Bytes;

/// The pictures, which `scripts/demo-images` paints.
static PICTURES: [&[u8]; 10] = [
    include_bytes!("page/1.jpg"),
    include_bytes!("page/2.jpg"),
    include_bytes!("page/3.jpg"),
    include_bytes!("page/4.jpg"),
    include_bytes!("page/5.jpg"),
    include_bytes!("page/6.jpg"),
    include_bytes!("page/7.jpg"),
    include_bytes!("page/8.jpg"),
    include_bytes!("page/9.jpg"),
    include_bytes!("page/10.jpg"),
];

/// The small one before them.
static LOGO: &[u8] = include_bytes!("page/logo.jpg");

/// Pictures that there are.
pub(crate) const MOST_PICTURES: u16 = PICTURES.len() as u16;

/// The page that is carried: a logo and so many pictures.
fn site(pictures: u16) -> Site {
    let pictures = PICTURES.iter().take(usize::from(pictures)).enumerate();
    let pictures: Vec<_> =
        pictures.map(|(at, bytes)| (format!("{}.jpg", at + 1), *bytes)).collect();
    let images: String = pictures
        .iter()
        .map(|(name, _)| format!("<p><img src=\"{name}\" alt=\"\"></p>\n"))
        .collect();
    let index = format!(
        "<!doctype html>\n<html lang=\"en\"><title>Landscapes</title>\n\
         <h1><img src=\"logo.jpg\" alt=\"\"> Landscapes</h1>\n{images}</html>\n"
    );
    let files = pictures.into_iter().chain([("logo.jpg".to_owned(), LOGO)]);
    let files = files.map(|(name, bytes)| (format!("/{name}"), Bytes::from_static(bytes)));
    Site::new(files.chain([(Site::INDEX.to_owned(), index.into())]))
}
