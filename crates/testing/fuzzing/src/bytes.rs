//! Interprets arbitrary bytes as a peer's byte-stream messages and as the actions of both users.

use std::collections::BTreeMap;

use anabranch_proto::byte_mode::{BYTES, Ledger, MARK, Mark, SIGNAL, Signal};
use anabranch_proto::{Message, Ppid};
use bytes::Bytes;

/// Decodes the bytes as byte-mode messages, and applies them to a ledger.
pub fn bytes(input: &[u8]) {
    for ppid in [BYTES, MARK, SIGNAL, Ppid(0)] {
        messages(ppid, input);
    }
    account(input);
}

fn messages(ppid: Ppid, input: &[u8]) {
    let data = Bytes::copy_from_slice(input);
    let whole = Message::new(1, ppid, data);
    let (signal, mark) = (Signal::of(&whole), Mark::of(&whole));
    assert!(signal.is_none() || (ppid == SIGNAL && input.len() >= 11));
    assert!(mark.is_none() || (ppid == MARK && input.len() == 1));
    if let Some((stream, signal)) = signal {
        let again = signal.message(stream);
        assert_eq!(again.data, input[..11], "what it means is what it says");
    }
}

/// A peer that sends anything on four streams.
fn account(input: &[u8]) {
    let Some((size, steps)) = input.split_first() else { return };
    let mut ledger = Ledger::new(1 << (size % 24));
    let mut heard = false;
    let mut told = BTreeMap::new();
    let mut sent = [0_u64; 4];
    for step in steps.chunks_exact(10) {
        let &[what, stream, ref number @ ..] = step else { return };
        let number = u64::from_be_bytes(number.try_into().expect("ten less two"));
        let (stream, length) = (u16::from(stream % 4), (number % 100_000) as usize);
        match what % 10 {
            0 => {
                ledger.on_signal(stream, Signal::Credit(number));
                heard = true;
            }
            1 | 2 => {
                // Stay near the offsets that were sent, where it matters.
                let near = sent[usize::from(stream)].wrapping_add(number % 8).wrapping_sub(4);
                let at = if what % 10 == 1 { number } else { near };
                ledger.on_signal(stream, Signal::Stop(at));
                heard = true;
            }
            3 => {
                ledger.on_bytes(stream, length);
                heard = true;
            }
            4 => ledger.on_mark(stream),
            5 => ledger.on_read(stream, length),
            6 => ledger.stop(stream),
            7 => {
                let credit = ledger.credit(stream).unwrap_or(0).min(length as u64);
                ledger.on_written(stream, credit as usize);
                sent[usize::from(stream)] += credit;
            }
            8 => {
                ledger.on_ended(stream);
                sent[usize::from(stream)] += 1;
            }
            _ => {
                let gone = (length as u64).min(sent[usize::from(stream)]);
                ledger.on_discarded(stream, gone as usize);
                sent[usize::from(stream)] -= gone;
            }
        }
        let mut signals = 0;
        let mut room = number % 3;
        ledger.tell(|message| {
            if room == 0 {
                return false;
            }
            room -= 1;
            signals += 1;
            assert!(heard, "a peer of version 1 gets no signals");
            let message = Message::new(message.stream, message.ppid, message.data);
            match Signal::of(&message) {
                Some((stream, Signal::Credit(limit))) => {
                    let before = told.insert(stream, limit).unwrap_or(0);
                    assert!(limit >= before, "credit is never taken back");
                }
                Some((_, Signal::Stop(_))) => {}
                None => panic!("no signal"),
            }
            true
        });
        assert!(signals <= 4, "one for each stream");
    }
}
