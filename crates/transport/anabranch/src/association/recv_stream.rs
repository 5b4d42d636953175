//! The receiving half of a stream: messages, or bytes.

use std::fmt;
use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use anabranch_proto::Message;
use anabranch_proto::byte_mode::Mark;
use bytes::Buf;
use tokio::io::{AsyncBufRead, AsyncRead, ReadBuf};

use super::handle::StreamOf;
use crate::byte_mode::{BYTES, BYTES_1};
use crate::error::AssociationError;
use crate::state::AssociationState;

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
    /// The message being read, charged against the window until all of it is read.
    current: Option<Message>,
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
        Self { of, current: None, end: None, has_bytes: false, stops: false }
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
        if poll_fn(|cx| self.poll_message(cx)).await? {
            let message = self.current.take();
            let charge = message.as_ref().map_or(0, Message::charge);
            let consumed = |state: &mut AssociationState| {
                state.streams.consume(charge);
                Poll::Ready(())
            };
            let _ = self.of.association.read(consumed);
            return Ok(message);
        }
        Ok(None)
    }

    /// Throws away everything up to the end of the peer's byte stream. The peer is notified, and
    /// discards unsent data.
    pub fn stop(mut self) {
        self.stops = true;
    }

    /// Returns the window of a message that was read completely: a reader that knows where its data ends may not ask
    /// for more for a long time.
    fn release_used(&mut self) {
        if let Some(used) = self.current.take_if(|message| !message.payload.has_remaining()) {
            self.of.association.with(|state| state.streams.consume(used.charge()));
        }
    }

    /// Waits until `current` holds a message. False at the end.
    fn poll_message(&mut self, cx: &mut Context<'_>) -> Poll<Result<bool, RecvError>> {
        if self.current.as_ref().is_some_and(|message| message.payload.has_remaining()) {
            return Poll::Ready(Ok(true));
        }
        match self.end {
            Some(End::Reached | End::ShutDown) => return Poll::Ready(Ok(false)),
            Some(End::Abandoned) => return Poll::Ready(Err(RecvError::Abandoned)),
            None => {}
        }
        // An empty message has one piece, too.
        let used_up = self.current.take().map_or(0, |message| message.charge());
        let (stream, incarnation) = (self.of.stream, self.of.incarnation);
        let next = self.of.association.read(|state| {
            state.streams.consume(used_up);
            if state.streams.incarnation() != incarnation {
                return Poll::Ready(Err(AssociationError::Restarted));
            }
            let Some(message) = state.streams.pop_stream(stream, cx.waker()) else {
                return match state.life.receive_end() {
                    Some(end) => Poll::Ready(end.map(|()| None)),
                    None => Poll::Pending,
                };
            };
            let mark = Mark::of(&message);
            if mark.is_some() {
                state.streams.consume(message.charge());
            }
            Poll::Ready(Ok(Some((message, mark))))
        });
        let next = ready!(next).map_err(RecvError::Association)?;
        let Some((message, mark)) = next else {
            self.end = Some(End::ShutDown);
            return Poll::Ready(Ok(false));
        };
        let Some(mark) = mark else {
            self.has_bytes |= matches!(message.ppid, BYTES | BYTES_1);
            self.current = Some(message);
            return Poll::Ready(Ok(true));
        };
        match mark {
            Mark::End => {
                self.end = Some(End::Reached);
                Poll::Ready(Ok(false))
            }
            Mark::Abandoned => {
                self.end = Some(End::Abandoned);
                Poll::Ready(Err(RecvError::Abandoned))
            }
        }
    }
}

impl RecvStream {
    /// The same for bytes: their reader cannot tell that the rest is missing. Messages of other programs can also be
    /// read as bytes, but have no mark.
    fn poll_bytes(&mut self, cx: &mut Context<'_>) -> Poll<Result<bool, RecvError>> {
        let more = ready!(self.poll_message(cx))?;
        match self.end {
            Some(End::ShutDown) if !more && self.has_bytes => {
                Poll::Ready(Err(RecvError::Unfinished))
            }
            _ => Poll::Ready(Ok(more)),
        }
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
        if let Some(message) = &mut this.current {
            while buf.remaining() > 0 && message.payload.has_remaining() {
                let count = message.payload.chunk().len().min(buf.remaining());
                buf.put_slice(&message.payload.chunk()[..count]);
                message.payload.advance(count);
            }
        }
        this.release_used();
        Poll::Ready(Ok(()))
    }
}

impl AsyncBufRead for RecvStream {
    fn poll_fill_buf(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<&[u8]>> {
        let this = self.get_mut();
        this.stops = true;
        ready!(this.poll_bytes(cx))?;
        let payload = this.current.as_ref().map(|message| message.payload.chunk());
        Poll::Ready(Ok(payload.unwrap_or_default()))
    }

    fn consume(self: Pin<&mut Self>, amount: usize) {
        let this = self.get_mut();
        if let Some(message) = &mut this.current {
            message.payload.advance(amount);
        }
        this.release_used();
    }
}

impl Drop for RecvStream {
    fn drop(&mut self) {
        let charge = self.current.take().map_or(0, |message| message.charge());
        let discard = self.stops && self.end.is_none();
        self.of.give_back_receiver(discard, charge);
    }
}
