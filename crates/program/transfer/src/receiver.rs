//! The receiver's side: fetches what a sender offers into a directory.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use anabranch::Association;
use bytes::{Bytes, BytesMut};
use tokio::io::AsyncReadExt as _;
use tokio::sync::mpsc;
use tokio::task::{JoinSet, spawn_blocking};

use crate::digest::Digest;
use crate::list::{Entry, List, MOST_BYTES};
use crate::name::local_path;
use crate::part::{Found, Part, find, make_directories};
use crate::protocol::{Question, Stream, accepted};

/// Files that are fetched at the same time: enough that many small ones do not wait for round trips.
const AT_ONCE: usize = 8;

/// The largest piece in bytes.
const PIECE: usize = 64 << 10;

/// Pieces that wait between the network and the disk.
const AHEAD: usize = 16;

/// How often a file is asked for again when its stream was cut while the association went on.
const TRIES: u32 = 3;

/// What happens while files are received.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Event {
    /// The list is here.
    Listed {
        /// Number of files.
        files: usize,
        /// Bytes of all files.
        bytes: u64,
    },
    /// A file is being fetched.
    Began {
        /// Place in the list.
        index: usize,
        /// Where it is to be.
        path: PathBuf,
        /// Its length in bytes.
        size: u64,
        /// Bytes that arrived earlier.
        resumed: u64,
    },
    /// Bytes of a file have arrived.
    Arrived {
        /// Place in the list.
        index: usize,
        /// Number of bytes.
        bytes: u64,
    },
    /// A file is there, or cannot be received.
    Ended {
        /// Place in the list.
        index: usize,
        /// The file.
        received: Received,
    },
}

/// Learns what happens; must not block.
pub type Events = Arc<dyn Fn(Event) + Send + Sync>;

/// A file that is there, or cannot be received.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Received {
    /// Where it is, below the directory of the receiver.
    pub path: PathBuf,
    /// Its length in bytes.
    pub size: u64,
    /// Its digest, which is that of the sender.
    pub digest: Option<Digest>,
    /// Bytes that had arrived before this process began.
    pub resumed: u64,
    /// It was there before.
    pub already: bool,
    /// Why it is not there.
    pub error: Option<String>,
}

/// Why not everything is there. Both are sentences.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Failed {
    /// The association was lost; another one can go on.
    Lost(String),
    /// Another attempt would end in the same way.
    Stopped(String),
}

impl fmt::Display for Failed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (Self::Lost(why) | Self::Stopped(why)) = self;
        f.write_str(why)
    }
}

impl std::error::Error for Failed {}

/// Why a file is not there.
enum FileFailed {
    Lost(String),
    /// No further file can be written.
    Full(String),
    This(String),
}

#[derive(Default)]
struct State {
    list: Option<Arc<List>>,
    ended: BTreeMap<usize, Received>,
}

/// Fetches what a sender offers, over one association after the other until everything is there. Clones continue the
/// same transfer.
#[derive(Clone)]
pub struct Receiver {
    directory: PathBuf,
    overwrite: bool,
    events: Events,
    state: Arc<Mutex<State>>,
}

impl fmt::Debug for Receiver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Receiver").field("directory", &self.directory).finish_non_exhaustive()
    }
}

impl Receiver {
    /// Receives into this directory. With `overwrite`, files with the same names are replaced.
    pub fn new(directory: PathBuf, overwrite: bool, events: Events) -> Self {
        Self { directory, overwrite, events, state: Arc::default() }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Fetches what is not there yet. If all files are there, the sender learns it. Must be called within a tokio
    /// runtime.
    ///
    /// # Errors
    /// The association was lost, the sender offers something else than before, or the disk is full. A file that cannot
    /// be received is no error of the whole: it has one of its own.
    pub async fn receive(&self, association: &Association) -> Result<Vec<Received>, Failed> {
        let list = self.list(association).await?;
        self.refuse_names(&list);
        let mut files = JoinSet::new();
        let missing: Vec<_> = {
            let state = self.state();
            (0..list.files.len()).filter(|index| !state.ended.contains_key(index)).collect()
        };
        let mut missing = missing.into_iter();
        loop {
            while files.len() < AT_ONCE
                && let Some(index) = missing.next()
                && let Some(entry) = list.files.get(index).cloned()
            {
                let (receiver, association) = (self.clone(), association.clone());
                files.spawn(async move { receiver.file(&association, index, &entry).await });
            }
            match files.join_next().await {
                None => break,
                Some(Ok(Ok(()))) => {}
                Some(Ok(Err(failed))) => return Err(failed),
                Some(Err(error)) => return Err(Failed::Stopped(error.to_string())),
            }
        }
        let received: Vec<_> = self.state().ended.values().cloned().collect();
        if received.iter().all(|file| file.error.is_none()) {
            // If this is lost, everything is there nevertheless.
            if let Err(error) = done(association).await {
                tracing::debug!(%error, "the sender may not know that everything is there");
            }
        }
        Ok(received)
    }

    /// Asks for the list.
    async fn list(&self, association: &Association) -> Result<Arc<List>, Failed> {
        let lost = |error: io::Error| Failed::Lost(error.to_string());
        let mut stream = ask(association, Question::List).await.map_err(lost)?;
        let reader = stream.reader().map_err(lost)?;
        accepted(reader).await.map_err(lost)?.map_err(Failed::Stopped)?;
        let length = reader.read_u32().await.map_err(lost)? as usize;
        if length > MOST_BYTES {
            return Err(Failed::Stopped("the sender's list of files is too long".to_owned()));
        }
        // The length is what a stranger says: memory is taken as the bytes come.
        let mut bytes = Vec::new();
        reader.take(length as u64).read_to_end(&mut bytes).await.map_err(lost)?;
        if bytes.len() < length {
            return Err(Failed::Lost("the list of files is incomplete".to_owned()));
        }
        let list = Arc::new(List::parse(&bytes).map_err(Failed::Stopped)?);
        let mut state = self.state();
        match &state.list {
            Some(before) if *before == list => {}
            Some(_) => {
                return Err(Failed::Stopped(
                    "the sender offers other files than before: start again".to_owned(),
                ));
            }
            None => {
                state.list = Some(Arc::clone(&list));
                drop(state);
                (self.events)(Event::Listed { files: list.files.len(), bytes: list.bytes() });
            }
        }
        Ok(list)
    }

    /// Files that cannot have their names here.
    fn refuse_names(&self, list: &List) {
        let mut taken = BTreeSet::new();
        for (index, entry) in list.files.iter().enumerate() {
            let error = match local_path(&entry.path) {
                Ok(local) if taken.insert(local.clone()) => continue,
                Ok(local) => format!("two files would be called {}", local.display()),
                Err(error) => error.to_string(),
            };
            let path = PathBuf::from(format!("{:?}", entry.path));
            self.end(index, entry, path, 0, Err(error));
        }
    }

    /// Records that a file is there, perhaps from before, or why not.
    fn end(
        &self,
        index: usize,
        entry: &Entry,
        path: PathBuf,
        resumed: u64,
        result: Result<(Digest, bool), String>,
    ) {
        let (digest, already, error) = match result {
            Ok((digest, already)) => (Some(digest), already, None),
            Err(error) => (None, false, Some(error)),
        };
        let received = Received { path, size: entry.size, digest, resumed, already, error };
        if self.state().ended.insert(index, received.clone()).is_none() {
            (self.events)(Event::Ended { index, received });
        }
    }

    async fn file(
        &self,
        association: &Association,
        index: usize,
        entry: &Entry,
    ) -> Result<(), Failed> {
        // The names were checked before.
        let Ok(local) = local_path(&entry.path) else { return Ok(()) };
        let mut resumed = 0;
        match self.fetch(association, index, entry, &local, &mut resumed).await {
            Ok(there) => self.end(index, entry, local, resumed, Ok(there)),
            Err(FileFailed::This(error)) => self.end(index, entry, local, resumed, Err(error)),
            Err(FileFailed::Lost(error)) => return Err(Failed::Lost(error)),
            Err(FileFailed::Full(error)) => return Err(Failed::Stopped(error)),
        }
        Ok(())
    }

    /// Fetches a file, unless it is there. Returns its digest, and whether it was there.
    async fn fetch(
        &self,
        association: &Association,
        index: usize,
        entry: &Entry,
        local: &Path,
        resumed: &mut u64,
    ) -> Result<(Digest, bool), FileFailed> {
        let target = self.directory.join(local);
        let shown = local.display();
        let disk = |error: io::Error| on_disk(local, &error);
        {
            let (directory, local) = (self.directory.clone(), local.to_owned());
            blocking(move || make_directories(&directory, &local)).await.map_err(disk)?;
        }
        let found = {
            let (target, size) = (target.clone(), entry.size);
            blocking(move || find(&target, size)).await.map_err(disk)?
        };
        if let Found::File(size, digest) = found
            && self.remote_digest(association, index, size).await? == digest
        {
            return Ok((digest, true));
        }
        if found != Found::Nothing && !self.overwrite {
            return Err(FileFailed::This(format!(
                "there is another {shown} already: move it away, or use --overwrite"
            )));
        }
        let mut part = {
            let (target, entry) = (target, entry.clone());
            blocking(move || Part::open(&target, &entry)).await.map_err(disk)?
        };
        *resumed = part.length();
        let (path, size) = (local.to_owned(), entry.size);
        (self.events)(Event::Began { index, path, size, resumed: *resumed });
        let mut again = false;
        let digest = loop {
            let digest;
            (part, digest) = self.rest(association, index, entry, part, local).await?;
            if part.digest() == digest {
                break digest;
            }
            if std::mem::replace(&mut again, true) {
                let error = format!("{shown} differs from the sender's file after two attempts");
                part.remove().map_err(disk)?;
                return Err(FileFailed::This(error));
            }
            // What an earlier process has left is damaged, for instance by a power failure.
            part.clear().map_err(disk)?;
            *resumed = 0;
        };
        let overwrite = self.overwrite;
        blocking(move || part.finish(overwrite)).await.map_err(disk)?;
        Ok((digest, false))
    }

    /// The digest of the sender's file.
    async fn remote_digest(
        &self,
        association: &Association,
        index: usize,
        size: u64,
    ) -> Result<Digest, FileFailed> {
        let lost = |error: io::Error| FileFailed::Lost(error.to_string());
        let question = Question::File { index: index as u32, offset: size };
        let mut stream = ask(association, question).await.map_err(lost)?;
        let reader = stream.reader().map_err(lost)?;
        accepted(reader).await.map_err(lost)?.map_err(FileFailed::This)?;
        let mut digest = [0; Digest::LEN];
        reader.read_exact(&mut digest).await.map_err(lost)?;
        Ok(Digest::from_bytes(digest))
    }

    /// Fetches the rest of a file, and returns it with the sender's digest.
    async fn rest(
        &self,
        association: &Association,
        index: usize,
        entry: &Entry,
        mut part: Part,
        local: &Path,
    ) -> Result<(Part, Digest), FileFailed> {
        let mut tries = 0;
        loop {
            let offset = part.length();
            let (pieces, received) = mpsc::channel(AHEAD);
            let writing = spawn_blocking(move || write(part, received));
            let read = self.read(association, index, offset, entry.size, pieces).await;
            let written = writing.await.map_err(|error| FileFailed::This(error.to_string()))?;
            part = written.map_err(|error| on_disk(local, &error))?;
            match read {
                Ok(Ok(digest)) => return Ok((part, digest)),
                Ok(Err(refusal)) => {
                    return Err(FileFailed::This(format!("{}: {refusal}", local.display())));
                }
                // The stream alone may have been cut: the next answer says why.
                Err(error) if tries == TRIES => return Err(FileFailed::Lost(error.to_string())),
                Err(_) => tries += 1,
            }
        }
    }

    /// Reads a file from this offset on. Returns the sender's digest, or why it sends nothing.
    async fn read(
        &self,
        association: &Association,
        index: usize,
        offset: u64,
        size: u64,
        pieces: mpsc::Sender<Bytes>,
    ) -> io::Result<Result<Digest, String>> {
        let mut stream = ask(association, Question::File { index: index as u32, offset }).await?;
        let reader = stream.reader()?;
        if let Err(refusal) = accepted(reader).await? {
            return Ok(Err(refusal));
        }
        let mut rest = (&mut *reader).take(size.saturating_sub(offset));
        while rest.limit() > 0 {
            let mut piece = BytesMut::with_capacity(PIECE);
            let count = rest.read_buf(&mut piece).await?;
            if count == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            if pieces.send(piece.freeze()).await.is_err() {
                // The disk has failed, which the caller learns from the writer.
                return Err(io::ErrorKind::BrokenPipe.into());
            }
            (self.events)(Event::Arrived { index, bytes: count as u64 });
        }
        let mut digest = [0; Digest::LEN];
        reader.read_exact(&mut digest).await?;
        Ok(Ok(Digest::from_bytes(digest)))
    }
}

/// Writes pieces until there are no more.
fn write(mut part: Part, mut pieces: mpsc::Receiver<Bytes>) -> io::Result<Part> {
    while let Some(piece) = pieces.blocking_recv() {
        part.add(&piece)?;
    }
    Ok(part)
}

/// Opens a stream and asks.
async fn ask(association: &Association, question: Question) -> io::Result<Stream> {
    let halves = association.open_stream().await.map_err(io::Error::other)?;
    let mut stream = Stream::new(halves);
    stream.write(question.bytes()).await?;
    stream.finish().await?;
    Ok(stream)
}

/// Tells the sender that everything is there.
async fn done(association: &Association) -> io::Result<()> {
    let mut stream = ask(association, Question::Done).await?;
    accepted(stream.reader()?).await?.map_err(io::Error::other)
}

async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> io::Result<T> {
    spawn_blocking(work).await.map_err(io::Error::other)?
}

/// What an error of the disk means.
fn on_disk(local: &Path, error: &io::Error) -> FileFailed {
    let shown = local.display();
    match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => FileFailed::Full(format!(
            "the disk is full, and {shown} is incomplete: make room and run the same command again, which goes on there"
        )),
        io::ErrorKind::AlreadyExists => FileFailed::This(format!(
            "there is another {shown} already: move it away, or use --overwrite"
        )),
        _ => FileFailed::This(format!("cannot write {shown}: {error}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_disk_stops_everything() {
        let full = on_disk(Path::new("f"), &io::ErrorKind::StorageFull.into());
        assert!(matches!(full, FileFailed::Full(why) if why.contains("make room")));
        let other = on_disk(Path::new("f"), &io::ErrorKind::PermissionDenied.into());
        assert!(matches!(other, FileFailed::This(_)));
    }
}
