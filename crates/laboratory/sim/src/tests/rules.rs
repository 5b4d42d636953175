//! Protocol rules that are most visible on a network with rates and queues.

use std::cell::Cell;
use std::rc::Rc;

use anabranch_wire::Chunk;

use super::*;

#[test]
fn the_acknowledgement_that_ends_fast_recovery_opens_the_window() {
    let mut d = dumbbell(1, &[0]);
    let (link, direction) = (d.cores[0], Direction::Forward);
    // One DATA packet is lost in slow start.
    let one = Action::SetLoss { link, direction, loss: Loss::positions([30]) };
    d.net.schedule(Instant::ZERO, one).unwrap();
    let transfer = d.net.add_transfer(d.bulk(300_000)).unwrap();
    // The highest TSN sent, and the highest one acknowledged.
    let (sent, acked) = (Rc::new(Cell::new(0)), Rc::new(Cell::new(0)));
    let (to, from) = (sent.clone(), acked.clone());
    d.net.tap(Some(d.sender), move |sight: &Sight<'_>| {
        for chunk in sight.packet().unwrap().chunks().flatten() {
            match (chunk.decode(), sight.point) {
                (Ok(Chunk::Data(data)), Point::Sent) => to.set(data.tsn.0.max(to.get())),
                (Ok(Chunk::Sack(sack)), Point::Received) => from.set(sack.cumulative_tsn_ack.0),
                _ => {}
            }
        }
    });
    let statistics = |net: &Network| net.sender(transfer).map(|sender| sender.statistics());
    d.net.run_while(|net| statistics(net).is_none_or(|s| s.counters.fast_recoveries == 0));
    let exit = sent.get();
    let halved = statistics(&d.net).unwrap().paths[0];
    assert_eq!(halved.cwnd, halved.ssthresh);
    d.net.run_while(|_| acked.get() < exit);
    // Fast recovery is over, and the window was fully used.
    let path = statistics(&d.net).unwrap().paths[0];
    assert_eq!(path.cwnd, halved.cwnd + 1468);
}
