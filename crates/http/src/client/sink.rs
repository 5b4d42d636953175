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

/// A file being written. Dropped before [`finish`](Self::finish), it leaves nothing behind.
pub(super) struct Sink {
    path: PathBuf,
    temporary: TempPath,
    pending: Vec<Bytes>,
    pending_len: usize,
    writer: Writer,
}

enum Writer {
    Idle(File),
    Busy(JoinHandle<io::Result<File>>),
    /// A write failed or was cut off; there is no file to go on with.
    Broken,
}

impl Sink {
    /// Begins the file `path`, whose directory must exist.
    pub(super) async fn create(path: &Path) -> Result<Self, FetchError> {
        let name = path.to_owned();
        let created = run(move || {
            let directory = match name.parent() {
                Some(parent) if !parent.as_os_str().is_empty() => parent,
                _ => Path::new("."),
            };
            let mut builder = Builder::new();
            builder.prefix(".anabranch-").suffix(".part");
            #[cfg(unix)]
            {
                // As any other new file; the umask takes away what it has to.
                use std::os::unix::fs::PermissionsExt;
                builder.permissions(std::fs::Permissions::from_mode(0o666));
            }
            builder.tempfile_in(directory)
        });
        let file = created.await.map_err(|error| FetchError::file(path, without_path(error)))?;
        let (file, temporary) = file.into_parts();
        Ok(Self {
            path: path.to_owned(),
            temporary,
            pending: Vec::new(),
            pending_len: 0,
            writer: Writer::Idle(file),
        })
    }

    /// Takes a piece as it came, without copying it. While one batch is being written the next
    /// one is gathered.
    pub(super) async fn write(&mut self, piece: Bytes) -> Result<(), FetchError> {
        self.pending_len += piece.len();
        self.pending.push(piece);
        if self.pending_len >= BATCH { self.flush().await } else { Ok(()) }
    }

    async fn flush(&mut self) -> Result<(), FetchError> {
        let mut file = self.settle().await?;
        let batch = std::mem::take(&mut self.pending);
        self.pending_len = 0;
        self.writer = Writer::Busy(tokio::task::spawn_blocking(move || {
            for piece in batch {
                file.write_all(&piece)?;
            }
            Ok(file)
        }));
        Ok(())
    }

    /// Waits for the batch being written.
    async fn settle(&mut self) -> Result<File, FetchError> {
        let result = match std::mem::replace(&mut self.writer, Writer::Broken) {
            Writer::Idle(file) => Ok(file),
            Writer::Busy(task) => task.await.map_err(io::Error::other).flatten(),
            Writer::Broken => Err(io::ErrorKind::BrokenPipe.into()),
        };
        result.map_err(|error| FetchError::file(&self.path, error))
    }

    /// Writes what is left and gives the file its name, in place of an older one.
    pub(super) async fn finish(mut self) -> Result<(), FetchError> {
        self.flush().await?;
        drop(self.settle().await?);
        let Self { path, temporary, .. } = self;
        let target = path.clone();
        run(move || temporary.persist(target).map_err(|error| error.error))
            .await
            .map_err(|error| FetchError::file(path, error))
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

    fn names(directory: &Path) -> Vec<String> {
        let entries = std::fs::read_dir(directory).unwrap();
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
    }

    #[tokio::test]
    async fn the_name_appears_with_the_whole_content() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("file");
        std::fs::write(&path, "old").unwrap();
        let mut sink = Sink::create(&path).await.unwrap();
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

    #[tokio::test]
    async fn an_abandoned_file_leaves_nothing() {
        let directory = tempfile::tempdir().unwrap();
        let mut sink = Sink::create(&directory.path().join("file")).await.unwrap();
        sink.write(Bytes::from_static(b"half")).await.unwrap();
        drop(sink);
        assert!(names(directory.path()).is_empty());
        let error = Sink::create(&directory.path().join("no/file")).await.err().unwrap();
        assert!(error.to_string().contains("no/file cannot be written: "), "{error}");
    }
}
