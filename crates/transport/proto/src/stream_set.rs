//! Sets of streams that are reset together (RFC 6525).

/// Some streams, or all of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum StreamSet {
    /// All streams, also those that are added later.
    All,
    /// These streams, sorted and each once.
    Some(Vec<u16>),
}

impl Default for StreamSet {
    fn default() -> Self {
        Self::Some(Vec::new())
    }
}

impl StreamSet {
    /// The set that a list in a request means: an empty list stands for all streams.
    pub(crate) fn listed(streams: impl IntoIterator<Item = u16>) -> Self {
        let mut streams: Vec<u16> = streams.into_iter().collect();
        if streams.is_empty() {
            return Self::All;
        }
        streams.sort_unstable();
        streams.dedup();
        Self::Some(streams)
    }

    /// The list for a request: empty for all streams.
    pub(crate) fn list(&self) -> &[u16] {
        match self {
            Self::All => &[],
            Self::Some(streams) => streams,
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        matches!(self, Self::Some(streams) if streams.is_empty())
    }

    pub(crate) fn has(&self, stream: u16) -> bool {
        match self {
            Self::All => true,
            Self::Some(streams) => streams.binary_search(&stream).is_ok(),
        }
    }

    /// The highest stream that the set names.
    pub(crate) fn highest(&self) -> Option<u16> {
        self.list().last().copied()
    }

    /// Whether all streams of `other` are in the set.
    pub(crate) fn covers(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::All, _) => true,
            (Self::Some(_), Self::All) => false,
            (Self::Some(_), Self::Some(streams)) => streams.iter().all(|stream| self.has(*stream)),
        }
    }

    /// Whether a stream is in both sets.
    pub(crate) fn meets(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::All, other) | (other, Self::All) => !other.is_empty(),
            (Self::Some(_), Self::Some(streams)) => streams.iter().any(|stream| self.has(*stream)),
        }
    }

    /// Adds the streams of `other`.
    pub(crate) fn add(&mut self, other: &Self) {
        match (&mut *self, other) {
            (Self::All, _) => {}
            (_, Self::All) => *self = Self::All,
            (Self::Some(streams), Self::Some(more)) => {
                streams.extend(more);
                streams.sort_unstable();
                streams.dedup();
            }
        }
    }

    /// Removes the streams of `other`. Of all streams, only all can be removed.
    pub(crate) fn remove(&mut self, other: &Self) {
        match (&mut *self, other) {
            (_, Self::All) => *self = Self::default(),
            (Self::All, Self::Some(_)) => {}
            (Self::Some(streams), Self::Some(_)) => streams.retain(|stream| !other.has(*stream)),
        }
    }

    /// Takes out the first `most` streams, or all if the set is that of all streams.
    pub(crate) fn take(&mut self, most: usize) -> Self {
        match self {
            Self::Some(streams) if streams.len() > most => {
                let rest = streams.split_off(most);
                Self::Some(std::mem::replace(streams, rest))
            }
            _ => std::mem::take(self),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn some(streams: &[u16]) -> StreamSet {
        StreamSet::Some(streams.to_vec())
    }

    #[test]
    fn an_empty_list_is_all_streams_and_no_stream_is_in_twice() {
        assert_eq!(StreamSet::listed([]), StreamSet::All);
        assert_eq!(StreamSet::listed([7, 1, 7, 1]), some(&[1, 7]));
        assert_eq!(StreamSet::All.list(), [0; 0]);
        assert!(StreamSet::default().is_empty() && !StreamSet::All.is_empty());
        assert_eq!(some(&[1, 7]).highest(), Some(7));
    }

    #[test]
    fn sets_are_compared() {
        let (all, none) = (StreamSet::All, StreamSet::default());
        assert!(all.covers(&all) && all.covers(&some(&[3])) && !some(&[3]).covers(&all));
        assert!(some(&[1, 2, 3]).covers(&some(&[1, 3])) && !some(&[1]).covers(&some(&[1, 3])));
        assert!(all.meets(&all) && all.meets(&some(&[0])) && some(&[0]).meets(&all));
        assert!(!all.meets(&none) && !none.meets(&all) && !none.meets(&none));
        assert!(some(&[1, 2]).meets(&some(&[2, 3])) && !some(&[1, 2]).meets(&some(&[3])));
    }

    #[test]
    fn streams_come_and_go() {
        let mut set = some(&[1, 5]);
        set.add(&some(&[3, 5]));
        assert_eq!(set, some(&[1, 3, 5]));
        set.remove(&some(&[3]));
        assert_eq!(set, some(&[1, 5]));
        assert_eq!((set.take(1), set.take(9)), (some(&[1]), some(&[5])));
        assert!(set.is_empty());
        set.add(&StreamSet::All);
        set.remove(&some(&[3]));
        assert_eq!(set, StreamSet::All);
        assert_eq!(set.take(1), StreamSet::All);
        assert!(set.is_empty());
    }
}
