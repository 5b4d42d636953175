//! Where an answer's body goes: a temporary file that gets its name when it is whole.

use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use bytes::Bytes;
use tempfile::{Builder, TempPath};
use tokio::task::JoinHandle;

use crate::error::FetchError;

/// Bytes gathered before they are handed to the thread that writes.
const BATCH: usize = 256 << 10;

/// What an unfinished file is called: its name, this, and the entity tag of what it is a part of.
const PART: &str = ".part-";

/// Longest entity tag that goes into a name.
const LONGEST_TAG: usize = 64;

/// The part of a file that an earlier fetch left behind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    /// Where it is.
    pub path: PathBuf,
    /// Bytes of it, at least one.
    pub bytes: u64,
    /// The entity tag, without quotes, of what it is a part of.
    pub(super) tag: String,
}

/// What is there of the file `path` that was not finished: the newest, if there are several.
pub fn part_of(path: &Path) -> Option<Part> {
    let name = format!("{}{PART}", path.file_name()?.to_str()?);
    let entries = std::fs::read_dir(directory_of(path)).ok()?;
    let parts = entries.flatten().filter_map(|entry| {
        let tag = tag_of(entry.file_name().to_str()?.strip_prefix(&name)?)?.to_owned();
        let metadata = entry.metadata().ok().filter(|found| found.is_file() && found.len() > 0)?;
        let part = Part { path: entry.path(), bytes: metadata.len(), tag };
        Some((metadata.modified().ok(), part))
    });
    parts.max_by_key(|(modified, _)| *modified).map(|(_, part)| part)
}

/// As [`part_of`], on a thread that may wait for a disk.
pub(super) async fn look_for_part(path: &Path) -> Option<Part> {
    let path = path.to_owned();
    tokio::task::spawn_blocking(move || part_of(&path)).await.ok().flatten()
}

/// An entity tag that can be part of a name.
fn tag_of(tag: &str) -> Option<&str> {
    let plain = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_');
    (!tag.is_empty() && tag.len() <= LONGEST_TAG && tag.bytes().all(plain)).then_some(tag)
}

fn directory_of(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    }
}

/// A file being written, or standard output. Dropped before [`finish`](Self::finish), it leaves
/// nothing behind, or what can be gone on with later.
pub(super) struct Sink {
    path: PathBuf,
    /// `None` of devices and standard output, and when it has got its name.
    temporary: Option<TempPath>,
    /// What the unfinished file is called, if the server told how to know it again.
    part: Option<PathBuf>,
    /// Bytes that went to the thread that writes, those of an earlier fetch included.
    begun: u64,
    pending: Vec<Bytes>,
    pending_len: usize,
    writer: Writer,
}

enum Writer {
    Idle(Goal),
    Busy(JoinHandle<io::Result<Goal>>),
    /// A write failed or was cut off; there is no file to go on with.
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

impl Drop for Sink {
    fn drop(&mut self) {
        if let (Some(temporary), Some(part), true) =
            (self.temporary.take(), self.part.take(), self.begun > 0)
        {
            // If it cannot be kept it is removed, as it would be without a tag.
            let _ = temporary.persist(part);
        }
    }
}

impl Sink {
    /// Begins the file `path`, whose directory must exist. With an entity tag, which stands in
    /// quotes, what was written is kept if it is not finished.
    pub(super) async fn create(path: &Path, etag: Option<&str>) -> Result<Self, FetchError> {
        let name = path.to_owned();
        let created = run(move || {
            let mut builder = Builder::new();
            builder.prefix(".anabranch-").suffix(".part");
            #[cfg(unix)]
            {
                // As any other new file; the umask takes away what it has to.
                use std::os::unix::fs::PermissionsExt;
                builder.permissions(std::fs::Permissions::from_mode(0o666));
            }
            builder.tempfile_in(directory_of(&name))
        });
        let file = created.await.map_err(|error| FetchError::file(path, without_path(error)))?;
        let (file, temporary) = file.into_parts();
        let tag = etag.and_then(|tag| tag.strip_prefix('"')?.strip_suffix('"')).and_then(tag_of);
        let part = tag.zip(path.file_name().and_then(|name| name.to_str()));
        let part = part.map(|(tag, name)| path.with_file_name(format!("{name}{PART}{tag}")));
        Ok(Self::new(path, Goal::File(file), Some(temporary), part, 0))
    }

    /// Goes on with what an earlier fetch of `path` left behind.
    pub(super) async fn resume(path: &Path, part: &Part) -> Result<Self, FetchError> {
        let name = part.path.clone();
        let opened = run(move || File::options().append(true).open(name)).await;
        let file = opened.map_err(|error| FetchError::file(&part.path, error))?;
        let temporary = TempPath::try_from_path(&part.path)
            .map_err(|error| FetchError::file(&part.path, error))?;
        let part_path = Some(part.path.clone());
        Ok(Self::new(path, Goal::File(file), Some(temporary), part_path, part.bytes))
    }

    /// Writes to what is there.
    pub(super) async fn device(path: &Path) -> Result<Self, FetchError> {
        let name = path.to_owned();
        let opened = run(move || File::options().write(true).open(name)).await;
        let file = opened.map_err(|error| FetchError::file(path, error))?;
        Ok(Self::new(path, Goal::File(file), None, None, 0))
    }

    /// Writes to standard output.
    pub(super) fn stdout() -> Self {
        Self::new(Path::new("standard output"), Goal::Stdout, None, None, 0)
    }

    fn new(
        path: &Path,
        goal: Goal,
        temporary: Option<TempPath>,
        part: Option<PathBuf>,
        begun: u64,
    ) -> Self {
        Self {
            path: path.to_owned(),
            temporary,
            part,
            begun,
            pending: Vec::new(),
            pending_len: 0,
            writer: Writer::Idle(goal),
        }
    }

    /// Takes a piece as it came, without copying it. While one batch is being written the next
    /// one is gathered.
    pub(super) async fn write(&mut self, piece: Bytes) -> Result<(), FetchError> {
        self.pending_len += piece.len();
        self.pending.push(piece);
        if self.pending_len >= BATCH { self.flush().await } else { Ok(()) }
    }

    async fn flush(&mut self) -> Result<(), FetchError> {
        let mut goal = self.settle().await?;
        let batch = std::mem::take(&mut self.pending);
        self.begun += self.pending_len as u64;
        self.pending_len = 0;
        self.writer = Writer::Busy(tokio::task::spawn_blocking(move || {
            for piece in batch {
                goal.write(&piece)?;
            }
            Ok(goal)
        }));
        Ok(())
    }

    /// Waits for the batch being written.
    async fn settle(&mut self) -> Result<Goal, FetchError> {
        let result = match std::mem::replace(&mut self.writer, Writer::Broken) {
            Writer::Idle(goal) => Ok(goal),
            Writer::Busy(task) => task.await.map_err(io::Error::other).flatten(),
            Writer::Broken => Err(io::ErrorKind::BrokenPipe.into()),
        };
        result.map_err(|error| FetchError::file(&self.path, error))
    }

    /// Has all that came written, so that a later fetch goes on behind it.
    pub(super) async fn keep(&mut self) {
        // A disk that does not take it leaves less to go on with.
        if self.part.is_some() && self.flush().await.is_ok() {
            self.writer = self.settle().await.map_or(Writer::Broken, Writer::Idle);
        }
    }

    /// Writes what is left and gives the file its name, in place of an older one.
    pub(super) async fn finish(mut self) -> Result<(), FetchError> {
        self.flush().await?;
        drop(self.settle().await?);
        let Some(temporary) = self.temporary.take() else { return Ok(()) };
        let (target, part) = (self.path.clone(), self.part.take());
        run(move || {
            let begun_as = temporary.to_path_buf();
            temporary.persist(target).map_err(|error| error.error)?;
            // An earlier fetch may have left a part of the same behind that was not gone on with.
            if let Some(part) = part.filter(|part| *part != begun_as) {
                let _ = std::fs::remove_file(part);
            }
            Ok(())
        })
        .await
        .map_err(|error| FetchError::file(&self.path, error))
    }
}

/// Runs what may wait for a disk on a thread that may wait.
async fn run<T: Send + 'static>(
    work: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> io::Result<T> {
    tokio::task::spawn_blocking(work).await.map_err(io::Error::other).flatten()
}

/// The error without the random name of the temporary file.
fn without_path(error: io::Error) -> io::Error {
    error.raw_os_error().map_or_else(|| error.kind().into(), io::Error::from_raw_os_error)
}

#[cfg(test)]
mod tests {
    use super::*;
    #[cfg(unix)]
    use crate::client::Output;

    fn names(directory: &Path) -> Vec<String> {
        let entries = std::fs::read_dir(directory).unwrap();
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
    }

    #[tokio::test]
    async fn the_name_appears_with_the_whole_content() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("file");
        std::fs::write(&path, "old").unwrap();
        let mut sink = Sink::create(&path, None).await.unwrap();
        let mut expected = Vec::new();
        for byte in 0..9 {
            let piece = vec![byte; 100_000];
            expected.extend_from_slice(&piece);
            sink.write(piece.into()).await.unwrap();
            assert_eq!(std::fs::read(&path).unwrap(), b"old");
        }
        sink.finish().await.unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), expected);
        assert_eq!(names(directory.path()), ["file"]);
    }

    #[cfg(unix)]
    #[tokio::test]
    async fn devices_are_written_to_and_not_replaced() {
        use std::os::unix::fs::FileTypeExt as _;
        let null = Path::new("/dev/null");
        assert_eq!(Output::named(null.into(), true), Output::Device(null.into()));
        let mut sink = Sink::device(null).await.unwrap();
        sink.write(vec![1; BATCH].into()).await.unwrap();
        sink.keep().await;
        sink.finish().await.unwrap();
        assert!(std::fs::metadata(null).unwrap().file_type().is_char_device());
        let mut sink = Sink::device(Path::new("/dev/full")).await.unwrap();
        sink.write(vec![1; 10].into()).await.unwrap();
        assert!(sink.finish().await.is_err());
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("file");
        let wanted = || Output::File { path: file.clone(), resume: false };
        assert_eq!(Output::named(file.clone(), false), wanted(), "a new one");
        std::fs::write(&file, "old").unwrap();
        assert_eq!(Output::named(file.clone(), false), wanted());
    }

    #[tokio::test]
    async fn an_abandoned_file_leaves_nothing() {
        let directory = tempfile::tempdir().unwrap();
        let mut sink = Sink::create(&directory.path().join("file"), None).await.unwrap();
        sink.write(Bytes::from_static(b"half")).await.unwrap();
        drop(sink);
        assert!(names(directory.path()).is_empty());
        let error = Sink::create(&directory.path().join("no/file"), None).await.err().unwrap();
        assert!(error.to_string().contains("no/file cannot be written: "), "{error}");
    }

    #[tokio::test]
    async fn what_has_a_tag_is_kept_and_gone_on_with() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("file");
        let mut sink = Sink::create(&path, Some("\"5-1a\"")).await.unwrap();
        sink.write(vec![1; BATCH].into()).await.unwrap();
        sink.settle().await.map(|goal| sink.writer = Writer::Idle(goal)).unwrap();
        // Not handed over yet: it comes again.
        sink.write(vec![2; 10].into()).await.unwrap();
        drop(sink);
        assert_eq!(names(directory.path()), ["file.part-5-1a"]);
        let part = part_of(&path).unwrap();
        assert_eq!((part.bytes, part.tag.as_str()), (BATCH as u64, "5-1a"));
        // To fail before anything came changes nothing.
        drop(Sink::resume(&path, &part).await.unwrap());
        assert_eq!(part_of(&path).unwrap(), part);
        let mut sink = Sink::resume(&path, &part).await.unwrap();
        sink.write(vec![2; 10].into()).await.unwrap();
        sink.finish().await.unwrap();
        assert_eq!(names(directory.path()), ["file"]);
        assert_eq!(std::fs::read(&path).unwrap(), [vec![1; BATCH], vec![2; 10]].concat());
    }

    #[tokio::test]
    async fn tags_that_make_no_name_keep_nothing() {
        let directory = tempfile::tempdir().unwrap();
        let long = format!("\"{}\"", "a".repeat(LONGEST_TAG + 1));
        for etag in ["W/\"5\"", "\"../x\"", "\"\"", "\"a b\"", &long] {
            let mut sink = Sink::create(&directory.path().join("file"), Some(etag)).await.unwrap();
            sink.write(vec![1; BATCH].into()).await.unwrap();
            drop(sink);
            assert!(names(directory.path()).is_empty(), "{etag}");
        }
        assert_eq!(part_of(&directory.path().join("file")), None);
    }
}
