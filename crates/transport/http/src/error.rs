//! Errors of a fetch, each in one sentence.

use std::error::Error;
use std::fmt;
use std::io;
use std::path::PathBuf;
use std::time::Duration;

use http::StatusCode;

/// Why a transaction failed. `Display` gives one sentence without the URL.
#[derive(Debug)]
#[non_exhaustive]
pub enum FetchError {
    /// No stream could be opened.
    Stream(io::Error),
    /// The connection broke before the answer was complete.
    Broken {
        /// Body bytes that arrived.
        received: u64,
        /// Body bytes announced by the server.
        expected: Option<u64>,
        /// The root cause, as far as known.
        reason: String,
    },
    /// Nothing arrived from the server for this time.
    Silent(Duration),
    /// The server answered with a status other than 200.
    Status(StatusCode),
    /// The server has moved the file.
    Redirect {
        /// 301, 302, 303, 307 or 308.
        status: StatusCode,
        /// The new location, as the server wrote it: a reference that may be relative.
        location: String,
    },
    /// The answer is not a valid answer to the request, for this reason (the second half of a
    /// sentence).
    Refused(&'static str),
    /// The server's file is not newer than the existing one.
    NotNewer,
    /// A file exists already, and the server does not say whether its own is newer.
    Undated,
    /// The body is longer than the transaction allows.
    TooLong {
        /// Maximum bytes allowed.
        most: u64,
    },
    /// The limit for all transactions together is used up.
    Exhausted,
    /// Another process is fetching the same file.
    Busy {
        /// The file.
        path: PathBuf,
        /// The locked file.
        part: PathBuf,
    },
    /// The name of the unfinished file is in use for something else.
    Taken {
        /// The name.
        part: PathBuf,
    },
    /// The length of the body is not the announced one.
    Length {
        /// Body bytes that arrived.
        received: u64,
        /// Body bytes announced by the server.
        expected: u64,
    },
    /// The request cannot be expressed in HTTP.
    Request(http::Error),
    /// The file to be sent could not be read.
    Source {
        /// The file.
        path: PathBuf,
        /// The error of the file system.
        source: io::Error,
    },
    /// The file changed while it was being sent.
    Changed {
        /// The file.
        path: PathBuf,
    },
    /// The server confirmed the file before all of it was sent.
    Early,
    /// The file could not be written.
    File {
        /// The file.
        path: PathBuf,
        /// The error of the file system.
        source: io::Error,
    },
}

impl FetchError {
    pub(crate) fn file(path: impl Into<PathBuf>, source: io::Error) -> Self {
        Self::File { path: path.into(), source }
    }
}

impl fmt::Display for FetchError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Stream(error) => write!(f, "no stream could be opened: {error}"),
            Self::Broken { received, expected: Some(expected), reason } => {
                write!(f, "the connection broke after {received} of {expected} bytes: {reason}")
            }
            Self::Broken { received: 0, expected: None, reason } => {
                write!(f, "the connection broke before the answer: {reason}")
            }
            Self::Broken { received, expected: None, reason } => {
                write!(f, "the connection broke after {received} bytes: {reason}")
            }
            Self::Silent(time) => {
                write!(f, "nothing came from the server for {time:?}: it may be stuck or gone")
            }
            Self::Status(status) => write!(f, "the server answered {status}"),
            Self::Redirect { status, location } => {
                write!(
                    f,
                    "the server answered {status}, with the new location {}",
                    location.escape_debug()
                )
            }
            Self::Refused(why) => write!(f, "the server's answer is invalid: {why}"),
            Self::NotNewer => write!(f, "the existing file is as new as the server's"),
            Self::Undated => write!(
                f,
                "a file of this name is there already, and the server does not say whether its own is \
                 newer: remove it, or name another directory"
            ),
            Self::TooLong { most } => write!(f, "it is longer than the {most} bytes allowed"),
            Self::Exhausted => write!(f, "all files together are longer than allowed"),
            Self::Busy { path, part } => write!(
                f,
                "another process is fetching {}: wait until it ends, or name another file ({} is \
                 locked)",
                path.display(),
                part.display()
            ),
            Self::Taken { part } => write!(
                f,
                "{} is a link, a device or a file with a second name: remove it or name another \
                 file",
                part.display()
            ),
            Self::Length { received, expected } => {
                write!(f, "the server announced {expected} bytes and sent {received}")
            }
            Self::Request(error) => write!(f, "the request cannot be made: {error}"),
            Self::Source { path, source } => {
                write!(f, "{} cannot be read: {source}", path.display())
            }
            Self::Changed { path } => {
                write!(f, "{} was changed while it was being sent", path.display())
            }
            Self::Early => write!(f, "the server answered before all of the file was sent"),
            Self::File { path, source } => {
                write!(f, "{} cannot be written: {source}", path.display())
            }
        }
    }
}

impl Error for FetchError {}

/// The root cause of `error`, which is the most specific description.
pub(crate) fn root_cause(error: &dyn Error) -> String {
    let mut deepest = error;
    while let Some(source) = deepest.source() {
        deepest = source;
    }
    deepest.to_string()
}
