//! Bodies of answers: empty, a text, or a range of a file that is read piece by piece.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use tokio::task::JoinHandle;

use super::at_once::{self, Elsewhere};

/// Bytes per read of a file. The transport queues a few pieces for each stream, so this determines the memory per
/// active stream; larger pieces do not make reading at once faster.
const PIECE: u64 = 64 << 10;

/// The same where each read needs another thread although the file may be in memory: fewer threads are woken.
const FAR_PIECE: u64 = 256 << 10;

/// The body of an answer of [`Files`](super::Files).
#[derive(Debug)]
pub struct FileBody {
    /// Bytes that are not read yet.
    remaining: u64,
    /// Offset in the file of the next byte to read.
    offset: u64,
    source: Source,
}

#[derive(Debug)]
enum Source {
    Done,
    Memory(Bytes),
    /// A piece is ready, and reading the next one has not begun.
    Ready(Bytes, File),
    /// Reading the next piece has not begun.
    Idle(File),
    /// A thread that may block is reading a piece.
    Reading(JoinHandle<io::Result<(File, Bytes)>>),
}

impl FileBody {
    pub(crate) fn empty() -> Self {
        Self { remaining: 0, offset: 0, source: Source::Done }
    }

    pub(super) fn memory(bytes: impl Into<Bytes>) -> Self {
        let bytes = bytes.into();
        Self { remaining: bytes.len() as u64, offset: 0, source: Source::Memory(bytes) }
    }

    /// `len` bytes of `file` from offset `start`. Reads the first piece immediately, so this may block. A small
    /// file needs no further reads.
    pub(super) fn file(file: File, start: u64, len: u64) -> io::Result<Self> {
        if len == 0 {
            return Ok(Self::empty());
        }
        let (file, piece) = read(file, start, len.min(PIECE))?;
        Ok(Self { remaining: len, offset: start, source: Source::Ready(piece, file) })
    }

    /// As [`file`](Self::file), but does not read yet, so it does not block.
    pub(super) fn later(file: File, start: u64, len: u64) -> Self {
        match len {
            0 => Self::empty(),
            _ => Self { remaining: len, offset: start, source: Source::Idle(file) },
        }
    }
}

impl FileBody {
    /// Returns a piece, and prepares to read the next one if any is left.
    fn hand_on(&mut self, piece: Bytes, file: File) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        self.remaining = self.remaining.saturating_sub(piece.len() as u64);
        self.offset += piece.len() as u64;
        if self.remaining > 0 {
            self.source = Source::Idle(file);
        }
        Poll::Ready(Some(Ok(Frame::data(piece))))
    }
}

/// Reads the piece at `offset`, at most `want` bytes.
fn read(mut file: File, offset: u64, want: u64) -> io::Result<(File, Bytes)> {
    let mut piece = Vec::with_capacity(usize::try_from(want).unwrap_or(0));
    file.seek(SeekFrom::Start(offset))?;
    (&file).take(want).read_to_end(&mut piece)?;
    if piece.is_empty() {
        // The length is already announced, so only breaking off the stream notifies the client.
        return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the file became shorter"));
    }
    Ok((file, Bytes::from(piece)))
}

impl Body for FileBody {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, io::Error>>> {
        let this = self.get_mut();
        loop {
            match std::mem::replace(&mut this.source, Source::Done) {
                Source::Done => return Poll::Ready(None),
                Source::Memory(bytes) => {
                    this.remaining = 0;
                    return Poll::Ready((!bytes.is_empty()).then(|| Ok(Frame::data(bytes))));
                }
                Source::Ready(piece, file) => return this.hand_on(piece, file),
                Source::Idle(file) => {
                    let (offset, limit) = (this.offset, this.remaining);
                    let most = usize::try_from(limit.min(PIECE)).unwrap_or(0);
                    let want = match at_once::read(&file, offset, most) {
                        Ok(piece) => return this.hand_on(piece, file),
                        Err(Elsewhere::Absent) => limit.min(PIECE),
                        Err(Elsewhere::Unknown) => limit.min(FAR_PIECE),
                    };
                    let task = tokio::task::spawn_blocking(move || read(file, offset, want));
                    this.source = Source::Reading(task);
                }
                Source::Reading(mut task) => {
                    let joined = match Pin::new(&mut task).poll(cx) {
                        Poll::Ready(joined) => joined,
                        Poll::Pending => {
                            this.source = Source::Reading(task);
                            return Poll::Pending;
                        }
                    };
                    let (file, piece) = match joined.map_err(io::Error::other).flatten() {
                        Ok(read) => read,
                        Err(error) => return Poll::Ready(Some(Err(error))),
                    };
                    return this.hand_on(piece, file);
                }
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        matches!(self.source, Source::Done)
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.remaining)
    }
}
