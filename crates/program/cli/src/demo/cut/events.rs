//! When paths are cut and repaired, as a link of the page says it: `cut1-3.20_repair1-9.00`.

use std::time::Duration;

use anabranch_web::LinkConfig;

/// The number of paths.
pub(crate) const PATHS: usize = 2;

/// Most events of a run.
const MOST: usize = 100;

/// Latest time of an event in seconds.
pub(crate) const LATEST: f64 = 600.0;

/// A path goes down, or comes up again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Event {
    /// Index of the path.
    pub(crate) path: usize,
    /// When. A whole number of milliseconds, so that texts are exact.
    pub(crate) at: Duration,
    pub(crate) is_cut: bool,
}

/// Events in the order of time. On each path cuts and repairs alternate, beginning with a cut.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Events(Vec<Event>);

impl Events {
    /// # Errors
    /// An event is not possible at its time.
    pub(crate) fn new(events: Vec<Event>) -> Result<Self, String> {
        if events.len() > MOST {
            return Err(format!("more than {MOST} cuts and repairs"));
        }
        let mut last: [Option<Event>; PATHS] = [None; PATHS];
        let mut before = Duration::ZERO;
        for event in &events {
            let (name, at) = (event.path + 1, event.at.as_secs_f64());
            let Some(last) = last.get_mut(event.path) else {
                return Err(format!("there is no path {name}; cut path 1 or 2"));
            };
            if event.at < before {
                return Err(format!(
                    "the event at {at} s comes after a later one; order them by time"
                ));
            }
            if last.is_some_and(|last| last.is_cut) == event.is_cut {
                let state = if event.is_cut { "cut already" } else { "not cut" };
                return Err(format!("path {name} is {state} at {at} s"));
            }
            if last.is_some_and(|last| last.at == event.at) {
                return Err(format!(
                    "path {name} is cut and repaired at {at} s; one must be later"
                ));
            }
            *last = Some(*event);
            before = event.at;
        }
        Ok(Self(events))
    }

    /// Reads the events of a link.
    ///
    /// # Errors
    /// The text is not a list of events, or they are not possible.
    pub(crate) fn read(text: &str) -> Result<Self, String> {
        let events = text.split('_').filter(|word| !word.is_empty()).take(MOST + 1).map(|word| {
            event(word).ok_or_else(|| {
                format!("'{word}' is no event: write cut1-3.5 or repair1-9, up to {LATEST} s")
            })
        });
        Self::new(events.collect::<Result<_, _>>()?)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Event> {
        self.0.iter()
    }

    /// The time of the last event.
    pub(crate) fn last(&self) -> Option<Duration> {
        self.0.last().map(|event| event.at)
    }

    /// The link with the cuts of a path.
    pub(crate) fn cut(&self, path: usize, mut link: LinkConfig) -> LinkConfig {
        let nanos = |at: Duration| u64::try_from(at.as_nanos()).unwrap_or(u64::MAX);
        let mut events = self.0.iter().filter(|event| event.path == path);
        while let Some(cut) = events.next() {
            link = link.cut(nanos(cut.at), events.next().map(|repair| nanos(repair.at)));
        }
        link
    }
}

/// One event, such as `cut1-3.20`.
fn event(word: &str) -> Option<Event> {
    let (what, at) = word.split_once('-')?;
    let (is_cut, path) = match (what.strip_prefix("cut"), what.strip_prefix("repair")) {
        (Some(path), None) => (true, path),
        (None, Some(path)) => (false, path),
        _ => return None,
    };
    let path = path.parse::<usize>().ok()?.checked_sub(1)?;
    let at = at.parse::<f64>().ok().filter(|at| (0.0..=LATEST).contains(at))?;
    let at = Duration::from_millis((at * 1e3).round() as u64);
    Some(Event { path, at, is_cut })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_says_when_paths_are_cut() {
        let events = Events::read("cut1-3.20_cut2-4_repair1-9.001_cut1-10").unwrap();
        let millis = Duration::from_millis;
        let all: Vec<_> = events.iter().map(|e| (e.path, e.at, e.is_cut)).collect();
        let expected = [
            (0, millis(3200), true),
            (1, millis(4000), true),
            (0, millis(9001), false),
            (0, millis(10_000), true),
        ];
        assert_eq!(all, expected);
        assert_eq!(events.last(), Some(millis(10_000)));
        let cuts = |path| events.cut(path, LinkConfig::new());
        let expected =
            LinkConfig::new().cut(3_200_000_000, Some(9_001_000_000)).cut(10_000_000_000, None);
        assert_eq!(cuts(0), expected);
        assert_eq!(cuts(1), LinkConfig::new().cut(4_000_000_000, None));
        assert!(cuts(0).validate().is_ok());
        assert_eq!(Events::read(""), Ok(Events::default()));
    }

    #[test]
    fn impossible_events_are_refused() {
        for text in [
            "cut3-1",
            "cut0-1",
            "cut-1",
            "cut1",
            "cut1-",
            "cut1-x",
            "cut1-NaN",
            "cut1--1",
            "cut1-601",
            "slash1-1",
            "repair1-1",
            "cut1-1_cut1-2",
            "cut1-2_cut2-1",
            "cut1-1_repair1-1",
            "cut1-1_repair1-1.0001",
            "cut1-1_repair2-2",
        ] {
            assert!(Events::read(text).is_err(), "{text}");
        }
        let many: Vec<_> =
            (0..101).map(|at| format!("{}1-{at}", ["cut", "repair"][at % 2])).collect();
        assert!(Events::read(&many.join("_")).is_err());
        assert!(Events::read(&many[1..].join("_")).is_err());
        assert!(Events::read(&many[..100].join("_")).is_ok());
    }
}
