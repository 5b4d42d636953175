//! Receives files by PUT (RFC 9110 section 9.3.4) and stores them below a directory.

mod unfinished;

use std::convert::Infallible;
use std::error::Error;
use std::ffi::OsStr;
use std::io;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use cap_std::ambient_authority;
use cap_std::fs::Dir;
use http::header::{
    ALLOW, CONNECTION, CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_RANGE, ETAG, EXPECT, HeaderValue,
    RETRY_AFTER,
};
use http::request::Parts;
use http::{HeaderMap, Method, Request, Response, StatusCode};
use http_body::Body;
use http_body_util::BodyExt as _;
use hyper::service::Service;
use tokio::sync::Semaphore;
use tokio::time::{Instant, timeout};

use self::unfinished::Unfinished;
use crate::files::{FileBody, Files, Validators, is_hidden, plain, resolve};
use crate::gate::Patience;

/// Bytes per write.
const BATCH: usize = 256 << 10;

/// How often the progress of an upload is checked.
const LOOK: Duration = Duration::from_secs(1);

/// If others wait, an upload must deliver at least this many bytes within each [`PERIOD`].
const LEAST: u64 = 5 << 10;

/// See [`LEAST`].
const PERIOD: Duration = Duration::from_secs(5);

/// Maximum bytes of a rejected body that are read, so that its sender reads the answer.
const MOST_DRAINED: u64 = 1 << 20;

/// Time limit for reading the body of a rejected upload.
const DRAIN: Duration = Duration::from_secs(5);

/// A directory for uploaded files.
#[derive(Clone, Debug)]
pub struct Uploads {
    root: Arc<Dir>,
    /// Maximum bytes of a file.
    most: u64,
    /// Limits concurrent uploads.
    places: Arc<Semaphore>,
    /// Held while a file gets its final name, so that nothing changes between the last check and the rename.
    naming: Arc<Mutex<()>>,
}

impl Uploads {
    /// Accepts files of up to `most` bytes into `directory`, up to `at_once` at the same time. A separate thread
    /// removes the files of unfinished uploads to a killed server.
    ///
    /// # Errors
    /// The directory cannot be opened or written to.
    pub fn open(directory: &Path, most: u64, at_once: usize) -> io::Result<Self> {
        let root = Arc::new(Dir::open_ambient_dir(directory, ambient_authority())?);
        drop(Unfinished::create(&root, Path::new("."))?);
        let old = root.try_clone()?;
        std::thread::Builder::new()
            .name("old uploads".to_owned())
            .spawn(move || unfinished::remove_old(&old))?;
        let at_once = at_once.clamp(1, Semaphore::MAX_PERMITS);
        Ok(Self { root, most, places: Arc::new(Semaphore::new(at_once)), naming: Arc::default() })
    }
}

/// Serves files, and accepts uploads if it has a directory for them.
#[derive(Clone, Debug)]
pub struct Store {
    files: Files,
    uploads: Option<Uploads>,
}

impl Store {
    /// Serves `files`, and stores files sent by PUT in `uploads`, if given.
    pub fn new(files: Files, uploads: Option<Uploads>) -> Self {
        Self { files, uploads }
    }
}

impl<B> Service<Request<B>> for Store
where
    B: Body<Data = Bytes> + Send + Unpin + 'static,
    B::Error: Into<Box<dyn Error + Send + Sync>>,
{
    type Response = Response<FileBody>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Infallible>> + Send>>;

    fn call(&self, request: Request<B>) -> Self::Future {
        let Some(uploads) = self.uploads.clone() else { return self.files.call(request) };
        if request.method() != Method::PUT {
            let answering = self.files.call(request);
            return Box::pin(async move {
                let mut response = answering.await?;
                if response.status() == StatusCode::METHOD_NOT_ALLOWED {
                    response
                        .headers_mut()
                        .insert(ALLOW, HeaderValue::from_static("GET, HEAD, PUT"));
                }
                Ok(response)
            });
        }
        Box::pin(async move { Ok(uploads.answer(request).await) })
    }
}

/// Why a file is rejected.
#[derive(Debug, PartialEq, Eq)]
enum Refusal {
    /// The answer has this status.
    Status(StatusCode),
    /// The body broke off, so there is no stream to answer on.
    Gone,
}

impl From<StatusCode> for Refusal {
    fn from(status: StatusCode) -> Self {
        Self::Status(status)
    }
}

impl From<io::Error> for Refusal {
    fn from(error: io::Error) -> Self {
        Self::Status(status_of(&error))
    }
}

/// The status to answer if the file system refuses a file.
fn status_of(error: &io::Error) -> StatusCode {
    match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
            StatusCode::INSUFFICIENT_STORAGE
        }
        io::ErrorKind::FileTooLarge => StatusCode::PAYLOAD_TOO_LARGE,
        // A path that leads out of the directory is also reported as a denied permission.
        io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
            StatusCode::FORBIDDEN
        }
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory | io::ErrorKind::IsADirectory => {
            StatusCode::CONFLICT
        }
        io::ErrorKind::InvalidFilename | io::ErrorKind::InvalidInput => StatusCode::FORBIDDEN,
        _ if crate::files::is_out_of_files(error) => StatusCode::SERVICE_UNAVAILABLE,
        _ => StatusCode::INTERNAL_SERVER_ERROR,
    }
}

/// A file that was received and stored.
struct Taken {
    created: bool,
    validators: Validators,
}

impl Uploads {
    async fn answer<B>(self, request: Request<B>) -> Response<FileBody>
    where
        B: Body<Data = Bytes> + Send + Unpin,
        B::Error: Into<Box<dyn Error + Send + Sync>>,
    {
        let (head, mut body) = request.into_parts();
        // Reading the body makes hyper send 100 Continue if the client expects it.
        let mut asked = !head.headers.contains_key(EXPECT);
        match self.take(&head, &mut body, &mut asked).await {
            Ok(Taken { created, validators }) => {
                let mut response = Response::new(FileBody::empty());
                let status = if created { StatusCode::CREATED } else { StatusCode::NO_CONTENT };
                *response.status_mut() = status;
                if created {
                    response.headers_mut().insert(CONTENT_LENGTH, HeaderValue::from_static("0"));
                }
                let etag = validators.etag.and_then(|etag| HeaderValue::from_str(&etag).ok());
                if let Some(etag) = etag {
                    response.headers_mut().insert(ETAG, etag);
                }
                response
            }
            Err(refusal) => {
                let status = match refusal {
                    Refusal::Status(status) => status,
                    Refusal::Gone => StatusCode::BAD_REQUEST,
                };
                let whole = refusal != Refusal::Gone && asked && drain(&mut body).await;
                let mut response = plain(status);
                if !whole {
                    response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
                }
                if status == StatusCode::SERVICE_UNAVAILABLE {
                    response.headers_mut().insert(RETRY_AFTER, HeaderValue::from_static("1"));
                }
                response
            }
        }
    }

    /// Receives a file. `asked`: the client already sends the body.
    async fn take<B>(&self, head: &Parts, body: &mut B, asked: &mut bool) -> Result<Taken, Refusal>
    where
        B: Body<Data = Bytes> + Send + Unpin,
        B::Error: Into<Box<dyn Error + Send + Sync>>,
    {
        let path = name_of(head)?;
        if body.size_hint().lower() > self.most {
            return Err(StatusCode::PAYLOAD_TOO_LARGE.into());
        }
        // Do not wait here: the request holds a place that others need.
        let busy = |_| Refusal::Status(StatusCode::SERVICE_UNAVAILABLE);
        let _place = self.places.try_acquire().map_err(busy)?;
        let (uploads, headers) = (self.clone(), head.headers.clone());
        let (begun, path) = run(move || {
            uploads.may_replace(&path, &headers)?;
            let parent = path.parent().unwrap_or(Path::new("."));
            Ok((Unfinished::create(&uploads.root, parent)?, path))
        })
        .await?;
        let mut upload = Upload { unfinished: begun, batch: Vec::new(), gathered: 0, bytes: 0 };
        *asked = true;
        let mut watch = Watch::new(head.extensions.get::<Patience>().cloned());
        loop {
            let crowded = self.places.available_permits() == 0;
            let frame = match timeout(LOOK, body.frame()).await {
                Ok(Some(Ok(frame))) => frame,
                Ok(None) => break,
                Ok(Some(Err(_))) => return Err(Refusal::Gone),
                Err(_) => {
                    watch.look(0, crowded)?;
                    continue;
                }
            };
            let Ok(data) = frame.into_data() else { continue };
            watch.look(data.len() as u64, crowded)?;
            upload = upload.add(data, self.most).await?;
        }
        let upload = upload.flush().await?;
        let (uploads, headers) = (self.clone(), head.headers.clone());
        run(move || uploads.name(upload.unfinished, &path, &headers)).await
    }

    /// Whether a file may be created or replaced. Returns the validators of the existing file, if there is one.
    fn may_replace(&self, path: &Path, headers: &HeaderMap) -> Result<Option<Validators>, Refusal> {
        let parent = path.parent().unwrap_or(Path::new("."));
        if !self.root.metadata(parent)?.is_dir() {
            return Err(StatusCode::CONFLICT.into());
        }
        let there =
            match self.root.symlink_metadata(path) {
                Ok(found) if found.is_dir() => return Err(StatusCode::CONFLICT.into()),
                // A file must not replace a link or a special file.
                Ok(found) if !found.is_file() => return Err(StatusCode::FORBIDDEN.into()),
                Ok(_) => {
                    // The validators of an unreadable file are unknown.
                    let opened = crate::files::open_regular(&self.root, path);
                    Some(opened.and_then(|file| file.metadata()).map_or_else(
                        |_| Validators::default(),
                        |metadata| Validators::of(&metadata),
                    ))
                }
                Err(error) if error.kind() == io::ErrorKind::NotFound => None,
                Err(error) => return Err(error.into()),
            };
        let fits = Validators::allow(there.as_ref(), headers);
        if fits { Ok(there) } else { Err(StatusCode::PRECONDITION_FAILED.into()) }
    }

    /// Gives a file its final name.
    fn name(
        &self,
        unfinished: Unfinished,
        path: &Path,
        headers: &HeaderMap,
    ) -> Result<Taken, Refusal> {
        unfinished.settle()?;
        let _naming = self.naming.lock().unwrap_or_else(PoisonError::into_inner);
        let there = self.may_replace(path, headers)?;
        let metadata = unfinished.name(path, there.is_some())?;
        Ok(Taken { created: there.is_none(), validators: Validators::of(&metadata) })
    }
}

/// The path below the directory that a request names.
fn name_of(head: &Parts) -> Result<PathBuf, StatusCode> {
    // A part of a file must not be taken for the whole file (RFC 9110 section 14.5).
    if head.headers.contains_key(CONTENT_RANGE) {
        return Err(StatusCode::BAD_REQUEST);
    }
    let coded = |value: &HeaderValue| !value.as_bytes().eq_ignore_ascii_case(b"identity");
    if head.headers.get_all(CONTENT_ENCODING).iter().any(coded) {
        return Err(StatusCode::UNSUPPORTED_MEDIA_TYPE);
    }
    let target = resolve(head.uri.path()).ok_or(StatusCode::FORBIDDEN)?;
    let hidden = |name: &OsStr| name.as_encoded_bytes().starts_with(b".");
    if is_hidden(&target.path) || target.path.file_name().is_some_and(hidden) {
        return Err(StatusCode::FORBIDDEN);
    }
    if target.directory || target.path.file_name().is_none() {
        return Err(StatusCode::CONFLICT);
    }
    Ok(target.path)
}

/// Reads the body of a rejected upload, up to a limit. Returns whether it was read to the end.
async fn drain<B: Body<Data = Bytes> + Unpin>(body: &mut B) -> bool {
    if body.size_hint().lower() > MOST_DRAINED {
        return false;
    }
    let read = async {
        let mut bytes = 0;
        while let Some(frame) = body.frame().await {
            let Ok(frame) = frame else { return false };
            bytes += frame.data_ref().map_or(0, Bytes::len) as u64;
            if bytes > MOST_DRAINED {
                return false;
            }
        }
        true
    };
    timeout(DRAIN, read).await.unwrap_or(false)
}

/// A file being received.
struct Upload {
    unfinished: Unfinished,
    batch: Vec<Bytes>,
    /// Bytes in the current batch.
    gathered: usize,
    /// Bytes received so far.
    bytes: u64,
}

impl Upload {
    async fn add(mut self, data: Bytes, most: u64) -> Result<Self, Refusal> {
        self.bytes = self.bytes.saturating_add(data.len() as u64);
        if self.bytes > most {
            return Err(StatusCode::PAYLOAD_TOO_LARGE.into());
        }
        self.gathered += data.len();
        self.batch.push(data);
        if self.gathered < BATCH { Ok(self) } else { self.flush().await }
    }

    /// Writes the current batch.
    async fn flush(mut self) -> Result<Self, Refusal> {
        self.gathered = 0;
        if self.batch.is_empty() {
            return Ok(self);
        }
        run(move || {
            for piece in self.batch.drain(..) {
                self.unfinished.write(&piece)?;
            }
            Ok(self)
        })
        .await
    }
}

/// Watches the progress of an upload, so that a stalled one cannot keep its place.
struct Watch {
    patience: Option<Patience>,
    /// When data last arrived.
    moved: Instant,
    /// The start of the current period, and the bytes received since then.
    since: (Instant, u64),
}

impl Watch {
    fn new(patience: Option<Patience>) -> Self {
        let now = Instant::now();
        Self { patience, moved: now, since: (now, 0) }
    }

    /// Records that bytes arrived, or that none did within [`LOOK`]. Fails if the upload is too slow.
    fn look(&mut self, bytes: u64, crowded: bool) -> Result<(), StatusCode> {
        let now = Instant::now();
        let (patience, waited_for) = match &self.patience {
            Some(patience) => patience.now(crowded),
            None => (Duration::from_secs(120), crowded),
        };
        if bytes > 0 {
            self.moved = now;
            self.since.1 += bytes;
        }
        let silent = now.duration_since(self.moved) >= patience;
        let period = now.duration_since(self.since.0) >= PERIOD;
        let slow = period && waited_for && self.since.1 < LEAST;
        if period {
            self.since = (now, 0);
        }
        if silent || slow { Err(StatusCode::REQUEST_TIMEOUT) } else { Ok(()) }
    }
}

/// Runs a blocking disk operation on a thread that may block.
async fn run<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, Refusal> + Send + 'static,
) -> Result<T, Refusal> {
    let failed = |_| Err(Refusal::Status(StatusCode::INTERNAL_SERVER_ERROR));
    tokio::task::spawn_blocking(work).await.unwrap_or_else(failed)
}

#[cfg(test)]
mod tests;
