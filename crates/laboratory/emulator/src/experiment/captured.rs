//! One sender's packets in a capture of both ends.

use std::net::IpAddr;

/// A packet in a capture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Captured<'a> {
    /// Its number in the whole capture, from 1.
    pub(super) number: u64,
    pub(super) bytes: &'a [u8],
}

/// The packets from an address, as captured on the first and on the second interface.
pub(super) fn packets(capture: &[u8], from: IpAddr) -> [Vec<Captured<'_>>; 2] {
    let word = |bytes: &[u8], at: usize| -> Option<usize> {
        let four = bytes.get(at..at + 4)?;
        usize::try_from(u32::from_le_bytes(four.try_into().ok()?)).ok()
    };
    let mut all = [Vec::new(), Vec::new()];
    let mut rest = capture;
    let mut number = 0;
    while let (Some(kind), Some(length)) = (word(rest, 0), word(rest, 4)) {
        let Some((block, behind)) = rest.split_at_checked(length.max(12)) else { break };
        rest = behind;
        if kind != 6 {
            continue;
        }
        number += 1;
        let (Some(interface), Some(size)) = (word(block, 8), word(block, 20)) else { continue };
        let Some(bytes) = block.get(28..28 + size) else { continue };
        let IpAddr::V4(from) = from else { continue };
        if let (Some(list), true) =
            (all.get_mut(interface), bytes.get(12..16) == Some(from.octets().as_slice()))
        {
            list.push(Captured { number, bytes });
        }
    }
    all
}
