//! Detects other SCTP stacks on this host that receive the same packets as our raw sockets.

#[cfg(unix)]
use std::net::IpAddr;

/// Whether the kernel's own SCTP is loaded: it answers packets for our raw sockets with ABORT.
pub(super) fn kernel_has_sctp() -> bool {
    lists_sctp(&std::fs::read_to_string("/proc/thread-self/net/protocols").unwrap_or_default())
}

/// Whether a list of protocols, in the format of /proc/net/protocols, contains SCTP.
fn lists_sctp(protocols: &str) -> bool {
    protocols
        .lines()
        .filter_map(|line| line.split_whitespace().next())
        .any(|name| name.eq_ignore_ascii_case("sctp") || name.eq_ignore_ascii_case("sctpv6"))
}

/// Whether the kernel's SCTP or another raw socket receives the packets of our raw sockets on this
/// address.
#[cfg(any(target_os = "linux", target_os = "android"))]
pub(super) fn share<S: std::os::fd::AsFd>(own: &[&S], address: IpAddr) -> bool {
    let list =
        if address.is_ipv4() { "/proc/thread-self/net/raw" } else { "/proc/thread-self/net/raw6" };
    let Some(own) = own.iter().map(|socket| inode(*socket)).collect::<Option<Vec<u64>>>() else {
        return false;
    };
    kernel_has_sctp()
        || std::fs::read_to_string(list).is_ok_and(|sockets| lists_other(&sockets, &own, address))
}

/// This system does not report other sockets, so none are assumed.
#[cfg(all(unix, not(any(target_os = "linux", target_os = "android"))))]
pub(super) fn share<S>(_own: &[&S], _address: IpAddr) -> bool {
    false
}

#[cfg(any(target_os = "linux", target_os = "android"))]
fn inode<S: std::os::fd::AsFd>(socket: &S) -> Option<u64> {
    use std::os::unix::fs::MetadataExt;
    let file = std::fs::File::from(socket.as_fd().try_clone_to_owned().ok()?);
    Some(file.metadata().ok()?.ino())
}

/// Whether a list of sockets, in the format of /proc/net/raw or raw6, has an SCTP socket that is
/// not in `own` and receives packets for `address` from everybody.
#[cfg(any(target_os = "linux", target_os = "android"))]
fn lists_other(sockets: &str, own: &[u64], address: IpAddr) -> bool {
    sockets.lines().skip(1).any(|line| {
        // Fields: sl, local address and protocol, remote address, ...; the 10th is the inode.
        let mut fields = line.split_whitespace().skip(1);
        let Some((local, "0084")) = fields.next().and_then(|field| field.rsplit_once(':')) else {
            return false;
        };
        // A connected socket receives packets of one host only.
        let Some(true) = fields.next().map(|remote| remote.trim_matches(['0', ':']).is_empty())
        else {
            return false;
        };
        let inode = fields.nth(6).and_then(|inode| inode.parse().ok());
        !inode.is_some_and(|inode| own.contains(&inode))
            && parse_address(local).is_none_or(|other| {
                other == address || other.is_unspecified() || address.is_unspecified()
            })
    })
}

/// Parses an address of these lists: hexadecimal words in the byte order of the host.
#[cfg(any(target_os = "linux", target_os = "android"))]
fn parse_address(text: &str) -> Option<IpAddr> {
    let word = |at: usize| {
        let digits = text.get(at * 8..at * 8 + 8)?;
        Some(u32::from_str_radix(digits, 16).ok()?.to_ne_bytes())
    };
    match text.len() {
        8 => Some(IpAddr::from(word(0)?)),
        32 => {
            let mut octets = [0; 16];
            for (index, octets) in octets.chunks_exact_mut(4).enumerate() {
                octets.copy_from_slice(&word(index)?);
            }
            Some(IpAddr::from(octets))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernels_own_sctp_is_noticed() {
        let without = "protocol  size sockets\nRAW       1152      0\nUDP-Lite  1344      0\n";
        assert!(!lists_sctp(without));
        assert!(lists_sctp(&format!("{without}SCTPv6    1632      0\n")));
        assert!(lists_sctp(&format!("{without}SCTP      1472      3\n")));
    }

    #[test]
    #[cfg(all(target_os = "linux", target_endian = "little"))]
    fn other_raw_sockets_for_sctp_are_noticed() {
        let head = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   \
                    uid  timeout inode ref pointer drops\n";
        let line = |local: &str, inode: u64| {
            format!(
                "{head}  132: {local} 00000000:0000 07 00000000:00000000 00:00000000 00000000     \
                 0        0 {inode} 2 0000000000000000 0\n"
            )
        };
        let ip = |text: &str| text.parse::<IpAddr>().unwrap();
        assert!(lists_other(&line("0100007F:0084", 7), &[8], ip("127.0.0.1")));
        assert!(!lists_other(&line("0100007F:0084", 8), &[8], ip("127.0.0.1")), "itself");
        assert!(!lists_other(&line("0100007F:0084", 7), &[8], ip("127.0.0.2")), "another address");
        assert!(lists_other(&line("00000000:0084", 7), &[8], ip("127.0.0.2")));
        assert!(lists_other(&line("0100007F:0084", 7), &[8], ip("0.0.0.0")));
        assert!(!lists_other(&line("0100007F:0001", 7), &[8], ip("127.0.0.1")), "ICMP");
        let v6 = "00000000000000000000000001000000:0084";
        assert!(lists_other(&line(v6, 7), &[8], ip("::1")));
        assert!(!lists_other(&line(v6, 7), &[8], ip("::2")));
        assert!(!lists_other(head, &[8], ip("::1")));
    }
}
