//! A running program and the lines that it prints.

use std::io::{self, Read as _};
use std::process::{Child, ChildStdout, Command, ExitStatus};
use std::time::{Duration, Instant};

use anabranch_lab::metrics;
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use rustix::time::{ClockId, clock_gettime};

/// Longest line of a program.
const LONGEST: usize = 4096;
/// Interval for checking whether the run is over.
const LOOK: Duration = Duration::from_millis(20);

/// The system's monotonic clock in nanoseconds.
pub(super) fn clock() -> u64 {
    let time = clock_gettime(ClockId::Monotonic);
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    seconds.saturating_mul(1_000_000_000) + u64::try_from(time.tv_nsec).unwrap_or(0)
}

/// What a line of a program reports.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Word<'a> {
    /// The receiver is reachable.
    Ready,
    /// The sender requests a connection.
    Started,
    /// The sender has a connection.
    Connected,
    /// This many more bytes have arrived.
    Arrived(usize),
    /// The name and value of one of the sender's metrics.
    Told(&'a str, f64),
}

/// A line: a time, a word and its arguments.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Line<'a> {
    pub(super) text: &'a str,
    pub(super) ns: u64,
    pub(super) word: Word<'a>,
}

impl<'a> Line<'a> {
    /// Parses a line; `None` if it is not valid.
    fn read(text: &'a str) -> Option<Self> {
        let mut parts = text.split_ascii_whitespace();
        let ns = parts.next()?.parse().ok()?;
        let word = match parts.next()? {
            "ready" => Word::Ready,
            "started" => Word::Started,
            "connected" => Word::Connected,
            "arrived" => Word::Arrived(parts.next()?.parse().ok()?),
            "told" => {
                let name = parts.next().filter(|name| metrics::find(name).is_some())?;
                Word::Told(
                    name,
                    parts.next()?.parse().ok().filter(|value: &f64| value.is_finite())?,
                )
            }
            _ => return None,
        };
        parts.next().is_none().then_some(Self { text, ns, word })
    }
}

/// Why listening has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ended {
    /// The run is over.
    Over,
    /// The program ended early.
    Early(ExitStatus),
}

/// A running program. Dropping this value kills it and everything that it has started.
pub(super) struct Running {
    child: Child,
    out: ChildStdout,
    /// Bytes that were read and do not form a whole line yet.
    held: Vec<u8>,
}

impl Drop for Running {
    fn drop(&mut self) {
        // It leads its process group. Killing a program that has ended fails, which does not
        // matter.
        if let Ok(id) = i32::try_from(self.child.id()) {
            let _ = killpg(Pid::from_raw(id), Signal::SIGKILL);
        }
        let _ = self.child.wait();
    }
}

impl Running {
    /// Starts a command in its own process group with a pipe as its output.
    pub(super) fn start(command: &mut Command) -> io::Result<Self> {
        let mut child = command.spawn()?;
        let out = child.stdout.take().ok_or_else(|| io::Error::other("there is no pipe"))?;
        Ok(Self { child, out, held: Vec::new() })
    }

    /// Processes its lines until the run is over or the program ends.
    pub(super) fn listen(
        &mut self,
        over: &dyn Fn() -> bool,
        mut each: impl FnMut(&Line<'_>) -> io::Result<()>,
    ) -> io::Result<Ended> {
        let mut room = [0; 1 << 16];
        while !over() {
            let mut waited = [PollFd::new(std::os::fd::AsFd::as_fd(&self.out), PollFlags::POLLIN)];
            match poll(&mut waited, PollTimeout::try_from(LOOK).unwrap_or(PollTimeout::ZERO)) {
                Ok(0) | Err(Errno::EINTR) => continue,
                Ok(_) => {}
                Err(error) => return Err(error.into()),
            }
            let count = self.out.read(&mut room)?;
            if count == 0 {
                return self.child.wait().map(Ended::Early);
            }
            self.held.extend_from_slice(room.get(..count).unwrap_or_default());
            self.take(&mut each)?;
        }
        Ok(Ended::Over)
    }

    /// Processes the complete lines in the buffer.
    fn take(&mut self, each: &mut impl FnMut(&Line<'_>) -> io::Result<()>) -> io::Result<()> {
        let whole = self.held.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
        if self.held.len() - whole > LONGEST {
            return Err(io::Error::other(format!("a line has more than {LONGEST} bytes")));
        }
        let lines: Vec<u8> = self.held.drain(..whole).collect();
        for line in lines.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
            let text = String::from_utf8_lossy(line);
            let Some(line) = Line::read(&text) else {
                let shown: String = text.chars().take(80).collect();
                return Err(io::Error::other(format!(
                    "it says '{shown}', which is not a valid line"
                )));
            };
            each(&line)?;
        }
        Ok(())
    }

    /// Tells the program that the run is over, and processes its last lines for the time `grace`.
    pub(super) fn end(
        mut self,
        grace: Duration,
        each: impl FnMut(&Line<'_>) -> io::Result<()>,
    ) -> io::Result<()> {
        drop(self.child.stdin.take());
        let until = Instant::now() + grace;
        self.listen(&|| Instant::now() >= until, each).map(drop)
    }
}

#[cfg(test)]
mod tests {
    use std::process::Stdio;

    use super::*;
    use crate::network::host::shell;

    #[test]
    fn lines_have_a_time_and_a_word() {
        let text = "12 arrived 1452";
        assert_eq!(Line::read(text), Some(Line { text, ns: 12, word: Word::Arrived(1452) }));
        let word = |text| Line::read(text).map(|line| line.word);
        assert_eq!(word("0 ready"), Some(Word::Ready));
        assert_eq!(word("7 told timeouts 3"), Some(Word::Told("timeouts", 3.0)));
        for wrong in [
            "",
            "ready",
            "-1 ready",
            "1 ready now",
            "1 arrived",
            "1 arrived -5",
            "1 told timeout 3",
            "1 told timeouts NaN",
            "1 hello",
        ] {
            assert_eq!(Line::read(wrong), None, "{wrong}");
        }
    }

    /// The lines printed by a shell command line, and how listening to it ended.
    fn said(line: &str, lines: usize) -> (io::Result<Ended>, Vec<String>) {
        let mut command = shell(line);
        let mut running =
            Running::start(command.stdin(Stdio::piped()).stdout(Stdio::piped())).unwrap();
        let said = std::cell::RefCell::new(Vec::new());
        let mut each = |line: &Line<'_>| {
            said.borrow_mut().push(line.text.to_owned());
            Ok(())
        };
        let ended = running.listen(&|| said.borrow().len() >= lines, &mut each);
        if ended.is_ok() {
            running.end(Duration::from_secs(60), &mut each).unwrap();
        }
        (ended, said.into_inner())
    }

    #[test]
    fn programs_are_listened_to_until_they_end() {
        // The end of its input tells the program that the transfer is over; then it reports its
        // counters.
        let (ended, lines) = said("echo 1 ready; cat > /dev/null; echo 2 told timeouts 4", 1);
        assert_eq!(ended.unwrap(), Ended::Over);
        assert_eq!(lines, ["1 ready", "2 told timeouts 4"]);
        let (ended, lines) = said("printf '1 arr'; printf 'ived 5\\n2 arrived 6\\n'; exit 3", 9);
        let Ok(Ended::Early(status)) = ended else { panic!("{ended:?}") };
        assert_eq!((status.code(), lines.len()), (Some(3), 2));
        let (ended, _) = said("echo hello; sleep 600", 9);
        assert!(ended.unwrap_err().to_string().contains("says 'hello'"));
        let (ended, _) = said("head -c 9999 /dev/zero; sleep 600", 9);
        assert!(ended.unwrap_err().to_string().contains("more than 4096"));
    }
}
