//! Plain UDP for latency measurements.

use std::net::{Ipv4Addr, UdpSocket};
use std::time::{Duration, Instant};

use crate::measure::{self, Pings};
use crate::options::Options;
use crate::{IP_MTU, Result};

/// An echo server that receives nothing for this time ends.
const PATIENCE: Duration = Duration::from_secs(2);

/// A datagram of this length ends the echo server.
const END: usize = 1;

fn bind() -> Result<UdpSocket> {
    Ok(UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?)
}

/// Returns every datagram, with blocking calls.
pub(crate) fn echo() -> Result<()> {
    let socket = bind()?;
    measure::listening(socket.local_addr()?.port())?;
    let mut buffer = [0; IP_MTU as usize];
    loop {
        let (len, from) = socket.recv_from(&mut buffer)?;
        if len == END {
            return Ok(());
        }
        socket.send_to(buffer.get(..len).unwrap_or_default(), from)?;
    }
}

/// Measures round trips, with blocking calls.
pub(crate) fn ping(options: &Options) -> Result<()> {
    let socket = bind()?;
    socket.connect((Ipv4Addr::LOCALHOST, options.port))?;
    // A lost datagram must not block the benchmark forever.
    socket.set_read_timeout(Some(PATIENCE))?;
    let data = vec![0x5a; options.size.max(END + 1)];
    let mut buffer = [0; IP_MTU as usize];
    let mut pings = Pings::new(options.count);
    for _ in 0..options.count {
        let start = Instant::now();
        socket.send(&data)?;
        socket.recv(&mut buffer)?;
        pings.add(start.elapsed());
    }
    socket.send(&[0; END])?;
    pings.report();
    Ok(())
}

fn bind_tokio() -> Result<tokio::net::UdpSocket> {
    let socket = bind()?;
    socket.set_nonblocking(true)?;
    Ok(tokio::net::UdpSocket::from_std(socket)?)
}

/// Returns every datagram, on tokio.
pub(crate) async fn echo_tokio() -> Result<()> {
    let socket = bind_tokio()?;
    measure::listening(socket.local_addr()?.port())?;
    let echo = tokio::spawn(async move {
        let mut buffer = [0; IP_MTU as usize];
        loop {
            let (len, from) = socket.recv_from(&mut buffer).await?;
            if len == END {
                return Ok(());
            }
            socket.send_to(buffer.get(..len).unwrap_or_default(), from).await?;
        }
    });
    echo.await?
}

/// Measures round trips, on tokio.
pub(crate) async fn ping_tokio(options: &Options) -> Result<()> {
    let socket = bind_tokio()?;
    socket.connect((Ipv4Addr::LOCALHOST, options.port)).await?;
    let data = vec![0x5a; options.size.max(END + 1)];
    let count = options.count;
    // Run in a separate task, like a program's work on a multi-threaded runtime.
    let pings = tokio::spawn(async move {
        let mut buffer = [0; IP_MTU as usize];
        let mut pings = Pings::new(count);
        for _ in 0..count {
            let start = Instant::now();
            socket.send(&data).await?;
            tokio::time::timeout(PATIENCE, socket.recv(&mut buffer)).await??;
            pings.add(start.elapsed());
        }
        socket.send(&[0; END]).await?;
        Result::Ok(pings)
    });
    pings.await??.report();
    Ok(())
}
