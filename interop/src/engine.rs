//! Runs an engine from crates.io on a UDP socket, as the peer programs in C do with their stacks.

use std::collections::VecDeque;
use std::io::{self, ErrorKind};
use std::net::{SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

use anabranch_peers::{self as peers, Config, Engine, Packets, Received};
use bytes::Bytes;
use clap::{Args, ValueEnum};

use crate::plan;

const COMMAND: &[u8] = b"#!interop ";

/// Largest UDP payload expected.
const DATAGRAM: usize = 65_536;

/// How long to continue after the end, so that the other side learns of it.
const AFTERMATH: Duration = Duration::from_secs(1);

#[derive(Args)]
pub(crate) struct Options {
    /// The engine.
    #[arg(long, value_enum)]
    kind: Kind,
    /// Whether this program begins the association.
    #[arg(long, value_enum)]
    role: Role,
    /// Local address and UDP port.
    #[arg(long)]
    local: SocketAddr,
    /// Address and UDP port of the other side.
    #[arg(long)]
    remote: SocketAddr,
    /// Receive window and send buffer in bytes.
    #[arg(long)]
    window: usize,
    /// Interleave messages, if the engine can.
    #[arg(long)]
    interleave: bool,
}

#[derive(Clone, Copy, ValueEnum)]
enum Kind {
    Dcsctp,
    RtcSctp,
    SctpProto,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Role {
    Listen,
    Connect,
}

/// The requests of the other side.
struct Application {
    /// Messages to send, with their streams.
    outgoing: VecDeque<(u16, Bytes)>,
    sink: bool,
    /// Whether to print each message.
    report: bool,
    /// A stream to reset, once everything is sent.
    reset: Option<u16>,
    paused_until: Option<Instant>,
    shut_down: bool,
    bytes: usize,
    hash: u64,
}

/// Runs an engine until its association has ended.
pub(crate) fn run(options: &Options) -> Result<(), String> {
    serve(options).map_err(|e| format!("engine: {e}"))
}

fn serve(options: &Options) -> io::Result<()> {
    let config = Config {
        receive_window: options.window,
        send_buffer: options.window,
        rto_min: 200,
        interleaving: options.interleave,
        ..Config::default()
    };
    let (kind, role) = (options.kind.kind(), options.role);
    let mut engine = kind.build(
        &config,
        if role == Role::Listen { peers::Role::Server } else { peers::Role::Client },
    );
    let socket = UdpSocket::bind(options.local)?;
    let origin = Instant::now();
    let now = || u64::try_from(origin.elapsed().as_nanos()).unwrap_or(u64::MAX);
    let mut application = Application {
        outgoing: VecDeque::new(),
        sink: false,
        report: false,
        reset: None,
        paused_until: None,
        shut_down: false,
        bytes: 0,
        hash: plan::HASH_START,
    };
    let mut buffer = vec![0; DATAGRAM];
    let mut up = false;
    let mut ended: Option<Instant> = None;
    if role == Role::Listen {
        println!("ready");
    } else {
        engine.connect(now());
    }
    loop {
        if engine.deadline().is_some_and(|at| at <= now()) {
            engine.timeout(now());
        }
        application.act(&mut *engine, &now);
        transmit(&mut *engine, &socket, options.remote, now());
        if engine.established() && !up {
            up = true;
            println!("up");
        }
        if engine.closed() && ended.is_none() {
            ended = Some(Instant::now());
            let (bytes, hash) = (application.bytes, application.hash);
            println!("end bytes={bytes} hash={hash:016x} how=shutdown");
        }
        if ended.is_some_and(|at| at.elapsed() > AFTERMATH) {
            return Ok(());
        }
        let deadline = engine
            .deadline()
            .map_or(Duration::MAX, |at| Duration::from_nanos(at.saturating_sub(now())));
        let most = if application.waits() { 2 } else { 50 };
        let wait = deadline.clamp(Duration::from_micros(100), Duration::from_millis(most));
        socket.set_read_timeout(Some(wait))?;
        if let Some(packet) = receive(&socket, &mut buffer, options.remote)? {
            engine.handle(now(), Packets::one(packet));
        }
    }
}

/// Sends the packets that the engine has ready.
fn transmit(engine: &mut dyn Engine, socket: &UdpSocket, to: SocketAddr, now: u64) {
    let mut failed = None;
    engine.transmit(now, &mut |packets| {
        for packet in packets.each() {
            match socket.send_to(&packet, to) {
                // Treat ICMP errors of earlier packets as losses.
                Ok(_) => {}
                Err(e) if e.kind() == ErrorKind::ConnectionRefused => {}
                Err(e) => failed = Some(e),
            }
        }
    });
    if let Some(error) = failed {
        eprintln!("engine: {error}");
    }
}

/// Waits for a packet from the other side; `None` if the socket's timeout ends first.
fn receive(socket: &UdpSocket, buffer: &mut [u8], from: SocketAddr) -> io::Result<Option<Bytes>> {
    match socket.recv_from(buffer) {
        Ok((length, sender)) if sender == from => {
            Ok(Some(Bytes::copy_from_slice(buffer.get(..length).unwrap_or_default())))
        }
        Ok(_) => Ok(None),
        Err(e)
            if matches!(
                e.kind(),
                ErrorKind::WouldBlock
                    | ErrorKind::TimedOut
                    | ErrorKind::Interrupted
                    | ErrorKind::ConnectionRefused
            ) =>
        {
            Ok(None)
        }
        Err(e) => Err(e),
    }
}

impl Kind {
    fn kind(self) -> peers::Kind {
        match self {
            Kind::Dcsctp => peers::Kind::DcSctp,
            Kind::RtcSctp => peers::Kind::RtcSctp,
            Kind::SctpProto => peers::Kind::SctpProto,
        }
    }
}

impl Application {
    /// Whether there is work to do without a packet.
    fn waits(&self) -> bool {
        self.paused_until.is_some()
            || !self.outgoing.is_empty()
            || self.shut_down
            || self.reset.is_some()
    }

    fn act(&mut self, engine: &mut dyn Engine, now: &dyn Fn() -> u64) {
        loop {
            while let Some((stream, message)) = self.outgoing.front()
                && engine.send(now(), *stream, *stream % 2 == 0, message)
            {
                self.outgoing.pop_front();
            }
            if self.paused_until.is_some_and(|at| at > Instant::now()) {
                return;
            }
            self.paused_until = None;
            // Do not read while there are messages that cannot be sent.
            if !self.outgoing.is_empty() && !self.sourcing() {
                return;
            }
            let Some(received) = engine.receive() else {
                break;
            };
            self.take(received, engine, now());
        }
        while let Some(stream) = engine.next_reset() {
            println!("reset incoming {stream}");
        }
        // Some engines drop what is still queued when they reset a stream or shut down.
        if let Some(stream) = self.reset
            && self.outgoing.is_empty()
            && engine.buffered() == 0
        {
            self.reset = None;
            if !engine.reset_stream(now(), stream) {
                eprintln!("engine: stream {stream} is not reset");
            }
        }
        if self.shut_down && self.outgoing.is_empty() && engine.buffered() == 0 {
            self.shut_down = false;
            engine.shutdown(now());
        }
    }

    /// Whether this side sends its own messages, while it also returns others.
    fn sourcing(&self) -> bool {
        self.outgoing.len() > 1
    }

    fn take(&mut self, received: Received, engine: &mut dyn Engine, now: u64) {
        let stream = received.stream;
        let bytes = received.body.into_vec();
        let Some(command) = bytes.strip_prefix(COMMAND) else {
            self.bytes += bytes.len();
            self.hash = plan::hash_of(self.hash, &bytes);
            if self.report {
                let hash = plan::hash_of(plan::HASH_START, &bytes);
                println!("message {stream} {} {hash:016x}", bytes.len());
            }
            if !self.sink {
                self.outgoing.push_back((stream, bytes.into()));
            }
            return;
        };
        let text = String::from_utf8_lossy(command);
        let mut words = text.split(' ');
        let name = words.next().unwrap_or_default();
        let numbers: Vec<u64> = words.filter_map(|word| word.parse().ok()).collect();
        match (name, &numbers[..]) {
            ("source", &[count, size, streams, seed]) => {
                let size = usize::try_from(size).unwrap_or(0);
                for index in 0..count {
                    let stream = index % streams.max(1);
                    let message = plan::pattern(size, seed, index);
                    self.outgoing.push_back((stream as u16, message));
                }
            }
            ("pause", &[milliseconds]) => {
                self.paused_until = Some(Instant::now() + Duration::from_millis(milliseconds));
            }
            ("mixed", &[long, short, count, seed]) => {
                for index in 0..=count {
                    let size = if index == 0 { long } else { short };
                    let message = plan::pattern(usize::try_from(size).unwrap_or(0), seed, index);
                    self.outgoing.push_back((plan::mixed_stream(index), message));
                }
            }
            ("reset", &[stream]) => self.reset = u16::try_from(stream).ok(),
            ("sink", []) => self.sink = true,
            ("report", []) => {
                (self.sink, self.report) = (true, true);
                println!("reporting");
            }
            ("shutdown", []) => self.shut_down = true,
            ("abort", []) => engine.abort(now),
            _ => eprintln!("engine: unknown command '{text}'"),
        }
    }
}
