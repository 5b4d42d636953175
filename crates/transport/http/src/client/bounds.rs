//! Limits on the answers that a client accepts: only newer files, and a maximum number of bytes.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use http::StatusCode;
use http::header::LAST_MODIFIED;

use super::resume::{Kept, length};
use crate::answers::Head;
use crate::error::FetchError;

/// The first second of the year 10000, which HTTP dates cannot represent.
const YEAR_10000: u64 = 253_402_300_800;

/// Limits for one transaction. By default there are none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Bounds {
    /// Maximum bytes of the whole body.
    pub most: Option<u64>,
    /// Modification time of the existing file; only a newer file is fetched.
    pub newer_than: Option<SystemTime>,
}

impl Bounds {
    /// The value of If-Modified-Since.
    pub(super) fn since(&self) -> Option<String> {
        let since = self.newer_than?.duration_since(UNIX_EPOCH).unwrap_or_default();
        let seconds = since.as_secs().min(YEAR_10000 - 1);
        Some(httpdate::fmt_http_date(UNIX_EPOCH + Duration::from_secs(seconds)))
    }

    /// Why the file in this answer must not be fetched, given the kept part.
    pub(super) fn refuse(&self, head: &Head, kept: Option<&Kept>) -> Option<FetchError> {
        if let Some(there) = self.newer_than {
            let dated = head.headers.get(LAST_MODIFIED).and_then(|value| value.to_str().ok());
            let dated = dated.and_then(|text| httpdate::parse_http_date(text).ok());
            let changed = dated.or_else(|| kept?.state.changed_at());
            match (head.status, changed) {
                (StatusCode::NOT_MODIFIED, _) => return Some(FetchError::NotNewer),
                (StatusCode::OK | StatusCode::PARTIAL_CONTENT, None) => {
                    return Some(FetchError::Undated);
                }
                (StatusCode::OK | StatusCode::PARTIAL_CONTENT, Some(changed))
                    if changed <= there =>
                {
                    return Some(FetchError::NotNewer);
                }
                _ => {}
            }
        }
        let announced = length(&head.headers).filter(|_| head.status == StatusCode::OK);
        announced.and_then(|announced| self.check(announced).err())
    }

    /// Fails if a body must not have this many bytes.
    pub(super) fn check(&self, bytes: u64) -> Result<(), FetchError> {
        match self.most.filter(|most| bytes > *most) {
            Some(most) => Err(FetchError::TooLong { most }),
            None => Ok(()),
        }
    }
}

/// Limits the total bytes of all fetches that share it.
#[derive(Debug)]
pub struct Budget(AtomicU64);

impl Budget {
    /// Allows `bytes` bytes.
    pub fn new(bytes: u64) -> Self {
        Self(AtomicU64::new(bytes))
    }

    /// Deducts `bytes` if at least that many are left; otherwise fails.
    pub(super) fn take(&self, bytes: u64) -> Result<(), FetchError> {
        let taken = self.0.fetch_update(Relaxed, Relaxed, |left| left.checked_sub(bytes));
        if taken.is_ok() {
            return Ok(());
        }
        // Refuse all later bodies, even shorter ones.
        self.0.store(0, Relaxed);
        Err(FetchError::Exhausted)
    }
}

#[cfg(test)]
mod tests {
    use http::HeaderMap;

    use super::*;
    use crate::client::resume::FileState;

    fn head(status: u16, modified: Option<&str>) -> Head {
        let mut headers = HeaderMap::new();
        headers.insert("content-length", "10".parse().unwrap());
        if let Some(modified) = modified {
            headers.insert(LAST_MODIFIED, modified.parse().unwrap());
        }
        Head { status: status.try_into().unwrap(), headers }
    }

    #[test]
    fn only_what_is_newer_is_wanted() {
        let (day, later) = ("Wed, 21 Oct 2015 07:28:00 GMT", "Wed, 21 Oct 2015 07:28:01 GMT");
        let there = httpdate::parse_http_date(day).unwrap();
        let bounds = Bounds { newer_than: Some(there), most: None };
        assert_eq!(bounds.since().unwrap(), day);
        let state = FileState { changed: Some(later.to_owned()), ..FileState::default() };
        let kept = Kept { bytes: 5, state };
        let refused = |head: &Head, kept| bounds.refuse(head, kept);
        assert!(refused(&head(200, Some(later)), None).is_none());
        assert!(refused(&head(206, None), Some(&kept)).is_none());
        assert!(refused(&head(404, None), None).is_none(), "that is another error");
        for (status, modified) in [(304, None), (200, Some(day)), (206, Some(day))] {
            let error = refused(&head(status, modified), None);
            assert!(matches!(error, Some(FetchError::NotNewer)), "{status}: {error:?}");
        }
        for modified in [None, Some("yesterday")] {
            let error = refused(&head(200, modified), None);
            assert!(matches!(error, Some(FetchError::Undated)), "{error:?}");
        }
        // Without an existing file, none of this applies.
        assert!(Bounds::default().refuse(&head(304, None), None).is_none());
    }

    #[test]
    fn times_that_no_date_can_say_are_sent_as_the_nearest() {
        let since = |newer_than| Bounds { newer_than: Some(newer_than), most: None }.since();
        let before = UNIX_EPOCH - Duration::from_secs(9);
        assert_eq!(since(before).unwrap(), "Thu, 01 Jan 1970 00:00:00 GMT");
        let after = UNIX_EPOCH + Duration::from_secs(YEAR_10000 + 9);
        assert_eq!(since(after).unwrap(), "Fri, 31 Dec 9999 23:59:59 GMT");
    }

    #[test]
    fn bytes_are_bounded_for_one_and_for_all() {
        let bounds = Bounds { most: Some(9), newer_than: None };
        assert!(matches!(
            bounds.refuse(&head(200, None), None),
            Some(FetchError::TooLong { most: 9 })
        ));
        assert!(bounds.check(9).is_ok() && bounds.check(10).is_err());
        let budget = Budget::new(10);
        assert!(budget.take(4).is_ok() && budget.take(7).is_err() && budget.take(1).is_err());
    }
}
