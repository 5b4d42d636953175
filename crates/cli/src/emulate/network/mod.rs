//! Networks of hosts, routers and links from a file, and programs in them.

pub(crate) mod capture;
pub(crate) mod fates;
pub(crate) mod forwarder;
pub(crate) mod host;
mod icmp;
pub(crate) mod isolation;
mod join;
mod names;
pub(crate) mod netlink;
mod packet;
pub(crate) mod priority;
mod replay;
mod report;
mod rest;
pub(crate) mod routing;
pub(crate) mod sink;
pub(crate) mod topology;
pub(crate) mod ways;

use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::time::Duration;

use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;

use self::capture::Capture;
use self::fates::FateLog;
pub(crate) use self::fates::Form;
pub(crate) use self::forwarder::Summary;
use self::forwarder::{Network, Observers};
use self::host::{Host, shell};
use self::replay::Replay;
use self::routing::Routes;
use self::topology::Topology;
use self::ways::ways;
use crate::failure::{Failure, complain};
use crate::impairment::{self, read_with_patterns};
use crate::interrupt::Interrupt;

/// How long programs have to end when they are asked to.
const GRACE: Duration = Duration::from_secs(2);
/// How often is looked whether a program has ended.
const LOOK: Duration = Duration::from_millis(10);

/// What is to be emulated.
#[derive(Debug)]
pub(crate) struct NetworkRun {
    pub(crate) file: PathBuf,
    /// At the first host.
    pub(crate) command: Vec<String>,
    /// At others: host and line.
    pub(crate) at: Vec<(String, String)>,
    /// How long the others run before the command begins.
    pub(crate) head_start: Duration,
    pub(crate) seed: Option<u64>,
    pub(crate) log: Option<PathBuf>,
    pub(crate) form: Form,
    pub(crate) replay: Option<PathBuf>,
    pub(crate) capture: Option<PathBuf>,
    pub(crate) report: Option<PathBuf>,
    pub(crate) quiet: bool,
}

/// A file with a network.
fn read(path: &Path) -> Result<Topology, Failure> {
    read_with_patterns(path, |text, load| Topology::read(text, load))
}

impl NetworkRun {
    /// Refuses invalid settings before any namespace is made.
    pub(crate) fn check(&self) -> Result<(), Failure> {
        let topology = read(&self.file)?;
        for (host, _) in &self.at {
            host_named(&topology, host)?;
        }
        // What runs before the command may make it.
        let alone = self.at.is_empty() && topology.nodes.iter().all(|node| node.run.is_empty());
        match self.command.first() {
            Some(program) if alone && !is_there(program) => {
                Err(Failure::failed(format!("'{program}' cannot be run: there is no such program")))
            }
            _ => Ok(()),
        }
    }

    /// Makes the network and runs the programs in it until the command ends, or the user stops it.
    pub(crate) async fn run(self) -> Result<(), Failure> {
        let interrupt = Interrupt::install()?;
        let topology = read(&self.file)?;
        let ways = ways(&topology);
        let replay = match &self.replay {
            Some(path) => Some(Replay::open(path, &ways)?),
            None => None,
        };
        let earlier = replay.as_ref().and_then(|replay| replay.seed);
        let seed = self.seed.or(earlier).or(topology.seed).unwrap_or_else(impairment::seed);
        let routes = Routes::new(&topology);
        if let Err(reason) = names::publish(&topology)
            && !self.quiet
        {
            complain(&format!("hosts have no names for programs, only addresses: {reason}"));
        }
        let (mut hosts, mut devices) = (Vec::new(), Vec::new());
        for (node, spec) in topology.nodes.iter().enumerate() {
            hosts.push(match spec.is_host {
                true => Some(Host::make(&topology, &routes, node)?),
                false => None,
            });
            if let Some(Some(host)) = hosts.last_mut() {
                devices.append(&mut host.devices);
            }
        }
        let interfaces = interfaces(&topology, &routes, &devices);
        let observers = self.observers(replay, &ways, &interfaces, seed)?;
        let network = Network::new(&topology, routes, ways.clone(), devices, observers, seed)?;
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let commands = run_commands();
        // A thread of its own: it waits with more precision than the runtime's timers have.
        let mut forwarding = tokio::task::spawn_blocking(move || {
            priority::be_punctual(priority::Rank::Network);
            // The thread for them gets a line, or has ended because nobody waits for it any more.
            network.run(&stopped, |line| drop(commands.send(line.to_owned())))
        });
        let ended = {
            let mut programs = Programs::default();
            let ended = tokio::select! {
                ended = self.programs(&topology, &hosts, &mut programs) => ended,
                () = interrupt.wait() => Err(Failure::Interrupted),
                // It ends by itself only when something is wrong.
                wrong = &mut forwarding => {
                    let wrong = wrong.map_err(Failure::failed)?;
                    return Err(wrong.err().unwrap_or(Failure::Reported));
                }
            };
            programs.end().await;
            ended
        };
        stop.store(true, Ordering::Relaxed);
        let summary = forwarding.await.map_err(Failure::failed)??;
        self.tell(&ways, &summary, seed)?;
        ended
    }

    /// What watches the packets, as far as it is wanted.
    fn observers(
        &self,
        replay: Option<Replay>,
        ways: &[ways::Way],
        interfaces: &[String],
        seed: u64,
    ) -> Result<Observers, Failure> {
        let log = self.log.as_ref().map(|path| FateLog::create(path, self.form, ways, seed));
        let capture = self.capture.as_ref().map(|path| Capture::create(path, interfaces));
        Ok(Observers { log: log.transpose()?, replay, capture: capture.transpose()? })
    }

    /// Runs the programs; the end of the command is the end.
    async fn programs(
        &self,
        topology: &Topology,
        hosts: &[Option<Host>],
        programs: &mut Programs,
    ) -> Result<(), Failure> {
        let own = topology.nodes.iter().enumerate();
        let own = own.flat_map(|(node, spec)| spec.run.iter().map(move |line| (node, line)));
        let mut lines: Vec<(usize, &String)> = own.collect();
        for (host, line) in &self.at {
            lines.push((host_named(topology, host)?, line));
        }
        for (node, line) in &lines {
            if let Some(Some(host)) = hosts.get(*node) {
                programs.start(host, &mut shell(line), line)?;
            }
        }
        if !lines.is_empty() && !self.command.is_empty() {
            tokio::time::sleep(self.head_start).await;
        }
        let Some((program, arguments)) = self.command.split_first() else {
            if !self.quiet {
                complain("the network is there; Ctrl-C ends it");
            }
            return std::future::pending().await;
        };
        let first = topology.nodes.iter().position(|node| node.is_host).unwrap_or(0);
        let Some(Some(host)) = hosts.get(first) else { return Ok(()) };
        let mut command = Command::new(program);
        let index = programs.start(host, command.args(arguments), program)?;
        programs.wait(index).await
    }

    fn tell(&self, ways: &[ways::Way], summary: &Summary, seed: u64) -> Result<(), Failure> {
        if let Some(path) = &self.report {
            report::save(path, ways, summary, seed)?;
        }
        if !self.quiet {
            report::tell(ways, summary);
        }
        Ok(())
    }
}

/// Whether a program can be found as the system will look for it.
fn is_there(program: &str) -> bool {
    use std::os::unix::fs::PermissionsExt as _;
    let runs = |file: &Path| {
        file.metadata()
            .is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
    };
    if program.contains('/') {
        return runs(Path::new(program));
    }
    // Without PATH, the system has directories of its own.
    std::env::var_os("PATH")
        .is_none_or(|path| std::env::split_paths(&path).any(|folder| runs(&folder.join(program))))
}

/// Runs the commands of triggers, one line for the shell each. They do not have the priority of the thread that
/// forwards.
fn run_commands() -> mpsc::Sender<String> {
    let (sender, lines) = mpsc::channel::<String>();
    std::thread::spawn(move || {
        for line in lines {
            if let Err(error) = shell(&line).env_remove(isolation::INSIDE).spawn() {
                complain(&format!("'{line}' cannot be run: {error}"));
            }
        }
    });
    sender
}

fn host_named(topology: &Topology, name: &str) -> Result<usize, Failure> {
    let found = topology.nodes.iter().position(|node| node.is_host && node.name == name);
    found.ok_or_else(|| Failure::usage(format!("there is no host '{name}' in the network")))
}

/// Names of the ports, for captures.
fn interfaces(
    topology: &Topology,
    routes: &Routes,
    devices: &[(usize, tun_rs::SyncDevice)],
) -> Vec<String> {
    let attachments = devices.iter().filter_map(|(index, _)| routes.attachments.get(*index));
    let named = attachments.map(|at| {
        let node = topology.nodes.get(at.node).map_or("", |node| node.name.as_str());
        let link = topology.links.get(at.link).map_or("", |link| link.name.as_str());
        format!("{node}:{link}")
    });
    named.collect()
}

/// Programs in the hosts.
#[derive(Default)]
struct Programs(Vec<Child>);

impl Programs {
    fn start(&mut self, host: &Host, command: &mut Command, name: &str) -> Result<usize, Failure> {
        let child = host
            .spawn(command.env_remove(isolation::INSIDE))
            .map_err(|error| Failure::failed(format!("'{name}' cannot be run: {error}")))?;
        self.0.push(child);
        Ok(self.0.len() - 1)
    }

    /// Waits for one of them. Its exit code is the emulator's.
    async fn wait(&mut self, index: usize) -> Result<(), Failure> {
        use std::os::unix::process::ExitStatusExt as _;
        let Some(child) = self.0.get_mut(index) else { return Ok(()) };
        loop {
            match child.try_wait() {
                Ok(None) => tokio::time::sleep(LOOK).await,
                Ok(Some(status)) if status.success() => return Ok(()),
                Ok(Some(status)) => {
                    let code = status.code().or(status.signal().map(|signal| 128 + signal));
                    let code = code.and_then(|code| u8::try_from(code).ok()).unwrap_or(1);
                    return Err(Failure::Exit(code));
                }
                Err(error) => return Err(Failure::failed(error)),
            }
        }
    }

    /// Asks all to end. What does not is ended with the emulator.
    async fn end(&mut self) {
        for child in &mut self.0 {
            if let (Ok(None), Ok(id)) = (child.try_wait(), i32::try_from(child.id())) {
                // A program at a host leads its group; the command is in the emulator's own.
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
