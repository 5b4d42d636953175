//! The sender's side: files and directories of this host.

use std::collections::BTreeSet;
use std::fmt;
use std::fs::{self, File, Metadata};
use std::io::{self, Read as _, Seek as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, UNIX_EPOCH};

use anabranch::Association;
use bytes::Bytes;
use tokio::sync::mpsc;
use tokio::task::{JoinError, JoinSet, spawn_blocking};
use tokio::time::timeout;

use crate::digest::{Digest, Hasher};
use crate::list::{Entry, List, MOST_FILES};
use crate::name::local_path;
use crate::protocol::{Question, Stream, refusal};

/// Bytes that are read at a time.
const PIECE: usize = 128 << 10;

/// Pieces that wait between the disk and the network.
const AHEAD: usize = 4;

/// How long a question may take to arrive. It is the first thing on its stream.
const QUESTION: Duration = Duration::from_secs(30);

/// How long the streams of an association may take to end after it.
const LAST: Duration = Duration::from_secs(1);

/// Why files cannot be offered. It is a sentence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CannotOffer(String);

impl fmt::Display for CannotOffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for CannotOffer {}

/// How the service of an association ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The receiver has everything.
    Done,
    /// The association ended before, for this reason if it was lost. The receiver may come back.
    Ended(Option<String>),
}

/// Files to send.
#[derive(Clone, Debug)]
pub struct Offer {
    list: Arc<List>,
    /// Where the files of the list are.
    paths: Arc<Vec<PathBuf>>,
    skipped: Vec<PathBuf>,
    sent: Arc<Mutex<Sent>>,
}

#[derive(Debug, Default)]
struct Sent {
    /// Digests of files that were read as a whole.
    digests: Vec<Option<Digest>>,
    bytes: u64,
}

impl Offer {
    /// Offers these files, and all files in these directories. Links on the way to an argument are followed; others,
    /// and what is neither a file nor a directory, are skipped.
    ///
    /// # Errors
    /// A file is missing, cannot be read, or has a name that cannot be sent; two have the same name; there are none, or
    /// too many.
    pub fn new(arguments: &[PathBuf]) -> Result<Self, CannotOffer> {
        let mut collected = Collected::default();
        for argument in arguments {
            collected.argument(argument)?;
        }
        let Collected { files, paths, skipped, .. } = collected;
        if files.is_empty() {
            return Err(CannotOffer("there are no files in what is to be sent".to_owned()));
        }
        let digests = vec![None; files.len()];
        let sent = Arc::new(Mutex::new(Sent { digests, bytes: 0 }));
        Ok(Self { list: Arc::new(List { files }), paths: Arc::new(paths), skipped, sent })
    }

    /// The files.
    pub fn list(&self) -> &List {
        &self.list
    }

    /// Links and special files that were skipped.
    pub fn skipped(&self) -> &[PathBuf] {
        &self.skipped
    }

    fn sent(&self) -> MutexGuard<'_, Sent> {
        self.sent.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Bytes of files that were given to associations so far.
    pub fn bytes_sent(&self) -> u64 {
        self.sent().bytes
    }

    /// The digests of the files, as far as they were sent.
    pub fn digests(&self) -> Vec<Option<Digest>> {
        self.sent().digests.clone()
    }

    /// Answers a receiver until it has everything, or its association ends. Must be called within a tokio runtime.
    pub async fn serve(&self, association: &Association) -> Outcome {
        let mut streams = JoinSet::new();
        let end = loop {
            tokio::select! {
                accepted = association.accept_stream() => match accepted {
                    Ok(Some(halves)) => {
                        let offer = self.clone();
                        let stream = Stream::new(halves);
                        streams.spawn(async move { offer.answer(stream).await });
                    }
                    Ok(None) => break None,
                    Err(error) => break Some(error.to_string()),
                },
                Some(ended) = streams.join_next() => if is_done(ended) {
                    return Outcome::Done;
                },
            }
        };
        // The end may be noticed before the last question.
        let last = async {
            while let Some(ended) = streams.join_next().await {
                if is_done(ended) {
                    return true;
                }
            }
            false
        };
        match timeout(LAST, last).await {
            Ok(true) => Outcome::Done,
            _ => Outcome::Ended(end),
        }
    }

    /// Answers a question. Returns whether the receiver has everything.
    async fn answer(&self, mut stream: Stream) -> io::Result<bool> {
        let question = timeout(QUESTION, Question::read(stream.reader()?)).await;
        let question = question.map_err(|_| io::Error::from(io::ErrorKind::TimedOut))??;
        match question {
            Some(Question::List) => {
                let list = serde_json::to_vec(&*self.list)?;
                let length = u32::try_from(list.len()).unwrap_or(u32::MAX);
                stream.write([&[0][..], &length.to_be_bytes(), &list].concat()).await?;
            }
            Some(Question::File { index, offset }) => {
                self.send_file(&mut stream, index as usize, offset).await?;
            }
            Some(Question::Done) => {
                // The receiver has everything, whether it learns that this is known or not.
                if stream.write(vec![0]).await.is_ok() {
                    let _ = stream.finish().await;
                }
                return Ok(true);
            }
            None => {
                let why = "the receiver has another version: use the same version on both sides";
                stream.write(refusal(why)).await?;
            }
        }
        stream.finish().await?;
        Ok(false)
    }

    async fn send_file(&self, stream: &mut Stream, index: usize, offset: u64) -> io::Result<()> {
        let known = self.list.files.get(index).zip(self.paths.get(index));
        let Some((entry, path)) = known.filter(|(entry, _)| offset <= entry.size) else {
            return stream.write(refusal("there is no such part of a file")).await;
        };
        let (pieces, mut received) = mpsc::channel(AHEAD);
        let (entry, path) = (entry.clone(), path.clone());
        let reading = spawn_blocking(move || read(&path, &entry, offset, &pieces));
        // The first piece says whether the file can be read at all.
        let mut began = false;
        while let Some(piece) = received.recv().await {
            if !std::mem::replace(&mut began, true) {
                stream.write(vec![0]).await?;
            }
            let length = piece.len() as u64;
            if length > 0 {
                stream.write(piece).await?;
                self.sent().bytes += length;
            }
        }
        match reading.await.map_err(io::Error::other)? {
            Ok(digest) => {
                if let Some(place) = self.sent().digests.get_mut(index) {
                    *place = Some(digest);
                }
                stream.write(digest.as_bytes().to_vec()).await
            }
            Err(error) if began => {
                // The receiver learns from the stream that the rest is missing, and the reason when it asks again.
                Err(error)
            }
            Err(error) => stream.write(refusal(&error.to_string())).await,
        }
    }
}

/// Whether a stream has said that the receiver has everything.
fn is_done(ended: Result<io::Result<bool>, JoinError>) -> bool {
    match ended {
        Ok(Ok(done)) => done,
        Ok(Err(error)) => {
            tracing::debug!(%error, "a question was not answered");
            false
        }
        Err(_) => false,
    }
}

/// Reads a file, gives what follows the offset to `pieces`, and returns the digest of the whole. An empty piece comes
/// first, when the file is open and is the one of the list.
fn read(
    path: &Path,
    entry: &Entry,
    offset: u64,
    pieces: &mpsc::Sender<Bytes>,
) -> io::Result<Digest> {
    let changed = || io::Error::other("the file has changed since it was offered");
    let mut file = File::open(path)?;
    let is_same = |file: &File| -> io::Result<bool> {
        let metadata = file.metadata()?;
        Ok((metadata.len(), modified(&metadata)) == (entry.size, entry.modified))
    };
    if !is_same(&file)? {
        return Err(changed());
    }
    let gone = |_| io::Error::from(io::ErrorKind::BrokenPipe);
    pieces.blocking_send(Bytes::new()).map_err(gone)?;
    file.rewind()?;
    let mut hasher = Hasher::default();
    let mut at = 0;
    let mut buffer = vec![0; PIECE];
    while at < entry.size {
        let most = usize::try_from(entry.size - at).unwrap_or(PIECE).min(PIECE);
        let count = file.read(&mut buffer[..most])?;
        if count == 0 {
            return Err(changed());
        }
        let piece = &buffer[..count];
        hasher.add(piece);
        let skipped = usize::try_from(offset.saturating_sub(at)).unwrap_or(count).min(count);
        if skipped < count {
            pieces.blocking_send(Bytes::copy_from_slice(&piece[skipped..])).map_err(gone)?;
        }
        at += count as u64;
    }
    if is_same(&file)? { Ok(hasher.digest()) } else { Err(changed()) }
}

/// When a file was changed last, in nanoseconds since 1970.
fn modified(metadata: &Metadata) -> u64 {
    let time = metadata.modified().ok().and_then(|time| time.duration_since(UNIX_EPOCH).ok());
    time.and_then(|time| u64::try_from(time.as_nanos()).ok()).unwrap_or(0)
}

/// The files that were found so far.
#[derive(Default)]
struct Collected {
    files: Vec<Entry>,
    paths: Vec<PathBuf>,
    skipped: Vec<PathBuf>,
    /// Names at the top.
    names: BTreeSet<String>,
}

impl Collected {
    /// Adds an argument of the user.
    fn argument(&mut self, argument: &Path) -> Result<(), CannotOffer> {
        let shown = argument.display();
        let cannot = |error: io::Error| CannotOffer(format!("cannot read {shown}: {error}"));
        let metadata = fs::metadata(argument).map_err(cannot)?;
        // '.' and '..' have a name only when they are resolved.
        let named = match argument.file_name() {
            Some(_) => argument.to_owned(),
            None => fs::canonicalize(argument).map_err(cannot)?,
        };
        let name = named.file_name().ok_or_else(|| {
            CannotOffer(format!("{shown} has no name: send the files in it instead"))
        })?;
        let name = name.to_str().ok_or_else(|| not_text(argument))?;
        if !self.names.insert(name.to_owned()) {
            return Err(CannotOffer(format!(
                "two of the files to send are called {name}: rename one, or send them one after the other"
            )));
        }
        if metadata.is_dir() {
            self.directory(argument, name)
        } else if metadata.is_file() {
            File::open(argument).map_err(cannot)?;
            self.file(argument.to_owned(), name.to_owned(), &metadata)
        } else {
            Err(CannotOffer(format!("{shown} is neither a file nor a directory")))
        }
    }

    /// Adds the files below a directory, in the order of their names.
    fn directory(&mut self, top: &Path, name: &str) -> Result<(), CannotOffer> {
        let mut waiting = vec![(top.to_owned(), name.to_owned())];
        while let Some((directory, name)) = waiting.pop() {
            let cannot = |error: io::Error| {
                CannotOffer(format!("cannot read {}: {error}", directory.display()))
            };
            let mut entries = fs::read_dir(&directory)
                .and_then(Iterator::collect::<io::Result<Vec<_>>>)
                .map_err(cannot)?;
            entries.sort_by_key(fs::DirEntry::file_name);
            let mut below = Vec::new();
            for entry in entries {
                let path = entry.path();
                // Links are not followed here.
                let kind = entry.file_type().map_err(cannot)?;
                if !kind.is_dir() && !kind.is_file() {
                    self.skipped.push(path);
                    continue;
                }
                let own = entry.file_name();
                let own = own.to_str().ok_or_else(|| not_text(&path))?;
                let name = format!("{name}/{own}");
                if kind.is_dir() {
                    below.push((path, name));
                } else {
                    let metadata = entry.metadata().map_err(cannot)?;
                    self.file(path, name, &metadata)?;
                }
            }
            waiting.extend(below.into_iter().rev());
        }
        Ok(())
    }

    fn file(&mut self, path: PathBuf, name: String, of: &Metadata) -> Result<(), CannotOffer> {
        local_path(&name).map_err(|error| CannotOffer(error.to_string()))?;
        if self.files.len() >= MOST_FILES {
            return Err(CannotOffer(format!(
                "there are more than {MOST_FILES} files: pack them into an archive, and send that"
            )));
        }
        self.files.push(Entry { path: name, size: of.len(), modified: modified(of) });
        self.paths.push(path);
        Ok(())
    }
}

fn not_text(path: &Path) -> CannotOffer {
    CannotOffer(format!("the name {} is not UTF-8: rename the file", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn offer(folder: &Path, names: &[&str]) -> Result<Offer, String> {
        let paths: Vec<_> = names.iter().map(|name| folder.join(name)).collect();
        Offer::new(&paths).map_err(|error| error.to_string())
    }

    #[test]
    fn files_and_directories_are_listed() {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir_all(folder.path().join("d/e")).unwrap();
        for name in ["f", "d/b", "d/e/a", "d/a"] {
            fs::write(folder.path().join(name), name).unwrap();
        }
        #[cfg(unix)]
        std::os::unix::fs::symlink("/etc/passwd", folder.path().join("d/link")).unwrap();
        let both = offer(folder.path(), &["f", "d"]).unwrap();
        let names: Vec<_> = both.list().files.iter().map(|file| &file.path[..]).collect();
        assert_eq!(names, ["f", "d/a", "d/b", "d/e/a"]);
        assert_eq!(both.list().bytes(), 1 + 3 + 3 + 5);
        assert_eq!(both.skipped().len(), usize::from(cfg!(unix)));
        let dots = offer(folder.path(), &["d/e/."]).unwrap();
        assert_eq!(dots.list().files[0].path, "e/a");
    }

    #[test]
    fn what_cannot_be_sent_is_named() {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir_all(folder.path().join("d/empty")).unwrap();
        for name in ["f", "d/f"] {
            fs::write(folder.path().join(name), "").unwrap();
        }
        for (names, part) in [
            (&["missing"][..], "cannot read"),
            (&["d/empty"], "no files"),
            (&[], "no files"),
            (&["f", "d/f"], "called f"),
        ] {
            let error = offer(folder.path(), names).unwrap_err();
            assert!(error.contains(part) && !error.ends_with('.'), "{error}");
        }
    }

    #[test]
    fn files_that_have_changed_are_not_sent() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("f");
        fs::write(&path, "before").unwrap();
        let offer = offer(folder.path(), &["f"]).unwrap();
        let entry = &offer.list().files[0];
        let (pieces, mut received) = mpsc::channel(9);
        let digest = read(&path, entry, 2, &pieces).unwrap();
        assert_eq!(received.try_recv().unwrap(), "");
        assert_eq!(received.try_recv().unwrap(), "fore");
        let mut whole = Hasher::default();
        whole.add(b"before");
        assert_eq!(digest, whole.digest());
        fs::write(&path, "afterwards").unwrap();
        let error = read(&path, entry, 0, &pieces).unwrap_err();
        assert!(error.to_string().contains("has changed"), "{error}");
    }
}
