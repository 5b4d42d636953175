//! Which of several sockets on one address a packet goes to, decided by the kernel.
//!
//! A flood fills the queue of a socket, and what it leaves no room for is lost with it. So that
//! an association does not suffer from packets which anybody can send, the kernel looks at the
//! SCTP header with a program in classic BPF, and puts what is not an association's into another
//! queue. UDP sockets share an address as a group (SO_REUSEPORT), and the program chooses one of
//! them; raw sockets get every packet each, and the program is a filter. What has no tag of an
//! association then, and is not to set one up, is good for nothing but an answer out of the blue:
//! a filter of the other UDP socket lets a small part of it in, at random, so that there is room
//! for those who come to set an association up.

use std::io;
use std::net::UdpSocket;
use std::os::fd::AsFd;

use nix::libc;
use nix::sys::socket::{setsockopt, sockopt::AttachReusePortCbpf};
use socket2::{SockFilter, SockRef};

use super::Preference;
use crate::shards::MULTIPLIER;

/// Places in the SCTP header and the first chunk (RFC 9260 section 3).
const VERIFICATION_TAG: u32 = 4;
const FIRST_CHUNK_TYPE: u32 = 12;

/// Chunk types of those who have no association yet.
const INIT: u32 = 1;
const COOKIE_ECHO: u32 = 10;

/// A filter's answers: all of the packet, and nothing.
const ACCEPT: u32 = u32::MAX;
const DROP: u32 = 0;

/// Bytes of the UDP header, which a filter of a UDP socket is given, too.
const UDP_HEADER: u32 = 8;

/// Of strangers' packets that are not to set an association up one in so many is let in.
const ONE_IN: u32 = 256;

/// What the kernel hands to a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Start {
    /// The SCTP packet.
    Sctp,
    /// An IPv4 packet.
    Ipv4,
}

/// One instruction (linux/filter.h).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Instruction {
    code: u32,
    if_true: u8,
    if_false: u8,
    k: u32,
}

fn instruction(code: u32, k: u32) -> Instruction {
    Instruction { code, if_true: 0, if_false: 0, k }
}

fn answer(k: u32) -> Instruction {
    instruction(libc::BPF_RET | libc::BPF_K, k)
}

/// A program that answers `yes` for packets that are preferred and `no` for all others.
///
/// A packet that is too short for its decision gets the answer 0 by the rules of BPF.
fn program(start: Start, preference: &Preference<'_>, yes: u32, no: u32) -> Vec<Instruction> {
    let mut program = vec![match start {
        Start::Sctp => instruction(libc::BPF_LDX | libc::BPF_W | libc::BPF_IMM, 0),
        // The length of the header that stands there, times four.
        Start::Ipv4 => instruction(libc::BPF_LDX | libc::BPF_B | libc::BPF_MSH, 0),
    }];
    let (size, place, values, equal, other) = match preference {
        Preference::Tags(tags) => (libc::BPF_W, VERIFICATION_TAG, *tags, yes, no),
        Preference::AllButSetup => {
            (libc::BPF_B, FIRST_CHUNK_TYPE, &[INIT, COOKIE_ECHO][..], no, yes)
        }
    };
    program.push(instruction(libc::BPF_LD | size | libc::BPF_IND, place));
    let values = values.get(..values.len().min(Preference::MOST_TAGS)).unwrap_or_default();
    for (index, value) in values.iter().enumerate() {
        // Over the comparisons that follow and the answer after them.
        let distance = u8::try_from(values.len() - index).unwrap_or(u8::MAX);
        let compare = instruction(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, *value);
        program.push(Instruction { if_true: distance, ..compare });
    }
    program.extend([answer(other), answer(equal)]);
    program
}

/// Lets a group of UDP sockets on one address have the preferred packets in the socket that was
/// bound first and all others in the one that was bound second.
pub(super) fn choose(socket: &UdpSocket, preference: &Preference<'_>) -> io::Result<()> {
    attach_group(socket, &program(Start::Sctp, preference, 0, 1))
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

/// Lets a group of UDP sockets have the packets of one shard each, in the order in which they
/// were bound, as [`Shard`](super::Shard) says.
pub(super) fn spread(socket: &impl AsFd, count: usize) -> io::Result<()> {
    let count = u32::try_from(count).map_err(io::Error::other)?;
    let compute = |operation| libc::BPF_ALU | operation | libc::BPF_K;
    attach_group(
        socket,
        &[
            instruction(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0),
            instruction(compute(libc::BPF_MUL), MULTIPLIER),
            instruction(compute(libc::BPF_RSH), 16),
            instruction(compute(libc::BPF_MOD), count.max(1)),
            instruction(libc::BPF_RET | libc::BPF_A, 0),
        ],
    )
}

/// Lets the UDP socket for strangers have what is to set an association up, and one in
/// [`ONE_IN`] of all else.
pub(super) fn thin_out(socket: &UdpSocket) -> io::Result<()> {
    let jump = |condition, k, if_true, if_false| Instruction {
        if_true,
        if_false,
        ..instruction(libc::BPF_JMP | condition | libc::BPF_K, k)
    };
    let random = (libc::SKF_AD_OFF + libc::SKF_AD_RANDOM) as u32;
    attach(
        socket,
        &[
            instruction(libc::BPF_LD | libc::BPF_B | libc::BPF_ABS, UDP_HEADER + FIRST_CHUNK_TYPE),
            jump(libc::BPF_JEQ, INIT, 3, 0),
            jump(libc::BPF_JEQ, COOKIE_ECHO, 2, 0),
            instruction(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, random),
            jump(libc::BPF_JGE, u32::MAX / ONE_IN, 1, 0),
            answer(ACCEPT),
            answer(DROP),
        ],
    )
}

/// Lets a raw socket have the preferred packets only, or all others only.
pub(super) fn filter(
    socket: &UdpSocket,
    start: Start,
    preference: &Preference<'_>,
    preferred: bool,
) -> io::Result<()> {
    let (yes, no) = if preferred { (ACCEPT, DROP) } else { (DROP, ACCEPT) };
    attach(socket, &program(start, preference, yes, no))
}

/// Lets a socket have everything.
pub(super) fn accept_all(socket: &UdpSocket) -> io::Result<()> {
    attach(socket, &[answer(ACCEPT)])
}

fn attach(socket: &UdpSocket, program: &[Instruction]) -> io::Result<()> {
    let program: Vec<SockFilter> = program
        .iter()
        .map(|i| SockFilter::new(i.code as u16, i.if_true, i.if_false, i.k))
        .collect();
    SockRef::from(socket).attach_filter(&program)
}
