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
    /// The user's request in one line. The part left by an earlier fetch is used only if its line is the same,
    /// because other files may have the same name and even the same entity tag.
    pub source: String,
    /// The destination of the body.
    pub output: Output,
    /// Limits on the answer.
    pub bounds: Bounds,
}

/// The destination of an answer's body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Output {
    /// A file, which is called `NAME.part` until it is complete. If the fetch ends early and the server gave a strong
    /// validator, that file is kept ([`part_of`]). [`Output::named`] follows links.
    File {
        /// The file's name, which must not be a link; the directory must exist.
        path: PathBuf,
        /// Continue the part left by an earlier fetch, if the server still has the same file.
        resume: bool,
    },
    /// A device or a pipe, which is written to and never replaced. It cannot be continued.
    Device(PathBuf),
    /// Standard output.
    Stdout,
}

impl Output {
    /// The output that this name refers to, a file or something else. Links are followed.
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
    /// The stream that carried the file.
    pub stream: u16,
    /// Bytes of the body that were received.
    pub bytes: u64,
    /// Bytes kept from an earlier fetch.
    pub resumed: u64,
    /// The file replaced an older file of the same name.
    pub replaced: bool,
    /// Time of the file's last change, if the server sent it.
    pub modified: Option<SystemTime>,
    /// The server marked the end of the body or announced its length. If not, the end of the stream was taken as the
    /// end, and data may be missing.
    pub known: bool,
}

/// Outcome of [`fetch`].
#[derive(Debug)]
pub struct FetchReport {
    /// One result for each transaction, in the same order.
    pub results: Vec<Result<Fetched, FetchError>>,
    /// The streams used, by number.
    pub streams: Vec<StreamTotals>,
}

/// Observes the progress of a fetch. Transactions are identified by their index.
pub trait Observer: Sync {
    /// The answer has begun; it has `total` bytes, if the server announced them. A transaction may begin again on
    /// another stream if its request was not answered.
    fn started(&self, transaction: usize, stream: u16, total: Option<u64>) {
        let _ = (transaction, stream, total);
    }
    /// The part left by an earlier fetch is unusable for this reason, so the whole file is fetched.
    fn restarted(&self, transaction: usize, reason: &str) {
        let _ = (transaction, reason);
    }
    /// The answer broke off, and its data is lost, because the server gave no strong validator.
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
    /// Maximum number of streams.
    pub streams: usize,
    /// Maximum number of unanswered requests on a stream; 1 disables pipelining.
    pub depth: usize,
    /// How to choose the stream of a transaction.
    pub placement: Placement,
    /// Gives up when nothing has arrived on any stream for this time.
    pub silence: Option<Duration>,
    /// The priority to request from a server that supports priorities.
    pub priority: Option<Priority>,
    /// Whether files get the modification time that the server sends. Default: true.
    pub times: bool,
    /// Limits the rate at which bodies are read, for all fetches that share it. `None`: no limit.
    pub pace: Option<Arc<Pace>>,
    /// Limits the total bytes of bodies, for all fetches that share it. `None`: no limit.
    pub budget: Option<Arc<Budget>>,
}

impl FetchOptions {
    /// Uses up to `streams` streams, each with one request at a time; transactions use the next free stream.
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

    /// Sends up to `depth` requests on a stream before the first of them is answered, and uses the streams in
    /// rotation.
    #[must_use]
    pub fn with_depth(mut self, depth: usize) -> Self {
        self.depth = depth;
        if depth > 1 && self.placement == Placement::NextFree {
            self.placement = Placement::RoundRobin;
        }
        self
    }

    /// Sets how streams are chosen.
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

    /// Sets whether files get the modification time that the server sends, or keep that of their arrival.
    #[must_use]
    pub fn with_times(mut self, times: bool) -> Self {
        self.times = times;
        self
    }

    /// Limits the rate at which bodies are read.
    #[must_use]
    pub fn with_pace(mut self, pace: Option<Arc<Pace>>) -> Self {
        self.pace = pace;
        self
    }

    /// Limits the total bytes of bodies.
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
/// A failed transaction does not stop the others. If the future is dropped, unfinished files are kept if a later
/// fetch can continue them.
pub async fn fetch<C: OpenStreams>(
    connection: &C,
    transactions: &[Transaction],
    streams: usize,
    observer: &dyn Observer,
) -> FetchReport {
    fetch_with(connection, transactions, &FetchOptions::new(streams), observer).await
}

/// As [`fetch`], but gives up when nothing has arrived on any stream for `silence`. It then does not wait for
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

/// As [`fetch`], with `options`.
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
