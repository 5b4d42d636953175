//! A hyper service that serves a directory.

mod at_once;
mod body;
mod coding;
mod index;
mod links;
mod range;
mod recent;
mod regular;
mod target;
mod validators;

use std::convert::Infallible;
use std::io;
use std::path::{Component, Path, PathBuf};
use std::pin::Pin;
use std::sync::Arc;

use bytes::Bytes;
use cap_std::ambient_authority;
use cap_std::fs::{Dir, Metadata};
use http::header::{
    ACCEPT_RANGES, ALLOW, CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_RANGE, CONTENT_TYPE, ETAG,
    HeaderValue, LAST_MODIFIED, LOCATION, RETRY_AFTER, VARY,
};
use http::{HeaderMap, Method, Request, Response, StatusCode, Uri};
use hyper::service::Service;
use tokio::sync::Semaphore;
use tracing::info;

pub use self::body::FileBody;
use self::coding::{Accepted, Coding};
use self::links::Names;
use self::range::Selection;
use self::recent::Recent;
pub(crate) use self::regular::open as open_regular;
use self::target::Target;
pub(crate) use self::target::resolve;
pub(crate) use self::validators::Validators;

/// Serves the files below a directory: GET and HEAD, ranges, conditional requests, compressed files next to
/// uncompressed ones (`name.br`, `name.gz`), and pages that list a directory without an `index.html`.
///
/// Nothing outside the directory can be reached. `..` is not followed, and symbolic links are followed only as long
/// as they stay below the directory, even if files are renamed concurrently. Everything except files and
/// directories (a pipe, a device) is reported as not found, and so are names that begin with a dot, except
/// `.well-known` (RFC 8615).
#[derive(Clone, Debug)]
pub struct Files {
    root: Arc<Dir>,
    /// The absolute paths of the directory, for absolute links.
    names: Arc<Names>,
    /// Names that begin with a dot are served, too.
    dot_files: bool,
    /// Limits concurrent listings.
    listing: Arc<Semaphore>,
    recent: Arc<Recent>,
}

/// The part of a directory that cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unreadable {
    /// Nothing in it can be reached.
    Files,
    /// Listings are not available, but clients can reach files whose names they know.
    Listing,
}

/// Maximum number of concurrent listings. A listing keeps the processor and the disk busy; too many of them would
/// starve other requests.
const LISTINGS: usize = 2;

/// The result of looking up a path.
enum Found {
    File(FoundFile),
    /// A directory without an index file.
    Unlisted,
    Listing(String),
    /// A directory whose path lacks the final slash, which relative links need.
    Directory,
}

/// A file, and the header fields to send with it.
struct FoundFile {
    content: Content,
    len: u64,
    validators: Validators,
    content_type: HeaderValue,
    /// The file is compressed.
    coding: Option<Coding>,
    /// The answer depends on the codings that the client accepts.
    varies: bool,
}

/// The source of a file's content.
enum Content {
    File(std::fs::File),
    /// A file that can be read without blocking the thread.
    Cached(std::fs::File),
    Memory(Bytes),
}

impl Content {
    /// A body of `len` bytes from offset `start`, both within the file.
    fn body(self, start: u64, len: u64) -> io::Result<FileBody> {
        match self {
            Self::File(file) => FileBody::file(file, start, len),
            Self::Cached(file) => Ok(FileBody::later(file, start, len)),
            Self::Memory(bytes) => {
                let place = |offset| usize::try_from(offset).unwrap_or(usize::MAX).min(bytes.len());
                Ok(FileBody::memory(bytes.slice(place(start)..place(start + len))))
            }
        }
    }
}

impl Files {
    /// Serves the files below `directory`.
    ///
    /// # Errors
    /// The directory cannot be opened.
    pub fn open(directory: &Path) -> io::Result<Self> {
        let root = Dir::open_ambient_dir(directory, ambient_authority())?;
        Ok(Self {
            root: Arc::new(root),
            names: Arc::new(Names::of(directory)),
            dot_files: false,
            listing: Arc::new(Semaphore::new(LISTINGS)),
            recent: Arc::default(),
        })
    }

    /// Sets whether names that begin with a dot are served.
    #[must_use]
    pub fn with_dot_files(mut self, dot_files: bool) -> Self {
        self.dot_files = dot_files;
        self
    }

    /// Checks that requests can use the directory.
    ///
    /// # Errors
    /// The directory's content cannot be accessed, or cannot be listed. The error has the reason.
    pub fn check(&self) -> Result<(), (Unreadable, io::Error)> {
        match self.root.metadata(".anabranch-is-not-there") {
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                return Err((Unreadable::Files, error));
            }
            _ => {}
        }
        self.root.entries().map(|_| ()).map_err(|error| (Unreadable::Listing, error))
    }

    async fn answer(self, method: Method, uri: Uri, headers: HeaderMap) -> Response<FileBody> {
        if method != Method::GET && method != Method::HEAD {
            let mut response = plain(StatusCode::METHOD_NOT_ALLOWED);
            response.headers_mut().insert(ALLOW, HeaderValue::from_static("GET, HEAD"));
            return response;
        }
        let Some(target) = resolve(uri.path()) else {
            return plain(StatusCode::NOT_FOUND);
        };
        if !self.dot_files && is_hidden(&target.path) {
            return plain(StatusCode::NOT_FOUND);
        }
        if !target.directory
            && let Some(found) = self.at_once(&target.path)
        {
            return Asked { method, uri, headers, target }.answer(Ok(Found::File(found)));
        }
        let asked = Arc::new(Asked { method, uri, headers, target });
        let (files, theirs) = (self.clone(), Arc::clone(&asked));
        // Opening, reading and listing may block on a disk.
        let answered = tokio::task::spawn_blocking(move || {
            match files.find(&theirs.target, &Accepted::of(&theirs.headers)) {
                Ok(Found::Unlisted) => None,
                found => Some(theirs.answer(found)),
            }
        });
        let failed = |_| Some(plain(StatusCode::INTERNAL_SERVER_ERROR));
        let mut response = match answered.await.unwrap_or_else(failed) {
            Some(response) => response,
            None => self.list(asked).await,
        };
        if response.status() == StatusCode::SERVICE_UNAVAILABLE {
            response.headers_mut().insert(RETRY_AFTER, HeaderValue::from_static("1"));
        }
        response
    }

    async fn list(self, asked: Arc<Asked>) -> Response<FileBody> {
        let _place = self.listing.acquire().await.ok();
        let files = self.clone();
        let answered = tokio::task::spawn_blocking(move || {
            let path = &asked.target.path;
            let followed = files.names.follow(&files.root, path);
            let path = followed.as_ref().unwrap_or(path);
            // Follows links within the directory. Links that lead out of it or are broken are not listed.
            let look = |path: &Path| {
                let shown = files.dot_files || !is_hidden(path);
                files.look(path).ok().filter(|_| shown).map(|(_, metadata)| metadata)
            };
            let listed = index::page(&files.root, path, asked.uri.path(), look);
            asked.answer(listed.map(Found::Listing))
        });
        answered.await.unwrap_or_else(|_| plain(StatusCode::INTERNAL_SERVER_ERROR))
    }

    /// Returns a file if it is available without blocking. If its type is compressible, there may be compressed
    /// files next to it, which are looked up on a thread that may block; so this returns `None`.
    fn at_once(&self, path: &Path) -> Option<FoundFile> {
        let content_type = content_type(path);
        if coding::is_worth_it(&content_type) {
            return None;
        }
        let seen = at_once::look(&self.root, path)?;
        if let Some(content) = self.recent.find(&seen) {
            return Some(FoundFile::new(Content::Memory(content), &seen, content_type));
        }
        let file = at_once::open(&self.root, path)?;
        let metadata = file.metadata().ok().filter(|metadata| metadata.is_file())?;
        let content = match self.recent.read(&file, &metadata) {
            Some(content) => Content::Memory(content),
            None => Content::Cached(file),
        };
        Some(FoundFile::new(content, &metadata, content_type))
    }
}

/// A request for the file or directory at a path.
struct Asked {
    method: Method,
    uri: Uri,
    headers: HeaderMap,
    target: Target,
}

impl Asked {
    fn answer(&self, found: io::Result<Found>) -> Response<FileBody> {
        let mut response = match found {
            Ok(Found::File(found)) => file_response(found, &self.method, &self.headers),
            Ok(Found::Listing(html)) => {
                let html_type = HeaderValue::from_static("text/html; charset=utf-8");
                text(StatusCode::OK, html_type, html)
            }
            Ok(Found::Directory) => redirect(&self.uri),
            // The caller generates the listing.
            Ok(Found::Unlisted) => plain(StatusCode::NOT_FOUND),
            Err(error) => plain(match error.kind() {
                // The sandbox also reports a link that leads out of the directory as a denied permission.
                io::ErrorKind::PermissionDenied => StatusCode::FORBIDDEN,
                io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => StatusCode::NOT_FOUND,
                io::ErrorKind::InvalidFilename | io::ErrorKind::InvalidInput => {
                    StatusCode::NOT_FOUND
                }
                _ if is_out_of_files(&error) => StatusCode::SERVICE_UNAVAILABLE,
                // ELOOP: the links form a cycle.
                _ if is_one_of(&error, &[ELOOP]) => StatusCode::NOT_FOUND,
                _ => StatusCode::INTERNAL_SERVER_ERROR,
            }),
        };
        if self.method == Method::HEAD {
            *response.body_mut() = FileBody::empty();
        }
        response
    }
}

impl<B> Service<Request<B>> for Files {
    type Response = Response<FileBody>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Infallible>> + Send>>;

    fn call(&self, request: Request<B>) -> Self::Future {
        let files = self.clone();
        let (head, _body) = request.into_parts();
        Box::pin(async move {
            let method = head.method.clone();
            let uri = head.uri.clone();
            let response = files.answer(head.method, head.uri, head.headers).await;
            info!(%method, path = uri.path(), status = response.status().as_u16(), "request");
            Ok(response)
        })
    }
}

/// Whether the process or the system has run out of file descriptors, which is usually temporary.
pub(crate) fn is_out_of_files(error: &io::Error) -> bool {
    const ENFILE: i32 = 23;
    const EMFILE: i32 = 24;
    is_one_of(error, &[ENFILE, EMFILE])
}

const ELOOP: i32 = if cfg!(target_os = "linux") { 40 } else { 62 };

fn is_one_of(error: &io::Error, numbers: &[i32]) -> bool {
    cfg!(unix) && error.raw_os_error().is_some_and(|number| numbers.contains(&number))
}

impl Files {
    /// Looks up a path. Returns the path below the directory with which to open it, and its metadata.
    fn look(&self, path: &Path) -> io::Result<(PathBuf, Metadata)> {
        match self.root.metadata(path) {
            // The directory handle refuses every absolute link.
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                let inside = self.names.follow(&self.root, path).ok_or(error)?;
                let metadata = self.root.metadata(&inside)?;
                Ok((inside, metadata))
            }
            found => Ok((path.to_owned(), found?)),
        }
    }

    /// Looks up the target and opens it.
    fn find(&self, target: &Target, accepted: &Accepted) -> io::Result<Found> {
        let Target { path, directory } = target;
        let (path, metadata) = self.look(path)?;
        if metadata.is_dir() {
            if !*directory {
                return Ok(Found::Directory);
            }
            let opened = self
                .look(&path.join("index.html"))
                .and_then(|(page, metadata)| open_file(&self.root, &page, &metadata, accepted));
            return match opened {
                Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Found::Unlisted),
                other => other,
            };
        }
        if *directory {
            return Err(io::ErrorKind::NotADirectory.into());
        }
        open_file(&self.root, &path, &metadata, accepted)
    }
}

/// Whether a component of the path begins with a dot. `.well-known` is always public (RFC 8615).
pub(crate) fn is_hidden(path: &Path) -> bool {
    let names = path.components().filter_map(|component| match component {
        Component::Normal(name) => Some(name.as_encoded_bytes()),
        _ => None,
    });
    names.into_iter().any(|name| name.starts_with(b".") && name != b".well-known")
}

/// Opens a file that had this metadata a moment ago, or the compressed file next to it.
fn open_file(
    root: &Dir,
    path: &Path,
    metadata: &Metadata,
    accepted: &Accepted,
) -> io::Result<Found> {
    if !metadata.is_file() {
        return Err(io::ErrorKind::NotFound.into());
    }
    let content_type = content_type(path);
    let beside = coding::beside(root, path, &content_type, metadata.modified().ok(), accepted);
    let coding = beside.taken.as_ref().map(|(coding, _)| *coding);
    let path = beside.taken.as_ref().map_or(path, |(_, path)| path);
    let file = regular::open(root, path)?;
    let metadata = file.metadata()?;
    let mut found = FoundFile::new(Content::File(file), &metadata, content_type);
    found.validators = found.validators.coded(coding.map(Coding::name));
    Ok(Found::File(FoundFile { coding, varies: beside.varies, ..found }))
}

impl FoundFile {
    /// Makes an uncompressed file.
    fn new(content: Content, metadata: &std::fs::Metadata, content_type: HeaderValue) -> Self {
        let validators = Validators::of(metadata);
        let (len, coding, varies) = (metadata.len(), None, false);
        Self { content, len, validators, content_type, coding, varies }
    }
}

fn content_type(path: &Path) -> HeaderValue {
    let guess = mime_guess::from_path(path).first_raw().unwrap_or("application/octet-stream");
    match guess {
        "text/html" => HeaderValue::from_static("text/html; charset=utf-8"),
        "text/plain" => HeaderValue::from_static("text/plain; charset=utf-8"),
        // Types in the table are valid field values. If adding the charset fails, they are still correct without
        // it.
        text if text.starts_with("text/") => {
            HeaderValue::from_str(&format!("{text}; charset=utf-8"))
                .unwrap_or(HeaderValue::from_static(text))
        }
        other => HeaderValue::from_static(other),
    }
}

fn file_response(found: FoundFile, method: &Method, headers: &HeaderMap) -> Response<FileBody> {
    let FoundFile { content, len, validators, content_type, coding, varies } = found;
    let describe = |fields: &mut HeaderMap| {
        add_validators(fields, &validators);
        if varies {
            fields.insert(VARY, HeaderValue::from_static("accept-encoding"));
        }
    };
    if validators.unwanted(headers) {
        return plain(StatusCode::PRECONDITION_FAILED);
    }
    if validators.not_modified(headers) {
        let mut response = Response::new(FileBody::empty());
        *response.status_mut() = StatusCode::NOT_MODIFIED;
        describe(response.headers_mut());
        return response;
    }
    // Ranges are defined for GET only (RFC 9110 section 14.2).
    let selection = if *method == Method::GET && validators.range_applies(headers) {
        range::select(headers, len)
    } else {
        Selection::Whole
    };
    let (status, start, count) = match selection {
        Selection::Whole => (StatusCode::OK, 0, len),
        Selection::Part { start, len } => (StatusCode::PARTIAL_CONTENT, start, len),
        Selection::Unsatisfiable => {
            let mut response = plain(StatusCode::RANGE_NOT_SATISFIABLE);
            insert(response.headers_mut(), CONTENT_RANGE, &format!("bytes */{len}"));
            return response;
        }
    };
    let body = match *method {
        Method::HEAD => Ok(FileBody::empty()),
        _ => content.body(start, count),
    };
    let Ok(body) = body else {
        return plain(StatusCode::INTERNAL_SERVER_ERROR);
    };
    let mut response = Response::new(body);
    *response.status_mut() = status;
    let fields = response.headers_mut();
    fields.insert(CONTENT_TYPE, content_type);
    fields.insert(CONTENT_LENGTH, count.into());
    fields.insert(ACCEPT_RANGES, HeaderValue::from_static("bytes"));
    describe(fields);
    if let Some(coding) = coding {
        fields.insert(CONTENT_ENCODING, HeaderValue::from_static(coding.name()));
    }
    if status == StatusCode::PARTIAL_CONTENT {
        let last = start + count - 1;
        insert(fields, CONTENT_RANGE, &format!("bytes {start}-{last}/{len}"));
    }
    response
}

fn add_validators(fields: &mut HeaderMap, validators: &Validators) {
    if let Some(etag) = &validators.etag {
        insert(fields, ETAG, etag);
    }
    if let Some(modified) = validators.modified {
        insert(fields, LAST_MODIFIED, &httpdate::fmt_http_date(modified));
    }
}

fn redirect(uri: &Uri) -> Response<FileBody> {
    // Without trimming, '//host' would redirect the client to another host.
    let mut location = format!("/{}/", uri.path().trim_matches('/'));
    if let Some(query) = uri.query() {
        location.extend(["?", query]);
    }
    let mut response = plain(StatusCode::MOVED_PERMANENTLY);
    insert(response.headers_mut(), LOCATION, &location);
    response
}

/// A response whose body is the text of its status.
pub(crate) fn plain(status: StatusCode) -> Response<FileBody> {
    let body = format!("{status}\n");
    text(status, HeaderValue::from_static("text/plain; charset=utf-8"), body)
}

fn text(status: StatusCode, content_type: HeaderValue, body: String) -> Response<FileBody> {
    let len = body.len();
    let mut response = Response::new(FileBody::memory(body));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, content_type);
    response.headers_mut().insert(CONTENT_LENGTH, len.into());
    response
}

/// Sets a field to a generated text, or omits the field if the text is not a valid value.
fn insert(fields: &mut HeaderMap, name: http::HeaderName, value: &str) {
    if let Ok(value) = HeaderValue::from_str(value) {
        fields.insert(name, value);
    }
}

#[cfg(test)]
mod tests;
