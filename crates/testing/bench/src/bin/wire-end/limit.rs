//! The upper limit for SCTP over UDP: datagrams in the largest batches that the kernel accepts, one
//! copy of the data and one checksum per datagram on both sides, occasional acknowledgements, and
//! nothing else.

use std::io::{self, IoSliceMut};
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};

use anabranch_wire::crc32c;
use quinn_udp::{RecvMeta, Transmit, UdpSocketState};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::measure::{self, Meter};
use crate::options::Options;
use crate::{IP_MTU, Result, SOCKET_BUFFER, UDP_HEADERS};

/// Size of a datagram in bytes.
const DATAGRAM: usize = (IP_MTU - UDP_HEADERS) as usize;

/// Bytes of SCTP's common header and one chunk header, which carry no data.
const HEADERS: usize = 28;

/// Number of datagrams in a batch: as many as fit into one call.
const BATCH: usize = 65_507 / DATAGRAM;

/// Size of the user's memory from and to which data is copied: larger than the caches of a core.
const USER: usize = 4 << 20;

/// Maximum number of bytes in flight.
const WINDOW: u64 = 1_500_000;

/// Number of bytes per acknowledgement.
const ACKNOWLEDGED: u64 = 128 << 10;

/// First byte of the datagrams that end a transfer.
const LAST: u8 = 1;

/// A place in the user's memory.
#[derive(Debug)]
struct User {
    memory: Vec<u8>,
    at: usize,
}

impl User {
    fn new() -> Self {
        Self { memory: vec![0x5a; USER], at: 0 }
    }

    fn next(&mut self, len: usize) -> &mut [u8] {
        if self.at + len > USER {
            self.at = 0;
        }
        let from = self.at;
        self.at += len;
        self.memory.get_mut(from..from + len).unwrap_or_default()
    }
}

fn socket() -> Result<(UdpSocket, UdpSocketState)> {
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
    let state = UdpSocketState::new((&socket).into())?;
    state.set_send_buffer_size((&socket).into(), SOCKET_BUFFER)?;
    state.set_recv_buffer_size((&socket).into(), SOCKET_BUFFER)?;
    Ok((socket, state))
}

/// Waits until there is something to receive, at most for `millis`.
fn wait(socket: &UdpSocket, millis: u32) -> io::Result<bool> {
    let mut descriptors = [PollFd::new(socket, PollFlags::IN)];
    let time = Timespec { tv_sec: 0, tv_nsec: i64::from(millis) * 1_000_000 };
    Ok(poll(&mut descriptors, Some(&time))? > 0)
}

/// Receives what one peer sends.
pub(crate) fn sink() -> Result<()> {
    let (socket, state) = socket()?;
    measure::listening(socket.local_addr()?.port())?;
    let mut memory = vec![vec![0; 65_535]; quinn_udp::BATCH_SIZE];
    let mut metas = [RecvMeta::default(); quinn_udp::BATCH_SIZE];
    let mut user = User::new();
    let mut meter = Meter::default();
    let (mut received, mut acknowledged, mut damaged) = (0_u64, 0_u64, 0_u64);
    loop {
        let mut buffers: Vec<IoSliceMut<'_>> =
            memory.iter_mut().map(|buffer| IoSliceMut::new(buffer)).collect();
        let count = match state.recv((&socket).into(), &mut buffers, &mut metas) {
            Ok(count) => count,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                if !wait(&socket, 900)? && received > 0 {
                    return Err("the sender is gone".into());
                }
                continue;
            }
            Err(error) => return Err(error.into()),
        };
        for (meta, buffer) in metas.iter().zip(&memory).take(count) {
            let batch = buffer.get(..meta.len).unwrap_or_default();
            if let [LAST] = batch {
                meter.stop();
                meter.report();
                if damaged > 0 {
                    return Err(format!("{damaged} datagrams were damaged").into());
                }
                return Ok(());
            }
            for datagram in batch.chunks(meta.stride.max(1)) {
                let Some((header, data)) = datagram.split_at_checked(HEADERS) else { continue };
                let sum = header.first_chunk().map(|bytes| u32::from_le_bytes(*bytes));
                // Here the checksum precedes the data that it covers; the cost is the same.
                if sum != Some(crc32c(datagram.get(4..).unwrap_or_default())) {
                    damaged += 1;
                }
                user.next(data.len()).copy_from_slice(data);
                meter.add(data.len());
            }
            received += batch.len() as u64;
            if received - acknowledged >= ACKNOWLEDGED {
                acknowledged = received;
                // If it cannot be sent now, the next one makes up for it.
                let _ = socket.send_to(&received.to_be_bytes(), meta.addr);
            }
        }
    }
}

/// Sends for a while.
pub(crate) fn source(options: &Options) -> Result<()> {
    let (socket, state) = socket()?;
    let to = SocketAddr::from((Ipv4Addr::LOCALHOST, options.port));
    socket.connect(to)?;
    let mut user = User::new();
    let mut batch = Vec::with_capacity(BATCH * DATAGRAM);
    let (mut sent, mut acknowledged) = (0_u64, 0_u64);
    let mut meter = Meter::started();
    while meter.elapsed() < options.duration {
        let mut ack = [0; 8];
        while let Ok(8) = socket.recv(&mut ack) {
            acknowledged = acknowledged.max(u64::from_be_bytes(ack));
        }
        if sent - acknowledged > WINDOW {
            if !wait(&socket, 20)? {
                // Missing data was lost.
                acknowledged = sent;
            }
            continue;
        }
        batch.clear();
        for _ in 0..BATCH {
            let start = batch.len();
            batch.extend_from_slice(&[0; HEADERS]);
            batch.extend_from_slice(user.next(DATAGRAM - HEADERS));
            let datagram = batch.get_mut(start..).unwrap_or_default();
            let sum = crc32c(datagram.get(4..).unwrap_or_default()).to_le_bytes();
            if let Some(field) = datagram.first_chunk_mut() {
                *field = sum;
            }
        }
        let transmit = Transmit {
            destination: to,
            ecn: None,
            contents: &batch,
            segment_size: Some(DATAGRAM),
            src_ip: None,
        };
        match state.try_send((&socket).into(), &transmit) {
            Ok(()) => {
                sent += batch.len() as u64;
                meter.add(BATCH * (DATAGRAM - HEADERS));
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                wait(&socket, 1)?;
            }
            Err(error) => return Err(error.into()),
        }
    }
    meter.stop();
    for _ in 0..3 {
        std::thread::sleep(std::time::Duration::from_millis(20));
        // The first of these ends the transfer; nobody receives the others.
        let _ = socket.send(&[LAST]);
    }
    meter.report();
    Ok(())
}
