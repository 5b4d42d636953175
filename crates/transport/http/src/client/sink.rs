//! Writes the body of an answer: to an unfinished file, which gets its final name when it is complete, or to a
//! device.

use std::fs::File;
use std::io::{self, Seek as _, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use bytes::Bytes;
use tokio::task::JoinHandle;

use super::part::Claim;
use super::resume::FileState;
use crate::error::FetchError;

/// Bytes gathered before they are passed to the writing thread.
const BATCH: usize = 256 << 10;

/// A file being written, a device, or standard output. If a file is dropped before [`finish`](Self::finish), its
/// part is kept if a later fetch can continue it, and removed otherwise.
pub(super) struct Sink {
    path: PathBuf,
    /// The unfinished file; `None` for devices and standard output.
    claim: Option<Claim>,
    /// The state of the file until the first write, which describes it. Short files never need a description.
    state: Option<FileState>,
    /// The modification time to set on the file.
    modified: Option<SystemTime>,
    /// Bytes passed to the writing thread, including those of an earlier fetch.
    written: u64,
    pending: Vec<Bytes>,
    pending_len: usize,
    writer: Writer,
}

enum Writer {
    Idle(Goal),
    Busy(JoinHandle<io::Result<Goal>>),
    /// A write failed or was interrupted, so the file cannot be continued.
    Broken,
}

enum Goal {
    File(File),
    Stdout,
}

impl Goal {
    fn write(&mut self, piece: &[u8]) -> io::Result<()> {
        match self {
            Self::File(file) => file.write_all(piece),
            Self::Stdout => {
                let mut stdout = io::stdout().lock();
                stdout.write_all(piece).and_then(|()| stdout.flush())
            }
        }
    }
}

impl Sink {
    /// Starts a file at its first byte. If `state` has a validator, written bytes are kept when the file is not
    /// finished.
    pub(super) fn begin(path: &Path, claim: Claim, state: FileState) -> Result<Self, FetchError> {
        let file = claim.file().map_err(|error| FetchError::file(path, error))?;
        let mut sink = Self::new(path, Goal::File(file), Some(claim));
        sink.state = Some(state);
        Ok(sink)
    }

    /// Continues the part that an earlier fetch of a file of `total` bytes has left.
    pub(super) async fn go_on(
        path: &Path,
        mut claim: Claim,
        total: u64,
    ) -> Result<Self, FetchError> {
        let kept = claim.kept().map_or(0, |kept| kept.bytes);
        let opened = run(move || {
            claim.go_on(total)?;
            let mut file = claim.file()?;
            file.seek(SeekFrom::Start(kept))?;
            Ok((claim, file))
        });
        let (claim, file) = opened.await.map_err(|error| FetchError::file(path, error))?;
        let mut sink = Self::new(path, Goal::File(file), Some(claim));
        sink.written = kept;
        Ok(sink)
    }

    /// Writes to an existing target.
    pub(super) async fn device(path: &Path) -> Result<Self, FetchError> {
        let name = path.to_owned();
        let opened = run(move || {
            let file = File::options().write(true).open(&name)?;
            // The name may be that of a descriptor open on a file: keep what others have written to it.
            match file.metadata()?.is_file() {
                true => File::options().append(true).open(&name),
                false => Ok(file),
            }
        });
        let file = opened.await.map_err(|error| FetchError::file(path, error))?;
        Ok(Self::new(path, Goal::File(file), None))
    }

    /// Writes to standard output.
    pub(super) fn stdout() -> Self {
        Self::new(Path::new("standard output"), Goal::Stdout, None)
    }

    fn new(path: &Path, goal: Goal, claim: Option<Claim>) -> Self {
        Self {
            path: path.to_owned(),
            claim,
            state: None,
            modified: None,
            written: 0,
            pending: Vec::new(),
            pending_len: 0,
            writer: Writer::Idle(goal),
        }
    }

    /// Sets the modification time that the file will get.
    pub(super) fn set_modified(&mut self, modified: Option<SystemTime>) {
        self.modified = modified;
    }

    /// Queues a piece without copying it. A batch is gathered while the previous one is written.
    pub(super) async fn write(&mut self, piece: Bytes) -> Result<(), FetchError> {
        self.pending_len += piece.len();
        self.pending.push(piece);
        if self.pending_len >= BATCH { self.flush().await } else { Ok(()) }
    }

    async fn flush(&mut self) -> Result<(), FetchError> {
        let mut goal = self.settle().await?;
        self.describe().await?;
        let batch = std::mem::take(&mut self.pending);
        self.written += self.pending_len as u64;
        self.pending_len = 0;
        self.writer = Writer::Busy(tokio::task::spawn_blocking(move || {
            for piece in batch {
                goal.write(&piece)?;
            }
            Ok(goal)
        }));
        Ok(())
    }

    /// Writes the description of the file, which must precede its first byte.
    async fn describe(&mut self) -> Result<(), FetchError> {
        let Some(state) = self.state.take() else { return Ok(()) };
        let Some(mut claim) = self.claim.take() else { return Ok(()) };
        let begun = run(move || claim.begin(&state).map(|()| claim)).await;
        self.claim = Some(begun.map_err(|error| FetchError::file(&self.path, error))?);
        Ok(())
    }

    /// Waits until the current batch is written.
    async fn settle(&mut self) -> Result<Goal, FetchError> {
        let result = match std::mem::replace(&mut self.writer, Writer::Broken) {
            Writer::Idle(goal) => Ok(goal),
            Writer::Busy(task) => task.await.map_err(io::Error::other).flatten(),
            Writer::Broken => Err(io::ErrorKind::BrokenPipe.into()),
        };
        result.map_err(|error| FetchError::file(&self.path, error))
    }

    /// Writes all received data, so that a later fetch can continue after it. Returns whether there will be a part
    /// to continue.
    pub(super) async fn keep(&mut self) -> bool {
        let described = match &self.state {
            Some(state) => state.validator().is_some(),
            None => true,
        };
        if self.claim.is_none() || !described {
            return false;
        }
        // If the disk fails, there is just less to continue.
        if self.flush().await.is_ok() {
            self.writer = self.settle().await.map_or(Writer::Broken, Writer::Idle);
        }
        self.claim.as_ref().is_some_and(Claim::is_of_use)
    }

    /// Removes the written data.
    pub(super) fn discard(self) {
        if let Some(mut claim) = self.claim {
            // If it cannot be emptied, its excess length is detected later.
            let _ = claim.discard();
        }
    }

    /// Writes the rest and drops the file, which another sink continues later.
    pub(super) async fn pause(mut self) -> Result<(), FetchError> {
        self.flush().await?;
        drop(self.settle().await?);
        Ok(())
    }

    /// Writes the rest and gives the file its final name, replacing an older file. Returns whether there was an
    /// older one.
    pub(super) async fn finish(mut self) -> Result<bool, FetchError> {
        // A file that fits into one batch needs no description.
        if self.written == 0
            && let Some(state) = &mut self.state
        {
            *state = FileState::default();
        }
        self.flush().await?;
        drop(self.settle().await?);
        let Some(claim) = self.claim.take() else { return Ok(false) };
        let (length, modified) = (self.written, self.modified);
        let finished = run(move || claim.finish(length, modified)).await;
        finished.map_err(|error| FetchError::file(&self.path, error))
    }
}

/// As [`Claim::take`], on a thread that may block.
pub(super) async fn claim(path: &Path, source: &str) -> Result<Claim, FetchError> {
    let (target, source) = (path.to_owned(), source.to_owned());
    let taken = tokio::task::spawn_blocking(move || Claim::take(&target, &source)).await;
    taken.map_err(|error| FetchError::file(path, io::Error::other(error)))?
}

/// Runs a blocking disk operation on a thread that may block.
async fn run<T: Send + 'static>(
    work: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> io::Result<T> {
    tokio::task::spawn_blocking(work).await.map_err(io::Error::other).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::part_of;

    fn names(directory: &Path) -> Vec<String> {
        let entries = std::fs::read_dir(directory).unwrap();
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
    }

    fn tagged(etag: &str) -> FileState {
        FileState { etag: Some(etag.to_owned()), ..FileState::default() }
    }

    async fn begin(path: &Path, state: FileState) -> Sink {
        Sink::begin(path, claim(path, "s").await.unwrap(), state).unwrap()
    }

    #[tokio::test]
    async fn the_name_appears_with_the_whole_content() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("file");
        std::fs::write(&path, "old").unwrap();
        let mut sink = begin(&path, FileState::default()).await;
        let mut expected = Vec::new();
        for byte in 0..9 {
            let piece = vec![byte; 100_000];
            expected.extend_from_slice(&piece);
            sink.write(piece.into()).await.unwrap();
            assert_eq!(std::fs::read(&path).unwrap(), b"old");
        }
        let day = SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(1_445_412_480);
        sink.set_modified(Some(day));
        assert!(sink.finish().await.unwrap(), "there was an older one");
        assert_eq!(std::fs::read(&path).unwrap(), expected);
        assert_eq!(std::fs::metadata(&path).unwrap().modified().unwrap(), day);
        assert_eq!(names(directory.path()), ["file"]);
    }

    #[cfg(unix)]
    #[tokio::test]
    async fn devices_are_written_to_and_not_replaced() {
        use std::os::unix::fs::FileTypeExt as _;
        let null = Path::new("/dev/null");
        let mut sink = Sink::device(null).await.unwrap();
        sink.write(vec![1; BATCH].into()).await.unwrap();
        assert!(!sink.keep().await);
        sink.finish().await.unwrap();
        assert!(std::fs::metadata(null).unwrap().file_type().is_char_device());
        let mut sink = Sink::device(Path::new("/dev/full")).await.unwrap();
        sink.write(vec![1; 10].into()).await.unwrap();
        assert!(sink.finish().await.is_err());
    }

    #[tokio::test]
    async fn an_abandoned_file_leaves_nothing() {
        let directory = tempfile::tempdir().unwrap();
        let mut sink = begin(&directory.path().join("file"), FileState::default()).await;
        sink.write(Bytes::from_static(b"half")).await.unwrap();
        assert!(!sink.keep().await);
        drop(sink);
        assert!(names(directory.path()).is_empty());
        let error = claim(&directory.path().join("no/file"), "s").await.unwrap_err();
        assert!(error.to_string().contains("no/file cannot be written: "), "{error}");
    }

    #[tokio::test]
    async fn what_has_a_validator_is_kept_and_gone_on_with() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("file");
        let mut sink = begin(&path, tagged("\"5:1/a\"")).await;
        sink.write(vec![1; BATCH].into()).await.unwrap();
        sink.settle().await.map(|goal| sink.writer = Writer::Idle(goal)).unwrap();
        // This piece is not written yet, so a later fetch receives it again.
        sink.write(vec![2; 10].into()).await.unwrap();
        drop(sink);
        assert_eq!(part_of(&path).unwrap().bytes, BATCH as u64);
        // A failure before any data has arrived changes nothing.
        let again = || async { claim(&path, "s").await.unwrap() };
        drop(Sink::go_on(&path, again().await, BATCH as u64 + 10).await.unwrap());
        assert_eq!(part_of(&path).unwrap().bytes, BATCH as u64);
        let mut sink = Sink::go_on(&path, again().await, BATCH as u64 + 10).await.unwrap();
        sink.write(vec![2; 10].into()).await.unwrap();
        sink.finish().await.unwrap();
        assert_eq!(names(directory.path()), ["file"]);
        assert_eq!(std::fs::read(&path).unwrap(), [vec![1; BATCH], vec![2; 10]].concat());
    }

    #[tokio::test]
    async fn little_is_kept_too_when_there_is_time() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("file");
        let mut sink = begin(&path, tagged("\"1\"")).await;
        sink.write(Bytes::from_static(b"half")).await.unwrap();
        assert!(sink.keep().await);
        drop(sink);
        assert_eq!(part_of(&path).unwrap().bytes, 4);
    }
}
