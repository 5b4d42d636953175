//! The command line.

use std::ffi::OsString;
use std::time::Duration;

use lexopt::{Arg, Parser, ValueExt};

use crate::Result;

/// The role of this end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    /// Receives data from one peer until it ends.
    Sink,
    /// Sends messages for a while.
    Source,
    /// Returns messages.
    Echo,
    /// Sends messages one by one and waits until each is returned.
    Ping,
    /// Connects many associations and lets them idle.
    Crowd,
}

/// The transport of the data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Transport {
    /// This project's SCTP over UDP.
    Anabranch,
    /// The same with busy polling, for latency.
    Busy,
    /// The same over sealed paths.
    Sealed,
    /// The same as IP protocol 132, which needs the capability CAP_NET_RAW.
    Native,
    Quinn,
    Tcp,
    /// UDP on blocking sockets, for latency.
    Udp,
    /// UDP on tokio's sockets, for latency.
    TokioUdp,
    /// UDP in batches with one copy and one checksum per packet on each side: the upper limit for
    /// SCTP.
    Limit,
}

/// The runtime of the asynchronous transports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Runtime {
    /// One thread for everything.
    Current,
    /// tokio's default, a thread for each core.
    Multi,
}

/// The options of one end.
#[derive(Debug)]
pub(crate) struct Options {
    pub(crate) role: Role,
    pub(crate) transport: Transport,
    pub(crate) port: u16,
    /// Message size in bytes.
    pub(crate) size: usize,
    pub(crate) duration: Duration,
    /// Number of round trips of a ping.
    pub(crate) count: usize,
    pub(crate) runtime: Runtime,
    /// Number of concurrent associations.
    pub(crate) associations: usize,
    /// The CPU to which the process is pinned.
    pub(crate) pin: Option<usize>,
}

/// Parses the arguments.
pub(crate) fn parse(arguments: impl Iterator<Item = OsString>) -> Result<Options> {
    let mut words = Vec::new();
    let mut options = Options {
        role: Role::Sink,
        transport: Transport::Anabranch,
        port: 0,
        size: 16 << 10,
        duration: Duration::from_secs(2),
        count: 20_000,
        runtime: Runtime::Current,
        associations: 1,
        pin: None,
    };
    let mut parser = Parser::from_args(arguments);
    while let Some(argument) = parser.next()? {
        match argument {
            Arg::Long("size") => options.size = parser.value()?.parse()?,
            Arg::Long("seconds") => {
                options.duration = Duration::try_from_secs_f64(parser.value()?.parse()?)?;
            }
            Arg::Long("count") => options.count = parser.value()?.parse()?,
            Arg::Long("associations") => options.associations = parser.value()?.parse()?,
            Arg::Long("pin") => options.pin = Some(parser.value()?.parse()?),
            Arg::Long("runtime") => {
                options.runtime = match parser.value()?.string()?.as_str() {
                    "current" => Runtime::Current,
                    "multi" => Runtime::Multi,
                    other => return Err(format!("no runtime is called '{other}'").into()),
                };
            }
            Arg::Value(word) => words.push(word.string()?),
            other => return Err(other.unexpected().into()),
        }
    }
    let mut words = words.iter().map(String::as_str);
    options.role = match words.next() {
        Some("sink") => Role::Sink,
        Some("source") => Role::Source,
        Some("echo") => Role::Echo,
        Some("ping") => Role::Ping,
        Some("crowd") => Role::Crowd,
        _ => return Err("the first word is sink, source, echo, ping or crowd".into()),
    };
    options.transport = match words.next() {
        Some("anabranch") => Transport::Anabranch,
        Some("anabranch-busy") => Transport::Busy,
        Some("sealed") => Transport::Sealed,
        Some("native") => Transport::Native,
        Some("quinn") => Transport::Quinn,
        Some("tcp") => Transport::Tcp,
        Some("udp") => Transport::Udp,
        Some("tokio-udp") => Transport::TokioUdp,
        Some("limit") => Transport::Limit,
        _ => {
            let known = "anabranch, sealed, native, quinn, tcp, udp, tokio-udp or limit";
            return Err(format!("the second word is {known}").into());
        }
    };
    if matches!(options.role, Role::Source | Role::Ping | Role::Crowd) {
        let port = words.next().and_then(|word| word.parse().ok());
        options.port = port.ok_or("the third word is the peer's port")?;
    }
    if let Some(word) = words.next() {
        return Err(format!("what is '{word}'?").into());
    }
    if options.size == 0 || options.count == 0 || options.associations == 0 {
        return Err("--size, --count and --associations are at least 1".into());
    }
    Ok(options)
}
