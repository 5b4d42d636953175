//! The log of an earlier run, with which each packet of this run is compared.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::BufReader;
use std::path::Path;

use anabranch_impair::{Fate, Record};
use anabranch_units::next_line;
use serde::Deserialize;

use super::fates::{HEAD, by, effects, place};
use super::ways::Way;
use crate::Error;

/// Fates of packets by way and number, or by pattern and place if a filter selected them.
pub struct Replay {
    expected: Vec<BTreeMap<(usize, u64), u32>>,
    /// Whether filters select packets of each way. If so, packets that no filter selected are not
    /// compared.
    filtered: Vec<bool>,
    /// Fates in words. There are only a few different ones.
    words: Vec<String>,
    by_words: BTreeMap<String, u32>,
    /// The seed of the run, if the log has it.
    pub seed: Option<u64>,
    compared: u64,
}

/// Longest line of a log in bytes.
const MOST: u64 = 1 << 16;

#[derive(Deserialize)]
struct Line {
    link: String,
    from: String,
    packet: u64,
    fate: String,
    by: String,
    effects: String,
    place: String,
}

impl Replay {
    /// Reads the log of a network with these ways.
    ///
    /// # Errors
    /// Fails if the file cannot be read or a line cannot be from such a network.
    pub fn open(path: &Path, ways: &[Way]) -> Result<Self, Error> {
        let file = File::open(path).map_err(|error| Error::Log { file: path.to_owned(), error })?;
        let mut replay = Self {
            expected: vec![BTreeMap::new(); ways.len()],
            filtered: ways.iter().map(|way| way.filtered).collect(),
            words: Vec::new(),
            by_words: BTreeMap::new(),
            seed: None,
            compared: 0,
        };
        let mut known = false;
        let mut reader = BufReader::new(file);
        for index in 0.. {
            let wrong = |reason: String| wrong(path, index + 1, reason);
            let Some(line) =
                next_line(&mut reader, MOST).map_err(|error| wrong(error.to_string()))?
            else {
                break;
            };
            known |= index == 0 && (line == HEAD || line.starts_with('{'));
            let read = if known {
                replay.line(&line, ways)
            } else {
                Err("it is not a log of fates".into())
            };
            read.map_err(wrong)?;
        }
        if !known {
            return Err(wrong(path, 1, "it is empty".into()));
        }
        Ok(replay)
    }

    fn line(&mut self, line: &str, ways: &[Way]) -> Result<(), String> {
        if let Some(comment) = line.strip_prefix('#') {
            if let Some(seed) = comment.trim().strip_prefix("seed ") {
                self.seed = Some(seed.parse().map_err(|_| format!("'{seed}' is not a seed"))?);
            }
            return Ok(());
        }
        let (way, packet, fate, by, effects, place) = if line.starts_with('{') {
            let line: Line = serde_json::from_str(line).map_err(|error| error.to_string())?;
            let way = ways.iter().position(|way| way.link == line.link && way.from == line.from);
            (way, line.packet, line.fate, line.by, line.effects, line.place)
        } else {
            let words: Vec<&str> = line.split(' ').collect();
            let [short, number, _, _, _, _, _, fate, by, effects, place] = words[..] else {
                return Err("a packet has eleven words".into());
            };
            let number = number.parse().map_err(|_| format!("'{number}' is not a number"))?;
            let way = ways.iter().position(|way| way.short == short);
            (way, number, fate.to_owned(), by.to_owned(), effects.to_owned(), place.to_owned())
        };
        let way = way.ok_or("the network has no such link")?;
        check(&fate, &by, &effects)?;
        if [Fate::Copy, Fate::Underway].map(Fate::name).contains(&fate.as_str()) {
            return Ok(());
        }
        let word = self.intern(described(&fate, &by, &effects));
        let filtered = self.filtered.get(way).copied().unwrap_or(false);
        let key = key(packet, &place, filtered)?;
        if let (Some(expected), Some(key)) = (self.expected.get_mut(way), key)
            && expected.insert(key, word).is_some()
        {
            return Err(format!("packet {packet} is in the log twice"));
        }
        Ok(())
    }

    fn intern(&mut self, text: String) -> u32 {
        if let Some(word) = self.by_words.get(&text) {
            return *word;
        }
        let word = u32::try_from(self.words.len()).unwrap_or(u32::MAX);
        self.words.push(text.clone());
        self.by_words.insert(text, word);
        word
    }

    /// Compares a packet with the log. Packets that are not in the log are not compared.
    pub(super) fn compare(
        &mut self,
        index: usize,
        way: &Way,
        record: &Record,
    ) -> Result<(), Error> {
        if matches!(record.fate, Fate::Copy | Fate::Underway) {
            return Ok(());
        }
        let filtered = self.filtered.get(index).copied().unwrap_or(false);
        let Ok(Some(key)) = key(record.number, &place(record), filtered) else { return Ok(()) };
        let Some(word) = self.expected.get(index).and_then(|e| e.get(&key)) else {
            return Ok(());
        };
        let expected = self.words.get(*word as usize).map_or("", String::as_str);
        let now = described(record.fate.name(), &by(way, record.cause), &effects(record));
        self.compared += 1;
        if expected == now {
            return Ok(());
        }
        Err(Error::Different {
            packet: record.number,
            way: format!("{} from {} to {}", way.link, way.from, way.to),
            now,
            logged: expected.to_owned(),
        })
    }

    /// Number of packets compared, and of packets in the log.
    pub(super) fn counts(&self) -> (u64, u64) {
        (self.compared, self.expected.iter().map(|e| e.len() as u64).sum())
    }
}

fn wrong(path: &Path, line: usize, reason: String) -> Error {
    Error::WrongLog { file: path.to_owned(), line, reason }
}

/// Refuses words that no log contains.
fn check(fate: &str, by: &str, effects: &str) -> Result<(), String> {
    if ![Fate::Passed, Fate::Lost, Fate::Copy, Fate::Underway].map(Fate::name).contains(&fate) {
        return Err(format!("'{fate}' is not a fate"));
    }
    let causes = ["link", "model", "queue", "discipline", "down", "mtu"];
    if !by.starts_with("pattern:") && !causes.contains(&by) {
        return Err(format!("'{by}' decides nothing"));
    }
    let known = |effect: &str| match effect.split_once('=') {
        Some((name, count)) => {
            ["copies", "displaced", "delay"].contains(&name) && count.parse::<u64>().is_ok()
        }
        None => ["-", "corrupted", "late"].contains(&effect),
    };
    match effects.split(',').find(|effect| !known(effect)) {
        Some(effect) => Err(format!("'{effect}' is not an effect")),
        None => Ok(()),
    }
}

/// The key that identifies a packet in both runs: its number, or its place in a pattern if one has
/// a filter.
fn key(number: u64, place: &str, filtered: bool) -> Result<Option<(usize, u64)>, String> {
    if place == "-" {
        return Ok((!filtered).then_some((0, number)));
    }
    let parts = place.split_once(':').and_then(|(pattern, place)| {
        Some((pattern.parse().ok().filter(|pattern| *pattern > 0)?, place.parse().ok()?))
    });
    parts.map(Some).ok_or_else(|| format!("'{place}' is not a place in a pattern"))
}

/// The part of a fate that must be equal. It leaves out lateness, which depends on when other
/// packets came.
fn described(fate: &str, by: &str, effects: &str) -> String {
    let effects: Vec<&str> = effects.split(',').filter(|e| *e != "late" && *e != "-").collect();
    let effects = effects.join(",");
    format!("{fate} by {by}{}{effects}", if effects.is_empty() { "" } else { ", " })
}
