//! The kernel's TCP with the segment size of an MTU of 1500 bytes.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};

use crate::measure::{self, Meter};
use crate::options::Options;
use crate::{IP_MTU, Result};

/// Headers of IPv4 and TCP with timestamps.
const HEADERS: u32 = 20 + 20 + 12;

fn socket() -> Result<socket2::Socket> {
    let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None)?;
    socket.set_tcp_mss(u32::from(IP_MTU) - HEADERS + 12)?;
    Ok(socket)
}

/// Receives everything that one peer sends.
pub(crate) fn sink() -> Result<()> {
    let socket = socket()?;
    socket.bind(&SocketAddr::from((Ipv4Addr::LOCALHOST, 0)).into())?;
    socket.listen(1)?;
    let listener = TcpListener::from(socket);
    measure::listening(listener.local_addr()?.port())?;
    let (mut stream, _) = listener.accept()?;
    let mut buffer = vec![0; 256 << 10];
    let mut meter = Meter::default();
    loop {
        let count = stream.read(&mut buffer)?;
        if count == 0 {
            break;
        }
        meter.add(count);
    }
    meter.stop();
    meter.report();
    Ok(())
}

/// Writes for a while.
pub(crate) fn source(options: &Options) -> Result<()> {
    let socket = socket()?;
    socket.connect(&SocketAddr::from((Ipv4Addr::LOCALHOST, options.port)).into())?;
    let mut stream = TcpStream::from(socket);
    let data = vec![0x5a; options.size];
    let mut meter = Meter::started();
    while meter.elapsed() < options.duration {
        for _ in 0..16 {
            stream.write_all(&data)?;
            meter.add(data.len());
        }
    }
    stream.shutdown(std::net::Shutdown::Write)?;
    stream.read_to_end(&mut Vec::new())?;
    meter.stop();
    meter.report();
    Ok(())
}
