//! Makes the kernel choose which of several sockets on one address receives a packet.
//!
//! A flood fills the queue of a socket, so other packets are lost, too. To protect associations from
//! packets that any host can send, a classic BPF program in the kernel checks the SCTP header and
//! assigns each packet to one of three queues. A packet with a marked verification tag ([`TagMark`])
//! belongs to an association, or is the COOKIE ECHO of a host that received the tag. INITs have a
//! separate queue, so new associations can be set up during a flood of other packets. The rest has
//! the third queue. UDP sockets share an address as a group (SO_REUSEPORT), and the program selects
//! a socket of the group, of the right shard. Every raw socket receives every packet, and the
//! program is a filter.

mod program;

use std::io;
use std::net::UdpSocket;
use std::os::fd::AsFd;

use anabranch_proto::TagMark;
use nix::libc;
use nix::sys::socket::{setsockopt, sockopt::AttachReusePortCbpf};
use socket2::{SockFilter, SockRef};

pub(super) use self::program::Start;
use self::program::{Class, Instruction, Program, SHARD, classify};
use super::{Apart, Division};
use crate::shards::MULTIPLIER;

/// Offsets in a sealed datagram: its session word, and that of the client if the first one is 0.
const WORD: u32 = 0;
const WORD_OF_HELLO: u32 = 8;

/// Results of a filter: the whole packet, or nothing of it.
const ACCEPT: u32 = u32::MAX;
const DROP: u32 = 0;

/// Adds instructions that turn the ports in the accumulator into the shard.
fn shard_of_ports(program: &mut Program, count: u32) {
    program.compute(libc::BPF_MUL, MULTIPLIER);
    program.compute(libc::BPF_RSH, 16);
    program.compute(libc::BPF_MOD, count.max(1));
}

/// Adds instructions that load the lane of a sealed datagram into the accumulator and turn it into the shard. A load from
/// behind the end of the datagram returns 0.
fn shard_of_lane(program: &mut Program, count: u32) {
    program.push(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, WORD);
    program.only_if(libc::BPF_JEQ, 0, |program| {
        program.push(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, WORD_OF_HELLO);
    });
    program.compute(libc::BPF_RSH, 24);
    program.compute(libc::BPF_MOD, count.max(1));
}

/// Distributes packets among a group of UDP sockets: each receives the packets of one shard, in the
/// order in which they were bound, as defined by [`Division`].
pub(super) fn spread(socket: &impl AsFd, division: Division, count: usize) -> io::Result<()> {
    let count = u32::try_from(count).map_err(io::Error::other)?;
    let mut program = Program::default();
    match division {
        Division::Ports => {
            program.push(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0);
            shard_of_ports(&mut program, count);
        }
        Division::Lanes => shard_of_lane(&mut program, count),
    }
    program.push(libc::BPF_RET | libc::BPF_A, 0);
    attach_group(socket, &program.0)
}

/// Distributes packets among a group of UDP sockets by shard and class. The first `count` sockets of
/// the group are those of the shards; after them, each shard has bound two, for INITs and for the
/// rest.
pub(super) fn divide(socket: &impl AsFd, mark: &TagMark, count: usize) -> io::Result<()> {
    let count = u32::try_from(count).map_err(io::Error::other)?.max(1);
    let place = |class| match class {
        Class::Marked => (1, 0),
        Class::Init => (2, count),
        Class::Rest => (2, count + 1),
    };
    let prepare = |program: &mut Program| {
        if count > 1 {
            shard_of_ports(program, count);
            program.store(SHARD);
        }
    };
    let answer = |program: &mut Program, class| {
        let (step, first) = place(class);
        if count == 1 {
            return program.answer(first);
        }
        program.load(SHARD);
        program.compute(libc::BPF_MUL, step);
        program.compute(libc::BPF_ADD, first);
        program.push(libc::BPF_RET | libc::BPF_A, 0);
    };
    let (_, short) = place(Class::Rest);
    attach_group(socket, &classify(Start::Sctp, mark, short, prepare, answer))
}

fn attach_group(socket: &impl AsFd, program: &[Instruction]) -> io::Result<()> {
    let mut program: Vec<libc::sock_filter> = program
        .iter()
        .map(|i| libc::sock_filter { code: i.code as u16, jt: i.if_true, jf: i.if_false, k: i.k })
        .collect();
    let program = libc::sock_fprog {
        len: u16::try_from(program.len()).map_err(io::Error::other)?,
        filter: program.as_mut_ptr(),
    };
    Ok(setsockopt(socket, AttachReusePortCbpf, &program)?)
}

/// Restricts a raw socket to one class of packets: those of associations, or those in `apart`.
pub(super) fn filter(
    socket: &UdpSocket,
    start: Start,
    mark: &TagMark,
    apart: Option<Apart>,
) -> io::Result<()> {
    let own = match apart {
        None => Class::Marked,
        Some(Apart::Inits) => Class::Init,
        Some(Apart::Rest) => Class::Rest,
    };
    let verdict = |class| if class == own { ACCEPT } else { DROP };
    let answer = |program: &mut Program, class| program.answer(verdict(class));
    attach(socket, &classify(start, mark, verdict(Class::Rest), |_| (), answer))
}

/// Makes a socket receive everything.
pub(super) fn accept_all(socket: &UdpSocket) -> io::Result<()> {
    let mut program = Program::default();
    program.answer(ACCEPT);
    attach(socket, &program.0)
}

/// Makes a socket receive nothing.
pub(super) fn drop_all(socket: &UdpSocket) -> io::Result<()> {
    let mut program = Program::default();
    program.answer(DROP);
    attach(socket, &program.0)
}

fn attach(socket: &UdpSocket, program: &[Instruction]) -> io::Result<()> {
    let program: Vec<SockFilter> = program
        .iter()
        .map(|i| SockFilter::new(i.code as u16, i.if_true, i.if_false, i.k))
        .collect();
    SockRef::from(socket).attach_filter(&program)
}
