//! The page loader for HTTP/3 (RFC 9114): each object uses its own stream.

use std::fmt::Display;
use std::io;
use std::time::Duration;

use bytes::{Buf, Bytes};
use futures_util::StreamExt;
use futures_util::stream;
use h3::client::SendRequest;
use h3::quic::OpenStreams;
use http::header::{CONTENT_LENGTH, USER_AGENT};
use http::{Request, StatusCode};

use super::AGENT;
use super::embedded::embedded;
use super::load::PageRequest;
use super::measures::PageLoad;
use super::notes::{Kept, MOST_OBJECTS, Notes};
use crate::error::FetchError;

/// Loads a page over HTTP/3: the index, and when that is complete the embedded objects, up to
/// [`PageRequest::streams`] at the same time, each on its own stream. See
/// [`load_page`](crate::load_page) for other streams. Requests have no priorities (RFC 9218), so the
/// server's defaults apply.
///
/// The caller drives the connection of `sender`. `clock` returns the time since any origin. If an object
/// fails, this is recorded and does not affect others.
///
/// # Errors
/// The index could not be loaded, or its status is not 200.
pub async fn load_page_http3<T>(
    sender: &SendRequest<T, Bytes>,
    request: &PageRequest,
    clock: &(dyn Fn() -> Duration + Sync),
) -> Result<PageLoad, FetchError>
where
    T: OpenStreams<Bytes> + Clone,
{
    let notes = Notes::new(clock, request.silence, request.keep);
    let page = Loading { sender, request, notes };
    page.notes.expect([request.target.clone()]);
    // The index is always stored, because it must be parsed.
    let index = page.notes.unless_silent(page.object(0, true)).await;
    let body = index.map_err(FetchError::Silent)??;
    let found = embedded(&request.host, &request.target, &body, MOST_OBJECTS);
    let index = page.notes.take_index(request.keep);
    let count = found.targets.len();
    let streams = request.streams_for(&found.targets).min(MOST_OBJECTS);
    page.notes.expect(found.targets);
    let all = stream::iter(0..count).map(|index| page.object_or_note(index));
    let all = all.buffer_unordered(streams).collect::<()>();
    if let Err(silence) = page.notes.unless_silent(all).await {
        page.notes.give_up(&FetchError::Silent(silence));
    }
    let (left_out, beyond) = (found.left_out, found.beyond);
    Ok(PageLoad { index, objects: page.notes.into_objects(), left_out, beyond })
}

struct Loading<'a, T: OpenStreams<Bytes>> {
    sender: &'a SendRequest<T, Bytes>,
    request: &'a PageRequest,
    notes: Notes<'a>,
}

impl<T: OpenStreams<Bytes> + Clone> Loading<'_, T> {
    async fn object_or_note(&self, index: usize) {
        if let Err(error) = self.object(index, self.request.keep).await {
            self.notes.fail(index, &error);
        }
    }

    /// Requests an object and reads the answer; returns the body if it is to be stored.
    async fn object(&self, index: usize, keep: bool) -> Result<Bytes, FetchError> {
        let Some(target) = self.notes.ask(index, 0) else { return Ok(Bytes::new()) };
        let uri = format!("https://{}{target}", self.request.host);
        let request = Request::get(uri).header(USER_AGENT, AGENT).body(());
        let request = request.map_err(FetchError::Request)?;
        let opened = self.sender.clone().send_request(request).await;
        let mut stream = opened.map_err(|error| FetchError::Stream(io::Error::other(error)))?;
        // Client-initiated bidirectional streams have every fourth number (RFC 9000 section 2.1).
        let number = stream.id().into_inner() / 4;
        self.notes.ask(index, u16::try_from(number).unwrap_or(u16::MAX));
        stream.finish().await.map_err(|error| broken(0, None, &error))?;
        let answer = stream.recv_response().await.map_err(|error| broken(0, None, &error))?;
        let announced = answer.headers().get(CONTENT_LENGTH);
        let announced = announced.and_then(|length| length.to_str().ok()?.parse().ok());
        self.notes.begin(index, answer.status().as_u16(), announced);
        let (mut kept, mut received) = (Kept::new(keep), 0);
        while let Some(mut piece) =
            stream.recv_data().await.map_err(|error| broken(received, announced, &error))?
        {
            let piece = piece.copy_to_bytes(piece.remaining());
            received += piece.len() as u64;
            self.notes.arrive(index, piece.len());
            self.notes.keep(&mut kept, &piece);
        }
        match announced {
            Some(expected) if expected != received => {
                return Err(FetchError::Length { received, expected });
            }
            _ if answer.status() != StatusCode::OK => {
                return Err(FetchError::Status(answer.status()));
            }
            _ => {}
        }
        Ok(self.notes.complete(index, kept))
    }
}

fn broken(received: u64, expected: Option<u64>, error: &dyn Display) -> FetchError {
    FetchError::Broken { received, expected, reason: error.to_string() }
}
