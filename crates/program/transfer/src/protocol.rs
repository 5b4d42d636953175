//! What is on the byte streams between a receiver and a sender.
//!
//! The receiver opens a stream for each question. A question has the version, a command, and for a file its index and
//! the offset from which it is wanted. An answer begins with a byte: 0, or 1 before a text that says why not.

use std::io;

use anabranch::{RecvStream, SendStream};
use bytes::Bytes;
use tokio::io::{AsyncRead, AsyncReadExt as _};

/// The version of this protocol.
const VERSION: u8 = 1;

const LIST: u8 = 0;
const FILE: u8 = 1;
const DONE: u8 = 2;

/// What a receiver asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Question {
    /// The list of files: its length in four bytes, and the list in JSON.
    List,
    /// A file from this offset on, and its digest.
    File { index: u32, offset: u64 },
    /// Everything has arrived, and its digests were right. The answer has nothing more.
    Done,
}

impl Question {
    pub(crate) fn bytes(self) -> Vec<u8> {
        match self {
            Self::List => vec![VERSION, LIST],
            Self::File { index, offset } => {
                [&[VERSION, FILE][..], &index.to_be_bytes(), &offset.to_be_bytes()].concat()
            }
            Self::Done => vec![VERSION, DONE],
        }
    }

    /// Reads a question; `None` if it is of another version.
    pub(crate) async fn read(from: &mut (impl AsyncRead + Unpin)) -> io::Result<Option<Self>> {
        let (version, command) = (from.read_u8().await?, from.read_u8().await?);
        Ok(match (version, command) {
            (VERSION, LIST) => Some(Self::List),
            (VERSION, FILE) => {
                let (index, offset) = (from.read_u32().await?, from.read_u64().await?);
                Some(Self::File { index, offset })
            }
            (VERSION, DONE) => Some(Self::Done),
            _ => None,
        })
    }
}

/// The beginning of an answer that says why there is none.
pub(crate) fn refusal(why: &str) -> Vec<u8> {
    let mut text = why.as_bytes();
    text = &text[..text.len().min(u8::MAX.into())];
    [&[1, text.len() as u8][..], text].concat()
}

/// Reads the beginning of an answer: nothing, or why there is none.
pub(crate) async fn accepted(
    from: &mut (impl AsyncRead + Unpin),
) -> io::Result<Result<(), String>> {
    if from.read_u8().await? == 0 {
        return Ok(Ok(()));
    }
    let length = from.read_u8().await?;
    let mut text = vec![0; length.into()];
    from.read_exact(&mut text).await?;
    let text = String::from_utf8_lossy(&text);
    Ok(Err(text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()))
}

/// A stream whose halves are given up when it is dropped before its end.
#[derive(Debug)]
pub(crate) struct Stream {
    writer: SendStream,
    reader: Option<RecvStream>,
}

impl Stream {
    pub(crate) fn new((mut writer, reader): (SendStream, RecvStream)) -> Self {
        writer.begin_bytes();
        Self { writer, reader: Some(reader) }
    }

    /// The half to read from.
    pub(crate) fn reader(&mut self) -> io::Result<&mut RecvStream> {
        self.reader.as_mut().ok_or_else(|| io::ErrorKind::NotConnected.into())
    }

    /// Ends the direction. If its reader has all that it needs and reads no further, it has missed nothing.
    pub(crate) async fn finish(&mut self) -> io::Result<()> {
        match self.writer.finish().await {
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
            ended => ended,
        }
    }

    pub(crate) async fn write(&mut self, bytes: impl Into<Bytes>) -> io::Result<()> {
        self.writer.write_bytes(bytes).await
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        if let Some(reader) = self.reader.take() {
            reader.stop();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn questions_and_refusals_survive() {
        for question in
            [Question::List, Question::File { index: 7, offset: u64::MAX }, Question::Done]
        {
            let bytes = question.bytes();
            assert_eq!(Question::read(&mut &bytes[..]).await.unwrap(), Some(question));
            let cut = &bytes[..bytes.len() - 1];
            assert!(Question::read(&mut &cut[..]).await.is_err());
        }
        assert_eq!(Question::read(&mut &[2, 0][..]).await.unwrap(), None);
        assert_eq!(Question::read(&mut &[1, 9][..]).await.unwrap(), None);
        assert_eq!(accepted(&mut &[0][..]).await.unwrap(), Ok(()));
        let why = refusal("gone\u{1b}");
        assert_eq!(accepted(&mut &why[..]).await.unwrap(), Err("gone ".to_owned()));
        assert_eq!(refusal(&"x".repeat(300)).len(), 257);
        assert!(accepted(&mut &[1, 5, b'x'][..]).await.is_err());
    }
}
