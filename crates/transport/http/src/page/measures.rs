//! Measurements of a page load, and values derived from them (nat 2.7.2, 2.7.3; web 5.2, 5.3).

use std::time::Duration;

use bytes::Bytes;

/// Maximum number of stored points of a curve; beyond that, every second one is dropped.
const MOST_POINTS: usize = 1024;

/// How one object of a page arrived. Times count from the request for the index.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ObjectLoad {
    /// Its path and query.
    pub target: String,
    /// The stream that carried it.
    pub stream: u16,
    /// When it was requested.
    pub requested: Duration,
    /// The status of the answer, once it has started.
    pub status: Option<u16>,
    /// Bytes of the body, as the server announced them.
    pub announced: Option<u64>,
    /// Points in time, each with the number of bytes of the body that had arrived.
    pub arrivals: Vec<(Duration, u64)>,
    /// When it was complete.
    pub completed: Option<Duration>,
    /// Its body, if it was to be stored and there was room for all of it.
    pub body: Option<Bytes>,
    /// Why it failed.
    pub error: Option<String>,
}

impl ObjectLoad {
    /// Bytes of the body that arrived.
    pub fn bytes(&self) -> u64 {
        self.arrivals.last().map_or(0, |(_, bytes)| *bytes)
    }

    /// When `percent` percent of it had arrived; `None` if it never had.
    pub fn reached(&self, percent: u64) -> Option<Duration> {
        let completed = self.completed?;
        let total = u128::from(self.bytes());
        let enough = |bytes: u64| u128::from(bytes) * 100 >= total * u128::from(percent);
        let first = self.arrivals.iter().find(|(_, bytes)| enough(*bytes));
        Some(first.map_or(completed, |(at, _)| *at))
    }

    /// The number of bytes that had arrived at this time.
    pub fn bytes_at(&self, at: Duration) -> u64 {
        let later = self.arrivals.partition_point(|(time, _)| *time <= at);
        later.checked_sub(1).and_then(|last| self.arrivals.get(last)).map_or(0, |(_, bytes)| *bytes)
    }

    /// Records that `bytes` more bytes arrived.
    pub(super) fn arrive(&mut self, at: Duration, bytes: u64) {
        let bytes = self.bytes() + bytes;
        match self.arrivals.last_mut() {
            Some(last) if last.0 == at => last.1 = bytes,
            _ => self.arrivals.push((at, bytes)),
        }
        if self.arrivals.len() > MOST_POINTS {
            let last = self.arrivals.len() - 1;
            let mut index = 0;
            self.arrivals.retain(|_| {
                index += 1;
                index % 2 == 0 || index > last
            });
        }
    }

    /// The integral of the missing fraction over time.
    fn missing(&self) -> Option<Duration> {
        let completed = self.completed?;
        let total = self.bytes();
        if total == 0 {
            return Some(completed);
        }
        let (mut before, mut missing) = (0, 0_u128);
        for (at, bytes) in &self.arrivals {
            missing += at.as_nanos() * u128::from(bytes - before);
            before = *bytes;
        }
        Some(Duration::from_nanos(u64::try_from(missing / u128::from(total)).unwrap_or(u64::MAX)))
    }
}

/// How a page arrived.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct PageLoad {
    /// The document.
    pub index: ObjectLoad,
    /// The embedded objects, in order of appearance.
    pub objects: Vec<ObjectLoad>,
    /// Embedded objects on other servers, which were not requested.
    pub left_out: Vec<String>,
    /// Embedded objects on the same server beyond the maximum number, which were not requested.
    pub beyond: Vec<String>,
}

impl PageLoad {
    /// Whether the whole page arrived.
    pub fn is_complete(&self) -> bool {
        self.shown().all(|object| object.completed.is_some()) && self.index.completed.is_some()
    }

    /// Page rendering time: from the request for the index to the last byte of the page.
    pub fn page_time(&self) -> Option<Duration> {
        let objects = self.objects.iter().chain([&self.index]);
        objects
            .map(|object| object.completed)
            .try_fold(Duration::ZERO, |most, at| Some(most.max(at?)))
    }

    /// pPage: time from the request for the index until at least this percentage of *each* object had
    /// arrived. If there are no objects, of the index.
    pub fn ppage(&self, percent: u64) -> Option<Duration> {
        let reached = self.shown().map(|object| object.reached(percent));
        reached.into_iter().try_fold(Duration::ZERO, |most, at| Some(most.max(at?)))
    }

    /// pRen: the same, from the request for the first object.
    pub fn pren(&self, percent: u64) -> Option<Duration> {
        let first = self.shown().map(|object| object.requested).min()?;
        Some(self.ppage(percent)?.saturating_sub(first))
    }

    /// The time for which the mean object was missing, weighted by its outstanding bytes: the area
    /// above the curve of the page's completeness.
    pub fn speed_index(&self) -> Option<Duration> {
        let (mut count, mut sum) = (0, Duration::ZERO);
        for object in self.shown() {
            sum += object.missing()?;
            count += 1;
        }
        Some(sum / count.max(1))
    }

    /// The objects to evaluate, or the index if there are none.
    fn shown(&self) -> Box<dyn Iterator<Item = &ObjectLoad> + '_> {
        if self.objects.is_empty() {
            return Box::new(std::iter::once(&self.index));
        }
        Box::new(self.objects.iter())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seconds(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    fn object(requested: u64, arrivals: &[(u64, u64)]) -> ObjectLoad {
        let mut object = ObjectLoad { requested: seconds(requested), ..ObjectLoad::default() };
        for (at, bytes) in arrivals {
            object.arrive(seconds(*at), *bytes);
        }
        object.completed = arrivals.last().map(|(at, _)| seconds(*at));
        object
    }

    #[test]
    fn a_page_is_as_good_as_its_last_object() {
        let page = PageLoad {
            index: object(0, &[(1, 500)]),
            objects: vec![
                object(1, &[(2, 25), (4, 25), (6, 50)]),
                object(1, &[(3, 24), (5, 26), (8, 50)]),
            ],
            left_out: Vec::new(),
            beyond: Vec::new(),
        };
        assert_eq!(page.page_time(), Some(seconds(8)));
        let ppage = [25, 50, 75, 100].map(|percent| page.ppage(percent).unwrap().as_secs());
        assert_eq!(ppage, [5, 5, 8, 8]);
        assert_eq!(page.pren(25), Some(seconds(4)));
        // (2 / 4 + 4 / 4 + 6 / 2 + 3 * 0.24 + 5 * 0.26 + 8 / 2) / 2
        assert_eq!(page.speed_index(), Some(Duration::from_millis(5260)));
        let first = &page.objects[0];
        assert_eq!([1, 2, 5, 9].map(|at| first.bytes_at(seconds(at))), [0, 25, 50, 100]);
        let mut broken = page.clone();
        broken.objects[1].completed = None;
        assert_eq!(
            (broken.page_time(), broken.ppage(25), broken.speed_index()),
            (None, None, None)
        );
        assert!(page.is_complete() && !broken.is_complete());
    }

    #[test]
    fn without_objects_the_index_is_the_page() {
        let page = PageLoad { index: object(0, &[(1, 5), (3, 5)]), ..PageLoad::default() };
        assert_eq!((page.ppage(50), page.ppage(51)), (Some(seconds(1)), Some(seconds(3))));
        assert_eq!(page.speed_index(), Some(seconds(2)));
        let empty = PageLoad { index: object(0, &[(1, 0)]), ..PageLoad::default() };
        assert_eq!((empty.ppage(25), empty.speed_index()), (Some(seconds(1)), Some(seconds(1))));
    }

    #[test]
    fn a_curve_has_a_bounded_number_of_points_and_its_end() {
        let mut object = ObjectLoad::default();
        (0..10_000).for_each(|at| object.arrive(seconds(at), 1));
        assert!(object.arrivals.len() <= MOST_POINTS, "{}", object.arrivals.len());
        assert_eq!(object.arrivals.last(), Some(&(seconds(9999), 10_000)));
        assert!(object.arrivals.is_sorted());
    }
}
