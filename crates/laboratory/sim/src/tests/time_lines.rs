//! The time lines of nat Figs 3.2 and 3.4 (nrsack Figs 2 and 4), packet by packet: eight packets
//! fill cwnd and the send buffer, and the first of them, TSN 11, is lost.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use anabranch_proto::config::InitialCwnd;
use anabranch_proto::{AssociationConfig, BurstControl};
use anabranch_wire::{Chunk, GapBlocks, Tsn};

use super::*;

/// User bytes in a packet of 1500 bytes.
const MESSAGE: usize = 1452;

/// Packets sent and acknowledgements received by the sender until the second acknowledgement with a
/// new cumulative TSN. An entry is a TSN, or for an acknowledgement `S:` or `N:` with the
/// cumulative TSN and the blocks, using the figures' numbers.
fn time_line(nr_sack: bool) -> Vec<String> {
    let mut config = fixed_mtu(AssociationConfig::rfc4960());
    config.congestion.initial_cwnd = InitialCwnd::Mtus(8);
    config.congestion.burst = BurstControl::Unlimited;
    config.acknowledging.nr_sack = nr_sack;
    // Every packet is acknowledged, as in the figures.
    config.acknowledging.sack_frequency = 1;
    // The buffer includes bookkeeping: eight messages fit, and a ninth does not.
    config.sending.send_buffer = 8 * MESSAGE;
    let mut net = Network::new(1);
    let (a, b) = (net.add_host("A"), net.add_host("B"));
    // One packet per millisecond, so that each acknowledgement arrives separately.
    net.connect_both(a, b, link(12_000_000, 20)).unwrap();
    net.routes_by_hops();
    let (sender, receiver) = (net.add_endpoint(a).unwrap(), net.add_endpoint(b).unwrap());
    let first: Rc<Cell<Option<u32>>> = Rc::default();
    let (known, lost) = (first.clone(), Cell::new(false));
    net.script(move |sight| {
        let Some(Chunk::Data(data)) = chunk(sight) else { return Fate::Pass };
        known.set(known.get().or(Some(data.tsn.0)));
        if lost.replace(true) { Fate::Pass } else { Fate::Drop }
    });
    let lines: Rc<RefCell<Vec<String>>> = Rc::default();
    let log = lines.clone();
    net.tap(Some(sender), move |sight: &Sight<'_>| {
        let number = |tsn: Tsn| match first.get() {
            Some(first) => tsn.0.wrapping_sub(first).wrapping_add(11),
            None => 11,
        };
        let seen = match chunk(sight) {
            Some(Chunk::Data(data)) => format!("{}", number(data.tsn)),
            Some(Chunk::Sack(sack)) => {
                format!("S:{}{}", number(sack.cumulative_tsn_ack), blocks(sack.gap_blocks))
            }
            Some(Chunk::NrSack(sack)) => {
                assert_eq!(blocks(sack.gap_blocks), "", "unordered data is non-renegable");
                format!("N:{}{}", number(sack.cumulative_tsn_ack), blocks(sack.nr_gap_blocks))
            }
            _ => return,
        };
        log.borrow_mut().push(seen);
    });
    let transfer = Transfer {
        unordered: true,
        eager: true,
        ..Transfer::bulk(sender, receiver, 100 * MESSAGE as u64)
    };
    net.add_transfer(transfer.config(config)).unwrap();
    net.run(Instant::from_secs(10));
    let lines = lines.borrow();
    let advanced = |line: &&String| line.contains(':') && !line.contains(";");
    let second = lines.iter().filter(advanced).nth(1).unwrap();
    lines.iter().take_while(|line| *line != second).cloned().collect()
}

/// The first chunk of a packet.
fn chunk<'a>(sight: &Sight<'a>) -> Option<Chunk<'a>> {
    let packet = anabranch_wire::Packet::parse(sight.bytes).ok()?;
    let chunk = packet.chunks().next()?.ok()?;
    chunk.decode().ok()
}

fn blocks(blocks: GapBlocks<'_>) -> String {
    blocks.iter().map(|block| format!(";{}-{}", block.start, block.end)).collect()
}

#[test]
fn with_sacks_a_full_send_buffer_blocks_until_the_loss_is_repaired() {
    let expected = [
        "11", "12", "13", "14", "15", "16", "17", "18",
        // Gaps alone free no space. The third one triggers the retransmission of TSN 11.
        "S:10;2-2", "S:10;2-3", "S:10;2-4", "11", "S:10;2-5", "S:10;2-6", "S:10;2-7", "S:10;2-8",
        // cwnd, halved to four packets, was not fully used and does not grow.
        "S:18", "19", "20", "21", "22",
    ];
    assert_eq!(time_line(false), expected);
}

#[test]
fn with_nr_sacks_new_data_goes_on_during_recovery() {
    let expected = [
        "11",
        "12",
        "13",
        "14",
        "15",
        "16",
        "17",
        "18",
        // Data that has arrived makes room for more immediately.
        "N:10;2-2",
        "19",
        "N:10;2-3",
        "20",
        // From here cwnd is four packets.
        "N:10;2-4",
        "11",
        "N:10;2-5",
        "N:10;2-6",
        "N:10;2-7",
        "N:10;2-8",
        "21",
        "N:10;2-9",
        "22",
        "N:10;2-10",
        "23",
        // Three packets are in flight, and five are allowed.
        "N:20",
        "24",
        "25",
    ];
    assert_eq!(time_line(true), expected);
}
