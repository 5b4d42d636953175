//! The ends of a measurement: this program, started again by the emulator at its hosts.

use std::ffi::OsString;
use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::machine::{self, PROCESSORS};

/// The first argument of an end.
pub(crate) const MARK: &str = "--end";
/// The port where all ends listen.
pub(crate) const PORT: u16 = 7000;
/// The sequence number of the last datagram.
const LAST: u64 = u64::MAX;
/// Bytes of the IPv4 and UDP headers.
pub(crate) const HEADERS: usize = 28;
/// How long a sink waits for more datagrams.
const PATIENCE: Duration = Duration::from_secs(10);

type Outcome<V> = Result<V, Box<dyn std::error::Error>>;

/// Runs an end.
pub(crate) fn run(arguments: &[OsString]) -> Outcome<()> {
    let words: Vec<&str> = arguments.iter().filter_map(|word| word.to_str()).collect();
    machine::wake_in_time();
    if words.first().is_some_and(|role| role.contains("udp")) {
        machine::pin(PROCESSORS[1]);
    }
    if words.first().is_some_and(|role| role.starts_with("paced") || role.starts_with("timed")) {
        machine::be_first();
    }
    match words[..] {
        ["udp-sink" | "paced-udp-sink", file] => udp_sink(file, None),
        ["timed-udp-sink", file, delay] => udp_sink(file, Some(delay.parse()?)),
        ["udp-source" | "paced-udp-source" | "timed-udp-source", to, size, count, rate] => {
            udp_source(to.parse()?, size.parse()?, count.parse()?, rate.parse()?)
        }
        ["tcp-sink", file] => tcp_sink(file),
        ["tcp-source", to, seconds] => tcp_source(to.parse()?, seconds.parse()?),
        _ => Err("there is no such end".into()),
    }
}

/// Receives datagrams, each with its number and send time, and writes a report. For figures that measure times, `delay`
/// is the nominal delay in nanoseconds; the delay ends when this host's kernel took a datagram from the network.
fn udp_sink(file: &str, delay: Option<u64>) -> Outcome<()> {
    let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::DGRAM, None)?;
    // As large as the system allows.
    let _ = socket.set_recv_buffer_size(8 << 20);
    socket.bind(&SocketAddr::from(([0, 0, 0, 0], PORT)).into())?;
    let socket = UdpSocket::from(socket);
    socket.set_read_timeout(Some(PATIENCE))?;
    if delay.is_some() {
        ask_for_times(&socket)?;
    }
    let mut buffer = [0; 2048];
    let (mut seen, mut taken): (Vec<u64>, Vec<u64>) = (Vec::new(), Vec::new());
    let (mut first, mut last) = (0, 0);
    loop {
        let (size, came) = match delay {
            None => (socket.recv(&mut buffer)?, None),
            Some(_) => receive(&socket, &mut buffer)?,
        };
        let at = machine::wall();
        let number = |at: usize| -> Outcome<u64> {
            let bytes = buffer.get(at..at + 8).filter(|_| size >= at + 8).ok_or("too short")?;
            Ok(u64::from_be_bytes(bytes.try_into()?))
        };
        if number(0)? == LAST {
            break;
        }
        if seen.is_empty() {
            first = at;
        }
        last = at;
        let sent = number(8)?;
        seen.push(at.saturating_sub(sent));
        taken.extend(came.map(|came| came.saturating_sub(sent)));
    }
    let seconds = last.saturating_sub(first) as f64 * 1e-9;
    let mut told = json!({ "packets": seen.len(), "seconds": seconds });
    if let (Some(delay), Some(told)) = (delay, told.as_object_mut()) {
        told.insert("kernel".into(), errors(taken, delay));
        told.insert("program".into(), errors(seen, delay));
    }
    fs::write(file, told.to_string())?;
    Ok(())
}

/// Enables the kernel's receive timestamps.
#[cfg(target_os = "linux")]
fn ask_for_times(socket: &UdpSocket) -> Outcome<()> {
    use nix::sys::socket::{setsockopt, sockopt};
    Ok(setsockopt(socket, sockopt::ReceiveTimestampns, &true)?)
}

/// The emulator only runs on Linux.
#[cfg(not(target_os = "linux"))]
fn ask_for_times(_: &UdpSocket) -> Outcome<()> {
    Err("the kernel does not say when datagrams came".into())
}

#[cfg(not(target_os = "linux"))]
fn receive(socket: &UdpSocket, buffer: &mut [u8]) -> Outcome<(usize, Option<u64>)> {
    Ok((socket.recv(buffer)?, None))
}

/// Receives a datagram, with the wall clock time in nanoseconds when the kernel took it from the network.
#[cfg(target_os = "linux")]
fn receive(socket: &UdpSocket, buffer: &mut [u8]) -> Outcome<(usize, Option<u64>)> {
    use nix::sys::socket::{ControlMessageOwned, MsgFlags, recvmsg};
    use nix::sys::time::TimeValLike as _;
    let mut room = nix::cmsg_space!(nix::sys::time::TimeSpec);
    let mut parts = [std::io::IoSliceMut::new(buffer)];
    let flags = MsgFlags::empty();
    let message =
        recvmsg::<()>(std::os::fd::AsRawFd::as_raw_fd(socket), &mut parts, Some(&mut room), flags)?;
    let came = message.cmsgs()?.find_map(|control| match control {
        ControlMessageOwned::ScmTimestampns(time) => {
            Some(u64::try_from(time.num_nanoseconds()).unwrap_or(0))
        }
        _ => None,
    });
    Ok((message.bytes, came))
}

/// Quantiles of the absolute differences between delays and the nominal one, in nanoseconds.
fn errors(delays: Vec<u64>, asked: u64) -> Value {
    let mut errors: Vec<u64> = delays.into_iter().map(|delay| delay.abs_diff(asked)).collect();
    errors.sort_unstable();
    let quantile = |part: f64| {
        let index = (errors.len() as f64 * part) as usize;
        errors.get(index.min(errors.len().saturating_sub(1))).copied()
    };
    json!({ "p50": quantile(0.5), "p99": quantile(0.99), "p999": quantile(0.999) })
}

/// Sends datagrams of `size` bytes, including the IP header, at a rate; 0 means as fast as possible.
fn udp_source(to: SocketAddr, size: usize, count: u64, rate: u64) -> Outcome<()> {
    let socket = UdpSocket::bind("0.0.0.0:0")?;
    socket.connect(to)?;
    let mut packet = vec![0; size.saturating_sub(HEADERS).max(16)];
    let begun = machine::now();
    for number in 0..count {
        // Without a rate there is no wait.
        if let Some(after) = (number * 1_000_000_000).checked_div(rate) {
            let early = (begun + after).saturating_sub(machine::now());
            if early > 0 {
                std::thread::sleep(Duration::from_nanos(early));
            }
        }
        put(&mut packet, 0, number);
        put(&mut packet, 8, machine::wall());
        // Datagrams that find the queue full are missing at the sink.
        let _ = socket.send(&packet);
    }
    // Give the queues time to drain; at least one of these arrives.
    for _ in 0..20 {
        std::thread::sleep(Duration::from_millis(25));
        put(&mut packet, 0, LAST);
        let _ = socket.send(&packet);
    }
    Ok(())
}

fn put(packet: &mut [u8], at: usize, number: u64) {
    if let Some(place) = packet.get_mut(at..at + 8) {
        place.copy_from_slice(&number.to_be_bytes());
    }
}

/// Receives all data of a connection, and reports its size and duration.
fn tcp_sink(file: &str) -> Outcome<()> {
    let listener = TcpListener::bind(("0.0.0.0", PORT))?;
    let (mut stream, _) = listener.accept()?;
    let mut buffer = vec![0; 256 << 10];
    let begun = Instant::now();
    let mut bytes = 0;
    loop {
        match stream.read(&mut buffer)? {
            0 => break,
            count => bytes += count,
        }
    }
    let seconds = begun.elapsed().as_secs_f64();
    fs::write(file, json!({ "bytes": bytes, "seconds": seconds }).to_string())?;
    Ok(())
}

/// Sends for `seconds` seconds.
fn tcp_source(to: SocketAddr, seconds: f64) -> Outcome<()> {
    let mut stream = TcpStream::connect(to)?;
    let data = vec![0x5a; 128 << 10];
    let begun = Instant::now();
    while begun.elapsed().as_secs_f64() < seconds {
        stream.write_all(&data)?;
    }
    stream.shutdown(std::net::Shutdown::Write)?;
    stream.read_to_end(&mut Vec::new())?;
    Ok(())
}
