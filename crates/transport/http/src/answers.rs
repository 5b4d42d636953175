//! The receiving side of a client's stream: a sequence of HTTP/1.1 answers (RFC 9112).
//!
//! hyper's client waits for an answer before it sends the next request. The clients in the documents
//! send all requests immediately (nat 2.8.2), because pipelining is meant for long round trips.

use std::io;

use bytes::{Buf, Bytes, BytesMut};
use http::header::{CONNECTION, CONTENT_LENGTH, HeaderName, HeaderValue, TRANSFER_ENCODING};
use http::{HeaderMap, StatusCode};
use tokio::io::{AsyncRead, AsyncReadExt};

/// Maximum bytes of a head, or of the lines that frame chunks.
const LONGEST_HEAD: usize = 64 << 10;

/// Maximum number of fields in a head.
const MOST_FIELDS: usize = 100;

/// Maximum number of interim answers (1xx) before the final one.
const MOST_INTERIM: usize = 32;

/// Bytes per read.
const READ: usize = 64 << 10;

/// Why an answer, or the rest of one, is missing.
#[derive(Debug)]
pub(crate) enum WireError {
    /// The stream ended before an answer began.
    Ended,
    /// The stream ended in the middle of an answer.
    Early,
    /// The stream broke.
    Io(io::Error),
    /// The data is not a valid answer, for this reason.
    Malformed(&'static str),
}

impl WireError {
    /// The error in one sentence.
    pub(crate) fn reason(&self) -> String {
        match self {
            Self::Ended | Self::Early => "the server closed it".to_owned(),
            Self::Io(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
                "the server closed it".to_owned()
            }
            Self::Io(error) => crate::error::root_cause(error),
            Self::Malformed(reason) => format!("the answer is not HTTP: {reason}"),
        }
    }
}

/// The status line and fields of an answer.
#[derive(Debug)]
pub(crate) struct Head {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
}

/// How the rest of a body is framed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Rest {
    Bytes(u64),
    /// A line with the size of a chunk follows.
    Size,
    /// This many bytes of a chunk follow, and then the end of its line.
    Chunk(u64),
    ChunkEnd,
    Trailers,
    /// Everything up to the end of the stream.
    All,
}

/// The incoming side of a stream.
#[derive(Debug)]
pub(crate) struct Answers<R> {
    io: R,
    buffer: BytesMut,
    rest: Rest,
    /// Another answer may follow on the stream.
    goes_on: bool,
    /// The end of the last body was marked in another way than by the end of the stream.
    framed: bool,
}

impl<R: AsyncRead + Unpin> Answers<R> {
    pub(crate) fn new(io: R) -> Self {
        Self { io, buffer: BytesMut::new(), rest: Rest::Bytes(0), goes_on: true, framed: true }
    }

    /// Whether another answer may follow the one that was read.
    pub(crate) fn goes_on(&self) -> bool {
        self.goes_on && self.rest == Rest::Bytes(0)
    }

    /// Whether the end of the last body was marked. If not, it was the end of the stream.
    pub(crate) fn was_framed(&self) -> bool {
        self.framed
    }

    /// The number of bytes missing from the last body, if the server announced its length.
    pub(crate) fn announced(&self) -> Option<u64> {
        match self.rest {
            Rest::Bytes(length) => Some(length),
            _ => None,
        }
    }

    /// Reads the next final answer to a GET or PUT. The body of the previous answer must have been
    /// read.
    pub(crate) async fn head(&mut self) -> Result<Head, WireError> {
        for _ in 0..=MOST_INTERIM {
            let head = self.any_head().await?;
            if !head.status.is_informational() {
                return Ok(head);
            }
        }
        Err(WireError::Malformed("it does not get beyond interim answers"))
    }

    /// Reads the next answer, which may be an interim one. Dropping the future before it is ready
    /// loses no data.
    pub(crate) async fn any_head(&mut self) -> Result<Head, WireError> {
        loop {
            if let Some((head, length, version)) = parse(&self.buffer)? {
                self.buffer.advance(length);
                if head.status == StatusCode::SWITCHING_PROTOCOLS {
                    return Err(WireError::Malformed(
                        "it switches to a protocol that was not requested",
                    ));
                }
                if head.status.is_informational() {
                    return Ok(head);
                }
                self.rest = body_of(&head)?;
                self.framed = self.rest != Rest::All;
                self.goes_on = is_kept(&head.headers, version) && self.rest != Rest::All;
                return Ok(head);
            }
            if self.buffer.len() > LONGEST_HEAD {
                return Err(WireError::Malformed("its head is too long"));
            }
            if self.fill().await? == 0 {
                return Err(if self.buffer.is_empty() {
                    WireError::Ended
                } else {
                    WireError::Early
                });
            }
        }
    }

    /// Reads the next piece of the body; `None` at its end.
    pub(crate) async fn piece(&mut self) -> Result<Option<Bytes>, WireError> {
        loop {
            match self.rest {
                Rest::Bytes(0) => return Ok(None),
                Rest::Bytes(left) => {
                    let piece = self.some(left).await?.ok_or(WireError::Early)?;
                    self.rest = Rest::Bytes(left - piece.len() as u64);
                    return Ok(Some(piece));
                }
                Rest::All => {
                    let piece = self.some(u64::MAX).await?;
                    if piece.is_none() {
                        self.rest = Rest::Bytes(0);
                    }
                    return Ok(piece);
                }
                Rest::Chunk(0) => self.rest = Rest::ChunkEnd,
                Rest::Chunk(left) => {
                    let piece = self.some(left).await?.ok_or(WireError::Early)?;
                    self.rest = Rest::Chunk(left - piece.len() as u64);
                    return Ok(Some(piece));
                }
                Rest::Size => {
                    let size = chunk_size(&self.line().await?)?;
                    self.rest = if size == 0 { Rest::Trailers } else { Rest::Chunk(size) };
                }
                Rest::ChunkEnd => {
                    if !self.line().await?.is_empty() {
                        return Err(WireError::Malformed("a chunk is longer than it said"));
                    }
                    self.rest = Rest::Size;
                }
                Rest::Trailers => {
                    let mut seen = 0;
                    loop {
                        let line = self.line().await?;
                        seen += line.len();
                        if line.is_empty() {
                            break;
                        }
                        if seen > LONGEST_HEAD {
                            return Err(WireError::Malformed("its trailers are too long"));
                        }
                    }
                    self.rest = Rest::Bytes(0);
                }
            }
        }
    }

    /// Reads up to the end of the stream, where no data is expected.
    pub(crate) async fn end(&mut self) {
        // Stop after a while: a peer may send any amount of useless data after its last answer.
        for _ in 0..16 {
            self.buffer.clear();
            if !self.fill().await.is_ok_and(|count| count > 0) {
                return;
            }
        }
    }

    /// Reads between one and `most` bytes; `None` at the end of the stream.
    async fn some(&mut self, most: u64) -> Result<Option<Bytes>, WireError> {
        if self.buffer.is_empty() && self.fill().await? == 0 {
            return Ok(None);
        }
        let length =
            usize::try_from(most).map_or(self.buffer.len(), |most| most.min(self.buffer.len()));
        Ok(Some(self.buffer.split_to(length).freeze()))
    }

    /// Reads a line; returns it without its end.
    async fn line(&mut self) -> Result<Bytes, WireError> {
        let mut searched = 0;
        loop {
            if let Some(at) = self.buffer.iter().skip(searched).position(|byte| *byte == b'\n') {
                let mut line = self.buffer.split_to(searched + at + 1).freeze();
                line.truncate(searched + at);
                if line.last() == Some(&b'\r') {
                    line.truncate(line.len() - 1);
                }
                return Ok(line);
            }
            searched = self.buffer.len();
            if searched > LONGEST_HEAD {
                return Err(WireError::Malformed("a line of a chunk is too long"));
            }
            if self.fill().await? == 0 {
                return Err(WireError::Early);
            }
        }
    }

    async fn fill(&mut self) -> Result<usize, WireError> {
        self.buffer.reserve(READ);
        self.io.read_buf(&mut self.buffer).await.map_err(WireError::Io)
    }
}

/// Parses a head. Returns it with its length and minor version, or `None` if it is incomplete.
fn parse(bytes: &[u8]) -> Result<Option<(Head, usize, u8)>, WireError> {
    let mut fields = [httparse::EMPTY_HEADER; MOST_FIELDS];
    let mut answer = httparse::Response::new(&mut fields);
    let length = match answer.parse(bytes) {
        Ok(httparse::Status::Complete(length)) => length,
        Ok(httparse::Status::Partial) => return Ok(None),
        Err(httparse::Error::TooManyHeaders) => {
            return Err(WireError::Malformed("it has too many fields"));
        }
        Err(_) => return Err(WireError::Malformed("its head is malformed")),
    };
    let status = answer.code.and_then(|code| StatusCode::from_u16(code).ok());
    let status = status.ok_or(WireError::Malformed("it has no valid status"))?;
    let mut headers = HeaderMap::with_capacity(answer.headers.len());
    for field in answer.headers.iter() {
        let name = HeaderName::from_bytes(field.name.as_bytes());
        let value = HeaderValue::from_bytes(field.value);
        let (Ok(name), Ok(value)) = (name, value) else {
            return Err(WireError::Malformed("a field is malformed"));
        };
        headers.append(name, value);
    }
    Ok(Some((Head { status, headers }, length, answer.version.unwrap_or(0))))
}

/// Whether the stream continues after an answer (RFC 9112 section 9.3).
fn is_kept(headers: &HeaderMap, version: u8) -> bool {
    let says = |wanted: &str| {
        let values = headers.get_all(CONNECTION).into_iter().filter_map(|v| v.to_str().ok());
        values.flat_map(|value| value.split(',')).any(|o| o.trim().eq_ignore_ascii_case(wanted))
    };
    !says("close") && (version > 0 || says("keep-alive"))
}

/// How the body of an answer to GET ends (RFC 9112 section 6.3).
fn body_of(head: &Head) -> Result<Rest, WireError> {
    if matches!(head.status, StatusCode::NO_CONTENT | StatusCode::NOT_MODIFIED) {
        return Ok(Rest::Bytes(0));
    }
    let mut codings = head.headers.get_all(TRANSFER_ENCODING).into_iter();
    if let Some(last) = codings.next_back() {
        if head.headers.contains_key(CONTENT_LENGTH) {
            // Conflicting lengths may be an attack.
            return Err(WireError::Malformed("it has two lengths"));
        }
        return match last.to_str() {
            Ok(coding) if coding.trim().eq_ignore_ascii_case("chunked") => Ok(Rest::Size),
            _ => Err(WireError::Malformed("it has a transfer coding that was not requested")),
        };
    }
    let mut length = None;
    for value in head.headers.get_all(CONTENT_LENGTH) {
        let digits = value.to_str().ok().filter(|text| text.bytes().all(|b| b.is_ascii_digit()));
        let number = digits.and_then(|digits| digits.parse::<u64>().ok());
        let number = number.ok_or(WireError::Malformed("its length is not a number"))?;
        if length.is_some_and(|length| length != number) {
            return Err(WireError::Malformed("it has two lengths"));
        }
        length = Some(number);
    }
    Ok(length.map_or(Rest::All, Rest::Bytes))
}

fn chunk_size(line: &[u8]) -> Result<u64, WireError> {
    let digits = line.split(|byte| matches!(byte, b';' | b' ' | b'\t')).next().unwrap_or_default();
    let text = std::str::from_utf8(digits).ok().filter(|text| !text.starts_with(['+', '-']));
    let size = text.and_then(|text| u64::from_str_radix(text, 16).ok());
    size.ok_or(WireError::Malformed("the size of a chunk is not a number"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the statuses and bodies of all answers, and the error after them.
    async fn read(bytes: &[u8]) -> (Vec<(u16, Vec<u8>)>, WireError) {
        // The result must not depend on how the bytes are split into pieces.
        let mut last = None;
        for size in [1, 7, 100_000] {
            let (near, far) = tokio::io::duplex(size);
            let bytes = bytes.to_vec();
            let writer = async move {
                let mut near = near;
                let _ = tokio::io::AsyncWriteExt::write_all(&mut near, &bytes).await;
            };
            let reader = async {
                let mut answers = Answers::new(far);
                let mut all = Vec::new();
                loop {
                    let head = match answers.head().await {
                        Ok(head) => head,
                        Err(error) => return (all, error),
                    };
                    let mut body = Vec::new();
                    loop {
                        match answers.piece().await {
                            Ok(Some(piece)) => body.extend_from_slice(&piece),
                            Ok(None) => break,
                            Err(error) => return (all, error),
                        }
                    }
                    all.push((head.status.as_u16(), body));
                }
            };
            let ((), (all, error)) = tokio::join!(writer, reader);
            let seen = (all, format!("{error:?}"));
            if let Some((before, _)) = &last {
                assert_eq!(before, &seen, "pieces of {size}");
            }
            last = Some((seen, error));
        }
        let ((all, _), error) = last.unwrap();
        (all, error)
    }

    #[tokio::test]
    async fn answers_follow_each_other() {
        let (all, error) = read(
            b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhello\
              HTTP/1.1 100 Continue\r\n\r\n\
              HTTP/1.1 404 Not Found\r\nTransfer-Encoding: chunked\r\n\r\n\
              3\r\nabc\r\n2;x=y\r\nde\r\n0\r\nTrailer: t\r\n\r\n\
              HTTP/1.1 304 Not Modified\r\ncontent-length: 7\r\n\r\n\
              HTTP/1.0 200 OK\r\n\r\nall the rest",
        )
        .await;
        assert_eq!(
            all,
            [
                (200, b"hello".to_vec()),
                (404, b"abcde".to_vec()),
                (304, Vec::new()),
                (200, b"all the rest".to_vec())
            ]
        );
        assert!(matches!(error, WireError::Ended), "{error:?}");
    }

    #[tokio::test]
    async fn what_makes_no_sense_is_no_answer() {
        for bytes in [
            &b"220 ready\r\n\r\n"[..],
            b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\ncontent-length: 6\r\n\r\nhello!",
            b"HTTP/1.1 200 OK\r\ncontent-length: +5\r\n\r\nhello",
            b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n",
            b"HTTP/1.1 200 OK\r\ntransfer-encoding: gzip\r\n\r\n",
            b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n+3\r\nabc\r\n",
            b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n3\r\nabcd\r\n",
            b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nffffffffffffffff1\r\n",
            b"HTTP/1.1 101 Switching Protocols\r\n\r\n",
        ] {
            let (all, error) = read(bytes).await;
            assert!(all.is_empty(), "{all:?}");
            assert!(matches!(error, WireError::Malformed(_)), "{error:?}");
        }
        let bomb = [b"HTTP/1.1 200 OK\r\n".to_vec(), b"a: b\r\n".repeat(101)].concat();
        assert!(matches!(read(&bomb).await.1, WireError::Malformed(_)));
        let long = [b"HTTP/1.1 200 OK\r\na: ".to_vec(), vec![b'x'; 200_000]].concat();
        assert!(matches!(read(&long).await.1, WireError::Malformed(_)));
    }

    #[tokio::test]
    async fn what_ends_early_is_noticed() {
        for bytes in [
            &b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhell"[..],
            b"HTTP/1.1 200 OK\r\ncontent-",
            b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n3\r\nabc\r\n",
            b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n3\r\nab",
        ] {
            let (all, error) = read(bytes).await;
            assert!(all.is_empty() && matches!(error, WireError::Early), "{error:?}");
        }
    }
}
