//! Child processes of a measurement, which end with it.

use std::fs::{self, File};
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeVal;

use crate::suite::Trouble;

/// How long a server may take until it listens.
const PATIENCE: Duration = Duration::from_secs(10);

/// A server process that runs until its value is dropped.
#[derive(Debug)]
pub struct Server(Child);

impl Server {
    /// Starts the process. Its output goes to a file, so that it never blocks.
    ///
    /// # Errors
    /// It cannot be started.
    pub fn start(command: &mut Command, says: &Path) -> Result<Self, Trouble> {
        let out = File::create(says).map_err(Trouble::failed)?;
        let errors = out.try_clone().map_err(Trouble::failed)?;
        command.stdin(Stdio::null()).stdout(out).stderr(errors);
        Ok(Self(spawn(command)?))
    }

    /// Waits until the output shows that it listens.
    ///
    /// # Errors
    /// It ends, or does not listen within ten seconds.
    pub fn until<V>(
        &mut self,
        says: &Path,
        mut listens: impl FnMut(&str) -> Option<V>,
    ) -> Result<V, Trouble> {
        let begun = Instant::now();
        loop {
            let said = fs::read_to_string(says).map_err(Trouble::failed)?;
            if let Some(value) = listens(&said) {
                return Ok(value);
            }
            let ended = self.0.try_wait().map_err(Trouble::failed)?.is_some();
            if ended || begun.elapsed() > PATIENCE {
                return Err(Trouble::Failed(format!("a server does not serve: {}", said.trim())));
            }
            sleep(Duration::from_millis(10));
        }
    }

    /// Its process number.
    pub fn id(&self) -> u32 {
        self.0.id()
    }

    /// Ends the process. Returns the CPU seconds that it has used.
    pub fn end(mut self) -> f64 {
        let before = of_children();
        self.stop();
        of_children() - before
    }

    fn stop(&mut self) {
        // Killing a process that has already ended fails, which does not matter.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop();
    }
}

/// CPU seconds of the child processes that this process has waited for.
fn of_children() -> f64 {
    let Ok(usage) = getrusage(UsageWho::RUSAGE_CHILDREN) else { return f64::NAN };
    let seconds = |time: TimeVal| time.tv_sec() as f64 + time.tv_usec() as f64 * 1e-6;
    seconds(usage.user_time()) + seconds(usage.system_time())
}

fn spawn(command: &mut Command) -> Result<Child, Trouble> {
    let name = command.get_program().to_string_lossy().into_owned();
    command.spawn().map_err(|error| match error.kind() {
        std::io::ErrorKind::NotFound => Trouble::Missing(format!("{name} is not installed")),
        _ => Trouble::Failed(format!("{name}: {error}")),
    })
}

/// Runs a process to its end; returns its output.
///
/// # Errors
/// It cannot be started, or fails.
pub fn output(command: &mut Command) -> Result<String, Trouble> {
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let name = command.get_program().to_string_lossy().into_owned();
    let output = spawn(command)?.wait_with_output().map_err(Trouble::failed)?;
    let said = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim().to_owned();
    if !output.status.success() {
        let why = said(&output.stderr);
        return Err(Trouble::Failed(format!("{name}: {}: {why}", output.status)));
    }
    Ok(said(&output.stdout))
}

/// A process that answers each input line with a line, and ends with its input.
#[derive(Debug)]
pub struct Answering {
    child: Child,
    to: Option<ChildStdin>,
    from: BufReader<ChildStdout>,
}

impl Answering {
    /// Starts the process.
    ///
    /// # Errors
    /// It cannot be started.
    pub fn start(command: &mut Command) -> Result<Self, Trouble> {
        let mut child = spawn(command.stdin(Stdio::piped()).stdout(Stdio::piped()))?;
        let to = child.stdin.take();
        let from = child.stdout.take().ok_or(Trouble::Failed("a pipe is missing".into()))?;
        Ok(Self { child, to, from: BufReader::new(from) })
    }

    /// Its next line.
    ///
    /// # Errors
    /// It has ended.
    pub fn line(&mut self) -> Result<String, Trouble> {
        let mut line = String::new();
        match self.from.read_line(&mut line).map_err(Trouble::failed)? {
            0 => Err(Trouble::Failed("a process has ended early".into())),
            _ => Ok(line.trim().to_owned()),
        }
    }

    /// Its answer to a line.
    ///
    /// # Errors
    /// It has ended.
    pub fn ask(&mut self, line: &str) -> Result<String, Trouble> {
        let to = self.to.as_mut().ok_or(Trouble::Failed("a pipe is missing".into()))?;
        writeln!(to, "{line}").and_then(|()| to.flush()).map_err(Trouble::failed)?;
        self.line()
    }
}

impl Drop for Answering {
    fn drop(&mut self) {
        self.to = None;
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
