//! Checks that the table of RFC 6458 matches the library.

mod common;

use std::ffi::c_int;

use anabranch_c::ffi;
use common::package;

/// The lines of the table: section, kind (with a number), name, whether it is supported, remark.
fn rows() -> Vec<[String; 5]> {
    let text = std::fs::read_to_string(package().join("tests/rfc6458.txt")).unwrap();
    let fields = |line: &str| {
        let fields: Vec<_> = line.split('|').map(|field| field.trim().to_owned()).collect();
        fields.try_into().unwrap_or_else(|_| panic!("five fields: {line}"))
    };
    text.lines().map(fields).collect()
}

/// Whether the library knows an option: any answer but ENOPROTOOPT.
fn knows(level: c_int, name: c_int) -> bool {
    // Some options, such as AUTOCLOSE, exist on one-to-many sockets only; those have all options.
    let fd = ffi::anabranch_socket(libc::AF_INET, libc::SOCK_SEQPACKET, 132);
    assert!(fd >= 0);
    let mut value = [0_u8; 512];
    let mut len = value.len() as libc::socklen_t;
    // SAFETY: the pointers are those of `value` and `len`.
    let got = unsafe {
        ffi::anabranch_getsockopt(fd, level, name, value.as_mut_ptr().cast(), &raw mut len)
    };
    let unknown =
        got == -1 && std::io::Error::last_os_error().raw_os_error() == Some(libc::ENOPROTOOPT);
    assert_eq!(ffi::anabranch_close(fd), 0);
    !unknown
}

/// Notification types with their numbers in the headers of Linux.
const EVENTS: [(&str, u16); 10] = [
    ("SCTP_ASSOC_CHANGE", 0x8001),
    ("SCTP_PEER_ADDR_CHANGE", 0x8002),
    ("SCTP_SEND_FAILED", 0x8003),
    ("SCTP_REMOTE_ERROR", 0x8004),
    ("SCTP_SHUTDOWN_EVENT", 0x8005),
    ("SCTP_PARTIAL_DELIVERY_EVENT", 0x8006),
    ("SCTP_ADAPTATION_INDICATION", 0x8007),
    ("SCTP_AUTHENTICATION_EVENT", 0x8008),
    ("SCTP_SENDER_DRY_EVENT", 0x8009),
    ("SCTP_SEND_FAILED_EVENT", 0x800d),
];

/// Whether a notification can be subscribed to, with SCTP_EVENT.
fn tells(name: &str) -> bool {
    const SCTP_EVENT: c_int = 127;
    let Some((_, kind)) = EVENTS.iter().find(|(known, _)| *known == name) else { return false };
    let fd = ffi::anabranch_socket(libc::AF_INET, libc::SOCK_STREAM, 132);
    assert!(fd >= 0);
    // The association id, the type, whether it is on, and padding.
    let [low, high] = kind.to_ne_bytes();
    let event = [0, 0, 0, 0, low, high, 1, 0];
    let (value, len) = (event.as_ptr().cast(), event.len() as libc::socklen_t);
    // SAFETY: the pointer and the length are those of `event`.
    let set = unsafe { ffi::anabranch_setsockopt(fd, 132, SCTP_EVENT, value, len) };
    assert_eq!(ffi::anabranch_close(fd), 0);
    set == 0
}

#[test]
fn the_table_is_what_the_library_does() {
    let header = std::fs::read_to_string(package().join("include/anabranch.h")).unwrap();
    for [section, kind, name, there, _] in rows() {
        let there = match there.as_str() {
            "yes" | "in part" => true,
            "no" => false,
            other => panic!("{section} {name}: {other}"),
        };
        let found = match kind.split_once(' ') {
            None if kind == "call" => header.contains(&format!(" anabranch_{name}(")),
            Some(("option", number)) => knows(132, number.parse().unwrap()),
            Some(("socket", "SO_LINGER")) => knows(libc::SOL_SOCKET, libc::SO_LINGER),
            Some(("socket", "SO_RCVBUF")) => knows(libc::SOL_SOCKET, libc::SO_RCVBUF),
            Some(("socket", "SO_SNDBUF")) => knows(libc::SOL_SOCKET, libc::SO_SNDBUF),
            None if kind == "event" => tells(&name),
            // Ancillary data, and names that the system's headers lack: tests/c tests
            // those that are supported.
            _ => there,
        };
        assert_eq!(found, there, "{section} {name}");
    }
}

#[test]
fn the_document_is_the_table() {
    let document = std::fs::read_to_string(package().join("../../docs/rfc6458.md")).unwrap();
    let lines: Vec<_> = document.lines().filter(|line| line.starts_with("| ")).skip(1).collect();
    let expected: Vec<_> = rows()
        .iter()
        .map(|[section, _, name, there, remark]| {
            format!("| {section} | `{name}` | {there} | {remark} |")
        })
        .collect();
    assert_eq!(lines, expected);
}
