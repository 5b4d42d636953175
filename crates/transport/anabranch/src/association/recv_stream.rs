//! The receiving half of a stream: messages, or bytes.

use std::fmt;
use std::future::poll_fn;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use anabranch_proto::Message;
use anabranch_proto::byte_mode::Mark;
use tokio::io::{AsyncBufRead, AsyncRead, AsyncWrite, ReadBuf};

use super::handle::StreamOf;
use super::unread::Unread;
use crate::byte_mode::{BYTES, BYTES_1};
use crate::error::AssociationError;
use crate::streams::Used;

/// Most bytes of messages that a reader of bytes takes out of the queue at once.
const MOST_TAKEN: usize = 64 << 10;

/// Most pieces that are written with one call.
const PIECES: usize = 64;

/// Receives on one stream: messages with [`recv`](Self::recv), or bytes as an [`AsyncRead`].
///
/// Both end at the peer's [`MARK`](crate::byte_mode::MARK); later messages belong to the stream's next handle. If the
/// association is shut down before the mark, receiving messages ends normally, but reading a byte stream that has begun
/// fails with `UnexpectedEof`, because the rest of it is missing.
///
/// When the handle is dropped, [`Association::recv`](crate::Association::recv) and
/// [`accept_stream`](crate::Association::accept_stream) return its unread messages. But if bytes were read, the rest up
/// to the mark is thrown away, as with [`stop`](Self::stop).
///
/// ```
/// # async fn example(association: anabranch::Association) -> Result<(), Box<dyn std::error::Error>> {
/// use tokio::io::AsyncReadExt;
///
/// while let Some((_send, mut recv)) = association.accept_stream().await? {
///     let mut bytes = Vec::new();
///     recv.read_to_end(&mut bytes).await?;
///     println!("stream {}: {} bytes", recv.id(), bytes.len());
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct RecvStream {
    of: StreamOf,
    /// What is being read. Messages are charged against the window until all of them is read.
    unread: Unread,
    end: Option<End>,
    /// A byte stream has begun, so it must end with a mark.
    has_bytes: bool,
    /// Dropping the handle throws away unread data.
    stops: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    /// The peer's mark.
    Reached,
    /// The shutdown of the association, without a mark.
    ShutDown,
    /// The mark of a peer that gave up before it had sent everything.
    Abandoned,
}

/// Why a stream yields nothing more, though the peer has not ended it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RecvError {
    /// The peer gave up writing before the end.
    Abandoned,
    /// The association was shut down before the end of the bytes.
    Unfinished,
    /// The association has ended, or the stream belongs to the time before a restart of the peer.
    Association(AssociationError),
}

impl fmt::Display for RecvError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Abandoned => f.write_str("the peer gave up the stream before its end"),
            Self::Unfinished => {
                f.write_str("the association was shut down before the stream's end")
            }
            Self::Association(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for RecvError {}

impl From<RecvError> for io::Error {
    fn from(error: RecvError) -> Self {
        match error {
            RecvError::Abandoned | RecvError::Unfinished => {
                Self::new(io::ErrorKind::UnexpectedEof, error)
            }
            RecvError::Association(error) => error.into(),
        }
    }
}

impl RecvStream {
    pub(crate) fn new(of: StreamOf) -> Self {
        Self { of, unread: Unread::default(), end: None, has_bytes: false, stops: false }
    }

    /// The stream's number.
    pub fn id(&self) -> u16 {
        self.of.stream
    }

    /// Waits for the next message. `None` at the end of the stream. Cancel-safe.
    ///
    /// Large messages come in parts, as from [`Association::recv`](crate::Association::recv).
    ///
    /// # Errors
    /// The peer gave up the stream, or the association was lost.
    pub async fn recv(&mut self) -> Result<Option<Message>, RecvError> {
        if !poll_fn(|cx| self.poll_messages(cx, 1)).await? {
            return Ok(None);
        }
        let message = self.unread.pop();
        self.give_back(true);
        Ok(message)
    }

    /// Throws away everything up to the end of the peer's byte stream. The peer is notified, and
    /// discards unsent data.
    pub fn stop(mut self) {
        self.stops = true;
    }

    /// Returns the window of messages that were read completely: a reader that knows where its data ends may not ask
    /// for more for a long time. One that reads on returns a little of it late.
    fn give_back(&mut self, reads_on: bool) {
        let Some(used) = self.unread.take_used() else { return };
        let (stream, incarnation) = (self.of.stream, self.of.incarnation);
        let reads_on = reads_on && !(self.end.is_some() && self.unread.is_empty());
        let _ = self.of.association.read(|state| {
            state.streams.consume(stream, incarnation, used);
            if reads_on { Poll::Ready(()) } else { Poll::Pending }
        });
    }

    /// Waits until there is something unread: one message, or further ones as well while they have fewer bytes than
    /// `most`. False at the end.
    fn poll_messages(
        &mut self,
        cx: &mut Context<'_>,
        most: usize,
    ) -> Poll<Result<bool, RecvError>> {
        if !self.unread.is_empty() {
            return Poll::Ready(Ok(true));
        }
        match self.end {
            Some(End::Reached | End::ShutDown) => return Poll::Ready(Ok(false)),
            Some(End::Abandoned) => return Poll::Ready(Err(RecvError::Abandoned)),
            None => {}
        }
        let (stream, incarnation) = (self.of.stream, self.of.incarnation);
        let Self { of, unread, end, has_bytes, .. } = self;
        let found = of.association.read(|state| {
            if state.streams.incarnation() != incarnation {
                return Poll::Ready(Err(AssociationError::Restarted));
            }
            let (mut reader, mut taken) = (Some(cx.waker()), 0);
            while taken < most
                && let Some(message) = state.streams.pop_stream(stream, reader.take())
            {
                taken += message.payload.len().max(1);
                match Mark::of(&message) {
                    None => {
                        *has_bytes |= matches!(message.ppid, BYTES | BYTES_1);
                        unread.push(message);
                        continue;
                    }
                    Some(Mark::End) => *end = Some(End::Reached),
                    Some(Mark::Abandoned) => *end = Some(End::Abandoned),
                }
                state.streams.consume(stream, incarnation, Used::of(&message));
                break;
            }
            if taken == 0 {
                match state.life.receive_end() {
                    Some(result) => result?,
                    None => return Poll::Pending,
                }
                *end = Some(End::ShutDown);
            }
            Poll::Ready(Ok(()))
        });
        ready!(found).map_err(RecvError::Association)?;
        match self.end {
            _ if !self.unread.is_empty() => Poll::Ready(Ok(true)),
            Some(End::Abandoned) => Poll::Ready(Err(RecvError::Abandoned)),
            _ => {
                // Nobody reads on: what was kept back is returned.
                self.of.association.with(|_| ());
                Poll::Ready(Ok(false))
            }
        }
    }

    /// The same for bytes: their reader cannot tell that the rest is missing. Messages of other programs can also be
    /// read as bytes, but have no mark.
    fn poll_bytes(&mut self, cx: &mut Context<'_>) -> Poll<Result<bool, RecvError>> {
        self.stops = true;
        let more = ready!(self.poll_messages(cx, MOST_TAKEN))?;
        match self.end {
            Some(End::ShutDown) if !more && self.has_bytes => {
                Poll::Ready(Err(RecvError::Unfinished))
            }
            _ => Poll::Ready(Ok(more)),
        }
    }

    /// Waits for bytes, and writes what has arrived with one call, without copying it: at most `most` bytes, but at
    /// least one. Returns how many were written: 0 at the end of the stream. Cancel-safe if writing is.
    ///
    /// # Errors
    /// Those of reading and of writing. A writer that takes nothing gives `WriteZero`.
    ///
    /// ```
    /// # async fn example(mut recv: anabranch::RecvStream) -> std::io::Result<()> {
    /// let mut program = tokio::net::TcpStream::connect("127.0.0.1:8080").await?;
    /// while recv.write_to(&mut program, usize::MAX).await? > 0 {}
    /// # Ok(())
    /// # }
    /// ```
    pub async fn write_to(
        &mut self,
        writer: &mut (impl AsyncWrite + Unpin),
        most: usize,
    ) -> io::Result<usize> {
        poll_fn(|cx| {
            if !ready!(self.poll_bytes(cx))? {
                return Poll::Ready(Ok(0));
            }
            let mut slices = [IoSlice::new(&[]); PIECES];
            let count = self.unread.pieces(most.max(1), &mut slices);
            let written = ready!(Pin::new(&mut *writer).poll_write_vectored(cx, &slices[..count]))?;
            if written == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            self.take(written);
            Poll::Ready(Ok(written))
        })
        .await
    }

    /// Takes the first bytes as read.
    fn take(&mut self, count: usize) {
        self.unread.advance(count);
        self.give_back(!self.unread.is_empty());
    }
}

impl AsyncRead for RecvStream {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        this.stops = true;
        if buf.remaining() == 0 || !ready!(this.poll_bytes(cx))? {
            return Poll::Ready(Ok(()));
        }
        while buf.remaining() > 0 && !this.unread.is_empty() {
            let piece = this.unread.piece();
            let count = piece.len().min(buf.remaining());
            buf.put_slice(&piece[..count]);
            this.unread.advance(count);
        }
        this.give_back(!this.unread.is_empty());
        Poll::Ready(Ok(()))
    }
}

impl AsyncBufRead for RecvStream {
    fn poll_fill_buf(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<&[u8]>> {
        let this = self.get_mut();
        ready!(this.poll_bytes(cx))?;
        Poll::Ready(Ok(this.unread.piece()))
    }

    fn consume(self: Pin<&mut Self>, amount: usize) {
        self.get_mut().take(amount);
    }
}

impl Drop for RecvStream {
    fn drop(&mut self) {
        let used = self.unread.clear();
        let discard = self.stops && self.end.is_none();
        self.of.give_back_receiver(discard, used);
    }
}
