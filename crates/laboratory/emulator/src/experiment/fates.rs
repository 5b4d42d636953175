//! Checks that the fates of packets are the same in all runs, and that displaced packets arrive where their pattern
//! puts them.

use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use anabranch_lab::metrics::Metrics;

use super::captured::{Captured, packets};

/// Fates of packets, by pattern and place.
type Fates = BTreeMap<String, String>;

/// The fates of the first run of each point.
#[derive(Default)]
pub(super) struct First(Mutex<HashMap<String, Fates>>);

/// A packet in a log.
struct Fate<'a> {
    number: usize,
    passed: bool,
    displaced: Option<u64>,
    place: &'a str,
    words: String,
}

impl First {
    /// Compares the log and the capture of a run with those of the point's first run. `way` is the direction of the
    /// link as named in the log; `from` is the address of the host that sends in that direction.
    pub(super) fn compare(
        &self,
        point: &str,
        (log, capture): (&Path, &Path),
        (way, from): (&str, IpAddr),
        metrics: &mut Metrics,
    ) -> Result<(), String> {
        let failed = |error: std::io::Error| format!("what a run wrote cannot be read: {error}");
        let text = std::fs::read_to_string(log).map_err(failed)?;
        let all: Vec<Fate<'_>> = text.lines().filter_map(|line| fate(line, way)).collect();
        let fates: Fates =
            all.iter().map(|fate| (fate.place.to_owned(), fate.words.clone())).collect();
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(first) = known.get(point) {
            let both = || fates.iter().filter_map(|(place, now)| Some((first.get(place)?, now)));
            metrics.set("fates_compared", both().count() as f64);
            let different = both().filter(|(then, now)| then != now).count();
            metrics.set("fates_different", different as f64);
        } else {
            known.insert(point.to_owned(), fates);
        }
        drop(known);
        let bytes = std::fs::read(capture).map_err(failed)?;
        let (asked, exact) = displaced(&all, &packets(&bytes, from));
        metrics.set("displaced_asked", asked as f64);
        metrics.set("displaced_exact", exact as f64);
        Ok(())
    }
}

/// Parses a line of a log. `None` if no pattern's filter selected the packet.
fn fate<'a>(line: &'a str, way: &str) -> Option<Fate<'a>> {
    let words: Vec<&str> = line.split(' ').collect();
    let [on, number, _, _, _, _, _, fate, by, effects, place] = words[..] else { return None };
    if on != way || place == "-" || fate == "underway" {
        return None;
    }
    // Leave out lateness: it depends on when other packets came.
    let kept: Vec<&str> = effects.split(',').filter(|word| *word != "late").collect();
    let displaced = kept.iter().find_map(|word| word.strip_prefix("displaced=")?.parse().ok());
    Some(Fate {
        number: number.parse().ok()?,
        passed: fate == "passed",
        displaced,
        place,
        words: format!("{fate} {by} {}", kept.join(",")),
    })
}

/// Number of displaced packets that arrived, and of those that arrived directly after the last packet that should
/// overtake them. Packets are identified by their bytes, which are unique.
fn displaced(all: &[Fate<'_>], [sent, received]: &[Vec<Captured<'_>>; 2]) -> (usize, usize) {
    let place = |fate: &Fate<'_>| fate.place.split(':').nth(1)?.parse::<u64>().ok();
    let bytes_of = |number: usize| sent.get(number.checked_sub(1)?).map(|packet| packet.bytes);
    let by_place: HashMap<u64, &[u8]> =
        all.iter().filter_map(|fate| Some((place(fate)?, bytes_of(fate.number)?))).collect();
    let chosen: HashMap<&[u8], ()> = by_place.values().map(|bytes| (*bytes, ())).collect();
    let arrived: Vec<&[u8]> = received
        .iter()
        .map(|packet| packet.bytes)
        .filter(|bytes| chosen.contains_key(bytes))
        .collect();
    let at: HashMap<&[u8], usize> =
        arrived.iter().enumerate().map(|(index, bytes)| (*bytes, index)).collect();
    let wanted = all.iter().filter(|fate| fate.passed && fate.displaced.is_some());
    let (mut asked, mut exact) = (0, 0);
    for fate in wanted {
        let (Some(own), Some(by)) = (place(fate), fate.displaced) else { continue };
        // After the last packets there is nothing to overtake.
        let Some(last) = by_place.get(&(own + by)) else { continue };
        asked += 1;
        let own = by_place.get(&own).and_then(|bytes| at.get(bytes)).copied();
        let before = at.get(last).copied();
        exact += usize::from(own.is_some() && own == before.map(|at| at + 1));
    }
    (asked, exact)
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOG: &str = "# comment\n\
        l0> 1 tcp,a:1,b:2 1 0 5 60 passed link - -\n\
        l0> 2 tcp,a:1,b:2 2 1 9 100 passed pattern:p displaced=1,late 1:1\n\
        l0> 3 tcp,a:1,b:2 3 2 8 100 passed link - 1:2\n\
        l0> 4 tcp,a:1,b:2 4 3 - 100 lost pattern:p - 1:3\n\
        l0< 1 tcp,b:2,a:1 1 0 5 60 passed link - 1:1\n";

    fn capture(received: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        anabranch_pcapng::section_header(&mut out);
        for name in ["a", "b"] {
            anabranch_pcapng::interface_description(&mut out, name);
        }
        let packet = |mark: u8| {
            let mut packet = vec![0x45; 30];
            packet[12..16].copy_from_slice(&[10, 0, 0, 1]);
            packet[29] = mark;
            packet
        };
        for mark in 1..=4 {
            anabranch_pcapng::raw_packet(&mut out, 0, 7, &packet(mark), "sent");
        }
        for mark in received {
            anabranch_pcapng::raw_packet(&mut out, 1, 7, &packet(*mark), "");
        }
        out
    }

    #[test]
    fn displaced_packets_are_looked_for_among_those_that_arrived() {
        let directory = tempfile::tempdir().unwrap();
        let (log, file) = (directory.path().join("log"), directory.path().join("capture"));
        let first = First::default();
        let from = IpAddr::from([10, 0, 0, 1]);
        let run = |text: &str, received: &[u8]| {
            std::fs::write(&log, text).unwrap();
            std::fs::write(&file, capture(received)).unwrap();
            let mut metrics = Metrics::default();
            first.compare("p", (&log, &file), ("l0>", from), &mut metrics).unwrap();
            ["fates_compared", "fates_different", "displaced_asked", "displaced_exact"]
                .map(|name| metrics.get(name))
        };
        assert_eq!(run(LOG, &[1, 3, 2]), [None, None, Some(1.0), Some(1.0)]);
        // Only packets of the pattern count.
        assert_eq!(run(LOG, &[3, 1, 2])[1..], [Some(0.0), Some(1.0), Some(1.0)]);
        assert_eq!(run(LOG, &[1, 2, 3])[3], Some(0.0));
        let forged = LOG.replace("lost pattern:p", "passed link");
        assert_eq!(run(&forged, &[1, 3, 2])[..2], [Some(3.0), Some(1.0)]);
    }
}
