//! The keys of one handshake, and the numbers of the packets under them.

use std::time::Duration;

use anabranch_units::Instant;

use crate::PATHS;
use crate::handshake::Choice;
use crate::noise::Split;
use crate::record::{Header, Kind, RecordKey};
use crate::replay::Window;

/// How long the keys of a session are used: they are replaced after this time, or this many records or bytes in one
/// direction. Nothing is sent or accepted under a key after eight times as many records or bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyLife {
    /// The time.
    pub time: Duration,
    /// The records.
    pub records: u64,
    /// The bytes.
    pub bytes: u64,
}

/// The longest one. RFC 9001 appendix B.1 allows 2^28 packets of 2 KiB under one key of AES-GCM; jumbo frames count by
/// their bytes.
impl Default for KeyLife {
    fn default() -> Self {
        Self { time: Duration::from_secs(120), records: 1 << 24, bytes: 1 << 35 }
    }
}

impl KeyLife {
    /// The same one, if it is no longer than the longest one.
    pub(crate) fn bounded(self) -> Self {
        let most = Self::default();
        Self {
            time: self.time.min(most.time),
            records: self.records.clamp(1, most.records),
            bytes: self.bytes.clamp(1, most.bytes),
        }
    }
}

/// A key carries at most this many times the records and bytes after which it is replaced.
const RESERVE: u64 = 8;

/// Nothing is accepted under a key after this many forged records (RFC 9001 section 6.6: 2^36 for ChaCha20-Poly1305).
const MOST_FORGED: u64 = 1 << 36;

/// How much one direction of a session has carried.
#[derive(Clone, Copy, Debug, Default)]
struct Used {
    records: u64,
    bytes: u64,
}

impl Used {
    fn add(&mut self, bytes: usize) {
        self.records += 1;
        self.bytes += bytes as u64;
    }

    fn is_much(self, life: KeyLife) -> bool {
        self.records >= life.records || self.bytes >= life.bytes
    }

    fn is_all(self, life: KeyLife) -> bool {
        self.records / RESERVE >= life.records || self.bytes / RESERVE >= life.bytes
    }
}

/// An authentic record that had not arrived before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Opened {
    /// Length of the content.
    pub(crate) len: usize,
    /// No later record of the path has arrived.
    pub(crate) newest: bool,
}

/// A session: a pair of keys and the two sides' words for it.
#[derive(Debug)]
pub(crate) struct Session {
    /// This side's word, which the peer's records begin with.
    pub(crate) local_word: u32,
    remote_word: u32,
    send: RecordKey,
    receive: RecordKey,
    /// The number of the next record of each path.
    numbers: [u64; PATHS as usize],
    /// The records of each path that have arrived. Most paths are never used.
    windows: [Option<Window>; PATHS as usize],
    created: Instant,
    life: KeyLife,
    sent: Used,
    received: Used,
    forged: u64,
}

impl Session {
    /// `choice` is the responder's, which `remote_word` and `local_word` belong to as well.
    pub(crate) fn new(
        now: Instant,
        life: KeyLife,
        (local_word, remote_word): (u32, u32),
        choice: Choice,
        split: &Split,
    ) -> Option<Self> {
        Some(Self {
            local_word,
            remote_word,
            send: RecordKey::new(choice.suite, &split.send)?,
            receive: RecordKey::new(choice.suite, &split.receive)?,
            numbers: [0; PATHS as usize],
            windows: [const { None }; PATHS as usize],
            created: now,
            life,
            sent: Used::default(),
            received: Used::default(),
            forged: 0,
        })
    }

    /// Appends a sealed record to `out`; `None` if the key must not be used any more.
    pub(crate) fn seal(
        &mut self,
        kind: Kind,
        path: u8,
        content: &[u8],
        out: &mut Vec<u8>,
    ) -> Option<()> {
        if self.sent.is_all(self.life) {
            return None;
        }
        let next = self.numbers.get_mut(usize::from(path))?;
        let header = Header { word: self.remote_word, kind, path, number: *next };
        // The number is used up even if sealing fails.
        *next += 1;
        self.sent.add(content.len());
        self.send.seal(&header, content, out)
    }

    /// Opens the record that begins at `begin` of `buffer`, and moves its content to the start of `buffer`. A record
    /// that is not authentic, or has arrived before, changes nothing but the buffer.
    pub(crate) fn open(
        &mut self,
        header: &Header,
        buffer: &mut [u8],
        begin: usize,
    ) -> Option<Opened> {
        let window = self.windows.get_mut(usize::from(header.path))?;
        let is_old = window.as_ref().is_some_and(|window| !window.may_accept(header.number));
        if is_old || self.received.is_all(self.life) || self.forged >= MOST_FORGED {
            return None;
        }
        let Some(len) = self.receive.open(header, buffer, begin) else {
            self.forged += 1;
            return None;
        };
        self.received.add(len);
        let newest = window.get_or_insert_with(Window::new).record(header.number);
        Some(Opened { len, newest })
    }

    /// Whether a new handshake should replace it.
    pub(crate) fn wants_replacement(&self, now: Instant) -> bool {
        now >= self.created + self.life.time
            || self.sent.is_much(self.life)
            || self.received.is_much(self.life)
    }

    /// Whether the key must not be used any more.
    pub(crate) fn is_used_up(&self) -> bool {
        self.sent.is_all(self.life)
    }
}

#[cfg(test)]
mod tests {
    use zeroize::Zeroizing;

    use super::*;
    use crate::record::Suite;

    fn pair() -> (Session, Session) {
        let (one, two) = (Zeroizing::new([1; 32]), Zeroizing::new([2; 32]));
        let choice = Choice { word: 20, suite: Suite::Aes256Gcm };
        let near = Split { send: one.clone(), receive: two.clone() };
        let far = Split { send: two, receive: one };
        let session = |words, split| {
            Session::new(Instant::ZERO, KeyLife::default(), words, choice, split).unwrap()
        };
        (session((10, 20), &near), session((20, 10), &far))
    }

    fn seal(session: &mut Session, path: u8, content: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        session.seal(Kind::Data, path, content, &mut out).unwrap();
        out
    }

    fn open(session: &mut Session, record: &[u8]) -> Option<Opened> {
        let header = Header::decode(record).unwrap();
        session.open(&header, &mut record.to_vec(), 0)
    }

    #[test]
    fn replayed_and_reflected_records_are_refused() {
        let (mut near, mut far) = pair();
        let records: Vec<_> = (0..3).map(|byte| seal(&mut near, 1, &[byte])).collect();
        assert_eq!(open(&mut far, &records[2]), Some(Opened { len: 1, newest: true }));
        assert_eq!(open(&mut far, &records[0]), Some(Opened { len: 1, newest: false }));
        assert_eq!(open(&mut far, &records[2]), None);
        assert_eq!(open(&mut near, &records[1]), None);
        // Other paths count on their own.
        let other = seal(&mut near, 7, b"");
        assert_eq!(open(&mut far, &other), Some(Opened { len: 0, newest: true }));
        assert_eq!(open(&mut far, &records[1]), Some(Opened { len: 1, newest: false }));
    }

    #[test]
    fn a_forged_record_changes_nothing() {
        let (mut near, mut far) = pair();
        let record = seal(&mut near, 0, b"content");
        let mut forged = record.clone();
        // A much higher number must not move the window.
        forged[6] = 0xff;
        assert_eq!(open(&mut far, &forged), None);
        assert!(far.windows[0].is_none());
        assert_eq!(open(&mut far, &record), Some(Opened { len: 7, newest: true }));
    }

    #[test]
    fn keys_are_replaced_in_time_and_never_used_up() {
        let (mut near, mut far) = pair();
        assert!(!near.wants_replacement(Instant::ZERO));
        assert!(near.wants_replacement(Instant::ZERO + Duration::from_secs(120)));
        near.sent.records = (1 << 24) - 1;
        let record = seal(&mut near, 0, b"");
        assert!(near.wants_replacement(Instant::ZERO));
        near.sent.records = 1 << 27;
        assert!(near.is_used_up());
        assert_eq!(near.seal(Kind::Data, 0, b"", &mut Vec::new()), None);
        far.received.bytes = 1 << 38;
        assert_eq!(open(&mut far, &record), None);
        far.received.bytes = 1 << 35;
        assert!(far.wants_replacement(Instant::ZERO));
        assert!(open(&mut far, &record).is_some());
        (near.sent, far.forged) = (Used::default(), MOST_FORGED);
        assert_eq!(open(&mut far, &seal(&mut near, 0, b"")), None);
    }
}
