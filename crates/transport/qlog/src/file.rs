//! A log file written by a separate thread, so that a slow disk does not slow the transport. If the thread cannot keep
//! up, events are dropped; a full disk ends the log.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, SystemTime};

use anabranch_proto::{Instant, Log};

use crate::entry::Entry;
use crate::observer::{Observer, Sink};
use crate::writer::{Header, VantagePoint, Writer};

/// Maximum size in bytes of events that wait for the disk; further events are dropped.
const MOST_WAITING: usize = 64 << 20;

/// Interval for writing queued events.
const INTERVAL: Duration = Duration::from_millis(50);

/// The file name and description of a log.
#[derive(Clone, Debug)]
pub struct EventLog {
    path: PathBuf,
    title: String,
    vantage_point: VantagePoint,
}

impl EventLog {
    /// A log in this file. An existing file is replaced.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into(), title: String::new(), vantage_point: VantagePoint::default() }
    }

    /// Sets the title, which helps to tell logs apart.
    #[must_use]
    pub fn title(mut self, title: impl Into<String>) -> Self {
        self.title = title.into();
        self
    }

    /// Sets which end of associations is logged.
    #[must_use]
    pub fn vantage_point(mut self, vantage_point: VantagePoint) -> Self {
        self.vantage_point = vantage_point;
        self
    }

    /// The header, with the time of day at the given instant.
    pub fn header(&self, reference: (SystemTime, Instant)) -> Header {
        Header { title: self.title.clone(), vantage_point: self.vantage_point, reference }
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl<P: Into<PathBuf>> From<P> for EventLog {
    fn from(path: P) -> Self {
        Self::new(path)
    }
}

/// A log that is being written. It is complete when this value and all values returned by [`log`](Self::log) have been
/// dropped.
#[derive(Debug)]
pub struct LogFile {
    queue: Arc<Queue>,
    writer: Option<JoinHandle<()>>,
}

/// The events that wait to be written.
#[derive(Debug, Default)]
struct Queue {
    waiting: Mutex<Waiting>,
    /// There are no more events.
    ended: AtomicBool,
    /// Nothing more can be written.
    failed: AtomicBool,
}

#[derive(Debug, Default)]
struct Waiting {
    entries: Vec<Entry>,
    bytes: usize,
    left_out: u64,
}

impl Queue {
    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl LogFile {
    /// Creates the file and starts the log. `reference` gives the time of day at an instant.
    ///
    /// # Errors
    /// Fails if the file or the thread cannot be created.
    pub fn create(log: &EventLog, reference: (SystemTime, Instant)) -> io::Result<Arc<Self>> {
        let header = log.header(reference);
        let mut writer = Writer::new(BufWriter::new(File::create(&log.path)?), &header)?;
        // Flush now, to report a full disk immediately.
        writer.flush();
        if let Some(error) = writer.error() {
            return Err(error.kind().into());
        }
        let queue = Arc::<Queue>::default();
        let (shared, name) = (queue.clone(), log.path.display().to_string());
        let thread = std::thread::Builder::new().name("qlog".into());
        let writer = thread.spawn(move || write_all(&name, writer, &shared))?;
        Ok(Arc::new(Self { queue, writer: Some(writer) }))
    }

    /// The log for an engine. A number identifies the engine if several share one log.
    pub fn log(self: &Arc<Self>, shard: Option<usize>) -> Box<dyn Log> {
        Box::new(Observer::new(Arc::clone(self), shard))
    }
}

impl Sink for Arc<LogFile> {
    fn put(&mut self, entry: Entry) {
        if self.queue.failed.load(Ordering::Relaxed) {
            return;
        }
        let mut waiting = self.queue.lock();
        if waiting.bytes > MOST_WAITING {
            waiting.left_out += 1;
            return;
        }
        waiting.bytes += entry.size();
        waiting.entries.push(entry);
    }
}

impl Drop for LogFile {
    fn drop(&mut self) {
        self.queue.ended.store(true, Ordering::Release);
        if let Some(writer) = self.writer.take() {
            writer.thread().unpark();
            let _ = writer.join();
        }
    }
}

fn write_all<W: Write>(name: &str, mut writer: Writer<W>, queue: &Queue) {
    let mut left_out = 0;
    loop {
        let ended = queue.ended.load(Ordering::Acquire);
        let waiting = std::mem::take(&mut *queue.lock());
        let idle = waiting.entries.is_empty();
        waiting.entries.iter().for_each(|entry| writer.put(entry));
        if waiting.left_out > 0 {
            writer.left_out(waiting.left_out);
            left_out += waiting.left_out;
        }
        if !idle {
            writer.flush();
        }
        if let Some(error) = writer.error() {
            tracing::warn!(file = name, %error, "the event log ends here");
            queue.failed.store(true, Ordering::Relaxed);
            *queue.lock() = Waiting::default();
            return;
        }
        if ended {
            break;
        }
        std::thread::park_timeout(INTERVAL);
    }
    if let Err(error) = writer.finish() {
        tracing::warn!(file = name, %error, "the event log has no end");
    }
    if left_out > 0 {
        tracing::warn!(file = name, records = left_out, "the disk was too slow for the event log");
    }
}

#[cfg(test)]
mod tests {
    use std::time::UNIX_EPOCH;

    use anabranch_proto::{Endpoint, EndpointConfig};

    use super::*;
    use crate::entry::What;

    const NOW: (SystemTime, Instant) = (UNIX_EPOCH, Instant::ZERO);

    /// An arbitrary event of an association.
    fn entry() -> Entry {
        let mut endpoint = Endpoint::new(EndpointConfig::default(), [1; 32]);
        let here = [[127, 0, 0, 1].into()];
        endpoint.set_local_addresses(Instant::ZERO, &here);
        let request = anabranch_proto::ConnectRequest::new(here.to_vec(), 7);
        let association = endpoint.connect(Instant::ZERO, request).unwrap();
        let time = Instant::from_nanos(1_500_000);
        Entry { time, shard: Some(3), association, what: What::PeerWindow(1) }
    }

    fn scratch(name: &str) -> PathBuf {
        std::env::temp_dir().join(format!("anabranch-qlog-{name}-{}", std::process::id()))
    }

    #[test]
    fn the_file_is_whole_when_all_have_let_go() {
        let path = scratch("whole");
        let log = EventLog::new(&path).title("t\"").vantage_point(VantagePoint::Client);
        let file = LogFile::create(&log, NOW).unwrap();
        let mut sink = Arc::clone(&file);
        drop(file);
        (0..3).for_each(|_| sink.put(entry()));
        drop(sink);
        let text = std::fs::read_to_string(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        assert!(text.ends_with('\n'));
        let records = text.lines().map(|line| line.strip_prefix('\u{1e}').unwrap());
        let records: Vec<serde_json::Value> =
            records.map(|record| serde_json::from_str(record).unwrap()).collect();
        assert_eq!(records[0]["title"], "t\"");
        assert_eq!(records[0]["trace"]["vantage_point"]["type"], "client");
        let event = serde_json::json!({
            "time": 1.5, "name": "transport:peer_window_updated", "group_id": "3/0.0",
            "data": { "peer_rwnd": 1 },
        });
        assert_eq!(records[1..4], [event.clone(), event.clone(), event]);
        assert_eq!((records.len(), &records[4]["name"]), (5, &"anabranch:log_ended".into()));
    }

    #[test]
    fn what_the_disk_cannot_keep_up_with_is_left_out_and_told() {
        let path = scratch("slow");
        let queue = Arc::<Queue>::default();
        let mut sink = Arc::new(LogFile { queue: Arc::clone(&queue), writer: None });
        queue.lock().bytes = MOST_WAITING;
        (0..3).for_each(|_| sink.put(entry()));
        let left_out = queue.lock().left_out;
        assert_eq!((queue.lock().entries.len(), left_out), (1, 2));
        drop(sink);
        let header = EventLog::new(&path).header(NOW);
        let writer = Writer::new(File::create(&path).unwrap(), &header).unwrap();
        write_all("slow", writer, &queue);
        let text = std::fs::read_to_string(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        assert!(
            text.contains(r#""name":"anabranch:records_left_out","data":{"records":2}"#),
            "{text}"
        );
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn a_full_disk_ends_the_log_only() {
        assert!(LogFile::create(&EventLog::new("/dev/full"), NOW).is_err());
        let queue = Arc::<Queue>::default();
        let mut sink = Arc::new(LogFile { queue: Arc::clone(&queue), writer: None });
        let full = File::options().write(true).open("/dev/full").unwrap();
        let mut writer =
            Writer::new(Vec::new(), &EventLog::new("x").header(NOW)).unwrap().onto(full);
        writer.put(&entry());
        assert!(writer.error().is_some());
        write_all("full", writer, &queue);
        assert!(queue.failed.load(Ordering::Relaxed));
        sink.put(entry());
        assert!(queue.lock().entries.is_empty(), "nothing is kept that nobody writes");
    }
}
