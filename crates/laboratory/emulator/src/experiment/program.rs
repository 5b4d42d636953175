//! A transfer by two programs with their own stack, one at each host.
//!
//! The programs print events with their times to standard output. They use the system's monotonic clock, which all
//! processes share, so delays of the laboratory's own threads do not matter. The end of their standard input tells them
//! that the transfer is over.

mod lines;

use std::io;
use std::net::IpAddr;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use anabranch_lab::metrics::Metrics;
use anabranch_lab::observed::Observed;
use anabranch_lab::setup::Program;

use self::lines::{Line, Running, Word};
use super::Course;
use super::arrivals::Arrivals;
use super::ground::Ground;
use super::place::Place;
use crate::isolation::INSIDE;
use crate::network::host::shell;

/// How long a program may take to report its counters and to end.
const GRACE: Duration = Duration::from_secs(2);

/// Counters of a program, by metric.
type Told = Vec<(String, f64)>;

/// A transfer that has begun.
pub(super) struct Begun {
    index: usize,
    course: Course,
    name: String,
    arrivals: Arrivals,
    sender: JoinHandle<io::Result<Told>>,
    receiver: JoinHandle<io::Result<()>>,
}

/// One end of the transfer.
struct End {
    course: Course,
    arrivals: Arrivals,
    /// Set when either end has finished.
    done: Arc<AtomicBool>,
    line: String,
    made_by: Option<String>,
    /// Environment variables for the command line.
    variables: [(&'static str, String); 5],
    start: Duration,
}

pub(super) fn begin(
    ground: &Ground,
    course: &Course,
    index: usize,
    program: usize,
) -> Result<Begun, String> {
    let Place { transfer, start, from, to, local, remote, port } =
        Place::of(ground, course, index)?;
    let Some(program) = course.setup.programs.get(program) else {
        return Err("there is no such program".into());
    };
    let arrivals = Arrivals::of(transfer.bytes());
    let done = Arc::new(AtomicBool::new(false));
    let end = |line: &str, local: IpAddr, remote: IpAddr| End {
        course: course.clone(),
        arrivals: arrivals.clone(),
        done: Arc::clone(&done),
        line: line.to_owned(),
        made_by: program.made_by.clone(),
        variables: [
            ("LOCAL", local.to_string()),
            ("REMOTE", remote.to_string()),
            ("PORT", port.to_string()),
            ("SIZE", transfer.bytes().to_string()),
            ("MESSAGE", transfer.message.to_string()),
        ],
        start,
    };
    let Program { name, receiver, sender, .. } = program;
    let failed = |error: io::Error| format!("program.{name}: {error}");
    let (sending, receiving) = (end(sender, local, remote), end(receiver, remote, local));
    let (ready, wait) = channel();
    let receiver = to.begin(move || receiving.receive(&ready)).map_err(failed)?;
    let sender = from.begin(move || sending.send(&wait)).map_err(failed)?;
    Ok(Begun { index, course: course.clone(), name: name.clone(), arrivals, sender, receiver })
}

impl Begun {
    /// Waits for its end.
    pub(super) fn end(self, metrics: &mut Metrics) -> Result<(usize, Observed), String> {
        let panicked = |_| "the transfer panicked".to_owned();
        let received = self.receiver.join().map_err(panicked)?;
        let sent = self.sender.join().map_err(panicked)?;
        let failed =
            |what: &str, error: &io::Error| format!("program.{}.{what}: {error}", self.name);
        received.map_err(|error| failed("receiver", &error))?;
        let told = sent.map_err(|error| failed("sender", &error))?;
        if self.index == 0 {
            for (name, value) in told {
                metrics.set(&name, value);
            }
        }
        Ok((self.index, self.arrivals.seen(self.course.now())))
    }
}

impl End {
    fn start(&self) -> io::Result<Running> {
        let mut command: Command = shell(&self.line);
        command.env_remove(INSIDE).stdin(Stdio::piped()).stdout(Stdio::piped());
        command.envs(self.variables.iter().map(|(name, value)| (name, value)));
        Running::start(&mut command)
    }

    fn is_over(&self) -> bool {
        self.done.load(Ordering::Relaxed) || self.course.is_over()
    }

    /// Checks whether a program that ended early failed.
    fn judge(&self, ended: lines::Ended) -> io::Result<()> {
        let lines::Ended::Early(status) = ended else { return Ok(()) };
        match status.code() {
            // It lost its connection; the transfer's metrics show that.
            Some(0) => Ok(()),
            Some(127) => {
                let help = self.made_by.as_ref().map_or_else(String::new, |made| {
                    format!("; '{made}' makes it, and it has to be on the PATH")
                });
                Err(io::Error::other(format!("there is no program for '{}'{help}", self.line)))
            }
            _ => Err(io::Error::other(format!("'{}' has failed: {status}", self.line))),
        }
    }

    fn unexpected(&self, line: &Line<'_>) -> io::Error {
        io::Error::other(format!(
            "'{}' says '{}', which is not for it to say",
            self.line, line.text
        ))
    }

    fn receive(&self, ready: &Sender<()>) -> io::Result<()> {
        let received = self.take(ready);
        self.done.store(true, Ordering::Relaxed);
        received
    }

    fn take(&self, ready: &Sender<()>) -> io::Result<()> {
        let mut running = self.start()?;
        let ended = running.listen(&|| self.is_over(), |line| {
            let at = self.at(line.ns);
            match line.word {
                // Sending fails only if the sender has ended.
                Word::Ready => drop(ready.send(())),
                Word::Arrived(bytes) => {
                    if self.arrivals.arrived(at, bytes) {
                        self.arrivals.completed(at);
                        self.done.store(true, Ordering::Relaxed);
                    }
                }
                _ => return Err(self.unexpected(line)),
            }
            Ok(())
        })?;
        // Lines after the end are ignored.
        running.end(GRACE, |_| Ok(()))?;
        self.judge(ended)
    }

    fn send(&self, wait: &Receiver<()>) -> io::Result<Told> {
        let told = self.give(wait);
        self.done.store(true, Ordering::Relaxed);
        told
    }

    fn give(&self, wait: &Receiver<()>) -> io::Result<Told> {
        let mut told = Told::new();
        if wait.recv().is_err() {
            // The receiver reports the reason.
            return Ok(told);
        }
        std::thread::sleep(self.start.saturating_sub(self.course.now()));
        let mut running = self.start()?;
        self.arrivals.started(self.course.now());
        let mut each = |line: &Line<'_>| {
            match line.word {
                Word::Started => self.arrivals.started(self.at(line.ns)),
                Word::Connected => self.arrivals.connected(self.at(line.ns)),
                Word::Told(name, value) => told.push((name.to_owned(), value)),
                _ => return Err(self.unexpected(line)),
            }
            Ok(())
        };
        let ended = running.listen(&|| self.is_over(), &mut each)?;
        running.end(GRACE, &mut each)?;
        self.judge(ended)?;
        Ok(told)
    }

    /// Converts a time of the system's monotonic clock to the time of the run.
    fn at(&self, ns: u64) -> Duration {
        let since = lines::clock().saturating_sub(ns);
        self.course.now().saturating_sub(Duration::from_nanos(since))
    }
}
