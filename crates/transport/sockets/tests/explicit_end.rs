//! Messages that several calls send (SCTP_EXPLICIT_EOR, RFC 6458 section 8.1.26).
#![cfg(all(feature = "driver", target_os = "linux"))]

mod common;

use std::sync::Arc;

use anabranch::Ppid;
use anabranch_sockets::{AssocId, Error, Receiving, SendFlags, SendInfo, Socket, Taken};
use common::{host, message, pair};

/// A server, a client that says where its messages end, and the accepted socket.
fn ends() -> [Arc<Socket>; 3] {
    let (server, client, accepted) = pair(&host());
    client.change_options(|options| options.explicit_end = true);
    [server, client, accepted]
}

fn send(client: &Arc<Socket>, info: SendInfo, text: &'static str) -> Result<usize, Error> {
    let mut sending = client.message(text, &[]);
    sending.info(info).unwrap();
    sending.send(false)
}

/// How a part of a message on a stream is sent.
fn part(stream: u16, flags: SendFlags) -> SendInfo {
    SendInfo { stream, flags, ..SendInfo::default() }
}

const MORE: SendFlags = SendFlags::empty();
const END: SendFlags = SendFlags::END_OF_RECORD;

#[test]
fn parts_become_one_message_for_each_stream() {
    let [_server, client, accepted] = ends();
    let first = SendInfo { ppid: Ppid(7), ..part(1, SendFlags::UNORDERED) };
    assert_eq!(send(&client, first, "one "), Ok(4));
    assert_eq!(send(&client, part(2, MORE), "another "), Ok(8));
    assert_eq!(send(&client, part(1, MORE), "message "), Ok(8));
    assert_eq!(send(&client, part(1, END), "in parts"), Ok(8));
    let (data, info) = message(&accepted);
    assert_eq!(data, b"one message in parts");
    assert_eq!((info.stream, info.ppid, info.unordered), (1, Ppid(7), true), "as its first part");
    // Without the option each call ends its message.
    client.change_options(|options| options.explicit_end = false);
    assert_eq!(send(&client, part(2, MORE), "one"), Ok(3));
    assert_eq!(message(&accepted).0, b"another one");
    assert_eq!(send(&client, part(2, MORE), "third"), Ok(5));
    assert_eq!(message(&accepted).0, b"third");
}

#[test]
fn the_end_of_the_association_ends_a_message_but_not_others() {
    let [_server, client, accepted] = ends();
    assert_eq!(send(&client, part(0, MORE), "the "), Ok(4));
    assert_eq!(send(&client, part(1, MORE), "lost"), Ok(4));
    assert_eq!(send(&client, part(0, SendFlags::EOF), "end"), Ok(3));
    assert_eq!(message(&accepted).0, b"the end");
    assert!(matches!(
        accepted.receive(usize::MAX, Receiving::default()).unwrap().taken,
        Taken::End
    ));
}

#[test]
fn a_part_that_cannot_be_sent_is_refused() {
    let [_server, client, accepted] = ends();
    assert_eq!(send(&client, part(0, END), ""), Err(Error::Invalid), "no data");
    let streams = client.status(AssocId::FUTURE).unwrap().outbound_streams;
    assert_eq!(send(&client, part(streams, MORE), "x"), Err(Error::Invalid), "no such stream");
    let most = client.options(|options| options.config().sending.max_message_size);
    let long = |stream, length: usize, flags| {
        let mut sending = client.message(vec![b'x'; length], &[]);
        sending.info(part(stream, flags)).unwrap();
        sending.send(false)
    };
    assert_eq!(long(0, most, MORE), Ok(most));
    assert_eq!(long(0, 1, MORE), Err(Error::TooLong));
    assert_eq!(long(0, 1, END), Err(Error::TooLong));
    // An end that is refused leaves the parts before it.
    assert_eq!(send(&client, part(2, MORE), "ab"), Ok(2));
    assert_eq!(long(2, most, END), Err(Error::TooLong));
    assert_eq!(send(&client, part(2, END), "c"), Ok(1));
    assert_eq!(message(&accepted).0, b"abc");
    // What was accepted is there still, but no longer message can be sent.
    assert_eq!(send(&client, part(1, END), "next"), Ok(4));
    assert_eq!(message(&accepted).0, b"next");
}
