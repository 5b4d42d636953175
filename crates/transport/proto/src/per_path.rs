//! Path identifiers that never change, and lists with an entry for each path.
//!
//! A path keeps its identifier as long as it exists, and no other path of the association ever gets
//! it. So a chunk in flight, a timer, a heartbeat or a statistic always refers to the same path,
//! whichever paths were added or removed meanwhile.

use std::fmt;
use std::ops::{Index, IndexMut, Range};

/// Maximum number of paths of an association, however many addresses the peer lists.
pub(crate) const MAX_PATHS: usize = 16;

/// Identifies a path, which is a pair of a local and a remote address, within its association. An
/// identifier is never used twice.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(transparent))]
pub struct PathId(pub(crate) u16);

impl PathId {
    /// The path with which an association begins; it may have been removed.
    pub const FIRST: Self = Self(0);

    /// The number: paths are numbered from 0 in the order in which they were created. Until a path
    /// is removed, the number is the index in [`Statistics::paths`](crate::Statistics::paths);
    /// [`Statistics::path`](crate::Statistics::path) always finds the path there.
    pub const fn number(self) -> u16 {
        self.0
    }
}

impl fmt::Display for PathId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// An entry that belongs to a path.
pub(crate) trait OfPath {
    /// The path.
    fn id(&self) -> PathId;
}

/// An entry for each path, in the order of their identifiers.
#[derive(Debug)]
pub(crate) struct PerPath<T> {
    /// Entries at the index of their path's number. Every packet causes several lookups, which are
    /// plain indexing, without reading the entry.
    dense: Vec<T>,
    /// All entries, once a path other than the last one was removed; then `dense` is empty.
    #[expect(
        clippy::box_collection,
        reason = "most associations never have it, and have three such lists"
    )]
    sparse: Option<Box<Vec<T>>>,
}

impl<T> Default for PerPath<T> {
    fn default() -> Self {
        Self { dense: Vec::new(), sparse: None }
    }
}

impl<T: OfPath> PerPath<T> {
    fn all(&self) -> &Vec<T> {
        self.sparse.as_deref().unwrap_or(&self.dense)
    }

    fn all_mut(&mut self) -> &mut Vec<T> {
        self.sparse.as_deref_mut().unwrap_or(&mut self.dense)
    }

    /// The index of a path's entry. For a path without an entry, an index past the end.
    pub(crate) fn place(&self, id: PathId) -> usize {
        match &self.sparse {
            Some(list) => list.binary_search_by_key(&id, T::id).unwrap_or(usize::MAX),
            None => usize::from(id.0),
        }
    }

    #[inline]
    pub(crate) fn get(&self, id: PathId) -> Option<&T> {
        self.dense.get(usize::from(id.0)).or_else(|| self.search(id))
    }

    #[cold]
    fn search(&self, id: PathId) -> Option<&T> {
        self.all().get(self.place(id))
    }

    #[inline]
    pub(crate) fn get_mut(&mut self, id: PathId) -> Option<&mut T> {
        let number = usize::from(id.0);
        if number < self.dense.len() {
            return self.dense.get_mut(number);
        }
        self.search_mut(id)
    }

    #[cold]
    fn search_mut(&mut self, id: PathId) -> Option<&mut T> {
        let place = self.place(id);
        self.all_mut().get_mut(place)
    }

    /// Whether there is an entry for a path.
    pub(crate) fn has(&self, id: PathId) -> bool {
        self.get(id).is_some()
    }

    fn become_sparse(&mut self) {
        if self.sparse.is_none() {
            self.sparse = Some(Box::new(std::mem::take(&mut self.dense)));
        }
    }

    /// Appends the entry of the newest path.
    pub(crate) fn push(&mut self, entry: T) {
        debug_assert!(self.all().last().is_none_or(|last| last.id() < entry.id()));
        if usize::from(entry.id().0) != self.len() {
            self.become_sparse();
        }
        self.all_mut().push(entry);
    }

    /// Removes the entry of a path.
    pub(crate) fn remove(&mut self, id: PathId) -> Option<T> {
        let place = self.place(id);
        if place >= self.len() {
            return None;
        }
        if place + 1 < self.len() {
            self.become_sparse();
        }
        Some(self.all_mut().remove(place))
    }

    pub(crate) fn clear(&mut self) {
        self.sparse = None;
        self.dense.clear();
    }

    /// Reserves room for exactly `count` entries.
    pub(crate) fn reserve_for(&mut self, count: usize) {
        let more = count.saturating_sub(self.len());
        self.all_mut().reserve_exact(more);
    }

    /// Releases unused memory.
    pub(crate) fn shrink_to_fit(&mut self) {
        self.all_mut().shrink_to_fit();
    }

    pub(crate) fn len(&self) -> usize {
        self.all().len()
    }

    #[inline]
    pub(crate) fn iter(&self) -> std::slice::Iter<'_, T> {
        self.all().iter()
    }

    #[inline]
    pub(crate) fn iter_mut(&mut self) -> std::slice::IterMut<'_, T> {
        self.all_mut().iter_mut()
    }

    /// The existing paths.
    #[inline]
    pub(crate) fn ids(&self) -> impl DoubleEndedIterator<Item = PathId> + '_ {
        self.all().iter().map(T::id)
    }

    /// The existing paths as a copy, for loops that change the state of paths.
    #[inline]
    pub(crate) fn ids_now(&self) -> Ids {
        if self.sparse.is_none() {
            return Ids::Dense(0..u16::try_from(self.len()).unwrap_or(u16::MAX));
        }
        let (mut ids, mut count) = ([PathId::FIRST; MAX_PATHS], 0);
        for (place, id) in ids.iter_mut().zip(self.ids()) {
            *place = id;
            count += 1;
        }
        Ids::Sparse { ids, next: 0, count }
    }

    /// All paths in rotation, beginning with the one after `last`; `last` itself comes at the end,
    /// if it exists.
    pub(crate) fn in_turn_after(
        &self,
        last: PathId,
    ) -> impl DoubleEndedIterator<Item = PathId> + '_ {
        let next = match self.all().get(usize::from(last.0)) {
            Some(entry) if entry.id() == last => usize::from(last.0) + 1,
            _ => self.all().partition_point(|entry| entry.id() <= last),
        };
        let (before, after) = self.all().split_at(next);
        after.iter().chain(before).map(T::id)
    }
}

/// Identifiers of paths.
#[derive(Clone, Debug)]
pub(crate) enum Ids {
    /// All of these.
    Dense(Range<u16>),
    /// Those before `count` and not before `next`.
    Sparse { ids: [PathId; MAX_PATHS], next: u8, count: u8 },
}

impl Iterator for Ids {
    type Item = PathId;

    #[inline]
    fn next(&mut self) -> Option<PathId> {
        match self {
            Self::Dense(numbers) => numbers.next().map(PathId),
            Self::Sparse { ids, next, count } => {
                let id = (*next < *count).then(|| ids[usize::from(*next)])?;
                *next += 1;
                Some(id)
            }
        }
    }
}

#[cold]
#[track_caller]
fn gone(id: PathId) -> ! {
    panic!("path {id} is not one of the association's")
}

impl<T: OfPath> Index<PathId> for PerPath<T> {
    type Output = T;

    #[inline]
    #[track_caller]
    fn index(&self, id: PathId) -> &T {
        match self.get(id) {
            Some(entry) => entry,
            None => gone(id),
        }
    }
}

impl<T: OfPath> IndexMut<PathId> for PerPath<T> {
    #[inline]
    #[track_caller]
    fn index_mut(&mut self, id: PathId) -> &mut T {
        match self.get_mut(id) {
            Some(entry) => entry,
            None => gone(id),
        }
    }
}

impl<T: OfPath> Extend<T> for PerPath<T> {
    fn extend<I: IntoIterator<Item = T>>(&mut self, entries: I) {
        entries.into_iter().for_each(|entry| self.push(entry));
    }
}

impl<T: OfPath> FromIterator<T> for PerPath<T> {
    fn from_iter<I: IntoIterator<Item = T>>(entries: I) -> Self {
        let mut list = Self::default();
        list.extend(entries);
        list
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    impl OfPath for (u16, char) {
        fn id(&self) -> PathId {
            PathId(self.0)
        }
    }

    fn numbers(ids: impl Iterator<Item = PathId>) -> Vec<u16> {
        ids.map(PathId::number).collect()
    }

    #[test]
    fn an_entry_is_found_by_its_name_whichever_have_gone() {
        let mut list: PerPath<(u16, char)> = ('a'..='f').zip(0..).map(|(c, n)| (n, c)).collect();
        assert_eq!((list[PathId(3)].1, list.place(PathId(3))), ('d', 3));
        list.remove(PathId(1));
        assert_eq!(list.remove(PathId(4)), Some((4, 'e')));
        list.push((9, 'g'));
        assert_eq!(numbers(list.ids()), [0, 2, 3, 5, 9]);
        assert_eq!(numbers(list.ids_now()), [0, 2, 3, 5, 9]);
        for (id, entry) in [(0, 'a'), (2, 'c'), (3, 'd'), (5, 'f'), (9, 'g')] {
            assert_eq!(list.get_mut(PathId(id)).map(|entry| entry.1), Some(entry));
        }
        for id in [1, 4, 6, 10] {
            assert!(list.get(PathId(id)).is_none());
        }
    }

    #[test]
    fn turns_go_on_from_a_path_that_has_gone() {
        let list: PerPath<(u16, char)> =
            [0, 2, 3, 5].map(|number| (number, 'x')).into_iter().collect();
        assert_eq!(numbers(list.in_turn_after(PathId(2))), [3, 5, 0, 2]);
        assert_eq!(numbers(list.in_turn_after(PathId(5))), [0, 2, 3, 5]);
        assert_eq!(numbers(list.in_turn_after(PathId(1))), [2, 3, 5, 0]);
        assert_eq!(numbers(list.in_turn_after(PathId(7))), [0, 2, 3, 5]);
        assert_eq!(numbers(list.in_turn_after(PathId(3)).rev()), [3, 2, 0, 5]);
    }
}
