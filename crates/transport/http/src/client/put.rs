//! Sends files by PUT (RFC 9110 section 9.3.4), each on its own stream.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::join_all;
use http::header::HeaderValue;
use http::{Request, StatusCode};
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt as _, ReadHalf, WriteHalf};
use tokio::sync::Semaphore;
use tokio::time::{Instant, sleep_until, timeout};

use super::pool::{AGENT, broken};
use super::{FetchOptions, FetchReport, Fetched, Observer, unanswered};
use crate::answers::{Answers, Head};
use crate::error::FetchError;
use crate::stream::{Counted, Counters, OpenStreams};

/// Bytes per read and write.
const PIECE: usize = 256 << 10;

/// How long to wait for the server to accept the request before the file is sent anyway: not all servers support
/// `Expect: 100-continue` (RFC 9110 section 10.1.1).
const ASKED: Duration = Duration::from_secs(1);

/// How long to wait for an answer on a stream that accepts no more data.
const LAST_WORD: Duration = Duration::from_secs(5);

/// One file to send.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Upload {
    /// Value of the Host field.
    pub host: String,
    /// Path for the request line.
    pub target: String,
    /// The source of the bytes.
    pub source: Source,
    /// Send the file only if the server has no file of this name.
    pub new: bool,
}

/// The source of an upload's bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// A file, which must not change meanwhile.
    File(PathBuf),
    /// Standard input, up to its end.
    Stdin,
}

impl Source {
    fn name(&self) -> &Path {
        match self {
            Self::File(path) => path,
            Self::Stdin => Path::new("standard input"),
        }
    }
}

/// Sends `uploads` over at most `options.streams` streams at a time, and reads the server's answers. A result of
/// [`Ok`] means that the server has confirmed the whole file.
///
/// A failed upload does not stop the others. Of `options`, only streams, silence and pace are used.
pub async fn put_all<C: OpenStreams>(
    connection: &C,
    uploads: &[Upload],
    options: &FetchOptions,
    observer: &dyn Observer,
) -> FetchReport {
    let counters = AllCounters::default();
    let places = Semaphore::new(options.streams.max(1));
    let (all, streams) = (&counters, &places);
    let sent = uploads.iter().enumerate().map(|(index, upload)| async move {
        let Ok(_place) = streams.acquire().await else { return Err(unanswered()) };
        let put = Put { connection, upload, index, options, observer, counters: all };
        let result = put.run().await;
        observer.finished(index, &result);
        result
    });
    let results = join_all(sent).await;
    let counters = counters.into_inner().unwrap_or_else(PoisonError::into_inner);
    FetchReport { results, streams: counters.iter().map(|(id, c)| c.totals(*id)).collect() }
}

/// Counters of streams by number.
type AllCounters = Mutex<BTreeMap<u16, Arc<Counters>>>;

/// One upload in progress.
struct Put<'a, C> {
    connection: &'a C,
    upload: &'a Upload,
    index: usize,
    options: &'a FetchOptions,
    observer: &'a dyn Observer,
    counters: &'a AllCounters,
}

/// An open source, and its length if that is known.
struct Opened {
    file: File,
    len: Option<u64>,
}

impl<C: OpenStreams> Put<'_, C> {
    /// Waits for the server, unless it is silent for too long.
    async fn hear<T>(&self, what: impl Future<Output = T>) -> Result<T, FetchError> {
        let Some(silence) = self.options.silence else { return Ok(what.await) };
        timeout(silence, what).await.map_err(|_| FetchError::Silent(silence))
    }

    async fn run(&self) -> Result<Fetched, FetchError> {
        let opened = self.open().await?;
        let head = self.request(opened.len).map_err(FetchError::Request)?;
        let stream = self.hear(self.connection.open()).await?.map_err(FetchError::Stream)?;
        let id = stream.id;
        let counters = {
            let mut all = self.counters.lock().unwrap_or_else(PoisonError::into_inner);
            Arc::clone(all.entry(id).or_default())
        };
        self.observer.started(self.index, id, opened.len);
        let (reader, mut writer) = tokio::io::split(Counted::new(stream.io, Arc::clone(&counters)));
        let mut answers = Answers::new(reader);
        let written = self.hear(write(&mut writer, head.as_bytes())).await?;
        written.map_err(|error| lost(&error, 0))?;
        let early = match timeout(ASKED, answers.any_head()).await {
            Ok(Ok(head)) if head.status.is_informational() => None,
            Ok(Ok(head)) => Some(head),
            Ok(Err(error)) => return Err(broken(&error, 0, None)),
            Err(_) => None,
        };
        // An empty file is complete after the head.
        let empty = opened.len == Some(0);
        let (bytes, head) = match early {
            Some(head) => (0, Some(head)),
            None => self.body(opened, &mut writer, &mut answers).await?,
        };
        let all = empty || head.is_none();
        let head = match head {
            Some(head) => head,
            None => {
                let head = self.hear(answers.head()).await?;
                head.map_err(|error| broken(&error, bytes, None))?
            }
        };
        self.judge(&head, all)?;
        counters.transaction();
        let replaced = head.status != StatusCode::CREATED;
        // What happens after the answer does not matter.
        let _ = timeout(LAST_WORD, writer.shutdown()).await;
        let modified = None;
        Ok(Fetched { stream: id, bytes, resumed: 0, replaced, modified, known: true })
    }

    /// Whether the server has accepted the file.
    fn judge(&self, head: &Head, all: bool) -> Result<(), FetchError> {
        match head.status {
            StatusCode::OK | StatusCode::CREATED | StatusCode::NO_CONTENT if all => Ok(()),
            StatusCode::OK | StatusCode::CREATED | StatusCode::NO_CONTENT => Err(FetchError::Early),
            status => Err(FetchError::Status(status)),
        }
    }

    async fn open(&self) -> Result<Opened, FetchError> {
        let Source::File(path) = &self.upload.source else {
            let file = stdin().map_err(|error| self.unreadable(error))?;
            return Ok(Opened { file, len: None });
        };
        let path = path.clone();
        let opened = run(move || {
            let file = File::open(path)?;
            let found = file.metadata()?;
            match (found.is_file(), found.is_dir()) {
                (true, _) => Ok(Opened { file, len: Some(found.len()) }),
                (_, true) => Err(io::ErrorKind::IsADirectory.into()),
                // The length of a pipe or a device is unknown.
                _ => Ok(Opened { file, len: None }),
            }
        });
        opened.await.map_err(|error| self.unreadable(error))
    }

    fn unreadable(&self, source: io::Error) -> FetchError {
        FetchError::Source { path: self.upload.source.name().to_owned(), source }
    }

    /// The head of the request.
    fn request(&self, len: Option<u64>) -> Result<String, http::Error> {
        let Upload { host, target, new, .. } = self.upload;
        // Text that is invalid in a request line or a field is rejected here.
        let value = HeaderValue::from_str(host)?;
        let checked = Request::put(target.as_str()).header("host", value).body(())?;
        let target = checked.uri().path_and_query().map_or("/", |target| target.as_str());
        let length = match len {
            Some(len) => format!("content-length: {len}"),
            None => "transfer-encoding: chunked".to_owned(),
        };
        let new = if *new { "if-none-match: *\r\n" } else { "" };
        Ok(format!(
            "PUT {target} HTTP/1.1\r\nhost: {host}\r\nuser-agent: {AGENT}\r\n{length}\r\n{new}\
             expect: 100-continue\r\nconnection: close\r\n\r\n"
        ))
    }

    /// Sends the body. Returns the number of bytes, and the answer if it arrived before the end.
    async fn body<IO: AsyncRead + AsyncWrite>(
        &self,
        opened: Opened,
        writer: &mut WriteHalf<IO>,
        answers: &mut Answers<ReadHalf<IO>>,
    ) -> Result<(u64, Option<Head>), FetchError> {
        let Opened { mut file, len } = opened;
        let chunked = len.is_none();
        let mut bytes = 0;
        loop {
            let most = len.map_or(u64::MAX, |len| len - bytes);
            let (piece, back) = self.piece(file, most).await?;
            file = back;
            if piece.is_empty() {
                break;
            }
            let count = piece.len() as u64;
            let sending = async {
                if chunked {
                    write(writer, format!("{count:x}\r\n").as_bytes()).await?;
                }
                write(writer, &piece).await?;
                if chunked { write(writer, b"\r\n").await } else { Ok(()) }
            };
            match self.send(sending, answers, bytes).await? {
                Some(head) => return Ok((bytes, Some(head))),
                None => bytes += count,
            }
            self.observer.progress(self.index, count);
            self.wait(count).await;
        }
        if len.is_some_and(|len| bytes < len) || self.is_longer(file, len).await {
            // The server discards an incomplete body.
            return Err(FetchError::Changed { path: self.upload.source.name().to_owned() });
        }
        if chunked {
            let last = write(writer, b"0\r\n\r\n");
            if let Some(head) = self.send(last, answers, bytes).await? {
                return Ok((bytes, Some(head)));
            }
        }
        Ok((bytes, None))
    }

    /// Reads the next bytes of the file.
    async fn piece(&self, file: File, most: u64) -> Result<(Bytes, File), FetchError> {
        let read = run(move || {
            let mut piece = Vec::new();
            if most < u64::MAX {
                (&file).take(most.min(PIECE as u64)).read_to_end(&mut piece)?;
            } else {
                // Send data from a pipe as soon as it arrives.
                piece.resize(PIECE, 0);
                let count = (&file).read(&mut piece)?;
                piece.truncate(count);
            }
            Ok((piece.into(), file))
        });
        read.await.map_err(|error| self.unreadable(error))
    }

    /// Whether a file of known length has grown.
    async fn is_longer(&self, file: File, len: Option<u64>) -> bool {
        len.is_some() && self.piece(file, 1).await.is_ok_and(|(piece, _)| !piece.is_empty())
    }

    /// Sends a further piece, after `bytes` bytes of the body, unless the server answers first.
    async fn send<R: AsyncRead + Unpin>(
        &self,
        sending: impl Future<Output = io::Result<()>>,
        answers: &mut Answers<R>,
        bytes: u64,
    ) -> Result<Option<Head>, FetchError> {
        let mut sending = pin!(sending);
        let sent = loop {
            let both = async {
                tokio::select! {
                    biased;
                    sent = &mut sending => Ok(sent),
                    head = answers.any_head() => Err(head),
                }
            };
            match self.hear(both).await? {
                Ok(sent) => break sent,
                Err(Ok(head)) if head.status.is_informational() => {}
                Err(Ok(head)) => return Ok(Some(head)),
                Err(Err(error)) => return Err(broken(&error, bytes, None)),
            }
        };
        let Err(error) = sent else { return Ok(None) };
        // The answer may explain why the server accepts no more data.
        match timeout(LAST_WORD, answers.head()).await {
            Ok(Ok(head)) => Ok(Some(head)),
            _ => Err(lost(&error, bytes)),
        }
    }

    /// Accounts for `bytes` sent bytes, and waits until the rate permits more.
    async fn wait(&self, bytes: u64) {
        if let Some(pace) = &self.options.pace {
            sleep_until(pace.spend(bytes, Instant::now())).await;
        }
    }
}

async fn write<W: AsyncWrite + Unpin>(writer: &mut W, bytes: &[u8]) -> io::Result<()> {
    writer.write_all(bytes).await?;
    writer.flush().await
}

/// The error for a stream that accepts no more data.
fn lost(error: &io::Error, bytes: u64) -> FetchError {
    let reason = crate::error::root_cause(error);
    FetchError::Broken { received: bytes, expected: None, reason }
}

/// Standard input as a file.
#[cfg(unix)]
fn stdin() -> io::Result<File> {
    use std::os::fd::AsFd as _;
    Ok(File::from(io::stdin().as_fd().try_clone_to_owned()?))
}

#[cfg(not(unix))]
fn stdin() -> io::Result<File> {
    Err(io::ErrorKind::Unsupported.into())
}

/// Runs a blocking disk operation on a thread that may block.
async fn run<T: Send + 'static>(
    work: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> io::Result<T> {
    tokio::task::spawn_blocking(work).await.map_err(io::Error::other).flatten()
}
