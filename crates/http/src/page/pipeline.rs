//! The client's side of one stream: requests one behind the other, and their answers.
//!
//! hyper's client waits for an answer before it sends the next request. The documents' clients
//! write all requests at once (nat 2.8.2), which is what pipelining is for on a distant link.

use bytes::{Buf, Bytes, BytesMut};
use tokio::io::{AsyncRead, AsyncReadExt};

use crate::error::FetchError;

/// Longest head of an answer, trailers and extensions of chunks included.
const LONGEST_HEAD: usize = 64 << 10;

/// Header fields of an answer at the most.
const MOST_FIELDS: usize = 100;

/// The head of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Head {
    pub(super) status: u16,
    /// Bytes of the body, if the server says so.
    pub(super) length: Option<u64>,
    framing: Framing,
    /// The stream is of no more use after the body.
    pub(super) closes: bool,
}

/// Where a body ends (RFC 9112 section 6.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Framing {
    /// After so many bytes.
    Length(u64),
    /// After the last chunk.
    Chunked,
    /// With the stream.
    Close,
}

/// Reads answers from a stream.
#[derive(Debug)]
pub(super) struct Answers<R> {
    io: R,
    buffer: BytesMut,
}

impl<R: AsyncRead + Unpin> Answers<R> {
    pub(super) fn new(io: R) -> Self {
        Self { io, buffer: BytesMut::new() }
    }

    /// Reads more; false at the end of the stream.
    async fn more(&mut self) -> Result<bool, FetchError> {
        match self.io.read_buf(&mut self.buffer).await {
            Ok(read) => Ok(read > 0),
            Err(error) => Err(broken(0, None, error.to_string())),
        }
    }

    /// Reads the head of the next answer; those of the status 1xx say nothing.
    pub(super) async fn head(&mut self) -> Result<Head, FetchError> {
        loop {
            if let Some((head, len)) = parse_head(&self.buffer)? {
                self.buffer.advance(len);
                if !(100..200).contains(&head.status) {
                    return Ok(head);
                }
                continue;
            }
            if self.buffer.len() > LONGEST_HEAD {
                return Err(unreadable("its head is too long"));
            }
            if !self.more().await? {
                return Err(ended(0, None));
            }
        }
    }

    /// Reads the body of an answer, and tells of each piece as it comes.
    pub(super) async fn body(
        &mut self,
        head: Head,
        mut piece: impl FnMut(Bytes),
    ) -> Result<(), FetchError> {
        match head.framing {
            Framing::Length(length) => self.bytes(length, 0, Some(length), &mut piece).await,
            Framing::Chunked => self.chunks(&mut piece).await,
            Framing::Close => loop {
                if !self.buffer.is_empty() {
                    piece(self.buffer.split().freeze());
                }
                if !self.more().await? {
                    return Ok(());
                }
            },
        }
    }

    /// Reads so many bytes, after `before` others.
    async fn bytes(
        &mut self,
        length: u64,
        before: u64,
        expected: Option<u64>,
        piece: &mut impl FnMut(Bytes),
    ) -> Result<(), FetchError> {
        let mut rest = length;
        while rest > 0 {
            let len = usize::try_from(rest).unwrap_or(usize::MAX).min(self.buffer.len());
            if len > 0 {
                piece(self.buffer.split_to(len).freeze());
                rest -= len as u64;
            } else if !self.more().await? {
                return Err(ended(before + length - rest, expected));
            }
        }
        Ok(())
    }

    async fn chunks(&mut self, piece: &mut impl FnMut(Bytes)) -> Result<(), FetchError> {
        let mut received = 0_u64;
        loop {
            let line = self.line(received).await?;
            let size = match httparse::parse_chunk_size(&line) {
                Ok(httparse::Status::Complete((_, size))) => size,
                _ => return Err(unreadable("the size of a chunk is none")),
            };
            if size == 0 {
                break;
            }
            self.bytes(size, received, None, piece).await?;
            received = received.saturating_add(size);
            if self.line(received).await?.as_ref() != b"\r\n" {
                return Err(unreadable("a chunk does not end where it should"));
            }
        }
        // Trailers, which nobody reads.
        let mut most = LONGEST_HEAD;
        loop {
            let line = self.line(received).await?;
            if line.as_ref() == b"\r\n" {
                return Ok(());
            }
            most = most
                .checked_sub(line.len())
                .ok_or_else(|| unreadable("its trailers are too long"))?;
        }
    }

    /// The next line with its end.
    async fn line(&mut self, received: u64) -> Result<Bytes, FetchError> {
        loop {
            if let Some(end) = self.buffer.iter().position(|byte| *byte == b'\n') {
                return Ok(self.buffer.split_to(end + 1).freeze());
            }
            if self.buffer.len() > LONGEST_HEAD {
                return Err(unreadable("a line is too long"));
            }
            if !self.more().await? {
                return Err(ended(received, None));
            }
        }
    }
}

/// Reads a head, once it is complete, and how long it is.
fn parse_head(bytes: &[u8]) -> Result<Option<(Head, usize)>, FetchError> {
    let mut fields = [httparse::EMPTY_HEADER; MOST_FIELDS];
    let mut response = httparse::Response::new(&mut fields);
    let len = match response.parse(bytes) {
        Ok(httparse::Status::Complete(len)) => len,
        Ok(httparse::Status::Partial) => return Ok(None),
        Err(error) => return Err(unreadable(&error.to_string())),
    };
    let status = response.code.unwrap_or_default();
    let (mut length, mut chunked, mut coded) = (None, false, false);
    let mut closes = response.version == Some(0);
    for field in response.headers.iter() {
        let value = || String::from_utf8_lossy(field.value).trim().to_ascii_lowercase();
        if field.name.eq_ignore_ascii_case("content-length") {
            let value = value();
            // A sign is none of its digits (RFC 9110 section 8.6).
            let digits = value.bytes().all(|byte| byte.is_ascii_digit());
            let this = value.parse::<u64>().ok().filter(|_| digits);
            let this = this.ok_or_else(|| unreadable("its length is no number"))?;
            if length.is_some_and(|other| other != this) {
                return Err(unreadable("it has two lengths"));
            }
            length = Some(this);
        } else if field.name.eq_ignore_ascii_case("transfer-encoding") {
            coded = true;
            chunked = value().split(',').next_back().is_some_and(|last| last.trim() == "chunked");
        } else if field.name.eq_ignore_ascii_case("connection") {
            closes |= value().split(',').any(|word| word.trim() == "close");
        }
    }
    let framing = match (status, length) {
        (100..200 | 204 | 304, _) => Framing::Length(0),
        _ if chunked => Framing::Chunked,
        _ if coded => Framing::Close,
        (_, Some(length)) => Framing::Length(length),
        (_, None) => Framing::Close,
    };
    closes |= framing == Framing::Close;
    let length = match framing {
        Framing::Length(length) => Some(length),
        Framing::Chunked | Framing::Close => None,
    };
    Ok(Some((Head { status, length, framing, closes }, len)))
}

fn unreadable(reason: &str) -> FetchError {
    broken(0, None, format!("it cannot be read, as {reason}"))
}

fn ended(received: u64, expected: Option<u64>) -> FetchError {
    broken(received, expected, "the server closed it".to_owned())
}

fn broken(received: u64, expected: Option<u64>, reason: String) -> FetchError {
    FetchError::Broken { received, expected, reason }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The bodies of all answers that a server sent in pieces of so many bytes.
    fn read(bytes: &[u8], size: usize) -> Result<Vec<(u16, Vec<u8>)>, FetchError> {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(async {
            let mut builder = tokio_test_io(bytes, size);
            let mut answers = Answers::new(&mut builder);
            let mut all = Vec::new();
            while all.len() < 10 {
                let head = match answers.head().await {
                    Err(FetchError::Broken { received: 0, .. }) if answers.buffer.is_empty() => {
                        break;
                    }
                    head => head?,
                };
                let mut body = Vec::new();
                answers.body(head, |piece| body.extend_from_slice(&piece)).await?;
                all.push((head.status, body));
            }
            Ok(all)
        })
    }

    /// A reader that gives so many bytes at a time.
    fn tokio_test_io(bytes: &[u8], size: usize) -> impl AsyncRead + Unpin {
        struct Slow(Vec<u8>, usize, usize);
        impl AsyncRead for Slow {
            fn poll_read(
                mut self: std::pin::Pin<&mut Self>,
                _: &mut std::task::Context<'_>,
                buf: &mut tokio::io::ReadBuf<'_>,
            ) -> std::task::Poll<std::io::Result<()>> {
                let end = (self.2 + self.1.min(buf.remaining())).min(self.0.len());
                buf.put_slice(&self.0[self.2..end]);
                self.2 = end;
                std::task::Poll::Ready(Ok(()))
            }
        }
        Slow(bytes.to_vec(), size, 0)
    }

    #[test]
    fn answers_are_told_apart_however_they_come() {
        let bytes = b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabc\
            HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 404 No\r\nContent-Length: 0\r\n\r\n\
            HTTP/1.1 304 Same\r\nContent-Length: 9\r\n\r\n\
            HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n2;x=y\r\nde\r\n1\r\nf\r\n0\r\nA: b\r\n\r\n\
            HTTP/1.1 200 OK\r\n\r\nthe rest";
        let expected: Vec<(u16, Vec<u8>)> =
            [(200, "abc"), (404, ""), (304, ""), (200, "def"), (200, "the rest")]
                .map(|(status, body)| (status, body.into()))
                .into();
        for size in [1, 2, 3, 7, 64, 1000] {
            assert_eq!(read(bytes, size).unwrap(), expected, "{size}");
        }
    }

    #[test]
    fn what_is_no_answer_is_an_error() {
        for bytes in [
            &b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nabc"[..],
            b"HTTP/1.1 200 OK\r\nContent-Length: +5\r\n\r\nabcde",
            b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nabcdef",
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nx\r\n",
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nab\r\n0\r\n\r\n",
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nab",
            b"HTTP/1.1 200 OK\r\nConte",
            b"SSH-2.0-x\r\n\r\n",
        ] {
            for size in [1, 1000] {
                assert!(read(bytes, size).is_err(), "{}", String::from_utf8_lossy(bytes));
            }
        }
        let mut long = b"HTTP/1.1 200 OK\r\nA: ".to_vec();
        long.resize(1 << 20, b'a');
        assert!(read(&long, 4096).unwrap_err().to_string().contains("too long"));
    }
}
