//! Paths by name: identifiers that stay, and lists with one entry for each path.
//!
//! A path keeps its identifier for as long as it exists, and no other path of the association ever
//! has it. So whatever speaks of a path, a chunk in flight, a timer, a heartbeat, a statistic, means
//! the same one, whichever paths came and went since.

use std::fmt;
use std::ops::{Index, IndexMut};

/// Paths that an association has at the most, whatever addresses a peer lists.
pub(crate) const MAX_PATHS: usize = 16;

/// Identifies a path, a pair of a local and a remote address, within its association: a number is
/// never given to two paths.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(transparent))]
pub struct PathId(pub(crate) u16);

impl PathId {
    /// The path that an association begins with; it may be gone.
    pub const FIRST: Self = Self(0);

    /// The number: paths are counted from 0 in the order in which they came to be. As long as none
    /// has gone, it is the place in [`Statistics::paths`](crate::Statistics::paths);
    /// [`Statistics::path`](crate::Statistics::path) finds it there at any time.
    pub const fn number(self) -> u16 {
        self.0
    }
}

impl fmt::Display for PathId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// What belongs to a path.
pub(crate) trait OfPath {
    /// Whose it is.
    fn id(&self) -> PathId;
}

/// An entry for each path, in the order of their identifiers.
#[derive(Debug)]
pub(crate) struct PerPath<T>(Vec<T>);

impl<T> Default for PerPath<T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<T: OfPath> PerPath<T> {
    /// Where a path's entry stands: at its number, unless an earlier path has gone.
    #[inline]
    pub(crate) fn place(&self, id: PathId) -> Option<usize> {
        let number = usize::from(id.0);
        match self.0.get(number) {
            Some(entry) if entry.id() == id => Some(number),
            _ => self.search(id),
        }
    }

    #[cold]
    fn search(&self, id: PathId) -> Option<usize> {
        self.0.binary_search_by_key(&id, T::id).ok()
    }

    #[inline]
    pub(crate) fn get(&self, id: PathId) -> Option<&T> {
        self.0.get(self.place(id)?)
    }

    #[inline]
    pub(crate) fn get_mut(&mut self, id: PathId) -> Option<&mut T> {
        let place = self.place(id)?;
        self.0.get_mut(place)
    }

    /// Whether there is an entry for a path.
    pub(crate) fn has(&self, id: PathId) -> bool {
        self.place(id).is_some()
    }

    /// Appends the entry of a path that came after all others.
    pub(crate) fn push(&mut self, entry: T) {
        debug_assert!(self.0.last().is_none_or(|last| last.id() < entry.id()));
        self.0.push(entry);
    }

    /// Takes the entry of a path out.
    pub(crate) fn remove(&mut self, id: PathId) -> Option<T> {
        self.place(id).map(|place| self.0.remove(place))
    }

    pub(crate) fn clear(&mut self) {
        self.0.clear();
    }

    /// Makes room for so many entries, and not for more.
    pub(crate) fn reserve_for(&mut self, count: usize) {
        self.0.reserve_exact(count.saturating_sub(self.0.len()));
    }

    /// Gives memory back that is not used.
    pub(crate) fn shrink_to_fit(&mut self) {
        self.0.shrink_to_fit();
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    #[inline]
    pub(crate) fn iter(&self) -> std::slice::Iter<'_, T> {
        self.0.iter()
    }

    #[inline]
    pub(crate) fn iter_mut(&mut self) -> std::slice::IterMut<'_, T> {
        self.0.iter_mut()
    }

    /// The paths that there are.
    #[inline]
    pub(crate) fn ids(&self) -> impl DoubleEndedIterator<Item = PathId> + '_ {
        self.0.iter().map(T::id)
    }

    /// The paths that there are now, for a walk that changes what belongs to them.
    #[inline]
    pub(crate) fn ids_now(&self) -> Ids {
        let mut ids = Ids { ids: [PathId::FIRST; MAX_PATHS], next: 0, count: 0 };
        for (place, id) in ids.ids.iter_mut().zip(self.ids()) {
            *place = id;
            ids.count += 1;
        }
        ids
    }

    /// All paths in turn, first the one after `last`, and `last` at the end, if it is there.
    pub(crate) fn in_turn_after(
        &self,
        last: PathId,
    ) -> impl DoubleEndedIterator<Item = PathId> + '_ {
        let next = match self.0.get(usize::from(last.0)) {
            Some(entry) if entry.id() == last => usize::from(last.0) + 1,
            _ => self.0.partition_point(|entry| entry.id() <= last),
        };
        let (before, after) = self.0.split_at(next);
        after.iter().chain(before).map(T::id)
    }
}

/// Identifiers of paths.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ids {
    ids: [PathId; MAX_PATHS],
    next: u8,
    count: u8,
}

impl Iterator for Ids {
    type Item = PathId;

    #[inline]
    fn next(&mut self) -> Option<PathId> {
        let id = (self.next < self.count).then(|| self.ids[usize::from(self.next)])?;
        self.next += 1;
        Some(id)
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
        assert_eq!((list[PathId(3)].1, list.place(PathId(3))), ('d', Some(3)));
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
