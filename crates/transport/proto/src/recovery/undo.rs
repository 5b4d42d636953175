//! Detects spurious retransmissions; a recovery with only spurious retransmissions can be undone. The
//! evidence: the peer reports a chunk as a duplicate (RFC 3708), or a timestamp echo identifies the earlier
//! transmission (RFC 3522, caro 2.4.4.3).

use crate::named::named;
use crate::options::words;

/// How a spurious recovery is recognised.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "kebab-case"))]
#[non_exhaustive]
pub enum Undo {
    /// Not at all.
    Off,
    /// Each retransmitted chunk is reported as a duplicate (RFC 3708).
    Duplicates,
    /// An echo shows that the first transmission was answered (Eifel, RFC 3522). Needs timestamps.
    Timestamps,
    /// By either.
    Both,
}

named!(Undo {
    Off = "off",
    Duplicates = "duplicates",
    Timestamps = "timestamps",
    Both = "both",
});
words!(Undo);

impl Undo {
    /// Whether duplicates count.
    pub(crate) fn by_duplicates(self) -> bool {
        matches!(self, Self::Duplicates | Self::Both)
    }

    /// Whether timestamps count.
    pub(crate) fn by_timestamps(self) -> bool {
        matches!(self, Self::Timestamps | Self::Both)
    }
}

/// The maximum number of recorded chunks per recovery. A recovery with more retransmissions is not undone
/// by duplicates: if so much of a window was wrongly considered lost, a restart does no more harm.
const MAX_CHUNKS: usize = 256;

/// A retransmitted chunk.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Again {
    tsn: u64,
    /// The packet that carried it before.
    packet: u64,
    /// Acknowledgements of later chunks showed the loss. If there was none, packets were reordered.
    pub(crate) reported: bool,
    /// The number of packets that had overtaken the chunk when it was acknowledged.
    pub(crate) late: u64,
}

impl Again {
    pub(crate) fn new(tsn: u64, packet: u64, reported: bool) -> Self {
        Self { tsn, packet, reported, late: 0 }
    }
}

/// The retransmissions since a path's windows were last lowered.
#[derive(Debug, Default)]
pub(crate) struct Episode {
    /// Retransmissions that are not known to be spurious, by TSN.
    again: Vec<Again>,
    /// Some retransmissions were spurious.
    any_needless: bool,
    /// There were more retransmissions than can be recorded.
    overflown: bool,
    /// The recovery began with fewer reports than usual.
    pub(crate) early: bool,
}

impl Episode {
    /// The index of a chunk, or the index at which it would be inserted.
    fn place(&self, tsn: u64) -> Result<usize, usize> {
        self.again.binary_search_by_key(&tsn, |again| again.tsn)
    }

    /// Records a retransmission.
    pub(crate) fn on_sent_again(&mut self, again: Again) {
        let Err(place) = self.place(again.tsn) else { return };
        if self.again.len() < MAX_CHUNKS {
            self.again.insert(place, again);
        } else {
            self.overflown = true;
        }
    }

    /// Records that a retransmitted chunk was acknowledged; `latest` is the last packet that has arrived.
    pub(crate) fn on_acked(&mut self, tsn: u64, latest: u64) {
        if let Ok(place) = self.place(tsn) {
            let again = &mut self.again[place];
            again.late = latest.saturating_sub(again.packet);
        }
    }

    /// Records that a retransmission was spurious. Returns it, once, if it was in this episode.
    pub(crate) fn on_needless(&mut self, tsn: u64) -> Option<Again> {
        let place = self.place(tsn).ok()?;
        self.any_needless = true;
        Some(self.again.remove(place))
    }

    /// Records that a chunk that was considered lost arrived before its retransmission.
    pub(crate) fn on_late(&mut self) {
        self.any_needless = true;
    }

    /// Whether there were retransmissions and all were spurious.
    pub(crate) fn was_needless(&self) -> bool {
        self.any_needless && self.again.is_empty() && !self.overflown
    }

    /// Whether a duplicate may still be reported.
    pub(crate) fn is_open(&self) -> bool {
        !self.again.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_retransmission_has_to_be_reported_once() {
        let mut episode = Episode::default();
        assert!(!episode.was_needless(), "nothing was sent");
        for tsn in [7, 9, 9] {
            episode.on_sent_again(Again::new(tsn, 100 + tsn, true));
        }
        episode.on_acked(9, 140);
        let mut late = |tsn| episode.on_needless(tsn).map(|again| again.late);
        assert_eq!([late(8), late(7), late(7)], [None, Some(0), None], "once");
        assert!(!episode.was_needless());
        assert_eq!(episode.on_needless(9).map(|again| again.late), Some(31));
        assert!(episode.was_needless() && !episode.is_open());
    }

    #[test]
    fn what_arrives_before_it_leaves_again_needs_no_report() {
        let mut episode = Episode::default();
        episode.on_late();
        assert!(episode.was_needless());
        episode.on_sent_again(Again::new(3, 5, true));
        assert!(!episode.was_needless() && episode.is_open());
    }

    #[test]
    fn a_recovery_of_very_many_is_not_undone_and_takes_no_memory() {
        let mut episode = Episode::default();
        for tsn in 0..2 * MAX_CHUNKS as u64 {
            episode.on_sent_again(Again::new(tsn, tsn, true));
        }
        assert_eq!(episode.again.len(), MAX_CHUNKS);
        let reported = (0..2 * MAX_CHUNKS as u64).filter_map(|tsn| episode.on_needless(tsn));
        assert_eq!(reported.count(), MAX_CHUNKS);
        assert!(!episode.was_needless());
    }
}
