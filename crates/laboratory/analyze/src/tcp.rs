//! Parses those TCP options that are used here.

use crate::bytes::be32;
use crate::decode::Segment;

pub(crate) fn read_options(mut options: &[u8], segment: &mut Segment) {
    // Padding and unknown options are skipped; a malformed option ends the list.
    while let Some((kind, rest)) = options.split_first() {
        match kind {
            0 => return,
            1 => {
                options = rest;
                continue;
            }
            _ => {}
        }
        let Some(length @ 2..) = rest.first().map(|length| usize::from(*length)) else { return };
        let Some(body) = options.get(2..length) else { return };
        match (kind, body) {
            (2, [high, low]) => segment.mss = Some(u16::from_be_bytes([*high, *low])),
            (3, [_]) => segment.window_scale = true,
            (4, []) => segment.sack_permitted = true,
            (5, blocks) => segment.sacked = highest(blocks, segment.acknowledgment),
            (8, [a, b, c, d, ..]) => segment.timestamp = Some(u32::from_be_bytes([*a, *b, *c, *d])),
            _ => {}
        }
        options = options.get(length..).unwrap_or_default();
    }
}

/// The end of the highest SACK block beyond the acknowledged data.
fn highest(blocks: &[u8], acknowledged: Option<u32>) -> Option<u32> {
    let acknowledged = acknowledged?;
    let blocks =
        blocks.chunks_exact(8).filter_map(|block| Some((be32(block, 0)?, be32(block, 4)?)));
    let ends = blocks.map(|(start, end)| (start.wrapping_sub(acknowledged), end));
    ends.filter(|(beyond, _)| (*beyond as i32) > 0).max().map(|(_, end)| end)
}
