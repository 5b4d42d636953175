//! Assigns transactions to streams.

use std::collections::VecDeque;

/// The stream for a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Placement {
    /// The next free one.
    #[default]
    NextFree,
    /// Streams in rotation, in the order of the transactions.
    RoundRobin,
    /// The one with the fewest known outstanding bytes.
    SmallestPending,
}

/// A waiting transaction.
#[derive(Clone, Copy, Debug)]
pub(super) struct Attempt {
    pub(super) index: usize,
    /// It was started before, on a stream that ended without an answer.
    pub(super) again: bool,
    /// Request the whole file, even if a part was kept.
    pub(super) fresh: bool,
    /// Bytes that were kept before its first range arrived.
    pub(super) begun_at: Option<u64>,
}

impl Attempt {
    fn first(index: usize) -> Self {
        Self { index, again: false, fresh: false, begun_at: None }
    }
}

/// Waiting transactions, and the load of each stream.
#[derive(Debug)]
pub(super) struct Table {
    placement: Placement,
    depth: usize,
    /// For any stream.
    queue: VecDeque<Attempt>,
    rows: Vec<Row>,
    /// Total length of answers so far, and their number, to estimate unknown ones.
    lengths: (u64, u64),
}

/// One stream.
#[derive(Debug, Default)]
struct Row {
    /// For this stream only.
    queue: VecDeque<Attempt>,
    /// Requests that were sent and not answered.
    asked: usize,
    /// Known outstanding bytes of the answer in progress.
    coming: Option<u64>,
}

impl Table {
    pub(super) fn new(placement: Placement, rows: usize, depth: usize, count: usize) -> Self {
        let mut table = Self {
            placement,
            depth,
            queue: VecDeque::new(),
            rows: (0..rows).map(|_| Row::default()).collect(),
            lengths: (0, 0),
        };
        for index in 0..count {
            let attempt = Attempt::first(index);
            match table.rows.get_mut(index % rows.max(1)) {
                Some(row) if placement == Placement::RoundRobin => row.queue.push_back(attempt),
                _ => table.queue.push_back(attempt),
            }
        }
        table
    }

    /// The next transaction for a stream; `None` if there is none for it now.
    pub(super) fn take(&mut self, row: usize) -> Option<Attempt> {
        let own = self.rows.get_mut(row)?;
        if own.asked >= self.depth {
            return None;
        }
        if let Some(attempt) = own.queue.pop_front() {
            return Some(attempt);
        }
        if self.placement == Placement::SmallestPending && !self.is_smallest(row) {
            return None;
        }
        self.queue.pop_front()
    }

    /// Whether no other available stream has fewer bytes outstanding.
    fn is_smallest(&self, row: usize) -> bool {
        let own = self.pending(row);
        let free = (0..self.rows.len()).filter(|other| self.rows[*other].asked < self.depth);
        free.into_iter().all(|other| self.pending(other) >= own)
    }

    /// Bytes that a stream still has to carry. An answer that has not started is assumed to have
    /// average length.
    fn pending(&self, row: usize) -> u64 {
        let Some(row) = self.rows.get(row) else { return u64::MAX };
        let usual = self.lengths.0.checked_div(self.lengths.1).unwrap_or(0).max(1);
        let begun = usize::from(row.coming.is_some());
        row.coming.unwrap_or(0) + usual * (row.asked.saturating_sub(begun)) as u64
    }

    pub(super) fn put_back(&mut self, row: usize, attempt: Attempt) {
        match self.rows.get_mut(row) {
            Some(row) if self.placement == Placement::RoundRobin => row.queue.push_front(attempt),
            _ => self.queue.push_front(attempt),
        }
    }

    /// Records that a request was sent.
    pub(super) fn asked(&mut self, row: usize) {
        if let Some(row) = self.rows.get_mut(row) {
            row.asked += 1;
        }
    }

    /// Records that an answer has started; `length` is the length of its body in bytes, if known.
    pub(super) fn expects(&mut self, row: usize, length: Option<u64>) {
        if let Some(row) = self.rows.get_mut(row) {
            row.coming = Some(length.unwrap_or(0));
        }
        if let Some(length) = length {
            self.lengths = (self.lengths.0.saturating_add(length), self.lengths.1 + 1);
        }
    }

    /// Records that `bytes` more bytes of it arrived.
    pub(super) fn received(&mut self, row: usize, bytes: u64) {
        if let Some(coming) = self.rows.get_mut(row).and_then(|row| row.coming.as_mut()) {
            *coming = coming.saturating_sub(bytes);
        }
    }

    /// Records that an answer is complete.
    pub(super) fn answered(&mut self, row: usize) {
        if let Some(row) = self.rows.get_mut(row) {
            row.asked = row.asked.saturating_sub(1);
            row.coming = None;
        }
    }

    /// Resets the state of a stream that has ended; another one will replace it.
    pub(super) fn forget(&mut self, row: usize) {
        if let Some(row) = self.rows.get_mut(row) {
            (row.asked, row.coming) = (0, None);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn take(table: &mut Table, row: usize) -> Option<usize> {
        let attempt = table.take(row)?;
        table.asked(row);
        Some(attempt.index)
    }

    #[test]
    fn streams_in_turn_have_their_own_transactions() {
        let mut table = Table::new(Placement::RoundRobin, 3, 2, 7);
        assert_eq!([take(&mut table, 1), take(&mut table, 1)], [Some(1), Some(4)]);
        assert_eq!(take(&mut table, 1), None, "two wait for their answers");
        table.answered(1);
        assert_eq!(take(&mut table, 1), None, "it has no third one");
        assert_eq!([take(&mut table, 0), take(&mut table, 0)], [Some(0), Some(3)]);
        table.forget(0);
        table.put_back(0, Attempt { again: true, ..Attempt::first(3) });
        assert_eq!([take(&mut table, 0), take(&mut table, 0)], [Some(3), Some(6)]);
    }

    #[test]
    fn the_stream_with_the_least_to_come_is_next() {
        let mut table = Table::new(Placement::SmallestPending, 2, 3, 9);
        assert_eq!([take(&mut table, 0), take(&mut table, 1)], [Some(0), Some(1)]);
        table.expects(0, Some(1000));
        table.expects(1, Some(200));
        assert_eq!(take(&mut table, 0), None);
        assert_eq!(take(&mut table, 1), Some(2), "600 are usual, 800 in all");
        assert_eq!(take(&mut table, 1), Some(3));
        assert_eq!(take(&mut table, 1), None, "it has three");
        assert_eq!(take(&mut table, 0), Some(4), "the one with room");
        table.received(1, 200);
        table.answered(1);
        table.answered(1);
        table.answered(1);
        assert_eq!([take(&mut table, 0), take(&mut table, 1)], [None, Some(5)]);
    }

    #[test]
    fn whoever_is_free_is_next() {
        let mut table = Table::new(Placement::NextFree, 2, 1, 3);
        assert_eq!([take(&mut table, 1), take(&mut table, 1)], [Some(0), None]);
        assert_eq!(take(&mut table, 0), Some(1));
        table.answered(1);
        assert_eq!(take(&mut table, 1), Some(2));
    }
}
