//! Programs in the hosts of a network.

use std::path::Path;
use std::process::{Child, Command, ExitStatus};
use std::time::Duration;

use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;

use super::host::{Host, shell};
use super::topology::Topology;
use crate::isolation::INSIDE;
use crate::{Error, Notice, Notify};

/// How long programs have to end after they are asked to.
const GRACE: Duration = Duration::from_secs(2);
/// Interval for checking whether a program has ended.
const LOOK: Duration = Duration::from_millis(10);

/// Programs to run in a network in addition to those in its file.
#[derive(Clone, Debug)]
pub struct Programs {
    /// A program and its arguments, at the first host. When it ends, the run ends. If empty, the run continues until it
    /// is stopped.
    pub command: Vec<String>,
    /// Programs at other hosts: the host, and a shell command line.
    pub at: Vec<(String, String)>,
    /// How long the others run before the command starts.
    pub head_start: Duration,
}

/// How a run ended.
#[derive(Debug)]
pub enum Ended {
    /// With the command.
    Command(ExitStatus),
    /// The caller stopped it.
    Stopped,
}

impl Programs {
    /// Refuses programs that cannot run, before any namespace is created.
    ///
    /// # Errors
    /// Fails if the network does not have a host or the command does not exist.
    pub fn check(&self, topology: &Topology) -> Result<(), Error> {
        for (host, _) in &self.at {
            host_named(topology, host)?;
        }
        // A program that runs before the command may create it.
        let alone = self.at.is_empty() && topology.nodes.iter().all(|node| node.run.is_empty());
        match self.command.first() {
            Some(program) if alone && !is_there(program) => Err(Error::NoProgram(program.clone())),
            _ => Ok(()),
        }
    }

    /// Runs the programs until the command ends.
    pub(super) async fn run(
        &self,
        topology: &Topology,
        hosts: &[Option<Host>],
        running: &mut Running,
        notify: &Notify,
    ) -> Result<Ended, Error> {
        let own = topology.nodes.iter().enumerate();
        let own = own.flat_map(|(node, spec)| spec.run.iter().map(move |line| (node, line)));
        let mut lines: Vec<(usize, &String)> = own.collect();
        for (host, line) in &self.at {
            lines.push((host_named(topology, host)?, line));
        }
        for (node, line) in &lines {
            if let Some(Some(host)) = hosts.get(*node) {
                running.start(host, &mut shell(line), line)?;
            }
        }
        if !lines.is_empty() && !self.command.is_empty() {
            tokio::time::sleep(self.head_start).await;
        }
        let first = hosts.iter().flatten().next();
        let (Some((program, arguments)), Some(host)) = (self.command.split_first(), first) else {
            notify(Notice::Ready);
            return std::future::pending().await;
        };
        let mut command = Command::new(program);
        let index = running.start(host, command.args(arguments), program)?;
        running.wait(index).await.map(Ended::Command)
    }
}

/// Whether the system will find this program.
fn is_there(program: &str) -> bool {
    use std::os::unix::fs::PermissionsExt as _;
    let runs = |file: &Path| {
        file.metadata()
            .is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
    };
    if program.contains('/') {
        return runs(Path::new(program));
    }
    // Without PATH, the system searches directories of its own.
    std::env::var_os("PATH")
        .is_none_or(|path| std::env::split_paths(&path).any(|folder| runs(&folder.join(program))))
}

fn host_named(topology: &Topology, name: &str) -> Result<usize, Error> {
    let found = topology.nodes.iter().position(|node| node.is_host && node.name == name);
    found.ok_or_else(|| Error::NoHost(name.to_owned()))
}

/// Programs that have been started.
#[derive(Default)]
pub(super) struct Running(Vec<Child>);

impl Running {
    fn start(&mut self, host: &Host, command: &mut Command, name: &str) -> Result<usize, Error> {
        let child = host
            .spawn(command.env_remove(INSIDE))
            .map_err(|error| Error::Program { program: name.to_owned(), error })?;
        self.0.push(child);
        Ok(self.0.len() - 1)
    }

    /// Waits for one of them.
    async fn wait(&mut self, index: usize) -> Result<ExitStatus, Error> {
        let Some(child) = self.0.get_mut(index) else { return std::future::pending().await };
        loop {
            match child.try_wait() {
                Ok(None) => tokio::time::sleep(LOOK).await,
                Ok(Some(status)) => return Ok(status),
                Err(error) => return Err(Error::Io(error)),
            }
        }
    }

    /// Asks all programs to end. Programs that do not are killed when the emulator ends.
    pub(super) async fn end(&mut self) {
        for child in &mut self.0 {
            if let (Ok(None), Ok(id)) = (child.try_wait(), i32::try_from(child.id())) {
                // A program at a host leads its own process group; the command is in the emulator's group.
                let _ = killpg(Pid::from_raw(id), Signal::SIGTERM)
                    .or_else(|_| nix::sys::signal::kill(Pid::from_raw(id), Signal::SIGTERM));
            }
        }
        let until = tokio::time::Instant::now() + GRACE;
        while tokio::time::Instant::now() < until
            && self.0.iter_mut().any(|child| matches!(child.try_wait(), Ok(None)))
        {
            tokio::time::sleep(LOOK).await;
        }
    }
}
