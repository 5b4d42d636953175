//! A map with a bounded number of entries: the one that was not used for longest yields to a new one.

use std::collections::HashMap;
use std::hash::Hash;

/// What was used recently.
#[derive(Debug)]
pub(crate) struct Recent<K, V> {
    entries: HashMap<K, (u64, V)>,
    most: usize,
    /// Counts uses.
    clock: u64,
}

impl<K: Clone + Eq + Hash, V> Recent<K, V> {
    /// At most `most` entries, at least one.
    pub(crate) fn new(most: usize) -> Self {
        Self { entries: HashMap::new(), most: most.max(1), clock: 0 }
    }

    /// Returns an entry and notes that it is used.
    pub(crate) fn get(&mut self, key: &K) -> Option<&mut V> {
        self.clock += 1;
        let (used, value) = self.entries.get_mut(key)?;
        *used = self.clock;
        Some(value)
    }

    /// Adds or replaces an entry. Returns the entry that had to yield to it.
    pub(crate) fn insert(&mut self, key: K, value: V) -> Option<(K, V)> {
        let mut evicted = None;
        if self.entries.len() >= self.most && !self.entries.contains_key(&key) {
            // The map is small, so looking through it costs little.
            let oldest = self.entries.iter().min_by_key(|(_, (used, _))| *used);
            let oldest = oldest.map(|(key, _)| key.clone());
            evicted = oldest.and_then(|key| self.remove(&key).map(|value| (key, value)));
        }
        self.clock += 1;
        self.entries.insert(key, (self.clock, value));
        evicted
    }

    pub(crate) fn remove(&mut self, key: &K) -> Option<V> {
        self.entries.remove(key).map(|(_, value)| value)
    }

    pub(crate) fn keys(&self) -> impl Iterator<Item = &K> {
        self.entries.keys()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_used_yields() {
        let mut recent = Recent::new(2);
        assert_eq!(recent.insert(1, 'a'), None);
        assert_eq!(recent.insert(2, 'b'), None);
        assert_eq!(recent.get(&1), Some(&mut 'a'));
        assert_eq!(recent.insert(2, 'c'), None, "replaced, not added");
        assert_eq!(recent.get(&1), Some(&mut 'a'));
        assert_eq!(recent.insert(3, 'd'), Some((2, 'c')));
        assert_eq!(recent.keys().count(), 2);
        assert_eq!(recent.get(&2), None);
        assert_eq!(recent.remove(&3), Some('d'));
    }
}
