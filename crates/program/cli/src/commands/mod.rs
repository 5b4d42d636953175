//! The commands, each in its own file.

mod advise;
mod analyze;
mod demo;
mod discard;
mod echo;
#[cfg_attr(not(target_os = "linux"), path = "relay.rs")]
mod emulate;
pub(crate) mod gateway;
mod get;
#[cfg(unix)]
mod inspect;
mod key;
mod lab;
pub(crate) mod options;
mod pattern;
mod perf;
mod put;
mod qlog;
#[cfg(target_os = "linux")]
mod run;
mod script;
pub(crate) mod serve;
mod shell;
mod swarm;
mod transfer;

use clap::Subcommand;

use crate::failure::Failure;

/// The commands of the program.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Serve(serve::Serve),
    Get(get::Get),
    Put(put::Put),
    Send(transfer::send::Send),
    Receive(transfer::receive::Receive),
    Gateway(gateway::Gateway),
    Perf(perf::Perf),
    Echo(echo::Echo),
    Discard(discard::Discard),
    #[cfg(unix)]
    Inspect(inspect::Inspect),
    #[cfg(target_os = "linux")]
    Run(run::Run),
    Emulate(emulate::Emulate),
    Pattern(pattern::Pattern),
    Analyze(analyze::Analyze),
    Qlog(qlog::Qlog),
    Demo(demo::Demo),
    Lab(lab::Lab),
    Advise(advise::Advise),
    Options(options::Options),
    Key(key::Key),
    Script(script::Script),
    Swarm(swarm::Swarm),
    Completions(shell::Completions),
    Man(shell::Man),
}

/// The threads that a command runs on, besides those for blocking calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Threads {
    /// A single thread: the work of one association does not justify handing it between threads.
    Own,
    /// One thread for each shard of its endpoint, or TOKIO_WORKER_THREADS. The task of an association
    /// and that of its endpoint exchange messages every few packets: two threads that wake each other
    /// need half as much processor time again as a single one that does all the work.
    Shards(usize),
    /// One thread for each core.
    Cores,
}

impl Command {
    pub(crate) fn threads(&self) -> Threads {
        let sctp = match self {
            Self::Get(_) | Self::Put(_) => return Threads::Own,
            // The engine has a thread of its own.
            #[cfg(target_os = "linux")]
            Self::Run(_) => return Threads::Own,
            Self::Serve(command) => command.sctp(),
            Self::Perf(command) => command.sctp(),
            Self::Echo(command) => Some(command.sctp()),
            Self::Gateway(command) => Some(command.sctp()),
            Self::Send(command) => Some(command.sctp()),
            Self::Receive(command) => Some(command.sctp()),
            Self::Discard(command) => Some(command.sctp()),
            _ => None,
        };
        sctp.map_or(Threads::Cores, |options| Threads::Shards(options.shards.unwrap_or(1)))
    }

    pub(crate) async fn run(self) -> Result<(), Failure> {
        match self {
            Self::Serve(command) => command.run().await,
            Self::Get(command) => command.run().await,
            Self::Put(command) => command.run().await,
            Self::Send(command) => command.run().await,
            Self::Receive(command) => command.run().await,
            Self::Gateway(command) => command.run().await,
            Self::Perf(command) => command.run().await,
            Self::Echo(command) => command.run().await,
            Self::Discard(command) => command.run().await,
            #[cfg(unix)]
            Self::Inspect(command) => command.run().await,
            #[cfg(target_os = "linux")]
            Self::Run(command) => command.run().await,
            Self::Emulate(command) => command.run().await,
            Self::Pattern(command) => command.run(),
            Self::Analyze(command) => command.run(),
            Self::Qlog(command) => command.run(),
            Self::Demo(command) => command.run().await,
            Self::Lab(command) => command.run().await,
            Self::Advise(command) => command.run(),
            Self::Options(command) => command.run(),
            Self::Key(command) => command.run(),
            Self::Script(command) => command.run(),
            Self::Swarm(command) => command.run().await,
            Self::Completions(command) => command.run(),
            Self::Man(command) => command.run(),
        }
    }
}
