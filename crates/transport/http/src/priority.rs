//! The Priority field of requests (RFC 9218).

use http::HeaderMap;
use http::header::HeaderName;

/// The field's name.
pub(crate) const PRIORITY: HeaderName = HeaderName::from_static("priority");

/// How urgently an answer is wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Priority {
    /// 0 to 7; answers with smaller values are sent first.
    pub urgency: u8,
    /// A partial answer is useful, so answers of the same urgency may share the bandwidth.
    pub incremental: bool,
}

impl Default for Priority {
    /// The priority of a request without the field (RFC 9218 section 4).
    fn default() -> Self {
        Self { urgency: 3, incremental: false }
    }
}

impl Priority {
    /// The priority of a request. A field that is not a dictionary is ignored; so is a member that is
    /// unknown, out of range, or of the wrong type.
    pub fn of(headers: &HeaderMap) -> Self {
        let mut priority = Self::default();
        for field in headers.get_all(PRIORITY) {
            let Some(next) = field.to_str().ok().and_then(|text| priority.with(text)) else {
                return Self::default();
            };
            priority = next;
        }
        priority
    }

    /// `self` updated by a dictionary (RFC 8941 section 3.2); `None` if `text` is not a dictionary.
    fn with(mut self, text: &str) -> Option<Self> {
        if text.trim().is_empty() {
            return Some(self);
        }
        for member in text.split(',') {
            let member = member.trim_matches([' ', '\t']);
            let (item, _parameters) = member.split_once(';').unwrap_or((member, ""));
            let (key, value) = match item.split_once('=') {
                Some((key, value)) => (key, Some(value)),
                None => (item, None),
            };
            if !is_key(key) || value.is_some_and(|value| value.is_empty() || value.contains(' ')) {
                return None;
            }
            match (key, value) {
                ("u", Some(number)) => {
                    let urgency = number.parse::<u8>().ok().filter(|urgency| *urgency <= 7);
                    self.urgency = urgency.unwrap_or(self.urgency);
                }
                ("i", None | Some("?1")) => self.incremental = true,
                ("i", Some("?0")) => self.incremental = false,
                _ => {}
            }
        }
        Some(self)
    }
}

fn is_key(key: &str) -> bool {
    let first = key.bytes().next().is_some_and(|b| b.is_ascii_lowercase() || b == b'*');
    let others = |b: u8| {
        b.is_ascii_lowercase() || b.is_ascii_digit() || matches!(b, b'_' | b'-' | b'.' | b'*')
    };
    first && key.bytes().all(others)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(fields: &[&str]) -> (u8, bool) {
        let mut headers = HeaderMap::new();
        for field in fields {
            headers.append(PRIORITY, field.parse().unwrap());
        }
        let priority = Priority::of(&headers);
        (priority.urgency, priority.incremental)
    }

    #[test]
    fn urgency_and_incremental_are_read() {
        assert_eq!(of(&[]), (3, false));
        assert_eq!(of(&["u=0"]), (0, false));
        assert_eq!(of(&["u=5, i"]), (5, true));
        assert_eq!(of(&["i=?0,\tu=7;x=1"]), (7, false));
        assert_eq!(of(&["u=1, u=2", "i=?1"]), (2, true));
    }

    #[test]
    fn what_makes_no_sense_is_ignored() {
        // Invalid members are ignored one by one.
        assert_eq!(of(&["u=8, i"]), (3, true));
        assert_eq!(of(&["u=-1, i=1, other=\"x\""]), (3, false));
        assert_eq!(of(&["u, u=x, u=1.5"]), (3, false));
        // An invalid field is ignored as a whole.
        assert_eq!(of(&["u=1, ="]), (3, false));
        assert_eq!(of(&["u=1,, i"]), (3, false));
        assert_eq!(of(&["U=1"]), (3, false));
    }
}
