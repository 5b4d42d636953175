//! Pictures in answers over HTTP: which may be converted, and what an answer with a converted one says.
//!
//! This makes the far side a transforming proxy (RFC 9110 section 7.7). Whatever is in doubt passes unchanged.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use anabranch_pictures::{Converter, Room};
use bytes::{Bytes, BytesMut};
use http::header::{
    ACCEPT_RANGES, CACHE_CONTROL, CONTENT_DISPOSITION, CONTENT_ENCODING, CONTENT_LENGTH,
    CONTENT_RANGE, CONTENT_TYPE, ETAG, HeaderMap, HeaderName, HeaderValue, IF_NONE_MATCH, IF_RANGE,
    LAST_MODIFIED, RANGE, TRAILER, TRANSFER_ENCODING,
};
use http::{Method, Request, Response, StatusCode};
use http_body::{Body, Frame, SizeHint};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, Full};
use tokio::time::timeout;

use crate::near::fields::has_other_codings;

/// How long a picture may take to arrive from its server. What takes longer passes on as it comes.
const ARRIVAL: Duration = Duration::from_secs(2);

/// Pictures of fewer bytes come in two packets anyway.
const SMALLEST: u64 = 2048;

/// Fields with which a server vouches for every byte, or for what a file is saved as.
const VOUCHES: [HeaderName; 8] = [
    CONTENT_ENCODING,
    CONTENT_RANGE,
    CONTENT_DISPOSITION,
    HeaderName::from_static("content-md5"),
    HeaderName::from_static("digest"),
    HeaderName::from_static("content-digest"),
    HeaderName::from_static("repr-digest"),
    HeaderName::from_static("signature"),
];

/// Fields of a request for parts, or for the bytes as the server has them.
const EXACT: [HeaderName; 5] = [
    RANGE,
    IF_RANGE,
    HeaderName::from_static("want-digest"),
    HeaderName::from_static("want-content-digest"),
    HeaderName::from_static("want-repr-digest"),
];

/// A boxed error of a body.
pub(super) type Error = Box<dyn std::error::Error + Send + Sync>;

/// The body of an answer.
pub(super) type Passed = UnsyncBoxBody<Bytes, Error>;

/// What a request says about its answer.
#[derive(Debug)]
pub(super) struct Wish {
    takes_converted: bool,
    if_none_match: Option<HeaderValue>,
}

impl Wish {
    pub(super) fn of<B>(request: &Request<B>) -> Self {
        let fields = request.headers();
        let exact = EXACT.iter().any(|name| fields.contains_key(name)) || forbids(fields);
        Self {
            takes_converted: request.method() == Method::GET && !exact,
            if_none_match: fields.get(IF_NONE_MATCH).cloned(),
        }
    }

    /// The answer as it goes to the client: with a converted picture if it has one that can be converted.
    pub(super) async fn answer(
        self,
        answer: Response<Passed>,
        converter: &Arc<Converter>,
    ) -> Response<Passed> {
        let (mut parts, mut body) = answer.into_parts();
        if parts.status == StatusCode::NOT_MODIFIED {
            self.weaken(&mut parts.headers);
        }
        let room = match self.takes_converted && may_change(parts.status, &parts.headers) {
            true => room(body.size_hint().exact(), converter),
            false => None,
        };
        let Some(room) = room else {
            return Response::from_parts(parts, body);
        };
        let mut arrived = Arrived::default();
        // After the time, what has arrived is passed on with the rest.
        let whole =
            matches!(timeout(ARRIVAL, arrived.collect(&mut body, room.bytes())).await, Ok(true));
        if whole && let Some(converted) = room.convert(&arrived.picture()).await {
            converted_fields(&mut parts.headers, converted.len());
            let body = Full::from(converted).map_err(|never| match never {});
            return Response::from_parts(parts, body.boxed_unsync());
        }
        let body = Resumed { arrived: arrived.frames, failed: arrived.failed, rest: body };
        Response::from_parts(parts, body.boxed_unsync())
    }

    /// A client that has a converted picture knows it by a weak tag. The server confirms its strong one, which does not
    /// name what the client has (RFC 9111 section 4.3.4).
    fn weaken(&self, fields: &mut HeaderMap) {
        let Some(tag) = fields.get(ETAG).filter(|tag| tag.as_bytes().starts_with(b"\"")) else {
            return;
        };
        let weak = [b"W/", tag.as_bytes()].concat();
        let asked = self.if_none_match.as_ref().map_or(&b""[..], |asked| asked.as_bytes());
        if asked.windows(weak.len()).any(|part| part == weak) {
            weaken(fields);
        }
    }
}

fn room(length: Option<u64>, converter: &Arc<Converter>) -> Option<Room> {
    converter.room(length).filter(|_| length.is_none_or(|length| length >= SMALLEST))
}

/// Whether a directive of Cache-Control forbids to change the content.
fn forbids(fields: &HeaderMap) -> bool {
    let directives = fields
        .get_all(CACHE_CONTROL)
        .iter()
        .flat_map(|value| value.as_bytes().split(|byte| *byte == b','));
    let name = |directive: &[u8]| {
        let end = directive.iter().position(|byte| *byte == b'=').unwrap_or(directive.len());
        directive[..end].trim_ascii().eq_ignore_ascii_case(b"no-transform")
    };
    { directives }.any(name)
}

/// Whether an answer with these fields may have another picture.
fn may_change(status: StatusCode, fields: &HeaderMap) -> bool {
    let only = |name: &HeaderName| {
        let mut values = fields.get_all(name).iter();
        values.next().filter(|_| values.next().is_none()).map(HeaderValue::as_bytes)
    };
    let is_picture = only(&CONTENT_TYPE).is_some_and(|kind| {
        [&b"image/jpeg"[..], b"image/png"].iter().any(|known| kind.eq_ignore_ascii_case(known))
    });
    // A date would be a strong validator without a tag next to it (RFC 9110 sections 8.8.2.2, 13.1.5): a client could ask
    // for the rest of a converted picture, and get that of the original.
    let has_tag = fields.contains_key(ETAG);
    let tag = only(&ETAG).is_some_and(|tag| {
        tag.ends_with(b"\"") && (tag.starts_with(b"\"") || tag.starts_with(b"W/\""))
    });
    status == StatusCode::OK
        && is_picture
        && if has_tag { tag } else { !fields.contains_key(LAST_MODIFIED) }
        && !VOUCHES.iter().any(|name| fields.contains_key(name))
        && !fields.contains_key(TRAILER)
        && !forbids(fields)
        && !has_other_codings(fields)
}

/// Changes the fields of an answer for another picture.
fn converted_fields(fields: &mut HeaderMap, length: usize) {
    weaken(fields);
    fields.remove(TRANSFER_ENCODING);
    fields.insert(CONTENT_LENGTH, length.into());
    // The server has ranges of the original only.
    fields.insert(ACCEPT_RANGES, HeaderValue::from_static("none"));
}

/// Makes a tag weak: the content is equivalent, but not the same byte for byte (RFC 9110 section 8.8.1).
fn weaken(fields: &mut HeaderMap) {
    let strong = fields.get(ETAG).filter(|tag| tag.as_bytes().starts_with(b"\""));
    let weak =
        strong.and_then(|tag| HeaderValue::from_bytes(&[b"W/", tag.as_bytes()].concat()).ok());
    if let Some(weak) = weak {
        fields.insert(ETAG, weak);
    }
}

/// What has arrived of a body.
#[derive(Debug, Default)]
struct Arrived {
    frames: VecDeque<Frame<Bytes>>,
    failed: Option<Error>,
    bytes: usize,
}

impl Arrived {
    /// Collects a body with at most this number of bytes. Returns whether it is whole, and nothing but bytes.
    async fn collect(&mut self, body: &mut Passed, most: usize) -> bool {
        while let Some(frame) = body.frame().await {
            match frame {
                Ok(frame) => {
                    let length = frame.data_ref().map(Bytes::len);
                    self.frames.push_back(frame);
                    self.bytes = self.bytes.saturating_add(length.unwrap_or(0));
                    if length.is_none() || self.bytes > most {
                        return false;
                    }
                }
                Err(error) => {
                    self.failed = Some(error);
                    return false;
                }
            }
        }
        true
    }

    fn picture(&self) -> Bytes {
        let mut picture = BytesMut::with_capacity(self.bytes);
        self.frames
            .iter()
            .filter_map(Frame::data_ref)
            .for_each(|bytes| picture.extend_from_slice(bytes));
        picture.freeze()
    }
}

/// A body that has been read in part.
struct Resumed {
    arrived: VecDeque<Frame<Bytes>>,
    /// The error after that part.
    failed: Option<Error>,
    rest: Passed,
}

impl Body for Resumed {
    type Data = Bytes;
    type Error = Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Error>>> {
        if let Some(frame) = self.arrived.pop_front() {
            return Poll::Ready(Some(Ok(frame)));
        }
        if let Some(error) = self.failed.take() {
            return Poll::Ready(Some(Err(error)));
        }
        Pin::new(&mut self.rest).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.arrived.is_empty() && self.failed.is_none() && self.rest.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        let arrived: u64 =
            self.arrived.iter().filter_map(Frame::data_ref).map(|bytes| bytes.len() as u64).sum();
        let rest = self.rest.size_hint();
        let mut hint = SizeHint::new();
        hint.set_lower(arrived.saturating_add(rest.lower()));
        if let Some(upper) = rest.upper() {
            hint.set_upper(arrived.saturating_add(upper).max(hint.lower()));
        }
        hint
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fields(given: &[(&'static str, &'static str)]) -> HeaderMap {
        let field = |(name, value): &(&'static str, &'static str)| {
            (HeaderName::from_static(name), HeaderValue::from_static(value))
        };
        given.iter().map(field).fold(HeaderMap::new(), |mut fields, (name, value)| {
            fields.append(name, value);
            fields
        })
    }

    const PICTURE: (&str, &str) = ("content-type", "image/png");

    #[test]
    fn only_what_is_certain_may_change() {
        let may = |given: &[_]| may_change(StatusCode::OK, &fields(&[&[PICTURE], given].concat()));
        assert!(may(&[]) && may(&[("etag", "\"a\"")]) && may(&[("etag", "W/\"a\"")]));
        assert!(may(&[("etag", "\"a\""), ("last-modified", "Mon, 02 Nov 2026 00:00:00 GMT")]));
        assert!(may(&[("cache-control", "max-age=60, private"), ("transfer-encoding", "chunked")]));
        for given in [
            ("last-modified", "Mon, 02 Nov 2026 00:00:00 GMT"),
            ("etag", "a"),
            ("etag", "\"a"),
            ("content-type", "image/png"),
            ("content-encoding", "identity"),
            ("content-range", "bytes 0-1/2"),
            ("content-md5", "a"),
            ("digest", "a"),
            ("content-digest", "a"),
            ("repr-digest", "a"),
            ("signature", "a"),
            ("content-disposition", "inline"),
            ("trailer", "a"),
            ("transfer-encoding", "gzip, chunked"),
            ("cache-control", "no-transform"),
            ("cache-control", "private,No-Transform=\"a\",x"),
        ] {
            assert!(!may(&[given]), "{given:?}");
        }
        assert!(!may(&[("etag", "\"a\""), ("etag", "\"a\"")]));
        assert!(!may_change(StatusCode::NON_AUTHORITATIVE_INFORMATION, &fields(&[PICTURE])));
        for kind in ["image/gif", "image/svg+xml", "text/html", "image/jpeg;q=1"] {
            assert!(!may_change(StatusCode::OK, &fields(&[("content-type", kind)])), "{kind}");
        }
        assert!(may_change(StatusCode::OK, &fields(&[("content-type", "Image/JPEG")])));
    }

    #[test]
    fn requests_for_parts_or_for_exact_bytes_get_the_original() {
        let takes = |method: Method, given: &[_]| {
            let mut request = Request::new(());
            *request.method_mut() = method;
            *request.headers_mut() = fields(given);
            Wish::of(&request).takes_converted
        };
        assert!(takes(Method::GET, &[("cache-control", "no-cache")]));
        assert!(!takes(Method::POST, &[]) && !takes(Method::HEAD, &[]));
        for name in ["range", "if-range", "want-digest", "want-content-digest", "want-repr-digest"]
        {
            assert!(!takes(Method::GET, &[(name, "a")]), "{name}");
        }
        assert!(!takes(Method::GET, &[("cache-control", "no-transform")]));
    }

    #[test]
    fn a_converted_picture_has_a_weak_tag() {
        let mut given =
            fields(&[("etag", "\"a\""), ("content-length", "9"), ("accept-ranges", "bytes")]);
        converted_fields(&mut given, 7);
        let expected =
            fields(&[("etag", "W/\"a\""), ("content-length", "7"), ("accept-ranges", "none")]);
        assert_eq!(given, expected);
        converted_fields(&mut given, 7);
        assert_eq!(given, expected, "a weak tag stays");
    }
}
