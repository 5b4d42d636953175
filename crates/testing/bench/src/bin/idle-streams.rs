//! Memory that a web server uses for idle streams, for the benchmark `web`.
//!
//! `idle-streams serve sctp|tcp|h3 DIRECTORY` prints the port where it listens, and for every input line the number of
//! bytes that its allocator holds. `idle-streams hold KIND PORT TARGET` reads a number from each input line, opens that
//! many objects, each after one answer, and confirms it. Kinds are streams of one association (`sctp`), TCP connections
//! (`tcp`), unfinished requests of one HTTP/3 connection (`h3-request`), and HTTP/3 connections (`h3`).
#![forbid(unsafe_code)]

use std::alloc::System;
use std::net::Ipv4Addr;
use std::path::Path;
use std::process::ExitCode;

use anabranch::{Association, Endpoint};
use anabranch_bench::web::ask::Line;
use anabranch_bench::web::http3::{self, Client};
use anabranch_bench::web::ours;
use anabranch_bench::{Result, words};
use anabranch_http::{OpenStreams as _, SctpStream};
use bytes::Bytes;
use h3::client::{RequestStream, SendRequest};
use h3_quinn::{BidiStream, OpenStreams};
use stats_alloc::{INSTRUMENTED_SYSTEM, StatsAlloc};
use tokio::io::{AsyncBufReadExt as _, BufReader, Lines, Stdin};
use tokio::net::TcpStream;

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

/// Number of bytes that the allocator holds.
fn held() -> usize {
    let stats = ALLOCATOR.stats();
    stats.bytes_allocated.wrapping_sub(stats.bytes_deallocated)
}

fn main() -> ExitCode {
    words::main("idle-streams", run)
}

fn run(words: &[&str]) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    match *words {
        ["serve", kind, directory] => runtime.block_on(serve(kind, Path::new(directory))),
        ["hold", kind, port, target] => runtime.block_on(hold(kind, port.parse()?, target)),
        _ => Err("nothing that this program can do".into()),
    }
}

fn told() -> Lines<BufReader<Stdin>> {
    BufReader::new(tokio::io::stdin()).lines()
}

/// Serves until its input ends.
async fn serve(kind: &str, directory: &Path) -> Result<()> {
    let answers = async {
        let mut told = told();
        while told.next_line().await?.is_some() {
            println!("{}", held());
        }
        Ok(())
    };
    let serving = async {
        match kind {
            "sctp" => ours::serve_sctp(directory).await,
            "tcp" => ours::serve_tcp(directory).await,
            "h3" => http3::serve(directory).await,
            _ => Err("there is no such server".into()),
        }
    };
    tokio::select! {
        result = answers => result,
        result = serving => result,
    }
}

/// The objects held open.
enum Holder {
    Sctp { association: Association, lines: Vec<Line<SctpStream>>, _endpoint: Endpoint },
    Tcp { port: u16, lines: Vec<Line<TcpStream>> },
    Request { requests: SendRequest<OpenStreams, Bytes>, held: Vec<Held>, _client: Client },
    Connection { port: u16, client: Client, held: Vec<SendRequest<OpenStreams, Bytes>> },
}

/// An HTTP/3 request.
type Held = RequestStream<BidiStream<Bytes>, Bytes>;

impl Holder {
    async fn new(kind: &str, port: u16, target: &str) -> Result<Self> {
        Ok(match kind {
            "sctp" => {
                let (endpoint, association) = ours::connect(port, ours::PORT).await?;
                Self::Sctp { association, lines: Vec::new(), _endpoint: endpoint }
            }
            "tcp" => Self::Tcp { port, lines: Vec::new() },
            "h3-request" => {
                let client = Client::new()?;
                let mut requests = client.connect(port).await?;
                http3::ask_once(&mut requests, target).await?;
                Self::Request { requests, held: Vec::new(), _client: client }
            }
            "h3" => Self::Connection { port, client: Client::new()?, held: Vec::new() },
            _ => return Err("there is nothing of this kind".into()),
        })
    }

    async fn one_more(&mut self, target: &str) -> Result<()> {
        match self {
            Self::Sctp { association, lines, .. } => {
                let mut line = Line::new(association.open().await?.io, target);
                line.ask().await?;
                lines.push(line);
            }
            Self::Tcp { port, lines } => {
                let stream = TcpStream::connect((Ipv4Addr::LOCALHOST, *port)).await?;
                let mut line = Line::new(stream, target);
                line.ask().await?;
                lines.push(line);
            }
            Self::Request { requests, held, .. } => {
                held.push(http3::begin(requests, target).await?);
            }
            Self::Connection { port, client, held } => {
                let mut requests = client.connect(*port).await?;
                http3::ask_once(&mut requests, target).await?;
                held.push(requests);
            }
        }
        Ok(())
    }
}

/// Opens as many objects as each input line says, and keeps them open until its input ends.
async fn hold(kind: &str, port: u16, target: &str) -> Result<()> {
    let mut holder = Holder::new(kind, port, target).await?;
    let mut told = told();
    while let Some(line) = told.next_line().await? {
        let more: usize = line.trim().parse()?;
        for _ in 0..more {
            holder.one_more(target).await?;
        }
        println!("holding");
    }
    Ok(())
}
