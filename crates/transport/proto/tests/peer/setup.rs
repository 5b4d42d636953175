//! The handshake, step by step (RFC 9260 section 5).

use std::time::Duration;

use anabranch_proto::{CloseReason, Event, Notification, OutgoingMessage, Ppid};
use anabranch_wire::{
    Cause, Chunk, CookieEcho, Header, Init, Packet, Parameter, Tsn, kind, parameter_kind,
};

use crate::victim::{ELSEWHERE, PEER, THERE, Victim, decode, init, message, parameter};

const TO_LISTENER: Header = Header { source_port: 9, destination_port: 7, verification_tag: 0 };

/// The State Cookie, tag and number of chunks of an INIT ACK.
fn cookie_of(bytes: &[u8]) -> (Vec<u8>, u32, usize) {
    let (Chunk::InitAck(ack), PEER) = decode(bytes) else { panic!("no INIT ACK") };
    let cookie = ack.parameters.find(parameter_kind::STATE_COOKIE).unwrap();
    let chunks = Packet::parse(bytes).unwrap().chunks().count();
    (cookie.value.to_vec(), ack.initiate_tag, chunks)
}

// test: rfc9260 5.1 "MUST provide its Verification Tag (Tag_A)"
// test: rfc9260 5.1.1 "MUST indicate the number of outbound streams"
// test: rfc9260 3.1 "containing an INIT chunk MUST have a zero"
// test: rfc9260 12.3 "containing an INIT chunk MUST have a zero"
// test: rfc9260 12.3 "MUST NOT be bundled with any other chunk"
// test: rfc9260 8.5.1 "The sender MUST set the Verification Tag"
// test: rfc9260 5.1 "MUST NOT be bundled with any other chunk"
// test: rfc9260 3.3.2 "The value of 0 MUST NOT be used"
// test: rfc9260 3.3.2 "MUST NOT contain the Host Name Address"
// test: rfc9260 3.3.2.1.4 "MUST NOT include this parameter"
// test: rfc9260 5 "MUST complete an initialization process in order"
// test: rfc9260 4 "MUST retransmit the INIT chunk and restart"
// test: rfc9260 4 "This MUST be repeated up to 'Max.Init.Retransmits'"
// test: rfc9260 4 "MUST abort the initialization process and report"
// test: rfc9260 5.1.6 "MUST follow the rules defined in Section"
#[test]
fn inits_are_repeated_and_given_up() {
    let (mut victim, id) = Victim::connecting();
    let now = victim.now;
    victim.association(id).send(now, OutgoingMessage::new(0, Ppid(0), "early")).unwrap();
    assert_eq!(victim.sent(), Vec::<Vec<u8>>::new());
    for seconds in [1, 2, 4, 8, 16, 32, 60, 60] {
        assert_eq!(victim.wait(), Duration::from_secs(seconds));
        let sent = victim.sent();
        let (Chunk::Init(init), 0) = decode(&sent[0]) else { panic!("{sent:?}") };
        assert_eq!((sent.len(), Packet::parse(&sent[0]).unwrap().chunks().count()), (1, 1));
        assert_eq!((init.initiate_tag, init.initial_tsn), (victim.tag, Tsn(victim.tsn)));
        assert_ne!(init.initiate_tag, 0);
        assert!(init.outbound_streams > 0 && init.inbound_streams > 0 && init.a_rwnd >= 1500);
        assert!(init.parameters.find(parameter_kind::HOST_NAME_ADDRESS).is_none());
    }
    assert_eq!(victim.wait(), Duration::from_secs(60));
    assert_eq!(victim.sent(), Vec::<Vec<u8>>::new());
    assert!(matches!(
        victim.endpoint.poll_event(),
        Some((_, Event::Notification(Notification::SendFailed { sent: false, .. })))
    ));
    let closed = victim.endpoint.poll_event();
    assert!(
        matches!(
            closed,
            Some((_, Event::Notification(Notification::Closed(CloseReason::ConnectTimeout))))
        ),
        "{closed:?}"
    );
}

// test: rfc9260 3.2.2 "it MUST be the first chunk"
// test: rfc9260 5.1 "any other packets to the peer"
// test: rfc9260 5.1.4 "MUST also start the T1-cookie timer"
// test: rfc9260 5.1.4 "MUST retransmit the COOKIE ECHO chunk and"
// test: rfc9260 4 "MUST retransmit COOKIE ECHO chunk and restart"
// test: rfc9260 3.3.3 "MUST be prepared to receive an INIT ACK"
// test: rfc9260 6 "Data transmission MUST only happen in the ESTABLISHED"
// test: rfc9260 3.3.11 "This chunk MUST precede any DATA chunk"
#[test]
fn cookies_are_repeated_and_nothing_goes_before_their_answer() {
    let (mut victim, id) = Victim::connecting();
    let now = victim.now;
    victim.association(id).send(now, OutgoingMessage::new(0, Ppid(0), "early")).unwrap();
    let large = parameter(Parameter::StateCookie(&[5; 1300]));
    victim.chunk(&Chunk::InitAck(init(PEER, 100_000, &large)));
    for seconds in [1, 2, 4, 8, 16, 32, 60, 60] {
        let sent = victim.sent();
        let (Chunk::CookieEcho(echo), PEER) = decode(&sent[0]) else { panic!("{sent:?}") };
        assert_eq!((echo.cookie, sent.len()), (&[5; 1300][..], 1));
        assert_eq!(victim.wait(), Duration::from_secs(seconds));
    }
    assert_eq!(victim.kinds(), [[kind::COOKIE_ECHO]]);
    victim.chunk(&Chunk::CookieAck);
    assert_eq!(victim.state(id), "ESTABLISHED");
    assert_eq!(victim.kinds(), [[kind::DATA]]);
}

// test: rfc9260 5.1.1 "the endpoint MUST use MIS outbound streams"
// test: rfc9260 5.1.1 "outbound stream identifier range for either endpoint MUST"
// test: rfc9260 6.5 "Every DATA chunk MUST carry a valid stream"
// test: rfc9260 3.3.3 "MUST use the source address associated with"
// test: rfc9260 5.1.2 "MUST take the source IP address from"
#[test]
fn the_peer_limits_the_streams() {
    let (mut victim, id) = Victim::connecting();
    let cookie = parameter(Parameter::StateCookie(b"biscuit"));
    let ack = Init { inbound_streams: 3, ..init(PEER, 100_000, &cookie) };
    victim.chunk(&Chunk::InitAck(ack));
    victim.chunk(&Chunk::CookieAck);
    let now = victim.now;
    let mut association = victim.association(id);
    assert_eq!(association.outbound_streams(), 3);
    assert!(association.send(now, OutgoingMessage::new(3, Ppid(0), "x")).is_err());
    assert!(association.send(now, OutgoingMessage::new(2, Ppid(0), "x")).is_ok());
    let remotes: Vec<_> = association.paths().map(|(_, _, remote, _)| remote).collect();
    assert_eq!(remotes, [THERE]);
}

// test: rfc9260 5.1 "MUST set the Verification Tag field to Tag_A and"
// test: rfc9260 5.1 "MUST generate and send along with the INIT"
// test: rfc9260 5.1 "MUST NOT allocate any resources or keep any states"
// test: rfc9260 5.1 "MUST be the only chunks present"
// test: rfc9260 5.1 "MUST be set to the source IP address"
// test: rfc9260 5.1 "MUST send the INIT ACK chunk to the"
// test: rfc9260 5.1.2 "chunk MUST be sent to the source address"
// test: rfc9260 3.3.2 "MUST be placed into the Verification Tag"
// test: rfc9260 3.2.2 "it MUST put the"
// test: rfc9260 3.3.3 "The Initiate Tag MUST NOT take the value"
// test: rfc9260 3.3.3 "value MUST NOT be greater than the MIS"
// test: rfc9260 3.3.3 "MUST NOT contain the Host Name Address"
// test: rfc9260 3.3.3.1 "MUST NOT be included in an INIT ACK"
// test: rfc9260 3 "MUST NOT be bundled with any other chunk"
// test: rfc9260 6.10 "An endpoint MUST NOT bundle INIT, INIT ACK, or"
#[test]
fn an_init_is_answered_without_keeping_anything() {
    let mut victim = Victim::listening();
    let mut parameters =
        parameter(Parameter::SupportedAddressTypes(anabranch_wire::U16List::new(&[0, 5, 0, 11])));
    let unknown = [0xff, 0, 0, 8, 1, 2, 3, 4];
    parameters.extend_from_slice(&unknown);
    victim.take_with(TO_LISTENER, THERE, |w| {
        w.chunk(&Chunk::Init(init(PEER, 2000, &parameters))).unwrap();
    });
    let (transmit, bytes) = victim.poll().unwrap();
    assert_eq!(transmit.remote, THERE);
    let (Chunk::InitAck(ack), PEER) = decode(&bytes) else { panic!("no INIT ACK") };
    assert_eq!(cookie_of(&bytes).2, 1);
    assert_ne!(ack.initiate_tag, 0);
    assert!((1..=10).contains(&ack.outbound_streams) && ack.inbound_streams > 0);
    assert!(ack.parameters.find(parameter_kind::HOST_NAME_ADDRESS).is_none());
    let reported = ack.parameters.find(parameter_kind::UNRECOGNIZED_PARAMETER).unwrap();
    assert_eq!(reported.value, unknown);
    assert_eq!(victim.endpoint.associations().count(), 0);
    assert_eq!(victim.endpoint.next_deadline(), None);
}

// test: rfc9260 8.4 "COOKIE ECHO chunk as the first chunk, it MUST"
// test: rfc9260 5.1 "chunk MUST be the first chunk in the packet"
// test: rfc9260 5.1.5 "MUST be the first chunk in the SCTP"
// test: rfc9260 5.1.5 "MUST appear first in the SCTP packet"
// test: rfc9260 3.3.12 "MUST precede any DATA or SACK chunk"
// test: rfc9260 6 "endpoint MUST properly receive and process bundled"
// test: rfc9260 6.10 "MUST process received chunks in their order"
// test: rfc9260 3.3.2.1.2 "MUST use the source address associated with"
// test: rfc9260 5.2.2 "the Tie-Tags MUST be set to 0"
#[test]
fn a_cookie_brings_the_association_and_its_data() {
    let mut victim = Victim::listening();
    victim.take_with(TO_LISTENER, THERE, |w| {
        w.chunk(&Chunk::Init(init(PEER, 2000, &[]))).unwrap();
    });
    let (cookie, tag, _) = cookie_of(&victim.sent()[0]);
    let header = Header { verification_tag: tag, ..TO_LISTENER };
    let echo = Chunk::CookieEcho(CookieEcho { cookie: &cookie });
    victim.take_with(header, THERE, |w| {
        w.chunk(&echo).unwrap();
        w.chunk(&message(1, 0)).unwrap();
    });
    let Some((id, Event::Notification(Notification::Up { incoming: true, .. }))) =
        victim.endpoint.poll_event()
    else {
        panic!("not connected")
    };
    let sent = victim.kinds();
    assert_eq!(sent[0][..2], [kind::COOKIE_ACK, kind::SACK]);
    assert_eq!(victim.association(id).receive().unwrap().payload.len(), 4);
    let remotes: Vec<_> = victim.association(id).paths().map(|path| path.2).collect();
    assert_eq!(remotes, [THERE]);
    // The cookie once more is answered, and changes nothing.
    victim.take_with(header, THERE, |w| w.chunk(&echo).unwrap());
    assert_eq!(victim.kinds()[0], [kind::COOKIE_ACK]);
    assert_eq!(victim.endpoint.associations().count(), 1);
}

// test: rfc9260 5.1.5 "the endpoint MUST transmit an ERROR chunk with"
// test: rfc9260 4 "the receiver MUST send back an ERROR chunk"
#[test]
fn an_old_cookie_is_stale() {
    let mut victim = Victim::listening();
    victim.take_with(TO_LISTENER, THERE, |w| {
        w.chunk(&Chunk::Init(init(PEER, 2000, &[]))).unwrap();
    });
    let (cookie, tag, _) = cookie_of(&victim.sent()[0]);
    victim.now += Duration::from_millis(60_001);
    let header = Header { verification_tag: tag, ..TO_LISTENER };
    victim.take_with(header, THERE, |w| {
        w.chunk(&Chunk::CookieEcho(CookieEcho { cookie: &cookie })).unwrap();
    });
    let sent = victim.sent();
    let (Chunk::Error(error), PEER) = decode(&sent[0]) else { panic!("{sent:?}") };
    assert_eq!(error.causes.decoded().next(), Some(Cause::StaleCookie { staleness_us: 1000 }));
    assert_eq!(victim.endpoint.associations().count(), 0);
}

// test: rfc9260 5.2.2 "MUST generate an INIT ACK chunk with"
// test: rfc9260 5.2.2 "INIT ACK chunk MUST contain a new"
// test: rfc9260 5.2.2 "MUST carry a Verification Tag value equal"
// test: rfc9260 5.2.2 "MUST check to see if the unexpected"
// test: rfc9260 5.2.2 "the endpoint MUST respond"
// test: rfc9260 5.2.2 "the corresponding TCB MUST NOT be changed"
// test: rfc9260 5.2.2 "the endpoint MUST take no further actions"
// test: rfc9260 5.2.2 "MUST copy its current Tie-Tags to a"
// test: rfc9260 5.1.2 "chunk MUST be treated as belonging to an"
// test: rfc9260 5.3.1 "A new Verification Tag value MUST be"
// test: rfc9260 1.3 "MUST NOT have more than one SCTP association"
#[test]
fn a_restart_needs_the_known_addresses_and_the_cookie() {
    let (mut victim, id) = Victim::connected();
    let more = parameter(Parameter::Ipv4Address([10, 0, 0, 3].into()));
    victim.take(THERE, 0, |w| w.chunk(&Chunk::Init(init(78, 2000, &more))).unwrap());
    assert!(matches!(decode(&victim.sent()[0]), (Chunk::Abort(a), 78) if !a.tag_reflected));
    let there = parameter(Parameter::Ipv4Address([10, 0, 0, 2].into()));
    victim.take(ELSEWHERE, 0, |w| w.chunk(&Chunk::Init(init(78, 2000, &there))).unwrap());
    assert!(matches!(decode(&victim.sent()[0]), (Chunk::Abort(_), 78)));
    assert_eq!(victim.state(id), "ESTABLISHED");

    victim.take(THERE, 0, |w| w.chunk(&Chunk::Init(init(PEER, 2000, &[]))).unwrap());
    let (cookie, tag, chunks) = cookie_of(&victim.sent()[0]);
    assert_ne!(tag, victim.tag);
    assert_eq!((victim.state(id), chunks), ("ESTABLISHED", 1));
    assert!(victim.endpoint.poll_event().is_none());

    // Both tags of the cookie are new to the association now: the peer's is another one.
    victim.take(THERE, 0, |w| w.chunk(&Chunk::Init(init(78, 2000, &[]))).unwrap());
    let sent = victim.sent();
    let (Chunk::InitAck(ack), 78) = decode(&sent[0]) else { panic!("no INIT ACK") };
    let tag = ack.initiate_tag;
    let restart = ack.parameters.find(parameter_kind::STATE_COOKIE).unwrap();
    victim.take(THERE, tag, |w| {
        w.chunk(&Chunk::CookieEcho(CookieEcho { cookie: restart.value })).unwrap();
    });
    assert!(matches!(
        victim.endpoint.poll_event(),
        Some((_, Event::Notification(Notification::Restarted { .. })))
    ));
    assert_eq!(victim.kinds()[0][0], kind::COOKIE_ACK);
    assert_eq!(victim.endpoint.associations().count(), 1);
    // The first cookie's tie-tags are those of the association that is gone.
    victim.take(THERE, tag, |w| {
        w.chunk(&Chunk::CookieEcho(CookieEcho { cookie: &cookie })).unwrap();
    });
    assert!(victim.endpoint.poll_event().is_none());
}

/// The cookie of the answer to an INIT with this tag, and the answer's own tag.
fn cookie_for(victim: &mut Victim, peer: u32) -> (Vec<u8>, u32) {
    victim.take(THERE, 0, |w| w.chunk(&Chunk::Init(init(peer, 2000, &[]))).unwrap());
    let sent = victim.sent();
    let Chunk::InitAck(ack) = decode(&sent[0]).0 else { panic!("no INIT ACK") };
    let cookie = ack.parameters.find(parameter_kind::STATE_COOKIE).unwrap();
    (cookie.value.to_vec(), ack.initiate_tag)
}

// test: rfc9260 5.2.4 "MUST update its peer's Verification Tag"
#[test]
fn in_a_collision_the_cookie_counts() {
    let (mut victim, id) = Victim::connecting();
    let (cookie, tag) = cookie_for(&mut victim, 78);
    assert_eq!(tag, victim.tag);
    victim.chunk(&Chunk::CookieEcho(CookieEcho { cookie: &cookie }));
    assert_eq!(victim.state(id), "ESTABLISHED");
    let sent = victim.sent();
    assert!(matches!(decode(&sent[0]), (Chunk::CookieAck, 78)), "{sent:?}");
    // A late INIT ACK or COOKIE ACK has no effect.
    victim.chunk(&Chunk::InitAck(init(79, 2000, &[])));
    victim.chunk(&Chunk::CookieAck);
    assert_eq!(victim.sent(), Vec::<Vec<u8>>::new());
    assert_eq!(victim.state(id), "ESTABLISHED");
}

// test: rfc9260 5.2.4 "MUST transmit an ERROR chunk with a"
#[test]
fn a_stale_cookie_restarts_nothing() {
    let (mut victim, id) = Victim::connected();
    let (cookie, tag) = cookie_for(&mut victim, 78);
    victim.now += Duration::from_secs(61);
    victim.take(THERE, tag, |w| {
        w.chunk(&Chunk::CookieEcho(CookieEcho { cookie: &cookie })).unwrap();
        w.chunk(&message(1, 0)).unwrap();
    });
    let sent = victim.sent();
    assert!(matches!(decode(&sent[0]).0, Chunk::Error(_)), "{sent:?}");
    assert!(victim.association(id).receive().is_none());
    assert!(victim.endpoint.poll_event().is_none());
}

// test: rfc9260 5.2.4 "it MUST NOT set up a new"
#[test]
fn nothing_restarts_at_the_end_of_a_shutdown() {
    let (mut victim, id) = Victim::connected();
    let (cookie, tag) = cookie_for(&mut victim, 78);
    let cumulative_tsn_ack = Tsn(victim.tsn.wrapping_sub(1));
    victim.chunk(&Chunk::Shutdown(anabranch_wire::Shutdown { cumulative_tsn_ack }));
    assert_eq!(victim.kinds(), [[kind::SHUTDOWN_ACK]]);
    victim.take(THERE, tag, |w| {
        w.chunk(&Chunk::CookieEcho(CookieEcho { cookie: &cookie })).unwrap();
    });
    assert_eq!(victim.kinds(), [[kind::SHUTDOWN_ACK, kind::ERROR]]);
    assert_eq!(victim.state(id), "SHUTDOWN-ACK-SENT");
}

/// The peer lost its state while both sides were setting the association up, and its old cookie
/// came before its new one. What it sends from then on belongs to the new one.
// test: rfc9260 5.2.4 "MUST update its peer's Verification Tag"
#[test]
fn a_cookie_with_a_new_tag_of_the_peer_is_a_restart_if_this_side_is_up() {
    let (mut victim, id) = Victim::connecting();
    let (oldest, _) = cookie_for(&mut victim, 77);
    victim.now += Duration::from_millis(1);
    let (before, tag) = cookie_for(&mut victim, 78);
    let again = Init { initial_tsn: Tsn(7000), ..init(79, 2000, &[]) };
    victim.take(THERE, 0, |w| w.chunk(&Chunk::Init(again)).unwrap());
    let (after, same) = {
        let sent = victim.sent();
        let (Chunk::InitAck(ack), 79) = decode(&sent[0]) else { panic!("no INIT ACK") };
        let cookie = ack.parameters.find(parameter_kind::STATE_COOKIE).unwrap();
        (cookie.value.to_vec(), ack.initiate_tag)
    };
    assert_eq!((tag, same), (victim.tag, victim.tag));
    victim.chunk(&Chunk::CookieEcho(CookieEcho { cookie: &before }));
    assert!(matches!(decode(&victim.sent()[0]), (Chunk::CookieAck, 78)));
    // An earlier cookie belongs to a previous incarnation of the peer.
    victim.chunk(&Chunk::CookieEcho(CookieEcho { cookie: &oldest }));
    assert_eq!(victim.sent(), Vec::<Vec<u8>>::new());
    victim.chunk(&Chunk::CookieEcho(CookieEcho { cookie: &after }));
    assert!(matches!(decode(&victim.sent()[0]), (Chunk::CookieAck, 79)));
    assert_eq!(victim.state(id), "ESTABLISHED");
    let events: Vec<_> = std::iter::from_fn(|| victim.endpoint.poll_event()).collect();
    assert!(
        events
            .iter()
            .any(|(_, event)| matches!(event, Event::Notification(Notification::Restarted { .. }))),
        "{events:?}"
    );
    victim.chunk(&message(7000, 0));
    let sent = victim.sent();
    let (Chunk::Sack(sack), 79) = decode(&sent[0]) else { panic!("no SACK") };
    assert_eq!(sack.cumulative_tsn_ack, Tsn(7000));
}
