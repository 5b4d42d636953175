//! Converts pictures in processes, and survives them.

use std::io;
use std::path::PathBuf;
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use bytes::Bytes;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::process::Command;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;

use crate::helper::{CONVERTED, HELPER, NOT_ISOLATED, UNCHANGED};
use crate::{MOST_BYTES, check, longest};

/// This program, even if its file was replaced.
const PROGRAM: &str = "/proc/self/exe";

/// Most bytes of pictures that wait or are converted.
const HELD: usize = 64 << 20;

/// Options of a converter.
#[derive(Clone, Debug)]
pub struct ConverterOptions {
    /// The program whose `main` calls [`helper`](crate::helper()): this one.
    pub program: PathBuf,
    /// Variables of the processes, which have no others. An allocator that reserves much memory ahead must be told not to:
    /// the limit counts what is reserved.
    pub environment: Vec<(&'static str, &'static str)>,
    /// Processes at the same time; others wait.
    pub at_once: usize,
    /// How long a conversion may take, with waiting for its turn.
    pub time: Duration,
}

impl Default for ConverterOptions {
    fn default() -> Self {
        Self {
            program: PROGRAM.into(),
            environment: Vec::new(),
            at_once: 2,
            time: Duration::from_secs(10),
        }
    }
}

/// What became of pictures.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Statistics {
    /// They were converted.
    pub converted: u64,
    /// They stayed as they are, because they cannot or should not be converted.
    pub unchanged: u64,
    /// They stayed as they are, because the process crashed, took too long, or answered with something else.
    pub failed: u64,
    /// Bytes of those that were converted, before and after.
    pub bytes_before: u64,
    /// See `bytes_before`.
    pub bytes_after: u64,
}

#[derive(Debug, Default)]
struct Counters {
    converted: AtomicU64,
    unchanged: AtomicU64,
    failed: AtomicU64,
    bytes_before: AtomicU64,
    bytes_after: AtomicU64,
}

/// Converts pictures, each in a sandboxed process of its own.
#[derive(Debug)]
pub struct Converter {
    options: ConverterOptions,
    places: Semaphore,
    held: Arc<Semaphore>,
    counters: Counters,
}

/// Room for a picture.
#[derive(Debug)]
pub struct Room {
    converter: Arc<Converter>,
    bytes: usize,
    _held: OwnedSemaphorePermit,
}

/// Why there is no converted picture.
#[derive(Debug)]
enum Failure {
    Unchanged,
    Failed(String),
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        Self::Failed(error.to_string())
    }
}

impl Converter {
    /// A converter whose processes have not been tried.
    pub fn new(options: ConverterOptions) -> Arc<Self> {
        let (places, held) = (Semaphore::new(options.at_once), Arc::new(Semaphore::new(HELD)));
        Arc::new(Self { options, places, held, counters: Counters::default() })
    }

    /// Starts a process, and lets it refuse an empty picture.
    ///
    /// # Errors
    /// It cannot be started or isolated, so no picture would be converted.
    pub async fn probe(&self) -> Result<(), String> {
        match timeout(self.options.time, self.run(&[])).await {
            Ok(Err(Failure::Unchanged)) => Ok(()),
            Ok(Err(Failure::Failed(error))) => Err(error),
            Ok(Ok(_)) => Err("it converts what is no picture".to_owned()),
            Err(_) => Err("it takes too long".to_owned()),
        }
    }

    /// Room for a picture with this number of bytes, or for the largest one. `None` if such a picture should not be
    /// converted, or if too many wait.
    pub fn room(self: &Arc<Self>, bytes: Option<u64>) -> Option<Room> {
        let bytes = bytes.map_or(Some(MOST_BYTES), |bytes| usize::try_from(bytes).ok())?;
        let wanted = u32::try_from(bytes).ok().filter(|_| bytes <= MOST_BYTES)?;
        let held = Arc::clone(&self.held).try_acquire_many_owned(wanted).ok()?;
        Some(Room { converter: Arc::clone(self), bytes, _held: held })
    }

    /// What became of pictures so far.
    pub fn statistics(&self) -> Statistics {
        let counters = &self.counters;
        Statistics {
            converted: counters.converted.load(Relaxed),
            unchanged: counters.unchanged.load(Relaxed),
            failed: counters.failed.load(Relaxed),
            bytes_before: counters.bytes_before.load(Relaxed),
            bytes_after: counters.bytes_after.load(Relaxed),
        }
    }

    async fn in_turn(&self, picture: &[u8]) -> Result<Vec<u8>, Failure> {
        let _place =
            self.places.acquire().await.map_err(|error| Failure::Failed(error.to_string()))?;
        let converted = self.run(picture).await?;
        // The process has decoded what a stranger made: what it says may be anything.
        check(picture, &converted).map_err(|error| Failure::Failed(error.to_string()))?;
        Ok(converted)
    }

    /// Runs one process.
    async fn run(&self, picture: &[u8]) -> Result<Vec<u8>, Failure> {
        let mut command = Command::new(&self.options.program);
        command
            .env_clear()
            .envs(self.options.environment.iter().copied())
            .env(HELPER, "1")
            .current_dir("/")
            .kill_on_drop(true);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        #[cfg(unix)]
        command.arg0("anabranch-picture");
        let mut process = command.spawn()?;
        let (Some(mut input), Some(output)) = (process.stdin.take(), process.stdout.take()) else {
            return Err(Failure::Failed("it has no pipes".to_owned()));
        };
        let write = async move {
            // If it does not want all of it, its answer tells why.
            let _ = input.write_all(picture).await;
        };
        let mut answer = Vec::new();
        let most = longest(picture.len()).max(MOST_TEXT) as u64 + 1;
        let mut output = output.take(most);
        let ((), read) = tokio::join!(write, output.read_to_end(&mut answer));
        read?;
        // If it goes on writing, it must not wait for a reader.
        drop(output);
        let status = process.wait().await?;
        if !status.success() {
            return Err(Failure::Failed(format!("its process ended with {status}")));
        }
        match answer.split_first() {
            Some((&CONVERTED, _)) => {
                answer.remove(0);
                Ok(answer)
            }
            Some((&UNCHANGED, _)) => Err(Failure::Unchanged),
            Some((&NOT_ISOLATED, reason)) => {
                Err(Failure::Failed(String::from_utf8_lossy(reason).into_owned()))
            }
            _ => Err(Failure::Failed("its process has no answer".to_owned())),
        }
    }
}

/// Most bytes of a text in place of a picture.
const MOST_TEXT: usize = 1024;

impl Room {
    /// Most bytes of the picture.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Converts the picture. `None` if it stays as it is.
    pub async fn convert(self, picture: &[u8]) -> Option<Bytes> {
        let Self { converter, .. } = &self;
        let counters = &converter.counters;
        let converted = timeout(converter.options.time, converter.in_turn(picture)).await;
        match converted.unwrap_or_else(|_| Err(Failure::Failed("it took too long".to_owned()))) {
            Ok(converted) => {
                counters.converted.fetch_add(1, Relaxed);
                counters.bytes_before.fetch_add(picture.len() as u64, Relaxed);
                counters.bytes_after.fetch_add(converted.len() as u64, Relaxed);
                Some(converted.into())
            }
            Err(Failure::Unchanged) => {
                counters.unchanged.fetch_add(1, Relaxed);
                None
            }
            Err(Failure::Failed(error)) => {
                counters.failed.fetch_add(1, Relaxed);
                tracing::warn!(%error, "a picture could not be converted");
                None
            }
        }
    }
}
