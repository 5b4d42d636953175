//! Decides whether an answer continues the kept part of a file (RFC 9110 sections 8.8, 13.1.5, 14.4 and 15.3.7).
//!
//! Bytes of two answers form one file only if both have the same strong validator, and the later one begins where the
//! earlier one ended. In case of doubt, the file is fetched again from the start.

use std::time::{Duration, SystemTime};

use http::header::{
    CONTENT_LENGTH, CONTENT_RANGE, CONTENT_TYPE, DATE, ETAG, HeaderName, LAST_MODIFIED,
};
use http::{HeaderMap, StatusCode};

/// A date is a strong validator only if the server's clock was well past it when it answered (RFC 9110 section
/// 8.8.2.2). The file system's clock may differ from the server's, so a second is not enough.
const SETTLED: Duration = Duration::from_secs(60);

/// The state of a file at a server, as its answers describe it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct FileState {
    /// Strong entity tag, with its quotes.
    pub(crate) etag: Option<String>,
    /// Time of the last change, as the server wrote it. Only if that identifies the state, and there is no entity
    /// tag.
    pub(crate) modified: Option<String>,
    /// Length of the whole file, if it is known.
    pub(crate) total: Option<u64>,
    /// Last-Modified, whether or not it identifies the state.
    pub(crate) changed: Option<String>,
}

impl FileState {
    /// The state that a complete answer describes, which arrived at `now`.
    pub(crate) fn of(headers: &HeaderMap, total: Option<u64>, now: SystemTime) -> Self {
        let etag = strong_tag(headers);
        // If there is an entity tag, even a weak one, the date must not be used (RFC 9110 section 13.1.5).
        let modified = if headers.contains_key(ETAG) { None } else { strong_date(headers, now) };
        let changed = match only(headers, &LAST_MODIFIED) {
            Field::One(text) if httpdate::parse_http_date(text).is_ok() => Some(text.to_owned()),
            _ => None,
        };
        Self { etag, modified, total, changed }
    }

    /// The time of the last change.
    pub(crate) fn changed_at(&self) -> Option<SystemTime> {
        httpdate::parse_http_date(self.changed.as_deref()?).ok()
    }

    /// The value of If-Range that requests the same state; without one, the file cannot be continued.
    pub(crate) fn validator(&self) -> Option<&str> {
        self.etag.as_deref().or(self.modified.as_deref())
    }
}

/// The kept part of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Kept {
    /// Number of kept bytes, at least one.
    pub(crate) bytes: u64,
    /// The state that the bytes belong to; it has a validator.
    pub(crate) state: FileState,
}

/// What to do with an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Decision {
    /// The body is the whole file. Its length, if the server announced it.
    Whole(Option<u64>),
    /// The body continues the kept part.
    Continue {
        /// Offset of the last byte in the answer.
        last: u64,
        /// Length of the whole file.
        total: u64,
    },
    /// The answer does not fit the kept part: request the whole file.
    Restart(&'static str),
    /// The answer has no file, and requesting the whole file would not change that.
    Status,
    /// The answer contradicts itself or the request.
    Refuse(&'static str),
}

/// Decides what to do with the answer to a request for the rest of a file, or for the whole file if nothing is kept.
pub(crate) fn decide(kept: Option<&Kept>, status: StatusCode, headers: &HeaderMap) -> Decision {
    match (status, kept) {
        (StatusCode::OK, kept) => whole(kept, headers),
        (StatusCode::PARTIAL_CONTENT, Some(kept)) => rest(kept, headers),
        (StatusCode::PARTIAL_CONTENT, None) => {
            Decision::Refuse("it sent a part (206) although the whole file was requested")
        }
        (StatusCode::RANGE_NOT_SATISFIABLE, Some(_)) => {
            Decision::Restart("the server says that the file has no more bytes (416)")
        }
        (StatusCode::NOT_MODIFIED | StatusCode::PRECONDITION_FAILED, Some(_)) => {
            Decision::Restart("the server answered a condition that was not sent")
        }
        _ => Decision::Status,
    }
}

/// Decides about a 200, whether or not a range was requested.
fn whole(kept: Option<&Kept>, headers: &HeaderMap) -> Decision {
    let length = length(headers);
    if let Some(kept) = kept {
        // Some servers answer 200 with only the rest.
        if headers.contains_key(CONTENT_RANGE) {
            return Decision::Restart("the server sent a part and called it the whole file");
        }
        let same = kept.state.etag.is_some() && strong_tag(headers) == kept.state.etag;
        let differs = kept.state.total.zip(length).is_some_and(|(total, length)| total != length);
        if same && differs {
            return Decision::Restart("the server gives the same file two lengths");
        }
        return Decision::Whole(length);
    }
    match only(headers, &CONTENT_RANGE) {
        Field::None => Decision::Whole(length),
        // Content-Range has no meaning in a 200, but its value may be true.
        Field::One(range) => match ContentRange::parse(range) {
            Some(ContentRange { first: 0, last, total })
                if total.is_none_or(|total| last + 1 == total)
                    && length.is_none_or(|length| last + 1 == length) =>
            {
                Decision::Whole(length)
            }
            _ => Decision::Refuse("it sent a part and called it the whole file (200)"),
        },
        Field::Unclear => Decision::Refuse("it sent a part and called it the whole file (200)"),
    }
}

/// Decides about a 206 that answers a request for the rest.
fn rest(kept: &Kept, headers: &HeaderMap) -> Decision {
    if let Some(kind) = headers.get(CONTENT_TYPE)
        && kind.as_bytes().to_ascii_lowercase().starts_with(b"multipart/byteranges")
    {
        return Decision::Restart("the server sent it in several parts");
    }
    let Field::One(range) = only(headers, &CONTENT_RANGE) else {
        return Decision::Restart("the server does not say which part it sends");
    };
    let Some(range) = ContentRange::parse(range) else {
        return Decision::Restart("the server does not say clearly which part it sends");
    };
    if !same_state(&kept.state, headers) {
        return Decision::Restart("the file has changed on the server, or the server does not say");
    }
    if range.first != kept.bytes {
        return Decision::Restart("the server sent a part other than the requested one");
    }
    let total = match (kept.state.total, range.total) {
        (Some(known), Some(told)) if known != told => {
            return Decision::Restart("the file has another length now");
        }
        (Some(total), _) | (None, Some(total)) => total,
        (None, None) => return Decision::Restart("the length of the file is unknown"),
    };
    if range.last >= total {
        return Decision::Restart("the server sent bytes beyond the end of the file");
    }
    if length(headers).is_some_and(|length| length != range.last - range.first + 1) {
        return Decision::Restart("the server gives the part two lengths");
    }
    Decision::Continue { last: range.last, total }
}

/// Whether a 206 has the same state as the part. Some servers ignore If-Range, so this requires the validator in the
/// answer.
fn same_state(state: &FileState, headers: &HeaderMap) -> bool {
    let says = |name: &HeaderName, wanted: &str| match only(headers, name) {
        Field::One(value) => value == wanted,
        Field::None | Field::Unclear => false,
    };
    match (&state.etag, &state.modified) {
        (Some(etag), _) => says(&ETAG, etag),
        (None, Some(modified)) => says(&LAST_MODIFIED, modified),
        (None, None) => false,
    }
}

/// The value of a field that may occur once.
enum Field<'a> {
    None,
    One(&'a str),
    /// More than one value, or not text.
    Unclear,
}

fn only<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Field<'a> {
    let mut values = headers.get_all(name).iter();
    match (values.next().map(|value| value.to_str()), values.next()) {
        (None, _) => Field::None,
        (Some(Ok(value)), None) => Field::One(value.trim()),
        _ => Field::Unclear,
    }
}

/// The value of Content-Length. Answers with several different values are invalid.
pub(crate) fn length(headers: &HeaderMap) -> Option<u64> {
    headers.get(CONTENT_LENGTH)?.to_str().ok()?.trim().parse().ok()
}

/// The entity tag, if it identifies every byte of the state: it is not weak, and has only characters allowed in a
/// request (RFC 9110 section 8.8.3).
fn strong_tag(headers: &HeaderMap) -> Option<String> {
    let Field::One(tag) = only(headers, &ETAG) else { return None };
    is_strong_tag(tag).then(|| tag.to_owned())
}

/// Whether this is a strong entity tag, with its quotes.
pub(super) fn is_strong_tag(tag: &str) -> bool {
    let inner = tag.strip_prefix('"').and_then(|rest| rest.strip_suffix('"'));
    inner.is_some_and(|inner| {
        !inner.is_empty() && inner.bytes().all(|b| b.is_ascii_graphic() && b != b'"')
    })
}

/// Last-Modified, if that identifies the state.
fn strong_date(headers: &HeaderMap, now: SystemTime) -> Option<String> {
    let Field::One(text) = only(headers, &LAST_MODIFIED) else { return None };
    let modified = httpdate::parse_http_date(text).ok()?;
    let date = match only(headers, &DATE) {
        Field::One(date) => httpdate::parse_http_date(date).ok()?,
        // Without Date, the time of receipt is used (RFC 9110 section 6.6.1).
        Field::None => now,
        Field::Unclear => return None,
    };
    (date.duration_since(modified).ok()? >= SETTLED).then(|| text.to_owned())
}

/// The value `bytes first-last/total`.
#[derive(Debug, PartialEq, Eq)]
struct ContentRange {
    first: u64,
    last: u64,
    total: Option<u64>,
}

impl ContentRange {
    fn parse(text: &str) -> Option<Self> {
        let number = |text: &str| {
            let digits = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
            text.parse::<u64>().ok().filter(|_| digits)
        };
        let (unit, range) = text.split_once(' ')?;
        let (range, total) = range.trim().split_once('/')?;
        let (first, last) = range.split_once('-')?;
        let total = if total == "*" { None } else { Some(number(total)?) };
        let (first, last) = (number(first)?, number(last)?);
        let fits = first <= last && last < u64::MAX && total.is_none_or(|total| last < total);
        (unit.eq_ignore_ascii_case("bytes") && fits).then_some(Self { first, last, total })
    }
}

#[cfg(test)]
mod tests {
    use std::time::UNIX_EPOCH;

    use super::*;

    const DAY: &str = "Wed, 21 Oct 2015 07:28:00 GMT";

    fn headers(text: &str) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for line in text.lines() {
            let (name, value) = line.trim().split_once(": ").unwrap();
            headers.append(HeaderName::try_from(name).unwrap(), value.parse().unwrap());
        }
        headers
    }

    fn kept(etag: Option<&str>, modified: Option<&str>, total: Option<u64>) -> Kept {
        let (etag, modified) = (etag.map(str::to_owned), modified.map(str::to_owned));
        Kept { bytes: 5, state: FileState { etag, modified, total, changed: None } }
    }

    fn decided(kept: &Kept, status: u16, text: &str) -> Decision {
        decide(Some(kept), StatusCode::from_u16(status).unwrap(), &headers(text))
    }

    #[test]
    fn a_part_goes_on_if_range_total_and_validator_say_so() {
        let tagged = kept(Some("\"v1\""), None, Some(10));
        let dated = kept(None, Some(DAY), Some(10));
        let unknown = kept(Some("\"v1\""), None, None);
        let dated_answer = format!("last-modified: {DAY}\ncontent-range: bytes 5-9/10");
        for (kept, text, last) in [
            (&tagged, "etag: \"v1\"\ncontent-range: bytes 5-9/10", 9),
            (&tagged, "etag: \"v1\"\ncontent-range: bytes 5-9/10\ncontent-length: 5", 9),
            (&tagged, "etag: \"v1\"\ncontent-range: Bytes 5-9/*", 9),
            (&tagged, "etag: \"v1\"\ncontent-range: bytes 5-6/10", 6),
            (&unknown, "etag: \"v1\"\ncontent-range: bytes 5-9/10", 9),
            (&dated, &dated_answer, 9),
            (&dated, &format!("etag: \"new\"\n{dated_answer}"), 9),
        ] {
            assert_eq!(decided(kept, 206, text), Decision::Continue { last, total: 10 }, "{text}");
        }
    }

    #[test]
    fn whatever_else_comes_is_fetched_from_the_start() {
        let tagged = kept(Some("\"v1\""), None, Some(10));
        for (status, text) in [
            (206, "etag: \"v2\"\ncontent-range: bytes 5-9/10"),
            (206, "etag: W/\"v1\"\ncontent-range: bytes 5-9/10"),
            (206, "etag: \"v1\"\netag: \"v2\"\ncontent-range: bytes 5-9/10"),
            (206, "content-range: bytes 5-9/10"),
            (206, "etag: \"v1\""),
            (206, "etag: \"v1\"\ncontent-range: bytes 4-9/10"),
            (206, "etag: \"v1\"\ncontent-range: bytes 6-9/10"),
            (206, "etag: \"v1\"\ncontent-range: bytes 5-9/11"),
            (206, "etag: \"v1\"\ncontent-range: bytes 5-10/*"),
            (206, "etag: \"v1\"\ncontent-range: bytes 5-9/10\ncontent-range: bytes 5-9/10"),
            (206, "etag: \"v1\"\ncontent-range: bytes 5-9/10\ncontent-length: 6"),
            (206, "etag: \"v1\"\ncontent-range: bytes 5-4/10"),
            (206, "etag: \"v1\"\ncontent-range: bytes +5-9/10"),
            (206, "etag: \"v1\"\ncontent-range: lines 5-9/10"),
            (206, "etag: \"v1\"\ncontent-range: bytes 5-18446744073709551615/*"),
            (
                206,
                "etag: \"v1\"\ncontent-range: bytes 5-9/10\n\
                 content-type: Multipart/ByteRanges; boundary=x",
            ),
            (416, "content-range: bytes */5"),
            (416, "content-range: bytes */10"),
            (304, "etag: \"v1\""),
            (412, "etag: \"v1\""),
            (200, "etag: \"v1\"\ncontent-length: 5\ncontent-range: bytes 5-9/10"),
            (200, "etag: \"v1\"\ncontent-length: 5"),
        ] {
            let decision = decided(&tagged, status, text);
            assert!(matches!(decision, Decision::Restart(_)), "{status} {text}: {decision:?}");
        }
        let dated = kept(None, Some(DAY), Some(10));
        for text in [
            "content-range: bytes 5-9/10",
            "etag: \"v1\"\ncontent-range: bytes 5-9/10",
            "last-modified: Wed, 21 Oct 2015 07:28:01 GMT\ncontent-range: bytes 5-9/10",
        ] {
            assert!(matches!(decided(&dated, 206, text), Decision::Restart(_)), "{text}");
        }
        let unknown = kept(Some("\"v1\""), None, None);
        let text = "etag: \"v1\"\ncontent-range: bytes 5-9/*";
        assert!(matches!(decided(&unknown, 206, text), Decision::Restart(_)));
    }

    #[test]
    fn a_whole_file_takes_the_place_of_a_part() {
        let tagged = kept(Some("\"v1\""), None, Some(10));
        for (text, length) in [
            ("etag: \"v1\"\ncontent-length: 10", Some(10)),
            ("etag: \"v2\"\ncontent-length: 3", Some(3)),
            ("content-length: 3", Some(3)),
            ("transfer-encoding: chunked", None),
        ] {
            assert_eq!(decided(&tagged, 200, text), Decision::Whole(length), "{text}");
        }
        for status in [404, 500, 503, 301] {
            assert_eq!(decided(&tagged, status, "content-length: 3"), Decision::Status);
        }
    }

    #[test]
    fn nothing_but_a_whole_file_answers_a_request_for_it() {
        let decided = |status, text: &str| {
            decide(None, StatusCode::from_u16(status).unwrap(), &headers(text))
        };
        let whole = "content-length: 10\ncontent-range: bytes 0-9/10";
        assert_eq!(decided(200, whole), Decision::Whole(Some(10)));
        for (status, text) in [
            (206, "etag: \"v1\"\ncontent-range: bytes 0-9/10"),
            (200, "content-length: 5\ncontent-range: bytes 5-9/10"),
            (200, "content-length: 5\ncontent-range: bytes 0-4/10"),
            (200, "content-length: 5\ncontent-range: bytes 0-9/10"),
            (200, "content-length: 5\ncontent-range: nonsense"),
        ] {
            assert!(matches!(decided(status, text), Decision::Refuse(_)), "{status} {text}");
        }
        for status in [304, 416, 412, 404] {
            assert_eq!(decided(status, "content-length: 0"), Decision::Status);
        }
    }

    #[test]
    fn a_validator_is_strong_or_there_is_none() {
        let now = UNIX_EPOCH + Duration::from_secs(1_700_000_000);
        let validator =
            |text: &str| FileState::of(&headers(text), None, now).validator().map(str::to_owned);
        for tag in ["\"1732:abc.9/x+y=\"", "\"a'b,c;d\"", "\"5-1a-gzip\""] {
            assert_eq!(validator(&format!("etag: {tag}")).as_deref(), Some(tag));
        }
        for tag in ["W/\"5\"", "\"\"", "5", "\"a\"b\"", "\"a b\"", "\""] {
            assert_eq!(validator(&format!("etag: {tag}\nlast-modified: {DAY}")), None, "{tag}");
        }
        // A date is strong if the file had not changed for a while when the answer was sent.
        assert_eq!(validator(&format!("last-modified: {DAY}")).as_deref(), Some(DAY));
        for (date, strong) in [
            ("Wed, 21 Oct 2015 07:29:00 GMT", true),
            ("Wed, 21 Oct 2015 07:28:30 GMT", false),
            ("Wed, 21 Oct 2015 07:28:00 GMT", false),
            ("Wed, 21 Oct 2015 07:27:00 GMT", false),
            ("yesterday", false),
        ] {
            let found = validator(&format!("date: {date}\nlast-modified: {DAY}"));
            assert_eq!(found.is_some(), strong, "{date}");
        }
        assert_eq!(validator("last-modified: yesterday"), None);
        assert_eq!(validator("content-length: 5"), None);
    }
}
