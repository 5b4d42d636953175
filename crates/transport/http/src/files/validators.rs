//! ETag, Last-Modified, and the conditional request fields (RFC 9110 sections 8.8 and 13).

use std::fs::Metadata;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use http::HeaderMap;
use http::header::{
    HeaderName, IF_MATCH, IF_MODIFIED_SINCE, IF_NONE_MATCH, IF_RANGE, IF_UNMODIFIED_SINCE,
};

/// The first second of the year 10000, which HTTP dates cannot express.
const YEAR_10000: u64 = 253_402_300_800;

/// The validators of a state of a file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Validators {
    /// Entity tag with its quotes: length, time of the last change in nanoseconds, and a checksum that distinguishes
    /// files with equal length and time.
    pub(crate) etag: Option<String>,
    /// Time of the last change in whole seconds, if HTTP dates can represent it.
    pub(crate) modified: Option<SystemTime>,
}

impl Validators {
    /// The validators of a file; both `None` if the file system does not record times.
    pub(crate) fn of(metadata: &Metadata) -> Self {
        let since = metadata.modified().ok().and_then(|t| t.duration_since(UNIX_EPOCH).ok());
        match since {
            Some(since) => Self::new(metadata.len(), since, identity(metadata)),
            None => Self::default(),
        }
    }

    /// The validators of the same file in compressed form, whose tag must differ.
    pub(super) fn coded(mut self, coding: Option<&str>) -> Self {
        if let (Some(coding), Some(etag)) = (coding, &mut self.etag) {
            etag.insert_str(etag.len() - 1, &format!("-{coding}"));
        }
        self
    }

    fn new(len: u64, since_epoch: Duration, identity: u64) -> Self {
        let seconds = Some(since_epoch.as_secs()).filter(|seconds| *seconds < YEAR_10000);
        Self {
            etag: Some(format!("\"{len:x}-{:x}-{identity:x}\"", since_epoch.as_nanos())),
            modified: seconds.map(|seconds| UNIX_EPOCH + Duration::from_secs(seconds)),
        }
    }

    /// Whether the request's preconditions fail (RFC 9110 sections 13.1.1 and 13.1.4). If-Match takes precedence over
    /// If-Unmodified-Since.
    pub(super) fn unwanted(&self, headers: &HeaderMap) -> bool {
        if headers.contains_key(IF_MATCH) {
            return !tags(headers, &IF_MATCH).any(|tag| tag == "*" || Some(tag) == self.etag());
        }
        match (self.modified, date(headers, &IF_UNMODIFIED_SINCE)) {
            (Some(modified), Some(since)) => modified > since,
            _ => false,
        }
    }

    /// Whether a request may replace this state, or create the file if there is none (RFC 9110 sections 13.1.1, 13.1.2
    /// and 13.1.4).
    pub(crate) fn allow(there: Option<&Self>, headers: &HeaderMap) -> bool {
        let Some(there) = there else { return !headers.contains_key(IF_MATCH) };
        let is_this =
            |tag: &str| tag == "*" || there.etag() == Some(tag.strip_prefix("W/").unwrap_or(tag));
        !there.unwanted(headers) && !tags(headers, &IF_NONE_MATCH).any(is_this)
    }

    fn etag(&self) -> Option<&str> {
        self.etag.as_deref()
    }

    /// Whether the client already has this state. If-None-Match takes precedence over If-Modified-Since.
    pub(super) fn not_modified(&self, headers: &HeaderMap) -> bool {
        if headers.contains_key(IF_NONE_MATCH) {
            let Some(etag) = self.etag() else { return false };
            // This is a weak comparison: the W/ prefix of a tag is ignored.
            return tags(headers, &IF_NONE_MATCH)
                .any(|tag| tag == "*" || tag.strip_prefix("W/").unwrap_or(tag) == etag);
        }
        match (self.modified, date(headers, &IF_MODIFIED_SINCE)) {
            (Some(modified), Some(since)) => modified <= since,
            _ => false,
        }
    }

    /// Whether a range of this state may be sent: there is no If-Range, or it matches exactly.
    pub(super) fn range_applies(&self, headers: &HeaderMap) -> bool {
        let Some(condition) = headers.get(IF_RANGE) else {
            return true;
        };
        if self.etag().is_some_and(|etag| condition.as_bytes() == etag.as_bytes()) {
            return true;
        }
        self.modified.is_some() && date(headers, &IF_RANGE) == self.modified
    }
}

/// A checksum (FNV-1a) of values that change when a file is replaced by one with the same length and time: device,
/// inode, and ctime, which no program can set. Beyond that, the tag reveals nothing about the server.
#[cfg(unix)]
fn identity(metadata: &Metadata) -> u64 {
    use std::os::unix::fs::MetadataExt as _;
    let (seconds, nanoseconds) = (metadata.ctime(), metadata.ctime_nsec());
    let parts =
        [metadata.dev(), metadata.ino(), seconds.cast_unsigned(), nanoseconds.cast_unsigned()];
    let bytes = parts.into_iter().flat_map(u64::to_le_bytes);
    bytes.fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3)
    })
}

#[cfg(not(unix))]
fn identity(_: &Metadata) -> u64 {
    0
}

/// The entity tags of a field.
fn tags<'a>(headers: &'a HeaderMap, name: &HeaderName) -> impl Iterator<Item = &'a str> {
    let values = headers.get_all(name).iter().filter_map(|value| value.to_str().ok());
    values.flat_map(|value| value.split(',')).map(str::trim)
}

fn date(headers: &HeaderMap, name: &HeaderName) -> Option<SystemTime> {
    httpdate::parse_http_date(headers.get(name)?.to_str().ok()?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(name: HeaderName, value: &str) -> HeaderMap {
        let mut headers = HeaderMap::new();
        headers.insert(name, value.parse().unwrap());
        headers
    }

    #[test]
    fn a_client_with_the_same_state_is_told_so() {
        let state = Validators::new(16, Duration::new(784_111_777, 5), 7);
        let etag = state.etag.clone().unwrap();
        assert!(state.not_modified(&headers(IF_NONE_MATCH, &etag)));
        assert!(state.not_modified(&headers(IF_NONE_MATCH, &format!("\"a\", W/{etag}"))));
        assert!(state.not_modified(&headers(IF_NONE_MATCH, "*")));
        assert!(!state.not_modified(&headers(IF_NONE_MATCH, "\"a\"")));
        let same = "Sun, 06 Nov 1994 08:49:37 GMT";
        assert!(state.not_modified(&headers(IF_MODIFIED_SINCE, same)));
        let before = "Sun, 06 Nov 1994 08:49:36 GMT";
        assert!(!state.not_modified(&headers(IF_MODIFIED_SINCE, before)));
        assert!(!state.not_modified(&headers(IF_MODIFIED_SINCE, "yesterday")));
        assert!(!state.not_modified(&HeaderMap::new()));
        let mut both = headers(IF_NONE_MATCH, "\"a\"");
        both.insert(IF_MODIFIED_SINCE, same.parse().unwrap());
        assert!(!state.not_modified(&both));

        assert!(!state.unwanted(&HeaderMap::new()));
        assert!(!state.unwanted(&headers(IF_MATCH, &format!("\"a\", {etag}"))));
        assert!(!state.unwanted(&headers(IF_MATCH, "*")));
        assert!(state.unwanted(&headers(IF_MATCH, "\"a\"")));
        assert!(state.unwanted(&headers(IF_MATCH, &format!("W/{etag}"))), "strong comparison");
        assert!(!state.unwanted(&headers(IF_UNMODIFIED_SINCE, same)));
        assert!(state.unwanted(&headers(IF_UNMODIFIED_SINCE, before)));
        assert!(!state.unwanted(&headers(IF_UNMODIFIED_SINCE, "yesterday")));
        let mut both = headers(IF_MATCH, &etag);
        both.insert(IF_UNMODIFIED_SINCE, before.parse().unwrap());
        assert!(!state.unwanted(&both));

        assert!(state.range_applies(&HeaderMap::new()));
        assert!(state.range_applies(&headers(IF_RANGE, &etag)));
        assert!(state.range_applies(&headers(IF_RANGE, same)));
        assert!(!state.range_applies(&headers(IF_RANGE, before)));
        assert!(!state.range_applies(&headers(IF_RANGE, "\"a\"")));
    }

    #[test]
    fn a_state_is_replaced_if_the_conditions_allow_it() {
        let state = Validators::new(16, Duration::new(784_111_777, 5), 7);
        let etag = state.etag.clone().unwrap();
        let allowed = |there, name, value: &str| Validators::allow(there, &headers(name, value));
        let weak = format!("W/{etag}");
        for (name, value, replaced, made) in [
            (IF_NONE_MATCH, "*", false, true),
            (IF_NONE_MATCH, etag.as_str(), false, true),
            (IF_NONE_MATCH, weak.as_str(), false, true),
            (IF_NONE_MATCH, "\"a\"", true, true),
            (IF_MATCH, "*", true, false),
            (IF_MATCH, etag.as_str(), true, false),
            (IF_MATCH, weak.as_str(), false, false),
            (IF_MATCH, "\"a\"", false, false),
            (IF_UNMODIFIED_SINCE, "Sun, 06 Nov 1994 08:49:36 GMT", false, true),
            (IF_UNMODIFIED_SINCE, "Sun, 06 Nov 1994 08:49:37 GMT", true, true),
            // If-Modified-Since applies only to GET and HEAD.
            (IF_MODIFIED_SINCE, "Sun, 06 Nov 1994 08:49:37 GMT", true, true),
        ] {
            assert_eq!(allowed(Some(&state), name.clone(), value), replaced, "{name}: {value}");
            assert_eq!(allowed(None, name.clone(), value), made, "{name}: {value}, nothing there");
        }
        assert!(!allowed(Some(&Validators::default()), IF_NONE_MATCH, "*"), "a file without times");
    }

    #[cfg(unix)]
    #[test]
    fn a_file_in_the_place_of_another_has_another_tag() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("f");
        let time = UNIX_EPOCH + Duration::from_secs(1_000_000_000);
        let write = |text: &str| {
            let file = std::fs::File::create(&path).unwrap();
            std::fs::write(&path, text).unwrap();
            file.set_modified(time).unwrap();
            Validators::of(&std::fs::metadata(&path).unwrap())
        };
        let first = write("one");
        assert_eq!(Validators::of(&std::fs::metadata(&path).unwrap()), first);
        // Move another file to this name, as 'mv' does.
        std::fs::rename(&path, directory.path().join("old")).unwrap();
        let second = write("two");
        assert_ne!(first.etag, second.etag);
        assert_eq!(first.modified, second.modified);
        // Write into the same file, as 'cp -p' does, once the clock of the file system has advanced.
        let mut third = write("six");
        while third.etag == second.etag {
            third = write("six");
        }
    }

    #[test]
    fn times_that_no_date_can_tell_are_not_told() {
        let state = Validators::new(1, Duration::from_secs(YEAR_10000), 0);
        assert_eq!(state.modified, None);
        assert!(state.etag.is_some());
        let state = Validators::new(1, Duration::from_secs(YEAR_10000 - 1), 0);
        let told = httpdate::fmt_http_date(state.modified.unwrap());
        assert_eq!(told, "Fri, 31 Dec 9999 23:59:59 GMT");
    }
}
