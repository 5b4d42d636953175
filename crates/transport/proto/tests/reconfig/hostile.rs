//! Peers whose requests make no sense, or are too many.

use super::*;

#[test]
fn requests_of_a_peer_that_make_no_sense() {
    let mut pair = pair();
    let (number, last) = numbers(&pair, 1);
    let mut storage = Vec::new();
    let outgoing = |request, streams| Parameter::OutgoingResetRequest {
        request,
        response: 0,
        last_tsn: last,
        streams,
    };
    let there = List::encode(&[1_u16, 1, 2], &mut storage);
    let mut storage = Vec::new();
    let missing = List::encode(&[1_u16, 10], &mut storage);
    // A number that is not the next one.
    let shown = request(&mut pair, 1, &[outgoing(number.wrapping_add(1), there)]);
    assert_eq!(shown, [format!("RE-CONFIG [response {} result 5]", number.wrapping_add(1))]);
    // A stream that does not exist.
    let shown = request(&mut pair, 1, &[outgoing(number, missing)]);
    assert_eq!(shown, [format!("RE-CONFIG [response {number} result 3]")]);
    // The same request again is answered as before, whatever is in it.
    let shown = request(&mut pair, 1, &[outgoing(number, there)]);
    assert_eq!(shown, [format!("RE-CONFIG [response {number} result 3]")]);
    let number = number.wrapping_add(1);
    let shown = request(&mut pair, 1, &[outgoing(number, there)]);
    assert_eq!(shown, [format!("RE-CONFIG [response {number} result 1]")]);
    assert_eq!(resets(&pair, 1), [(false, vec![1, 2], Performed)]);
    // 65,000 streams.
    let number = number.wrapping_add(1);
    let more = Parameter::AddOutgoingStreams { request: number, count: 65_000 };
    let shown = request(&mut pair, 1, &[more]);
    assert_eq!(shown, [format!("RE-CONFIG [response {number} result 2]")]);
    let number = number.wrapping_add(1);
    let more = Parameter::AddIncomingStreams { request: number, count: 65_535 };
    let shown = request(&mut pair, 1, &[more]);
    assert_eq!(shown, [format!("RE-CONFIG [response {number} result 2]")]);
    // A TSN that cannot have been sent.
    let number = number.wrapping_add(1);
    let ahead = Parameter::OutgoingResetRequest {
        request: number,
        response: 0,
        last_tsn: Tsn(last.0.wrapping_add(1 << 30)),
        streams: there,
    };
    let shown = request(&mut pair, 1, &[ahead]);
    assert_eq!(shown, [format!("RE-CONFIG [response {number} result 2]")]);
    // Three parameters, an answer that nobody waits for, and none.
    let answer = Parameter::ReconfigResponse { response: 3, result: 1, next_tsns: None };
    assert_eq!(request(&mut pair, 1, &[answer]), [""; 0]);
    for bad in [&[answer, answer, answer][..], &[Parameter::EcnCapable], &[]] {
        let shown = request(&mut pair, 1, bad);
        assert!(shown.len() == 1 && shown[0].starts_with("ERROR"), "{shown:?}");
    }
    assert!(pair.both_up());
}

/// A peer that sends new requests although the first one is in progress, and lists as many streams as it can.
#[test]
fn a_flood_of_requests_takes_little_memory() {
    let many = AssociationConfig::rfc9260().with(|config| {
        config.sending.stream_reconfiguration = true;
        config.sending.outbound_streams = 65_535;
    });
    let mut pair = Pair::connected(1, many);
    pair.reads[1] = false;
    let (mut number, last) = numbers(&pair, 1);
    let streams: Vec<u16> = (0..32_000).collect();
    let mut storage = Vec::new();
    let all = List::encode(&streams, &mut storage);
    let mut storage = Vec::new();
    let some = List::encode(&streams[..8192], &mut storage);
    let before = pair.net.node(1).endpoint.memory_used();
    for last_tsn in [last, Tsn(last.0.wrapping_add(1000))] {
        for streams in [all, some] {
            for _ in 0..1000 {
                let what = Parameter::OutgoingResetRequest {
                    request: number,
                    response: 0,
                    last_tsn,
                    streams,
                };
                let shown = request(&mut pair, 1, &[what]);
                assert_eq!(shown.len(), 1, "{shown:?}");
                number = number.wrapping_add(u32::from(!shown[0].ends_with("result 6]")));
            }
        }
    }
    let more = pair.net.node(1).endpoint.memory_used() - before;
    assert!(more < 100_000, "{more}");
    assert!(pair.both_up());
}
