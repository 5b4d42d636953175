//! One end of a connection in a separate process, for the benchmark `compare`.
//!
//! `wire-end sink|echo TRANSPORT` prints the port where it listens, serves one peer and prints its
//! measurements as one line of JSON. `wire-end source|ping|crowd TRANSPORT PORT` is the other end.
//! All traffic stays on 127.0.0.1 and in IP packets of 1500 bytes.
#![forbid(unsafe_code)]

mod anabranch_end;
mod limit;
mod measure;
mod options;
mod quic;
mod tcp;
mod udp;

use std::process::ExitCode;

use options::{Options, Role, Runtime, Transport};

/// Errors are messages for the user.
type Result<T> = std::result::Result<T, Box<dyn std::error::Error + Send + Sync>>;

/// Maximum size of IP packets in bytes, on every transport.
const IP_MTU: u16 = 1500;

/// Bytes of the IPv4 and UDP headers.
const UDP_HEADERS: u16 = 28;

/// Size of socket buffers that every datagram transport requests.
const SOCKET_BUFFER: usize = 4 << 20;

fn main() -> ExitCode {
    let result = options::parse(std::env::args_os().skip(1)).and_then(|options| run(&options));
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("wire-end: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(options: &Options) -> Result<()> {
    if let Some(cpu) = options.pin {
        let mut set = rustix::thread::CpuSet::new();
        set.set(cpu);
        rustix::thread::sched_setaffinity(None, &set)
            .map_err(|error| format!("cannot run on CPU {cpu} only: {error}"))?;
    }
    match (options.transport, options.role) {
        (Transport::Limit, Role::Sink) => limit::sink(),
        (Transport::Limit, Role::Source) => limit::source(options),
        (Transport::Udp, Role::Echo) => udp::echo(),
        (Transport::Udp, Role::Ping) => udp::ping(options),
        (Transport::Tcp, Role::Sink) => tcp::sink(),
        (Transport::Tcp, Role::Source) => tcp::source(options),
        (transport, role) => runtime(options)?.block_on(async {
            match (transport, role) {
                (Transport::Anabranch | Transport::Sealed | Transport::Native, Role::Sink) => {
                    anabranch_end::sink(options).await
                }
                (Transport::Anabranch | Transport::Sealed | Transport::Native, Role::Source) => {
                    anabranch_end::source(options).await
                }
                (Transport::Anabranch | Transport::Busy, Role::Echo) => {
                    anabranch_end::echo(options.transport).await
                }
                (Transport::Anabranch | Transport::Busy, Role::Ping) => {
                    anabranch_end::ping(options).await
                }
                (Transport::Anabranch, Role::Crowd) => anabranch_end::crowd(options).await,
                (Transport::Quinn, Role::Sink) => quic::sink().await,
                (Transport::Quinn, Role::Source) => quic::source(options).await,
                (Transport::TokioUdp, Role::Echo) => udp::echo_tokio().await,
                (Transport::TokioUdp, Role::Ping) => udp::ping_tokio(options).await,
                _ => Err("this transport has no such role here".into()),
            }
        }),
    }
}

fn runtime(options: &Options) -> Result<tokio::runtime::Runtime> {
    let mut builder = match options.runtime {
        Runtime::Current => tokio::runtime::Builder::new_current_thread(),
        Runtime::Multi => tokio::runtime::Builder::new_multi_thread(),
    };
    Ok(builder.enable_all().build()?)
}
