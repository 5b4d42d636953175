//! Content codings: compressed files next to uncompressed ones (RFC 9110 sections 8.4 and 12.5.3).
//!
//! Nothing is compressed on the fly, because a header line of a client must not cost the server so much
//! work. `name.br` and `name.gz` are sent instead of `name` to clients that accept them, unless they are
//! older.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use cap_std::fs::Dir;
use http::HeaderMap;
use http::header::{ACCEPT_ENCODING, HeaderValue};

/// How a file is compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Coding {
    Brotli,
    Gzip,
}

impl Coding {
    /// All codings, the most efficient one first.
    const ALL: [Self; 2] = [Self::Brotli, Self::Gzip];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Brotli => "br",
            Self::Gzip => "gzip",
        }
    }

    fn suffix(self) -> &'static str {
        match self {
            Self::Brotli => ".br",
            Self::Gzip => ".gz",
        }
    }

    fn of(self, path: &Path) -> PathBuf {
        let mut name = OsString::from(path);
        name.push(self.suffix());
        name.into()
    }
}

/// The codings that a client accepts.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Accepted {
    brotli: Option<f32>,
    gzip: Option<f32>,
    any: Option<f32>,
    identity: Option<f32>,
}

impl Accepted {
    pub(super) fn of(headers: &HeaderMap) -> Self {
        let mut accepted = Self::default();
        let values = headers.get_all(ACCEPT_ENCODING).into_iter().filter_map(|v| v.to_str().ok());
        for item in values.flat_map(|value| value.split(',')) {
            let mut parts = item.split(';').map(str::trim);
            let name = parts.next().unwrap_or_default().to_ascii_lowercase();
            let weight = parts.find_map(|part| part.strip_prefix("q=").or(part.strip_prefix("Q=")));
            // An invalid weight counts as a refusal.
            let weight = weight.map_or(Some(1.0), |text| text.parse().ok());
            let weight = weight.filter(|weight| (0.0..=1.0).contains(weight)).unwrap_or(0.0);
            let place = match name.as_str() {
                "br" => &mut accepted.brotli,
                "gzip" | "x-gzip" => &mut accepted.gzip,
                "identity" => &mut accepted.identity,
                "*" => &mut accepted.any,
                _ => continue,
            };
            place.get_or_insert(weight);
        }
        accepted
    }

    fn weight(&self, coding: Coding) -> f32 {
        let own = match coding {
            Coding::Brotli => self.brotli,
            Coding::Gzip => self.gzip,
        };
        own.or(self.any).unwrap_or(0.0)
    }

    /// The codings that may be sent, by preference, except those that rank below the uncompressed file.
    fn preferred(&self) -> Vec<Coding> {
        let least = self.identity.unwrap_or(0.0);
        let taken = |coding: &Coding| self.weight(*coding) > 0.0 && self.weight(*coding) >= least;
        let mut codings: Vec<_> = Coding::ALL.into_iter().filter(taken).collect();
        codings.sort_by(|one, other| self.weight(*other).total_cmp(&self.weight(*one)));
        codings
    }
}

/// The result of looking for compressed files next to a file.
pub(super) struct Beside {
    /// The coding and path of the file to send to this client.
    pub(super) taken: Option<(Coding, PathBuf)>,
    /// The answer depends on the codings that a client accepts.
    pub(super) varies: bool,
}

/// Looks for compressed files next to the one at `path`, which was last changed at `changed`.
pub(super) fn beside(
    root: &Dir,
    path: &Path,
    content_type: &HeaderValue,
    changed: Option<cap_std::time::SystemTime>,
    accepted: &Accepted,
) -> Beside {
    let mut found = Beside { taken: None, varies: false };
    if !is_worth_it(content_type) {
        return found;
    }
    let there = |coding: &Coding| {
        let metadata = root.metadata(coding.of(path)).ok().filter(|m| m.is_file());
        metadata.is_some_and(|metadata| metadata.modified().ok() >= changed)
    };
    let there: Vec<_> = Coding::ALL.into_iter().filter(there).collect();
    found.varies = !there.is_empty();
    let wanted = accepted.preferred().into_iter().find(|coding| there.contains(coding));
    found.taken = wanted.map(|coding| (coding, coding.of(path)));
    found
}

/// Whether it is useful to compress files of this type. Pictures and archives are compressed already.
pub(super) fn is_worth_it(content_type: &HeaderValue) -> bool {
    let kind = content_type.to_str().unwrap_or_default();
    let kind = kind.split(';').next().unwrap_or_default();
    kind.starts_with("text/")
        || ["json", "javascript", "xml", "wasm"].iter().any(|end| kind.ends_with(end))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clients_get_what_they_want_most() {
        for (field, codings) in [
            ("", &[][..]),
            ("gzip", &[Coding::Gzip]),
            ("gzip, br", &[Coding::Brotli, Coding::Gzip]),
            ("br;q=0.2, GZIP;q=0.8", &[Coding::Gzip, Coding::Brotli]),
            ("gzip;q=0", &[]),
            ("*", &[Coding::Brotli, Coding::Gzip]),
            ("*, br;q=0", &[Coding::Gzip]),
            ("identity, gzip;q=0.5", &[]),
            ("gzip;q=2", &[]),
            ("gzip;q=x, deflate", &[]),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert(ACCEPT_ENCODING, HeaderValue::from_static(field));
            assert_eq!(Accepted::of(&headers).preferred(), codings, "{field}");
        }
        assert_eq!(Accepted::of(&HeaderMap::new()).preferred(), []);
    }
}
