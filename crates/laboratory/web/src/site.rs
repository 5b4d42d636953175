//! The server's files: a page in memory.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::Arc;

use anabranch_impair::Rng;
use bytes::Bytes;
use http::header::{CONTENT_LENGTH, CONTENT_TYPE, DATE, SERVER};
use http::{HeaderValue, Request, Response, StatusCode};
use http_body_util::Full;

/// The Date field of answers: real times would differ from run to run.
const EPOCH: &str = "Thu, 01 Jan 1970 00:00:00 GMT";

/// Files in memory, with the index at `/index.html`.
#[derive(Clone, Debug, Default)]
pub struct Site {
    files: Arc<BTreeMap<String, (&'static str, Bytes)>>,
}

impl Site {
    /// The path of the page.
    pub const INDEX: &str = "/index.html";

    /// A site with these files, by path.
    pub fn new(files: impl IntoIterator<Item = (String, Bytes)>) -> Self {
        let files = files.into_iter().map(|(path, bytes)| {
            let kind = match path.rsplit_once('.').map_or("", |(_, ending)| ending) {
                "html" => "text/html",
                "jpg" => "image/jpeg",
                _ => "application/octet-stream",
            };
            (path, (kind, bytes))
        });
        Self { files: Arc::new(files.collect()) }
    }

    /// A page with `objects` objects of `size` bytes; its index has at least `index` bytes.
    pub fn uniform(objects: usize, size: usize, index: usize) -> Self {
        Self::of_sizes(&vec![size; objects], index)
    }

    /// A page with objects of these sizes; its index has at least `index` bytes.
    pub fn of_sizes(sizes: &[usize], index: usize) -> Self {
        let names = (1..=sizes.len()).map(|number| format!("{number}.jpg"));
        let images: String = names.clone().map(|name| format!("<img src=\"{name}\">")).collect();
        let head = "<!doctype html><title>Page</title>";
        let mut page = format!("{head}{images}");
        let missing = index.saturating_sub(page.len() + "<!---->".len());
        if missing > 0 {
            page.push_str(&format!("<!--{}-->", "-".repeat(missing)));
        }
        let mut rng = Rng::new(sizes.len() as u64);
        let objects = names.zip(sizes).map(|(name, size)| {
            let body: Vec<u8> = (0..*size).map(|_| rng.next_u64() as u8).collect();
            (format!("/{name}"), body.into())
        });
        Self::new(objects.chain([(Self::INDEX.to_owned(), page.into())]))
    }

    /// The bytes of a file.
    pub fn file(&self, path: &str) -> Option<&Bytes> {
        self.files.get(path).map(|(_, bytes)| bytes)
    }

    /// The sum of the bytes of all files.
    pub fn bytes(&self) -> u64 {
        self.files.values().map(|(_, bytes)| bytes.len() as u64).sum()
    }

    /// The answer to a request.
    pub(crate) fn answer<B>(
        &self,
        request: &Request<B>,
    ) -> Result<Response<Full<Bytes>>, Infallible> {
        let found = self.files.get(request.uri().path());
        let (status, kind, body) = match found {
            Some((kind, body)) => (StatusCode::OK, *kind, body.clone()),
            None => (StatusCode::NOT_FOUND, "text/plain", Bytes::new()),
        };
        let length = body.len();
        let mut response = Response::new(Full::new(body));
        *response.status_mut() = status;
        let fields = response.headers_mut();
        fields.insert(DATE, HeaderValue::from_static(EPOCH));
        fields.insert(SERVER, HeaderValue::from_static("anabranch"));
        fields.insert(CONTENT_TYPE, HeaderValue::from_static(kind));
        fields.insert(CONTENT_LENGTH, HeaderValue::from(length));
        Ok(response)
    }
}
