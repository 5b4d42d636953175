//! Requests, and the end of the association.

use super::*;

#[test]
fn a_shutdown_waits_for_the_answer_only_if_messages_do() {
    for waits in [false, true] {
        let mut pair = pair();
        let mut dropped = 0;
        pair.net.script(move |sight| {
            let answer = sight.node == 1 && sight.has(kind::RE_CONFIG);
            dropped += usize::from(answer);
            if answer && dropped < 3 { Verdict::Drop } else { Verdict::Pass }
        });
        assert!(pair.send(0, 1, "a"));
        pair.run(Duration::from_secs(1));
        assert_eq!(reset(&mut pair, 0, StreamDirection::Both, &[1]), Ok(()));
        if waits {
            assert!(pair.send(0, 1, "b"));
        }
        pair.run(Duration::from_millis(100));
        assert_eq!(add(&mut pair, 0, 1, 1), Ok(()));
        pair.shutdown(0);
        assert!(pair.run_until(LONG, |pair| pair.closed.iter().all(Option::is_some)));
        assert!(pair.closed.iter().flatten().all(|why| matches!(why, CloseReason::Shutdown)));
        assert_eq!(text(&pair, 1), if waits { "ab" } else { "a" });
        let outcome = if waits { Performed } else { Failed };
        assert!(resets(&pair, 0).contains(&(true, vec![1], outcome)), "{:?}", resets(&pair, 0));
        assert!(resets(&pair, 0).contains(&(false, vec![1], Failed)));
        assert_eq!(added(&pair, 0).iter().filter(|it| it.2 == Failed).count(), 2);
    }
}

/// A pair whose node 0 shuts down while its request for new TSNs has no answer, because data of node 1 was lost.
fn shutdown_amid_a_reset_of_tsns() -> Pair {
    let mut pair = Pair::connected(1, config().with(|config| config.sending.interleaving = true));
    assert!(pair.send(1, 2, "a"));
    pair.run(Duration::from_secs(1));
    let mut dropped = false;
    pair.net.script(move |sight| {
        let drops = !dropped && sight.node == 1 && sight.has(kind::I_DATA);
        dropped |= drops;
        if drops { Verdict::Drop } else { Verdict::Pass }
    });
    assert!(pair.send(1, 2, "b"));
    pair.run(Duration::from_millis(10));
    let now = pair.net.now();
    assert_eq!(pair.association_mut(0).reset_association(now), Ok(()));
    pair.run(Duration::from_millis(10));
    assert!(pair.send(1, 2, "c"));
    pair.shutdown(0);
    pair
}

#[test]
fn the_peer_may_reset_its_tsns_after_a_shutdown() {
    let mut pair = shutdown_amid_a_reset_of_tsns();
    assert!(pair.run_until(LONG, |pair| pair.closed.iter().all(Option::is_some)));
    assert!(pair.closed.iter().flatten().all(|why| matches!(why, CloseReason::Shutdown)));
    assert_eq!(text(&pair, 0), "abc");
    assert_eq!(tsn_resets(&pair, 0)[0].2, Performed);
    assert_eq!(tsn_resets(&pair, 1)[0].2, Performed);
}

#[test]
fn a_shutdown_does_not_wait_for_ever_for_new_tsns() {
    let mut pair = shutdown_amid_a_reset_of_tsns();
    pair.net.script(|sight| match sight.node == 1 && sight.has(kind::RE_CONFIG) {
        true => Verdict::Drop,
        false => Verdict::Pass,
    });
    assert!(pair.run_until(LONG * 10, |pair| pair.closed[0].is_some()));
    assert_eq!(tsn_resets(&pair, 0)[0].2, Failed);
}

#[test]
fn an_abort_ends_requests() {
    let mut pair = pair();
    assert_eq!(reset(&mut pair, 0, StreamDirection::Both, &[]), Ok(()));
    assert_eq!(add(&mut pair, 0, 1, 1), Ok(()));
    assert!(pair.send(0, 1, "a"));
    pair.abort(0);
    pair.run(Duration::from_secs(1));
    assert_eq!(resets(&pair, 0), [(true, vec![], Failed), (false, vec![], Failed)]);
    assert_eq!(added(&pair, 0).len(), 2);
    let back =
        |event: &&Event| matches!(event, Event::Notification(Notification::SendFailed { .. }));
    assert_eq!(pair.events[0].iter().filter(back).count(), 1);
}
