//! A client that requests one file repeatedly on several streams, and discards the answers.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anabranch_http::OpenStreams;
use bytes::{Buf as _, BytesMut};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::task::JoinSet;

use crate::Result;

/// Number of bytes requested per read.
const READ: usize = 64 << 10;

/// The number of concurrent requests, and the times of a measurement.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// Concurrent requests.
    pub streams: usize,
    /// Time before counting starts.
    pub warm_up: Duration,
    /// Time during which answers are counted.
    pub time: Duration,
}

/// Counts the answers that arrive within the time of a plan.
#[derive(Clone, Debug)]
pub struct Tally {
    from: Instant,
    until: Instant,
    answers: Arc<AtomicU64>,
}

impl Tally {
    /// A measurement that starts now.
    pub fn new(plan: &Plan) -> Self {
        let from = Instant::now() + plan.warm_up;
        Self { from, until: from + plan.time, answers: Arc::default() }
    }

    /// Records an answer. Returns whether another one is wanted.
    pub fn answered(&self) -> bool {
        let now = Instant::now();
        if now >= self.until {
            return false;
        }
        self.answers.fetch_add(u64::from(now >= self.from), Ordering::Relaxed);
        true
    }

    /// Answers per second.
    pub fn rate(&self) -> f64 {
        let seconds = self.until.duration_since(self.from).as_secs_f64();
        self.answers.load(Ordering::Relaxed) as f64 / seconds
    }
}

/// Requests `target` on streams of a connection, one request at a time on each. Returns answers per
/// second.
///
/// # Errors
/// Fails if a stream breaks or an answer is wrong.
pub async fn ask<C>(connection: &C, target: &str, plan: &Plan) -> Result<f64>
where
    C: OpenStreams,
    C::Stream: 'static,
{
    let mut lines = Vec::new();
    for _ in 0..plan.streams {
        lines.push(Line::new(connection.open().await?.io, target));
    }
    let tally = Tally::new(plan);
    let mut all = JoinSet::new();
    for mut line in lines {
        let tally = tally.clone();
        all.spawn(async move {
            while tally.answered() {
                line.ask().await?;
            }
            Result::Ok(())
        });
    }
    while let Some(ended) = all.join_next().await {
        ended??;
    }
    Ok(tally.rate())
}

/// A stream that carries requests in sequence.
#[derive(Debug)]
pub struct Line<S> {
    stream: S,
    request: Vec<u8>,
    buffer: BytesMut,
}

impl<S: AsyncRead + AsyncWrite + Unpin> Line<S> {
    /// A stream that requests `target`.
    pub fn new(stream: S, target: &str) -> Self {
        let request = format!("GET {target} HTTP/1.1\r\nhost: server\r\n\r\n").into_bytes();
        Self { stream, request, buffer: BytesMut::new() }
    }

    /// Sends a request, and reads the answer to its end.
    ///
    /// # Errors
    /// Fails if the stream breaks or the answer is wrong.
    pub async fn ask(&mut self) -> Result<()> {
        self.stream.write_all(&self.request).await?;
        self.stream.flush().await?;
        let mut left = loop {
            self.fill().await?;
            if let Some((head, body)) = head_of(&self.buffer)? {
                self.buffer.advance(head);
                break body;
            }
        };
        loop {
            let count = left.min(self.buffer.len());
            self.buffer.advance(count);
            left -= count;
            if left == 0 {
                return Ok(());
            }
            self.fill().await?;
        }
    }

    async fn fill(&mut self) -> Result<()> {
        self.buffer.reserve(READ);
        match self.stream.read_buf(&mut self.buffer).await? {
            0 => Err("the server ended a stream".into()),
            _ => Ok(()),
        }
    }
}

/// The lengths of the head and of its body, if the head is complete.
fn head_of(bytes: &[u8]) -> Result<Option<(usize, usize)>> {
    let mut fields = [httparse::EMPTY_HEADER; 32];
    let mut answer = httparse::Response::new(&mut fields);
    let httparse::Status::Complete(length) = answer.parse(bytes)? else { return Ok(None) };
    if answer.code != Some(200) {
        return Err(format!("the server answers with {:?}", answer.code).into());
    }
    let field = answer.headers.iter().find(|f| f.name.eq_ignore_ascii_case("content-length"));
    let body = field.and_then(|field| std::str::from_utf8(field.value).ok()?.parse().ok());
    Ok(Some((length, body.ok_or("an answer without its length")?)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn answers_are_read_to_their_ends() {
        const REQUEST: &[u8] = b"GET /a-name-of-a-file HTTP/1.1\r\nhost: server\r\n\r\n";
        let (near, mut far) = tokio::io::duplex(64);
        let server = tokio::spawn(async move {
            let mut request = [0; REQUEST.len()];
            for body in ["short", "longer than what goes through at once, by a good deal more"] {
                far.read_exact(&mut request).await.unwrap();
                let length = body.len();
                let answer = format!("HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\n{body}");
                far.write_all(answer.as_bytes()).await.unwrap();
            }
            far.read_exact(&mut request).await.unwrap();
            far.write_all(b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n").await.unwrap();
            request
        });
        let mut line = Line::new(near, "/a-name-of-a-file");
        line.ask().await.unwrap();
        line.ask().await.unwrap();
        let refused = line.ask().await.unwrap_err().to_string();
        assert!(refused.contains("404"), "{refused}");
        assert_eq!(server.await.unwrap(), REQUEST);
    }
}
