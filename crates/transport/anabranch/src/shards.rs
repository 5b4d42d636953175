//! Division of one endpoint into several tasks, to use several cores.
//!
//! Internally, each shard is a separate endpoint with its own sockets, engine and task. The shard
//! of an association follows from its two SCTP ports, which are the first four bytes of every
//! packet, whatever its chunks and addresses. So shards share nothing, the packets of a peer that
//! moves or restarts reach the same shard, and the kernel can choose the right socket
//! (`runtime/steering.rs`). A shard passes on packets that arrive at the wrong socket.

use bytes::Bytes;

/// Maximum number of shards of an endpoint.
pub(crate) const MOST: usize = 64;

/// Multiplier that spreads neighbouring ports over all shards (Knuth's multiplicative hash).
pub(crate) const MULTIPLIER: u32 = 0x9e37_79b1;

/// The shard of the association whose incoming packets begin with these four bytes.
fn shard_of_word(word: u32, count: usize) -> usize {
    let hash = word.wrapping_mul(MULTIPLIER) >> 16;
    hash as usize % count.max(1)
}

/// The shard of an association with these SCTP ports.
pub(crate) fn shard_of(remote_port: u16, local_port: u16, count: usize) -> usize {
    shard_of_word(u32::from(remote_port) << 16 | u32::from(local_port), count)
}

/// The shard of a packet that arrived. Packets that are too short may go to any shard.
fn shard_of_packet(packet: &[u8], count: usize) -> usize {
    packet.first_chunk().map_or(0, |word| shard_of_word(u32::from_be_bytes(*word), count))
}

/// The shard of a packet that this side sent, if its ports are there.
pub(crate) fn shard_of_sent(packet: &[u8], count: usize) -> Option<usize> {
    // A sent packet begins with this side's own port.
    let ports = packet.first_chunk().map(|word| u32::from_be_bytes(*word).rotate_left(16));
    ports.map(|word| shard_of_word(word, count))
}

/// Splits a batch into runs of packets of the same shard.
pub(crate) fn runs(bytes: &Bytes, segment_size: usize, count: usize) -> Vec<(usize, Bytes)> {
    let size = segment_size.max(1);
    let mut runs: Vec<(usize, Bytes)> = Vec::with_capacity(1);
    let mut begin = 0;
    let mut current = None;
    for (index, packet) in bytes.chunks(size).enumerate() {
        let (shard, at) = (shard_of_packet(packet, count), index * size);
        if let Some(before) = current.replace(shard)
            && before != shard
        {
            runs.push((before, bytes.slice(begin..at)));
            begin = at;
        }
    }
    runs.extend(current.map(|shard| (shard, bytes.slice(begin..))));
    runs
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbouring_ports_are_spread() {
        for count in [2, 3, 4, 8] {
            let mut taken = vec![0; count];
            (49_152..=u16::MAX).for_each(|port| taken[shard_of(port, 5000, count)] += 1);
            let fair = 16_384 / count;
            assert!(taken.iter().all(|&n| n * 10 > fair * 8 && n * 10 < fair * 12), "{taken:?}");
        }
        assert_eq!(shard_of(1, 2, 1), 0);
    }

    #[test]
    fn a_batch_is_divided_into_runs() {
        let ports: Vec<u16> = (1..100).collect();
        let shard = |port: u16| shard_of(port, 9, 2);
        let packet = |port: u16| [&port.to_be_bytes()[..], &[0, 9, 1, 2, 3, 4]].concat();
        let mut batch: Vec<u8> = ports.iter().flat_map(|port| packet(*port)).collect();
        // The last packet is shorter than the others.
        batch.truncate(batch.len() - 2);
        let batch = Bytes::from(batch);
        let divided = runs(&batch, 8, 2);
        assert!(divided.len() > 10);
        assert!(divided.windows(2).all(|pair| pair[0].0 != pair[1].0));
        let joined: Vec<u8> = divided.iter().flat_map(|(_, part)| part.to_vec()).collect();
        assert_eq!(joined, batch);
        let mut port = ports.iter();
        for (owner, part) in divided {
            part.chunks(8).for_each(|_| assert_eq!(shard(*port.next().unwrap()), owner));
        }
        assert_eq!(runs(&batch, 8, 1), [(0, batch.clone())]);
        assert_eq!(runs(&Bytes::from_static(b"abc"), 3, 4), [(0, Bytes::from_static(b"abc"))]);
        assert!(runs(&Bytes::new(), 0, 2).is_empty());
    }
}
