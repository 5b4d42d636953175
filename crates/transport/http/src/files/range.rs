//! The Range field (RFC 9110 section 14).

use http::HeaderMap;
use http::header::RANGE;

/// The bytes of a file that a request selects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Selection {
    /// The whole file.
    Whole,
    /// A part of the file, at least one byte.
    Part {
        /// Offset of the first byte.
        start: u64,
        /// Number of bytes.
        len: u64,
    },
    /// None of the requested bytes exist.
    Unsatisfiable,
}

/// Returns the part of a file of `len` bytes that a request selects. A field that is malformed or names
/// several ranges is ignored, as section 14.2 allows.
pub(super) fn select(headers: &HeaderMap, len: u64) -> Selection {
    let mut values = headers.get_all(RANGE).iter();
    let (Some(value), None) = (values.next(), values.next()) else {
        return Selection::Whole;
    };
    value.to_str().ok().and_then(|value| parse(value, len)).unwrap_or(Selection::Whole)
}

fn parse(value: &str, len: u64) -> Option<Selection> {
    let (unit, range) = value.split_once('=')?;
    if !unit.trim().eq_ignore_ascii_case("bytes") {
        return None;
    }
    let (first, last) = range.trim().split_once('-')?;
    let (start, end) = if first.is_empty() {
        let suffix = number(last)?;
        // A suffix range can be satisfied for any length of the file (section 14.1.2).
        if len == 0 && suffix > 0 {
            return Some(Selection::Whole);
        }
        (len.saturating_sub(suffix), len)
    } else {
        let start = number(first)?;
        let end = if last.is_empty() {
            len
        } else {
            let last = number(last)?;
            if last < start {
                return None;
            }
            last.saturating_add(1).min(len)
        };
        (start, end)
    };
    Some(if start < end {
        Selection::Part { start, len: end - start }
    } else {
        Selection::Unsatisfiable
    })
}

/// Parses digits. A number beyond any file's length counts as the largest one.
fn number(text: &str) -> Option<u64> {
    if text.is_empty() || !text.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    Some(text.parse().unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(value: &str, len: u64) -> Selection {
        let mut headers = HeaderMap::new();
        headers.insert(RANGE, value.parse().unwrap());
        select(&headers, len)
    }

    #[test]
    fn ranges_of_rfc_9110() {
        let part = |start, len| Selection::Part { start, len };
        assert_eq!(of("bytes=0-499", 1000), part(0, 500));
        assert_eq!(of("bytes=500-", 1000), part(500, 500));
        assert_eq!(of("bytes=-200", 1000), part(800, 200));
        assert_eq!(of("bytes=-2000", 1000), part(0, 1000));
        assert_eq!(of("bytes=999-5000", 1000), part(999, 1));
        assert_eq!(of("Bytes=0-0", 1000), part(0, 1));
        assert_eq!(of("bytes=0-99999999999999999999999", 10), part(0, 10));
        for missing in ["bytes=1000-", "bytes=1000-1001", "bytes=-0"] {
            assert_eq!(of(missing, 1000), Selection::Unsatisfiable, "{missing}");
        }
        for (value, selection) in [
            ("bytes=0-", Selection::Unsatisfiable),
            ("bytes=0-0", Selection::Unsatisfiable),
            ("bytes=-0", Selection::Unsatisfiable),
            ("bytes=-1", Selection::Whole),
            ("bytes=-5", Selection::Whole),
        ] {
            assert_eq!(of(value, 0), selection, "{value}");
        }
        for ignored in ["bytes=2-1", "bytes=-", "bytes=a-b", "lines=1-2", "bytes=0-1,3-4", "x"] {
            assert_eq!(of(ignored, 1000), Selection::Whole, "{ignored}");
        }
        assert_eq!(select(&HeaderMap::new(), 5), Selection::Whole);
    }
}
