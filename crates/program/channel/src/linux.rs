//! What Linux has in C's layout: ancillary data, and calls that are made by options.

/// Calls that Linux makes by options at the level of SCTP (`<linux/sctp.h>`); libsctp is built on them.
pub mod by_option {
    /// `sctp_bindx`, to add addresses: a list of addresses.
    pub const BINDX_ADD: i32 = 100;
    /// `sctp_bindx`, to remove addresses: a list of addresses.
    pub const BINDX_REM: i32 = 101;
    /// `sctp_peeloff`: an association, and a place for the descriptor.
    pub const PEELOFF: i32 = 102;
    /// `sctp_connectx` that returns 0: a list of addresses.
    pub const CONNECTX_OLD: i32 = 107;
    /// `sctp_getpaddrs`: an association and a number, then addresses.
    pub const GET_PEER_ADDRS: i32 = 108;
    /// `sctp_getladdrs`: as [`GET_PEER_ADDRS`].
    pub const GET_LOCAL_ADDRS: i32 = 109;
    /// `sctp_connectx` that returns the association: a list of addresses.
    pub const CONNECTX: i32 = 110;
    /// `sctp_connectx` as an option that is read: an association to store, the length of the addresses, their place.
    pub const CONNECTX3: i32 = 111;
    /// As [`PEELOFF`], with flags after it.
    pub const PEELOFF_FLAGS: i32 = 122;
}

/// Bytes of the whole items at the start of ancillary data that fit into `room`.
#[must_use]
pub fn items_within(control: &[u8], room: usize) -> usize {
    let mut used = 0;
    while let Some(rest) = control.get(used..).filter(|rest| !rest.is_empty()) {
        let Some(length) = rest.first_chunk().copied().map(usize::from_ne_bytes) else { break };
        let next = used.saturating_add(length.next_multiple_of(size_of::<usize>()).max(1));
        // The last item needs no padding.
        if used.saturating_add(length) > room || next > control.len() {
            break;
        }
        used = next.min(room);
    }
    used
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_whole_items_are_given() {
        let item = |data: usize| {
            let length = 2 * size_of::<usize>() + data;
            let mut bytes = length.to_ne_bytes().to_vec();
            bytes.resize(length.next_multiple_of(size_of::<usize>()), 0);
            bytes
        };
        let (one, other) = (item(32), item(28));
        let control = [&one[..], &other].concat();
        for room in 0..control.len() + 50 {
            let fits = items_within(&control, room);
            assert!(fits <= room && fits <= control.len());
            let last = one.len() + 2 * size_of::<usize>() + 28;
            let expected = if room >= last {
                room.min(control.len())
            } else if room >= one.len() {
                one.len()
            } else {
                0
            };
            assert_eq!(fits, expected, "{room}");
        }
        assert_eq!(items_within(&[], 100), 0);
    }
}
