//! Fetches a list of files over a pool of streams.

mod bounds;
mod pace;
mod part;
mod place;
mod pool;
mod put;
pub(crate) mod resume;
mod sink;
mod table;

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

pub use self::bounds::{Bounds, Budget};
pub use self::pace::Pace;
pub use self::part::{Part, is_unfinished, part_of};
use self::place::Place;
pub use self::put::{Source, Upload, put_all};
pub use self::table::Placement;
use crate::error::FetchError;
use crate::priority::Priority;
use crate::stream::{OpenStreams, StreamTotals};

/// One file to fetch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Transaction {
    /// Value of the Host field.
    pub host: String,
    /// Path and query for the request line.
    pub target: String,
    /// What the user requested, in one line. A part of an earlier fetch is only used if this is the same: other files
    /// may have the same name and even the same entity tag.
    pub source: String,
    /// The destination of the body.
    pub output: Output,
    /// Limits on the answer.
    pub bounds: Bounds,
}

/// The destination of an answer's body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Output {
    /// A file, which gets its name when it is complete. Until then it is `NAME.part`, which is kept ([`part_of`]) if
    /// the fetch ends early and the server gave a strong validator. [`Output::named`] follows links.
    File {
        /// Its name, which must not be that of a link; the directory must exist.
        path: PathBuf,
        /// Continue a partial file, if the server still has the same file.
        resume: bool,
    },
    /// A device or a pipe, which is written to and never replaced; it cannot be continued.
    Device(PathBuf),
    /// Standard output.
    Stdout,
}

impl Output {
    /// A file of this name, or whatever else the name refers to. For a link, the target of the link.
    pub fn named(path: PathBuf, resume: bool) -> Self {
        match place::of(&path) {
            Place::File(path) => Self::File { path, resume },
            Place::Device => Self::Device(path),
            Place::Stdout => Self::Stdout,
        }
    }
}

/// A file that was fetched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fetched {
    /// The stream that carried it.
    pub stream: u16,
    /// Bytes of the body that were received.
    pub bytes: u64,
    /// Bytes kept from an earlier fetch.
    pub resumed: u64,
    /// It replaced an older file of the same name.
    pub replaced: bool,
    /// Time of the last change, if the server sent it.
    pub modified: Option<SystemTime>,
    /// The server marked the end of the body or announced its length. If not, the end of the stream was taken as the
    /// end, which may have been premature.
    pub known: bool,
}

/// Outcome of [`fetch`].
#[derive(Debug)]
pub struct FetchReport {
    /// One for each transaction, in the same order.
    pub results: Vec<Result<Fetched, FetchError>>,
    /// The streams used, by number.
    pub streams: Vec<StreamTotals>,
}

/// Receives the progress of a fetch. Transactions are identified by their index.
pub trait Observer: Sync {
    /// The answer has begun; `total` bytes will come if the server announced them. A transaction
    /// whose request was not answered may begin again on another stream.
    fn started(&self, transaction: usize, stream: u16, total: Option<u64>) {
        let _ = (transaction, stream, total);
    }
    /// The partial file of an earlier fetch is unusable, for this reason: the whole file is
    /// fetched.
    fn restarted(&self, transaction: usize, reason: &str) {
        let _ = (transaction, reason);
    }
    /// The answer broke off, and nothing of it is kept, since the server gave no strong validator.
    fn lost(&self, transaction: usize) {
        let _ = transaction;
    }
    /// `bytes` more bytes have arrived.
    fn progress(&self, transaction: usize, bytes: u64) {
        let _ = (transaction, bytes);
    }
    /// The transaction has ended; called once for each.
    fn finished(&self, transaction: usize, result: &Result<Fetched, FetchError>) {
        let _ = (transaction, result);
    }
}

/// An observer that ignores everything.
#[derive(Clone, Copy, Debug)]
pub struct Silent;

impl Observer for Silent {}

/// How transactions are carried out.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct FetchOptions {
    /// The most streams.
    pub streams: usize,
    /// The most unanswered requests on a stream; 1 disables pipelining.
    pub depth: usize,
    /// How to choose the stream of a transaction.
    pub placement: Placement,
    /// Gives up when nothing has arrived on any stream for this time.
    pub silence: Option<Duration>,
    /// The priority to request from a server that supports priorities.
    pub priority: Option<Priority>,
    /// Whether files get the server's time of their last change. The default is yes.
    pub times: bool,
    /// Limits how fast bodies are read, together with all fetches that share it. Without it, there is no limit.
    pub pace: Option<Arc<Pace>>,
    /// Limits the bytes of bodies, together with all fetches that share it. Without it, there is no limit.
    pub budget: Option<Arc<Budget>>,
}

impl FetchOptions {
    /// `streams` streams, each with one request at a time, on whichever is free.
    pub fn new(streams: usize) -> Self {
        let placement = Placement::NextFree;
        Self {
            streams,
            depth: 1,
            placement,
            silence: None,
            priority: None,
            times: true,
            pace: None,
            budget: None,
        }
    }

    /// Sends up to this many requests on a stream before the first of them is answered, and uses
    /// streams in rotation.
    #[must_use]
    pub fn with_depth(mut self, depth: usize) -> Self {
        self.depth = depth;
        if depth > 1 && self.placement == Placement::NextFree {
            self.placement = Placement::RoundRobin;
        }
        self
    }

    /// Chooses streams in this way.
    #[must_use]
    pub fn with_placement(mut self, placement: Placement) -> Self {
        self.placement = placement;
        self
    }

    /// Gives up when nothing has arrived on any stream for this time.
    #[must_use]
    pub fn with_silence(mut self, silence: Option<Duration>) -> Self {
        self.silence = silence;
        self
    }

    /// Whether files get the server's time of their last change, or keep that of their arrival.
    #[must_use]
    pub fn with_times(mut self, times: bool) -> Self {
        self.times = times;
        self
    }

    /// Reads bodies no faster than this.
    #[must_use]
    pub fn with_pace(mut self, pace: Option<Arc<Pace>>) -> Self {
        self.pace = pace;
        self
    }

    /// Receives no more bytes of bodies than this.
    #[must_use]
    pub fn with_budget(mut self, budget: Option<Arc<Budget>>) -> Self {
        self.budget = budget;
        self
    }

    /// Asks for this priority (RFC 9218).
    #[must_use]
    pub fn with_priority(mut self, priority: Option<Priority>) -> Self {
        self.priority = priority;
        self
    }
}

/// Carries out `transactions` over at most `streams` streams of `connection`. They start in the given order, each on
/// the next free stream.
///
/// A failed transaction does not stop the others. When the future is dropped, unfinished files that a
/// later fetch can continue stay.
pub async fn fetch<C: OpenStreams>(
    connection: &C,
    transactions: &[Transaction],
    streams: usize,
    observer: &dyn Observer,
) -> FetchReport {
    fetch_with(connection, transactions, &FetchOptions::new(streams), observer).await
}

/// The same, but gives up when nothing has arrived on any stream for `silence`. It then does not wait for
/// transactions that are in progress or have not started. Must be called within a tokio runtime with a timer.
pub async fn fetch_within<C: OpenStreams>(
    connection: &C,
    transactions: &[Transaction],
    streams: usize,
    observer: &dyn Observer,
    silence: Option<Duration>,
) -> FetchReport {
    let options = FetchOptions::new(streams).with_silence(silence);
    fetch_with(connection, transactions, &options, observer).await
}

/// The same with `options`.
pub async fn fetch_with<C: OpenStreams>(
    connection: &C,
    transactions: &[Transaction],
    options: &FetchOptions,
    observer: &dyn Observer,
) -> FetchReport {
    pool::run(connection, transactions, options, observer).await
}

/// The error of a transaction for which no stream was left.
fn unanswered() -> FetchError {
    FetchError::Stream(io::ErrorKind::NotConnected.into())
}

#[cfg(test)]
mod hostile;
#[cfg(test)]
mod tests;
