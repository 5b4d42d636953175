//! Records the arrivals of a page while it loads.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::{Bytes, BytesMut};

use super::measures::ObjectLoad;
use crate::client::resume::Kept as FilePart;
use crate::error::FetchError;

/// Maximum number of objects of a page.
pub(super) const MOST_OBJECTS: usize = 1000;

/// Maximum bytes of the index that are searched for embedded objects.
const LONGEST_INDEX: usize = 8 << 20;

/// Maximum bytes of a page that are stored, if bodies are stored.
const LONGEST_PAGE: usize = 256 << 20;

/// The requested objects, and their results. Times count from the creation of this value.
pub(super) struct Notes<'a> {
    clock: &'a (dyn Fn() -> Duration + Sync),
    origin: Duration,
    silence: Option<Duration>,
    /// Bytes that may still be stored.
    room: AtomicUsize,
    noted: Mutex<Noted>,
}

#[derive(Debug, Default)]
struct Noted {
    objects: Vec<ObjectLoad>,
    /// Received parts of objects whose answers were cut off.
    parts: BTreeMap<usize, Part>,
    /// The number of arrivals.
    heard: u64,
}

/// The beginning of an object, which a range of the same state may continue.
#[derive(Debug)]
pub(super) struct Part {
    /// The length and state of the object.
    pub(super) of: FilePart,
    pub(super) kept: Kept,
}

impl<'a> Notes<'a> {
    /// Starts the time. With `keep`, all bodies are stored; the index is always stored, because it
    /// must be parsed.
    pub(super) fn new(
        clock: &'a (dyn Fn() -> Duration + Sync),
        silence: Option<Duration>,
        keep: bool,
    ) -> Self {
        let room = AtomicUsize::new(if keep { LONGEST_PAGE } else { LONGEST_INDEX });
        Self { clock, origin: clock(), silence, room, noted: Mutex::default() }
    }

    fn now(&self) -> Duration {
        (self.clock)().saturating_sub(self.origin)
    }

    fn noted(&self) -> MutexGuard<'_, Noted> {
        self.noted.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds expected objects.
    pub(super) fn expect(&self, targets: impl IntoIterator<Item = String>) {
        let objects =
            targets.into_iter().map(|target| ObjectLoad { target, ..ObjectLoad::default() });
        self.noted().objects.extend(objects);
    }

    /// Records that an object is requested on this stream. Returns its target.
    pub(super) fn ask(&self, index: usize, stream: u16) -> Option<String> {
        let now = self.now();
        let mut noted = self.noted();
        let object = noted.objects.get_mut(index)?;
        (object.requested, object.stream) = (now, stream);
        Some(object.target.clone())
    }

    /// Records that part of an object arrived.
    fn hear(&self, index: usize, note: impl FnOnce(&mut ObjectLoad, Duration)) {
        let now = self.now();
        let mut noted = self.noted();
        noted.heard += 1;
        if let Some(object) = noted.objects.get_mut(index) {
            note(object, now);
        }
    }

    /// Records the start of an answer.
    pub(super) fn begin(&self, index: usize, status: u16, announced: Option<u64>) {
        self.hear(index, |object, _| (object.status, object.announced) = (Some(status), announced));
    }

    /// Records a piece of a body that arrived.
    pub(super) fn arrive(&self, index: usize, bytes: usize) {
        self.hear(index, |object, now| object.arrive(now, bytes as u64));
    }

    /// Stores a piece of a body, if it is to be stored and there is room.
    pub(super) fn keep(&self, kept: &mut Kept, piece: &[u8]) {
        if !kept.whole {
            return;
        }
        let less = |room: usize| room.checked_sub(piece.len());
        match self.room.fetch_update(Relaxed, Relaxed, less) {
            Ok(_) => kept.bytes.extend_from_slice(piece),
            // A piece is missing, so later ones are useless.
            Err(_) => kept.whole = false,
        }
    }

    /// Records that the whole body has arrived. Returns the stored part of it.
    pub(super) fn complete(&self, index: usize, kept: Kept) -> Bytes {
        let (whole, bytes) = (kept.whole, kept.bytes.freeze());
        let body = whole.then(|| bytes.clone());
        self.hear(index, |object, now| {
            if object.arrivals.is_empty() {
                object.arrive(now, 0);
            }
            (object.completed, object.body) = (Some(now), body);
        });
        bytes
    }

    /// Records that an object has failed.
    pub(super) fn fail(&self, index: usize, error: &FetchError) {
        if let Some(object) = self.noted().objects.get_mut(index) {
            object.error = Some(error.to_string());
        }
    }

    /// Marks all outstanding objects as failed.
    pub(super) fn give_up(&self, error: &FetchError) {
        let mut noted = self.noted();
        for object in noted.objects.iter_mut().filter(|object| object.completed.is_none()) {
            object.error.get_or_insert_with(|| error.to_string());
        }
    }

    /// Stores the part of an answer that broke off.
    pub(super) fn cut_off(&self, index: usize, part: Part) {
        self.noted().parts.insert(index, part);
    }

    /// The validator and length of the received part of an object.
    pub(super) fn part(&self, index: usize) -> Option<(String, u64)> {
        let noted = self.noted();
        let part = &noted.parts.get(&index)?.of;
        Some((part.state.validator()?.to_owned(), part.bytes))
    }

    pub(super) fn take_part(&self, index: usize) -> Option<Part> {
        self.noted().parts.remove(&index)
    }

    /// Discards the received part.
    pub(super) fn begin_anew(&self, index: usize) {
        self.hear(index, |object, _| object.arrivals.clear());
    }

    pub(super) fn has_begun(&self, index: usize) -> bool {
        self.noted().objects.get(index).is_some_and(|object| object.status.is_some())
    }

    /// Runs a future that waits for the server, as long as data keeps arriving.
    pub(super) async fn unless_silent<T>(
        &self,
        what: impl Future<Output = T>,
    ) -> Result<T, Duration> {
        let Some(silence) = self.silence else { return Ok(what.await) };
        let mut what = std::pin::pin!(what);
        loop {
            let before = self.noted().heard;
            match tokio::time::timeout(silence, &mut what).await {
                Ok(done) => return Ok(done),
                Err(_) if self.noted().heard > before => {}
                Err(_) => return Err(silence),
            }
        }
    }

    /// Removes the index, which is the only object at this time. Its body is kept only if `keep` is
    /// set.
    pub(super) fn take_index(&self, keep: bool) -> ObjectLoad {
        let mut index = self.noted().objects.pop().unwrap_or_default();
        index.body = index.body.filter(|_| keep);
        index
    }

    pub(super) fn into_objects(self) -> Vec<ObjectLoad> {
        self.noted.into_inner().unwrap_or_else(PoisonError::into_inner).objects
    }
}

/// The stored body of an object.
#[derive(Debug)]
pub(super) struct Kept {
    /// The body is to be stored, and nothing of it is missing.
    whole: bool,
    bytes: BytesMut,
}

impl Kept {
    pub(super) fn new(keep: bool) -> Self {
        Self { whole: keep, bytes: BytesMut::new() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_kept_is_whole_or_nothing() {
        let clock = || Duration::ZERO;
        let notes = Notes::new(&clock, None, false);
        notes.expect(["/".into(), "/long".into(), "/short".into()]);
        let (mut index, mut long, mut short) = (Kept::new(true), Kept::new(true), Kept::new(true));
        notes.keep(&mut index, &[1; 100]);
        notes.keep(&mut long, &vec![2; LONGEST_INDEX - 110]);
        notes.keep(&mut long, &[3; 20]);
        notes.keep(&mut long, &[4; 5]);
        notes.keep(&mut short, &[5; 10]);
        notes.keep(&mut Kept::new(false), &[6; 10]);
        assert_eq!(notes.complete(0, index).len(), 100);
        assert_eq!(notes.complete(1, long).len(), LONGEST_INDEX - 110, "its beginning can be read");
        assert_eq!(notes.complete(2, short).len(), 10);
        let kept = notes.into_objects().into_iter().map(|object| object.body.map(|b| b.len()));
        assert_eq!(kept.collect::<Vec<_>>(), [Some(100), None, Some(10)]);
    }
}
