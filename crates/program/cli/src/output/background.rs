//! Output of servers: a reader that stalls must not block the server.
//!
//! Output goes into a bounded queue, which a separate thread writes. When the queue is full, lines are dropped and
//! counted, and the log reports their number once writing works again.

use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread;
use std::time::Duration;

use crate::failure::{Failure, complain};

/// Maximum bytes that wait to be written. A longer text is accepted if the queue is empty.
const MOST: usize = 1 << 20;

/// The writer's pause after each write, so that under load one write contains many lines.
const REST: Duration = Duration::from_millis(5);

/// How long the program waits for a stalled reader when it ends.
const PATIENCE: Duration = Duration::from_secs(1);

/// Number of lines dropped since the program started.
static DROPPED: AtomicU64 = AtomicU64::new(0);

/// The queues of this process, if it is a server.
static QUEUES: OnceLock<Queues> = OnceLock::new();

/// The queues of a server.
pub(super) struct Queues {
    pub(super) output: Queue,
    pub(super) errors: Queue,
    /// The queue of the log file; `None` if the log goes to standard output.
    log: Option<Queue>,
}

impl Queues {
    pub(super) fn log(&self) -> &Queue {
        self.log.as_ref().unwrap_or(&self.output)
    }
}

/// The queues, if this process is a server.
pub(super) fn queues() -> Option<&'static Queues> {
    QUEUES.get()
}

/// Number of lines of output dropped since the program started.
pub(crate) fn dropped() -> u64 {
    DROPPED.load(Relaxed)
}

/// Starts threads that write the output from now on; log lines go to `log`, if it is given.
pub(crate) fn write_in_background(log: Option<&Path>, json: bool) -> Result<(), Failure> {
    let refused = |error| Failure::failed(format!("no thread can be started: {error}"));
    let note = if json { json_note } else { text_note };
    let log = log.map(LogFile::open).transpose()?.map(|file| Queue::start(file, note));
    let queues = Queues {
        output: Queue::start(Standard::output(), note).map_err(refused)?,
        errors: Queue::start(Standard::errors(), text_note).map_err(refused)?,
        log: log.transpose().map_err(refused)?,
    };
    // A process has one command, which calls this once.
    let _ = QUEUES.set(queues);
    Ok(())
}

/// Reopens the log file, if there is one: log rotation may have renamed the old one.
pub(crate) fn reopen() {
    if let Some(Queues { log: Some(log), .. }) = queues() {
        log.shared.state().reopen = true;
        log.shared.wake.notify_one();
    }
}

/// Waits until everything is written, unless the reader stalls.
pub(crate) fn drain() {
    let Some(queues) = queues() else { return };
    for queue in queues.log.iter().chain([&queues.output]) {
        let left = queue.drain();
        if left > 0 {
            let name = &queue.shared.name;
            complain(&format!("{name} was not read: {left} lines are lost"));
        }
    }
    queues.errors.drain();
}

fn text_note(lines: u64) -> String {
    format!("anabranch: {lines} lines were dropped here: they could not be written in time\n")
}

fn json_note(lines: u64) -> String {
    // A document with two fields cannot fail.
    super::json_line(&serde_json::json!({ "event": "dropped", "lines": lines })).unwrap_or_default()
}

/// The destination of a queue.
trait Target: Write + Send + 'static {
    fn name(&self) -> String;

    fn reopen(&mut self) {}
}

/// Lines waiting to be written.
pub(super) struct Queue {
    shared: Arc<Shared>,
}

struct Shared {
    name: String,
    state: Mutex<State>,
    /// Notified when there is something to write.
    wake: Condvar,
    /// Notified when something was written.
    written: Condvar,
}

#[derive(Default)]
struct State {
    waiting: Vec<u8>,
    /// Number of lines dropped after those in the queue.
    dropped: u64,
    /// The writer is waiting.
    idle: bool,
    /// The log file must be reopened.
    reopen: bool,
    /// The number of writes so far.
    writes: u64,
    /// Number of lines that the writer is writing now.
    at_work: u64,
    /// Why the last write failed.
    error: Option<String>,
    /// A caller waits for the next write and reports its failure itself.
    awaited: bool,
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn lines(bytes: &[u8]) -> u64 {
    bytes.iter().filter(|byte| **byte == b'\n').count() as u64
}

impl Queue {
    fn start(target: impl Target, note: fn(u64) -> String) -> io::Result<Self> {
        let shared = Arc::new(Shared {
            name: target.name(),
            state: Mutex::default(),
            wake: Condvar::new(),
            written: Condvar::new(),
        });
        let writer = Writer { shared: Arc::clone(&shared), target, note, lost: 0, complete: true };
        thread::Builder::new().name("output".into()).spawn(move || writer.run())?;
        Ok(Self { shared })
    }

    /// Queues whole lines, or drops them if there is no room.
    pub(super) fn push(&self, bytes: &[u8]) {
        if bytes.is_empty() {
            return;
        }
        let mut state = self.shared.state();
        let room = state.waiting.is_empty() || state.waiting.len() + bytes.len() <= MOST;
        // After a gap, queue nothing until the writer has reported it, so that the log shows the gap in the right
        // place.
        if state.dropped > 0 || !room {
            state.dropped += lines(bytes);
            DROPPED.fetch_add(lines(bytes), Relaxed);
            return;
        }
        state.waiting.extend_from_slice(bytes);
        if state.idle {
            state.idle = false;
            self.shared.wake.notify_one();
        }
    }

    /// Queues lines and waits briefly until they are written; returns an error if that fails.
    pub(super) fn push_and_wait(&self, bytes: &[u8]) -> Result<(), String> {
        self.shared.state().awaited = true;
        self.push(bytes);
        self.drain();
        let mut state = self.shared.state();
        state.awaited = false;
        match state.error.take() {
            Some(error) => Err(error),
            None => Ok(()),
        }
    }

    /// Waits until everything is written, as long as there is progress. Returns the number of lines that remain.
    fn drain(&self) -> u64 {
        let mut state = self.shared.state();
        while !state.waiting.is_empty() || state.at_work > 0 {
            let writes = state.writes;
            let unmoved = |state: &mut State| state.writes == writes;
            let waited = self.shared.written.wait_timeout_while(state, PATIENCE, unmoved);
            let (next, timeout) = waited.unwrap_or_else(PoisonError::into_inner);
            state = next;
            if timeout.timed_out() {
                return lines(&state.waiting) + state.at_work;
            }
        }
        0
    }
}

/// Writes the contents of a queue.
struct Writer<T> {
    shared: Arc<Shared>,
    target: T,
    note: fn(u64) -> String,
    /// Number of lines that could not be written and are not reported in the log yet.
    lost: u64,
    /// The last byte written ended a line.
    complete: bool,
}

impl<T: Target> Writer<T> {
    fn run(mut self) {
        let mut batch = Vec::new();
        loop {
            let dropped = self.next(&mut batch);
            self.write(&batch);
            self.lost += dropped;
            {
                let mut state = self.shared.state();
                state.writes += 1;
                state.at_work = 0;
            }
            self.shared.written.notify_all();
            batch.clear();
            batch.shrink_to(MOST);
            if self.lost > 0 {
                self.write(&[]);
            }
            thread::sleep(REST);
        }
    }

    /// Waits for lines to write. Returns the number of lines that were dropped after them.
    fn next(&mut self, batch: &mut Vec<u8>) -> u64 {
        let mut state = self.shared.state();
        while state.waiting.is_empty() && !state.reopen && state.dropped == 0 {
            state.idle = true;
            state = self.shared.wake.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        state.idle = false;
        std::mem::swap(&mut state.waiting, batch);
        state.at_work = lines(batch);
        let reopen = std::mem::take(&mut state.reopen);
        let dropped = std::mem::take(&mut state.dropped);
        drop(state);
        if reopen {
            self.target.reopen();
        }
        dropped
    }

    /// Reports the number of lost lines, if there are any, and then writes `batch`.
    fn write(&mut self, batch: &[u8]) {
        if self.lost > 0 {
            let note = (self.note)(self.lost);
            if self.attempt(note.as_bytes()) == note.len() {
                self.lost = 0;
            }
        }
        let written = self.attempt(batch);
        let lost = lines(&batch[written..]);
        if lost > 0 {
            self.lost += lost;
            DROPPED.fetch_add(lost, Relaxed);
        }
    }

    /// Writes as much as possible, and returns how much. If the reader has closed the pipe, the bytes count as
    /// written.
    fn attempt(&mut self, bytes: &[u8]) -> usize {
        let mut done = 0;
        if !self.complete && !bytes.is_empty() {
            self.complete = self.target.write(b"\n").is_ok_and(|written| written == 1);
        }
        while done < bytes.len() {
            match self.target.write(&bytes[done..]) {
                Ok(0) => return done,
                Ok(written) => {
                    done += written;
                    self.complete = bytes[done - 1] == b'\n';
                    let mut state = self.shared.state();
                    state.writes += 1;
                    state.error = None;
                    self.shared.written.notify_all();
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                // Another process that shares the pipe has set O_NONBLOCK.
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => thread::sleep(REST),
                Err(error) if error.kind() == io::ErrorKind::BrokenPipe => return bytes.len(),
                Err(error) => {
                    self.fail(&error);
                    return done;
                }
            }
        }
        // Only files on disk need flushing, and those are written directly.
        let _ = self.target.flush();
        done
    }

    /// Stores why lines cannot be written, and reports the first such error.
    fn fail(&mut self, error: &io::Error) {
        let sentence = format!("{} cannot be written: {error}", self.shared.name);
        let (before, awaited) = {
            let mut state = self.shared.state();
            (state.error.replace(sentence.clone()), state.awaited)
        };
        if before.is_none() && !awaited && self.shared.name != ERRORS && self.lost == 0 {
            complain(&sentence);
        }
    }
}

const ERRORS: &str = "standard error";

/// Standard output or standard error.
struct Standard {
    name: &'static str,
    stream: Box<dyn Write + Send>,
}

impl Standard {
    /// Bypasses the standard library's buffer and lock, so that the program can exit without waiting for them.
    fn output() -> Self {
        let stream = own(&io::stdout()).unwrap_or_else(|| Box::new(io::stdout()));
        Self { name: "standard output", stream }
    }

    fn errors() -> Self {
        let stream = own(&io::stderr()).unwrap_or_else(|| Box::new(io::stderr()));
        Self { name: ERRORS, stream }
    }
}

/// Duplicates the descriptor of a stream.
#[cfg(unix)]
fn own(stream: &impl std::os::fd::AsFd) -> Option<Box<dyn Write + Send>> {
    let file = File::from(stream.as_fd().try_clone_to_owned().ok()?);
    Some(Box::new(file))
}

#[cfg(not(unix))]
fn own<T>(_: &T) -> Option<Box<dyn Write + Send>> {
    None
}

impl Write for Standard {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.stream.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.stream.flush()
    }
}

impl Target for Standard {
    fn name(&self) -> String {
        self.name.to_owned()
    }
}

/// The log file and its path.
struct LogFile {
    path: PathBuf,
    file: File,
}

impl LogFile {
    fn open(path: &Path) -> Result<Self, Failure> {
        let file = append(path).map_err(|error| {
            Failure::failed(format!("--log: {} cannot be opened: {error}", path.display()))
        })?;
        Ok(Self { path: path.to_owned(), file })
    }
}

/// Opens a file for appending. If it is a pipe without a reader, this fails, because it would otherwise block.
fn append(path: &Path) -> io::Result<File> {
    let mut options = File::options();
    options.append(true).create(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::custom_flags(
        &mut options,
        nix::fcntl::OFlag::O_NONBLOCK.bits(),
    );
    options.open(path)
}

impl Write for LogFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

impl Target for LogFile {
    fn name(&self) -> String {
        format!("the log {}", self.path.display())
    }

    fn reopen(&mut self) {
        match append(&self.path) {
            Ok(file) => self.file = file,
            Err(error) => {
                let name = self.name();
                complain(&format!("{name} cannot be opened again, the old one is kept: {error}"));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{Receiver, Sender, channel};

    use super::*;

    /// Writes to a text, once for each permission received.
    struct Slow {
        permissions: Receiver<io::Result<()>>,
        text: Arc<Mutex<String>>,
    }

    impl Write for Slow {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            // When the channel is closed, all writes succeed.
            self.permissions.recv().unwrap_or(Ok(()))?;
            self.text.lock().unwrap().push_str(std::str::from_utf8(bytes).unwrap());
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    impl Target for Slow {
        fn name(&self) -> String {
            "the test".into()
        }
    }

    fn slow() -> (Queue, Sender<io::Result<()>>, Arc<Mutex<String>>) {
        let (permit, permissions) = channel();
        let text = Arc::default();
        let target = Slow { permissions, text: Arc::clone(&text) };
        let note = |lines| format!("{lines} dropped\n");
        (Queue::start(target, note).unwrap(), permit, text)
    }

    #[test]
    fn who_does_not_read_loses_lines_and_is_told_how_many() {
        let (queue, permit, text) = slow();
        let line = [&[b'x'; 1023][..], b"\n"].concat();
        queue.push(b"first\n");
        // The writer holds the first line and is blocked.
        while !queue.shared.state().waiting.is_empty() {
            thread::yield_now();
        }
        // None of these calls blocks.
        let fit = MOST / line.len();
        for _ in 0..fit + 1000 {
            queue.push(&line);
        }
        queue.push(b"a\nb\n");
        assert_eq!(queue.shared.state().dropped, 1002);
        drop(permit);
        while queue.drain() > 0 || queue.shared.state().dropped > 0 {}
        while !text.lock().unwrap().ends_with(" dropped\n") {
            thread::yield_now();
        }
        queue.push(b"last\n");
        while queue.drain() > 0 {}
        let text = text.lock().unwrap();
        assert_eq!(text.lines().count(), fit + 3);
        assert!(text.ends_with("\n1002 dropped\nlast\n"));
    }

    #[test]
    fn a_full_disk_is_said_and_counted() {
        let (queue, permit, text) = slow();
        permit.send(Err(io::ErrorKind::StorageFull.into())).unwrap();
        let failed = queue.push_and_wait(b"one\ntwo\n");
        assert!(failed.unwrap_err().starts_with("the test cannot be written: "));
        permit.send(Ok(())).unwrap();
        permit.send(Ok(())).unwrap();
        assert_eq!(queue.push_and_wait(b"three\n"), Ok(()));
        assert_eq!(*text.lock().unwrap(), "2 dropped\nthree\n");
    }

    #[test]
    fn a_log_is_opened_again() {
        let folder = tempfile::tempdir().unwrap();
        let (path, old) = (folder.path().join("log"), folder.path().join("old"));
        let queue = Queue::start(LogFile::open(&path).unwrap(), text_note).unwrap();
        assert_eq!(queue.push_and_wait(b"before\n"), Ok(()));
        std::fs::rename(&path, &old).unwrap();
        queue.shared.state().reopen = true;
        queue.shared.wake.notify_one();
        while !path.exists() {
            thread::yield_now();
        }
        assert_eq!(queue.push_and_wait(b"after\n"), Ok(()));
        let read = |path| std::fs::read_to_string(path).unwrap();
        assert_eq!((read(&old), read(&path)), ("before\n".to_owned(), "after\n".to_owned()));
    }

    #[cfg(unix)]
    #[test]
    fn a_pipe_without_a_reader_is_no_log() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("pipe");
        assert!(std::process::Command::new("mkfifo").arg(&path).status().unwrap().success());
        assert!(LogFile::open(&path).is_err());
    }
}
