//! The filter: which calls are notified.

use std::ffi::c_long;
use std::mem::offset_of;

use libc::{c_int, seccomp_data, sock_filter};

/// A call that the filter notifies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs, reason = "named after the calls")]
pub enum Call {
    /// Of AF_INET or AF_INET6, with IPPROTO_SCTP or SOCK_SEQPACKET.
    Socket,
    Bind,
    Listen,
    Connect,
    Accept,
    Accept4,
    Shutdown,
    GetSockName,
    GetPeerName,
    GetSockOpt,
    SetSockOpt,
    SendTo,
    ReceiveFrom,
    SendMsg,
    ReceiveMsg,
    SendManyMsg,
    ReceiveManyMsg,
}

/// `socket` comes first: the filter looks at its arguments.
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64", target_arch = "riscv64"))]
const CALLS: &[(c_long, Call)] = &[
    (libc::SYS_socket, Call::Socket),
    (libc::SYS_bind, Call::Bind),
    (libc::SYS_listen, Call::Listen),
    (libc::SYS_connect, Call::Connect),
    (libc::SYS_accept, Call::Accept),
    (libc::SYS_accept4, Call::Accept4),
    (libc::SYS_shutdown, Call::Shutdown),
    (libc::SYS_getsockname, Call::GetSockName),
    (libc::SYS_getpeername, Call::GetPeerName),
    (libc::SYS_getsockopt, Call::GetSockOpt),
    (libc::SYS_setsockopt, Call::SetSockOpt),
    (libc::SYS_sendto, Call::SendTo),
    (libc::SYS_recvfrom, Call::ReceiveFrom),
    (libc::SYS_sendmsg, Call::SendMsg),
    (libc::SYS_recvmsg, Call::ReceiveMsg),
    (libc::SYS_sendmmsg, Call::SendManyMsg),
    (libc::SYS_recvmmsg, Call::ReceiveManyMsg),
];
/// Older processors have one call for all of these.
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64", target_arch = "riscv64")))]
const CALLS: &[(c_long, Call)] = &[];

impl Call {
    /// The call with this number of the processor.
    pub(crate) fn of(number: c_int) -> Option<Self> {
        CALLS.iter().find(|(known, _)| *known == c_long::from(number)).map(|(_, call)| *call)
    }
}

/// The numbers of the processor's calls (`AUDIT_ARCH_*` in `<linux/audit.h>`). Programs for another processor, also
/// those of 32 bits, have other numbers, and are left alone.
#[cfg(target_arch = "x86_64")]
const ARCHITECTURE: Option<u32> = Some(0xc000_003e);
#[cfg(target_arch = "aarch64")]
const ARCHITECTURE: Option<u32> = Some(0xc000_00b7);
#[cfg(target_arch = "riscv64")]
const ARCHITECTURE: Option<u32> = Some(0xc000_00f3);
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64", target_arch = "riscv64")))]
const ARCHITECTURE: Option<u32> = None;

/// Without SOCK_NONBLOCK and SOCK_CLOEXEC (`SOCK_TYPE_MASK`).
const TYPES: u32 = 0xf;

/// Where the lower half of an argument is.
const fn argument(index: usize) -> u32 {
    let half = if cfg!(target_endian = "big") { 4 } else { 0 };
    (offset_of!(seccomp_data, args) + 8 * index + half) as u32
}

const fn statement(code: u32, value: u32) -> sock_filter {
    sock_filter { code: code as u16, jt: 0, jf: 0, k: value }
}

fn load(at: u32) -> sock_filter {
    statement(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, at)
}

/// Skips `same` statements if the loaded value is this one, and `other` statements if not.
fn skip_if(value: u32, same: usize, other: usize) -> sock_filter {
    let code = (libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K) as u16;
    // The filter is shorter than 256 statements, which its test shows.
    sock_filter { code, jt: same as u8, jf: other as u8, k: value }
}

/// The filter; `None` for processors whose numbers are not known here.
pub(crate) fn program() -> Option<Vec<sock_filter>> {
    let architecture = ARCHITECTURE?;
    let returns = libc::BPF_RET | libc::BPF_K;
    let (allow, notify) = (
        statement(returns, libc::SECCOMP_RET_ALLOW),
        statement(returns, libc::SECCOMP_RET_USER_NOTIF),
    );
    let [(socket, _), others @ ..] = CALLS else { return None };
    let mut all = vec![
        load(offset_of!(seccomp_data, arch) as u32),
        skip_if(architecture, 1, 0),
        allow,
        load(offset_of!(seccomp_data, nr) as u32),
        // To its arguments, which come last.
        skip_if(*socket as u32, others.len() + 2, 0),
    ];
    for (index, (number, _)) in others.iter().enumerate() {
        all.push(skip_if(*number as u32, others.len() - index, 0));
    }
    all.extend([allow, notify]);
    all.extend([
        load(argument(0)),
        skip_if(libc::AF_INET as u32, 2, 0),
        skip_if(libc::AF_INET6 as u32, 1, 0),
        allow,
        load(argument(2)),
        skip_if(libc::IPPROTO_SCTP as u32, 3, 0),
        load(argument(1)),
        statement(libc::BPF_ALU | libc::BPF_AND | libc::BPF_K, TYPES),
        skip_if(libc::SOCK_SEQPACKET as u32, 0, 1),
        notify,
        allow,
    ]);
    Some(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What the kernel does with a call, by the filter.
    fn run(filter: &[sock_filter], architecture: u32, number: c_long, arguments: [u32; 3]) -> u32 {
        let (mut at, mut value) = (0, 0);
        loop {
            let sock_filter { code, jt, jf, k } = filter[at];
            at += 1;
            match u32::from(code) {
                code if code == libc::BPF_RET | libc::BPF_K => return k,
                code if code == libc::BPF_LD | libc::BPF_W | libc::BPF_ABS => {
                    value = match k {
                        0 => number as u32,
                        4 => architecture,
                        _ => arguments[(0..3).find(|index| argument(*index) == k).unwrap()],
                    };
                }
                code if code == libc::BPF_ALU | libc::BPF_AND | libc::BPF_K => value &= k,
                _ => at += usize::from(if value == k { jt } else { jf }),
            }
        }
    }

    #[test]
    fn only_calls_that_may_be_about_sctp_are_notified() {
        let Some(filter) = program() else { return };
        assert!(filter.len() < 256);
        let own = ARCHITECTURE.unwrap();
        let notified = |number, arguments| {
            run(&filter, own, number, arguments) == libc::SECCOMP_RET_USER_NOTIF
        };
        for &(number, call) in CALLS {
            assert_eq!(Call::of(number as c_int), Some(call));
            assert_eq!(notified(number, [3, 0, 0]), call != Call::Socket, "{call:?}");
            assert_eq!(run(&filter, 1, number, [2, 1, 132]), libc::SECCOMP_RET_ALLOW);
        }
        for number in [libc::SYS_read, libc::SYS_write, libc::SYS_openat, libc::SYS_close] {
            assert!(!notified(number, [2, 1, 132]) && Call::of(number as c_int).is_none());
        }
        let (stream, packets) = (libc::SOCK_STREAM as u32, libc::SOCK_SEQPACKET as u32);
        let [inet, inet6, unix] =
            [libc::AF_INET, libc::AF_INET6, libc::AF_UNIX].map(|each| each as u32);
        let flags = (libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC) as u32;
        for (arguments, expected) in [
            ([inet, stream, 132], true),
            ([inet6, stream | flags, 132], true),
            ([inet, packets | flags, 0], true),
            ([inet, stream, 0], false),
            ([inet6, stream, 6], false),
            ([unix, packets, 0], false),
        ] {
            assert_eq!(notified(libc::SYS_socket, arguments), expected, "{arguments:?}");
        }
    }
}
