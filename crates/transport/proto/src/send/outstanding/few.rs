//! The number of outstanding packets if they are few, and the chunks sent last.

use super::{Outstanding, Past};
use crate::per_path::PathId;

/// Packets are counted up to this number.
const MOST: usize = 4;

impl Outstanding {
    /// The number of packets of a path that are not cumulatively acknowledged, determined from
    /// their chunks; 4 means 4 or more. Examines no more chunks than four packets carry.
    pub(crate) fn few_packets(&self, path: PathId) -> usize {
        if self.packets(path) >= MOST {
            return MOST;
        }
        let (mut known, mut count) = ([0; MOST], 0);
        for slot in &self.slots {
            if slot.path != path || slot.past.has(Past::ELSEWHERE) {
                continue;
            }
            if !known[..count].contains(&slot.packet) {
                known[count] = slot.packet;
                count += 1;
            }
            if count == MOST {
                break;
            }
        }
        count
    }

    /// The chunk in flight on a path that was sent last.
    pub(crate) fn latest(&self, path: PathId) -> Option<u64> {
        let flight = &self.flights[path];
        let ends = [flight.order.ends, flight.uncounted.ends];
        let tails = ends.into_iter().flatten().map(|(_, tail)| tail);
        tails.max_by_key(|tsn| self.get(*tsn).map(|slot| (slot.packet, *tsn)))
    }

    /// The chunks that path `from` lost and that wait to be retransmitted.
    pub(crate) fn lost_by(&self, from: PathId) -> impl Iterator<Item = u64> + '_ {
        let waiting = self.flights.iter().flat_map(|flight| flight.lost.iter().copied());
        waiting.filter(move |tsn| self.retransmission(*tsn).is_some_and(|known| known.from == from))
    }
}
