//! Valid scripts, and the errors for scripts that are invalid or fail.

use anabranch_script::{Failure, FailureKind, Script};

fn parse(text: &str) -> Failure {
    Script::parse("t.pkt", text).expect_err("should not be understood")
}

fn run(text: &str) -> Result<(), Failure> {
    Script::parse("t.pkt", text)?.run().map(|_| ())
}

const ACCEPTED: &str = "
+0 socket(..., SOCK_STREAM, IPPROTO_SCTP) = 3
+0 listen(3, 1) = 0
+0 < sctp: INIT[flgs=0, tag=1, a_rwnd=65536, os=1, is=1, tsn=1]
+0 > sctp: INIT_ACK[flgs=0, tag=2, a_rwnd=..., os=..., is=..., tsn=1, ...]
+0 < sctp: COOKIE_ECHO[flgs=0, len=..., val=...]
+0 > sctp: COOKIE_ACK[flgs=0]
+0 accept(3, ..., ...) = 4
";

#[test]
fn what_is_not_understood_is_named_with_its_place() {
    let cases = [
        ("+0 < sctp: INITT[flgs=0]", "t.pkt:1:12: no chunk, parameter or cause is called INITT"),
        ("\n+0 > sctp: SACK[flgs=0, cum=1]", "t.pkt:2:25: SACK has no field cum"),
        ("+0 < tcp: X[]", "t.pkt:1:6: expected 'sctp', found 'tcp'"),
        ("+0 < sctp: DATA[flgs=XY]", "t.pkt:1:17: DATA has no such flags: XY"),
        ("+0 < sctp: DATA[sid=65536]", "t.pkt:1:21: 65536 is not a number from 0 to 65535"),
        ("+0 bind(3", "t.pkt:1:1: expected ',', found the end of the file"),
        ("* bind(3) = 0", "t.pkt:1:1: only packets sent can come in a range of time"),
        ("+2~+1 > sctp: SACK[...]", "t.pkt:1:4: the range ends before it begins"),
        ("+0 < @* sctp: SACK[]", "t.pkt:1:6: a packet that comes in comes on one path"),
        ("+x < sctp: SACK[]", "t.pkt:1:2: expected a time in seconds, found 'x'"),
        ("/* no end", "t.pkt:1:3: a comment does not end"),
        ("+0 < sctp: ?", "t.pkt:1:12: '?' means nothing here"),
        ("#endif", "t.pkt:1:1: no #ifdef belongs to this"),
        ("include \"x.inc\"", "t.pkt:1:1: only scripts that are files can include others"),
    ];
    for (text, expected) in cases {
        let failure = parse(text);
        assert_eq!(failure.kind, FailureKind::Script);
        let said = failure.to_string();
        assert!(said == expected, "{text:?}: {said}");
    }
}

#[test]
fn what_there_is_not_is_named() {
    let cases = [
        ("--colour=blue", "t.pkt:1:1: no option --colour=blue"),
        ("--set=rto_min=5", "t.pkt:1:1: rto_min must be a time from 1 ns to 1 h, not '5'"),
        // FreeBSD's names are refused with the same message.
        ("--sysctl=rto_min=0", "t.pkt:1:1: rto_min must be a time from 1 ns to 1 h, not '0 ms'"),
        ("--sysctl=maxburst=5000000000", "'5000000000' is not a number from 0 to 4294967295"),
        ("--profile=rfc1", "t.pkt:1:1: no profile rfc1"),
        ("+0 fork(3) = 0", "t.pkt:1:4: no call fork is known here"),
        ("+0 close(7) = 0", "t.pkt:1:4: there is no socket 7"),
        ("+0 socket(..., SOCK_SEQPACKET, ...) = 3", "cannot be scripted here"),
        ("+0 `sysctl net.inet.sctp.blackhole=1`", "has no meaning here"),
        ("+0 < @3 sctp(tag=1): COOKIE_ACK[]", "there is no local address 3"),
    ];
    for (text, expected) in cases {
        let failure = run(text).expect_err(text);
        assert_eq!(failure.kind, FailureKind::Script, "{failure}");
        assert!(failure.to_string().contains(expected), "{failure}");
    }
}

#[test]
fn a_failure_shows_what_was_expected_what_came_and_what_was_before() {
    let text = format!("{ACCEPTED}+0 write(4, ..., 10) = 10\n+0 > sctp: DATA[flgs=BE, tsn=2]\n");
    let failure = run(&text).unwrap_err();
    assert_eq!(failure.kind, FailureKind::Behaviour);
    assert_eq!((failure.place.line, failure.place.column), (10, 1));
    assert_eq!(failure.message, "DATA: tsn is 1, not 2");
    let details = failure.details.join("\n");
    assert!(details.contains("expected: +0 > sctp: DATA[flgs=BE, tsn=2]"), "{details}");
    assert!(details.contains("came:     0.000000 > @0 sctp(tag=1): DATA[flgs=BE, len=26, tsn=1"));
    assert!(details.contains("0.000000 < @0 sctp(tag=2): COOKIE_ECHO"), "{details}");
}

#[test]
fn scripts_fail_for_every_reason() {
    let cases = [
        ("+1 > sctp: DATA[...]", "no such packet was sent in time"),
        ("+0 write(4, ..., 10) = 10", "a packet was sent that the script does not expect"),
        ("+0 write(4, ..., 10) = 9\n+0 > sctp: ...", "write returned 10"),
        ("+0 write(4, ..., 10) = 10\n+0.5 quiet", "before this a packet was sent"),
        ("+0 write(4, ..., 10) = 10\n+0.5 > sctp: ...", "the packet came 496ms too early"),
        ("+0 write(4, ..., 10) = 10\n+0 > @0 sctp(tag=9): ...", "the verification tag is 1"),
        ("+0 write(4, ..., 10) = 10\n+0 > 1 > 2 sctp: ...", "the packet's ports are 8080 > 8080"),
        ("+0 write(4, ..., 10) = 10\n+0 > sctp: SACK[...]; ...", "expected SACK, not DATA"),
        ("+0 write(4, ..., 10) = 10\n+0 > sctp: DATA[...]; SACK[...]", "no SACK"),
        ("+0 write(4, ..., 10) = 10\n+0 > sctp: [0x00]", "the bytes differ"),
        ("+0 state(4) = CLOSED", "state returned ESTABLISHED"),
        ("+0 accept(3, ..., ...) = 5", "accept never returns"),
        ("+0...1 read(4, ..., 10) = 5\n+2 quiet", "read has not returned in time"),
        ("+0...9 read(4, ..., 10) = 5", "read has not returned"),
        ("1 quiet\n0.5 quiet", "it is 500ms later already"),
    ];
    for (text, expected) in cases {
        let failure =
            run(&format!("--set=heartbeat_interval=off\n{ACCEPTED}{text}\n")).unwrap_err();
        assert_eq!(failure.kind, FailureKind::Behaviour, "{failure}");
        assert!(failure.message.contains(expected), "{text}: {failure}");
    }
}

/// The runner knows only what the script says of the secrets, so it notices a MAC that is made with another one.
#[test]
fn a_mac_that_the_engine_computes_is_verified() {
    let begin = "--set=authentication=on
+0 socket(..., SOCK_STREAM, IPPROTO_SCTP) = 3
+0 listen(3, 1) = 0
+0 < sctp: INIT[flgs=0, tag=1, tsn=1, RANDOM[len=36], CHUNKS[types=[DATA]], HMAC_ALGO[hmac_ids=[1]]]
+0 > sctp: INIT_ACK[flgs=0, tag=2, tsn=1, ...]
+0 < sctp: COOKIE_ECHO[flgs=0, len=..., val=...]
+0 > sctp: COOKIE_ACK[flgs=0]
+0 accept(3, ..., ...) = 4
";
    let end = "+0 write(4, ..., 10) = 10\n+0 > sctp: AUTH[hmac=valid]; DATA[...]\n";
    assert_eq!(run(&format!("{begin}{end}")), Ok(()));
    let failure = run(&format!("{begin}+0 peer_key(0, \"another\") = 0\n{end}")).unwrap_err();
    assert_eq!(failure.message, "the MAC of the AUTH chunk is wrong");
    let wrong = end.replace("valid", "wrong");
    assert!(run(&format!("{begin}{wrong}")).is_err());
    assert!(parse("+0 > sctp: AUTH[hmac=right]").message.contains("a MAC is valid, wrong"));
}

#[test]
fn a_lenient_run_ignores_what_comes_after_the_end() {
    let script = Script::parse("t.pkt", &format!("{ACCEPTED}+0 write(4, ..., 10) = 10\n")).unwrap();
    assert!(script.run().is_err());
    let passed = script.run_leniently(true).unwrap();
    assert_eq!((passed.packets, passed.time.as_nanos()), (5, 0));
}

#[test]
fn runs_repeat_exactly() {
    let script = Script::parse("t.pkt", &format!("{ACCEPTED}+0 state(4) = ESTABLISHED\n")).unwrap();
    assert_eq!(script.run(), script.run());
}

/// Any text can be parsed and run without a panic.
#[test]
fn damaged_scripts_do_no_harm() {
    let text = format!(
        "--local=10.0.0.1\n{ACCEPTED}+0 < @0 1 > 2 sctp(tag=9)/udp(1 > 2): DATA[val=\"x\"]; ...\n\
         +0 < icmp unreachable frag_needed mtu 1300 [sctp(1)]\n+0.1~+0.2 > sctp: [1, 0x02]\n"
    );
    for cut in 0..text.len() {
        let _ = Script::parse("t.pkt", &text[..cut]).map(|script| script.run());
        for insert in ["[", "...", "=", "\"", "65536", "-", "@", "0x", "é"] {
            let damaged = format!("{}{insert}{}", &text[..cut], &text[cut..]);
            let _ = Script::parse("t.pkt", &damaged).map(|script| script.run());
        }
    }
}
