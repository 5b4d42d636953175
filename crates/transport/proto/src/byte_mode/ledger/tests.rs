use std::collections::VecDeque;

use anabranch_wire::Ppid;
use proptest::prelude::*;

use super::*;
use crate::byte_mode::{BYTES, Mark, SIGNAL};
use crate::message::Message;

const BUFFER: usize = 1 << 20;

/// The signals that a ledger wants to send.
fn told(ledger: &mut Ledger) -> Vec<(u16, Signal)> {
    let mut all = Vec::new();
    ledger.tell(|message| {
        let sent = Message::new(message.stream, message.ppid, message.data);
        all.push(Signal::of(&sent).expect("a signal"));
        true
    });
    all
}

#[test]
fn a_peer_that_does_not_speak_is_told_nothing_and_not_bounded() {
    let mut ledger = Ledger::new(BUFFER);
    assert_eq!(ledger.credit(1), Ok(u64::MAX));
    ledger.on_written(1, 1 << 30);
    assert!(ledger.credit(1).unwrap() > 1 << 40);
    ledger.stop(1);
    ledger.on_mark(1);
    ledger.stop(2);
    assert_eq!(told(&mut ledger), []);
    // Once it does, queued signals are sent.
    ledger.on_bytes(3, 1);
    assert_eq!(told(&mut ledger), [(2, Signal::Stop(0))]);
    assert_eq!(ledger.credit(1), Ok(0));
    assert_eq!(ledger.credit(9), Ok(FIRST_CREDIT));
}

#[test]
fn credit_follows_the_reader() {
    let mut ledger = Ledger::new(BUFFER);
    let first = FIRST_CREDIT as usize;
    ledger.on_bytes(1, first);
    assert_eq!(told(&mut ledger), [(1, Signal::Credit(FIRST_CREDIT))], "that there is an account");
    assert_eq!(told(&mut ledger), []);
    ledger.on_read(1, first / 4 - 1);
    assert_eq!(told(&mut ledger), [], "less than a quarter was taken");
    // All of it was used up: the window grows.
    ledger.on_read(1, 1);
    let quarter = FIRST_CREDIT / 4;
    assert_eq!(told(&mut ledger), [(1, Signal::Credit(quarter + 2 * FIRST_CREDIT))]);
    // A slow reader gives the writer the same credit again.
    ledger.on_bytes(1, first / 4 + 1);
    ledger.on_read(1, first / 2);
    assert_eq!(told(&mut ledger), [(1, Signal::Credit(3 * quarter + 2 * FIRST_CREDIT))]);
}

#[test]
fn a_reader_that_keeps_up_is_sent_more_at_a_time() {
    let mut ledger = Ledger::new(BUFFER);
    ledger.on_written(0, 1);
    // The reader takes each packet immediately, as on a long path, so little credit is in use.
    let (mut granted, mut received, mut most) = (FIRST_CREDIT, 0, 0);
    while received + 1000 <= granted && received < 8 << 20 {
        ledger.on_bytes(1, 1000);
        ledger.on_read(1, 1000);
        received += 1000;
        for (_, signal) in told(&mut ledger) {
            let Signal::Credit(limit) = signal else { panic!("{signal:?}") };
            granted = limit;
        }
        most = most.max(granted - received);
    }
    assert_eq!(
        most,
        BUFFER as u64 / 4 * 3,
        "a quarter of the first credit at a time would be all else"
    );
}

#[test]
fn what_all_streams_may_have_is_bounded() {
    let mut ledger = Ledger::new(BUFFER);
    let mut grants = [FIRST_CREDIT; 20];
    let mut read = [0; 20];
    for round in 0..1000 {
        let stream = round % 20;
        let length = grants[stream] - read[stream];
        ledger.on_bytes(stream as u16, length as usize);
        ledger.on_read(stream as u16, length as usize);
        read[stream] += length;
        for (stream, signal) in told(&mut ledger) {
            let Signal::Credit(limit) = signal else { panic!("{signal:?}") };
            grants[usize::from(stream)] = limit;
        }
        let open = grants.iter().zip(&read).map(|(grant, read)| grant - read);
        let extended: u64 = open.map(|open| open.saturating_sub(FIRST_CREDIT)).sum();
        assert!(extended <= (BUFFER as u64) / 4 * 3, "{extended}");
        assert_eq!(extended, ledger.extended);
    }
}

#[test]
fn a_larger_receive_buffer_allows_more_credit() {
    let mut ledger = Ledger::new(BUFFER);
    let before = ledger.most;
    ledger.set_receive_buffer(2 * BUFFER);
    assert_eq!(ledger.most, before + BUFFER as u64 / 4 * 3);
    ledger.set_receive_buffer(BUFFER);
    assert!(ledger.most > before, "credit that was given is not taken back");
}

#[test]
fn a_stop_is_for_one_byte_stream() {
    let mut writer = Ledger::new(BUFFER);
    writer.on_signal(9, Signal::Credit(0));
    writer.on_written(1, 100);
    // The peer cannot have received what was never sent.
    assert!(!writer.on_signal(1, Signal::Stop(101)));
    assert!(writer.credit(1).is_ok());
    assert!(writer.on_signal(1, Signal::Stop(60)));
    assert!(!writer.on_signal(1, Signal::Stop(60)), "once");
    assert_eq!(writer.credit(1), Err(Stopped));
    writer.on_discarded(1, 30);
    writer.on_ended(1);
    // A late stop does not apply to the next byte stream, but discards the waiting data of the last
    // one.
    assert!(writer.credit(1).is_ok());
    assert!(writer.on_signal(1, Signal::Stop(70)));
    writer.on_discarded(1, 10);
    assert_eq!(writer.credit(1), Ok(FIRST_CREDIT - 61));
    writer.on_written(1, 1);
    assert!(!writer.on_signal(1, Signal::Stop(60)));
    assert!(writer.credit(1).is_ok());
    assert!(writer.on_signal(1, Signal::Stop(61)));
    assert_eq!(writer.credit(1), Err(Stopped));
}

#[derive(Clone, Copy, Debug)]
enum Step {
    Write(u16),
    End,
    Read(u16),
    Stop,
    /// The first message in flight arrives.
    Data,
    /// The signal in flight at this index arrives.
    Signal(u8),
    /// Whether there is room for signals.
    Room(bool),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => any::<u16>().prop_map(Step::Write),
        1 => Just(Step::End),
        4 => any::<u16>().prop_map(Step::Read),
        1 => Just(Step::Stop),
        6 => Just(Step::Data),
        3 => any::<u8>().prop_map(Step::Signal),
        1 => any::<bool>().prop_map(Step::Room),
    ]
}

/// A writer and a reader of one stream number, and the messages in flight between them.
struct Pipe {
    writer: Ledger,
    reader: Ledger,
    /// Lengths; 0 is a mark.
    data: VecDeque<usize>,
    signals: Vec<Signal>,
    unread: usize,
    stopping: bool,
    room: bool,
    wrote: bool,
    /// Marks that arrived.
    marks: u64,
}

impl Pipe {
    fn new() -> Self {
        let mut writer = Ledger::new(BUFFER);
        let mut reader = Ledger::new(BUFFER);
        // Both know that the other supports signals.
        writer.hear();
        reader.hear();
        let (data, signals) = (VecDeque::new(), Vec::new());
        let (unread, stopping, room, wrote, marks) = (0, false, true, false, 0);
        Self { writer, reader, data, signals, unread, stopping, room, wrote, marks }
    }

    fn write(&mut self, length: u16) {
        match self.writer.credit(1) {
            Ok(credit) => {
                let length = credit.min(length.into()) as usize;
                if length > 0 {
                    self.writer.on_written(1, length);
                    self.data.push_back(length);
                    self.wrote = true;
                }
            }
            Err(Stopped) => self.end(),
        }
    }

    fn end(&mut self) {
        self.writer.on_ended(1);
        self.data.push_back(0);
        self.wrote = false;
    }

    fn deliver(&mut self) {
        match self.data.pop_front() {
            Some(0) => {
                self.reader.on_mark(1);
                self.marks += 1;
                self.stopping = false;
            }
            Some(length) => {
                self.reader.on_bytes(1, length);
                self.unread += length;
                if self.stopping {
                    self.read(u16::MAX);
                }
            }
            None => {}
        }
    }

    fn read(&mut self, most: u16) {
        let length = if self.stopping { self.unread } else { self.unread.min(most.into()) };
        self.reader.on_read(1, length);
        self.unread -= length;
    }

    fn tell(&mut self) {
        if self.room {
            self.signals.extend(told(&mut self.reader).into_iter().map(|(_, signal)| signal));
        }
    }

    fn signal(&mut self, at: usize) {
        if self.signals.is_empty() {
            return;
        }
        let signal = self.signals.swap_remove(at % self.signals.len());
        if self.writer.on_signal(1, signal) {
            // Data that is not sent yet is discarded; marks remain.
            let gone: usize = self.data.iter().skip(1).sum();
            let first = self.data.pop_front();
            self.data.retain(|length| *length == 0);
            if let Some(first) = first {
                self.data.push_front(first);
            }
            self.writer.on_discarded(1, gone);
        }
    }
}

proptest! {
    #[test]
    fn both_sides_agree_in_the_end(steps in prop::collection::vec(step(), 1..400)) {
        let mut pipe = Pipe::new();
        for step in steps {
            match step {
                Step::Write(length) => pipe.write(length),
                Step::End if pipe.wrote => pipe.end(),
                Step::End => {}
                Step::Read(length) => pipe.read(length),
                Step::Stop => {
                    // The reader has the end already, or has not begun.
                    pipe.stopping = true;
                    pipe.read(0);
                    pipe.reader.stop(1);
                }
                Step::Data => pipe.deliver(),
                Step::Signal(at) => pipe.signal(at.into()),
                Step::Room(room) => pipe.room = room,
            }
            pipe.tell();
            let inc = &pipe.reader.streams.get(&1).map(|stream| (stream.inc.received, stream.inc.granted));
            if let Some((received, granted)) = inc {
                // A mark needs no credit.
                prop_assert!(*received <= granted + pipe.marks, "more than there was credit for");
            }
        }
        // Everything arrives, and all is read.
        pipe.room = true;
        for _ in 0..10 {
            pipe.tell();
            while !pipe.signals.is_empty() {
                pipe.signal(0);
            }
            while !pipe.data.is_empty() {
                pipe.deliver();
            }
            while pipe.unread > 0 {
                pipe.read(u16::MAX);
            }
            if pipe.writer.credit(1) == Err(Stopped) {
                pipe.end();
            }
        }
        prop_assert!(!pipe.stopping, "a stop was answered with the end");
        let sent = pipe.writer.streams.get(&1).map_or(0, |stream| stream.out.sent);
        let received = pipe.reader.streams.get(&1).map_or(0, |stream| stream.inc.received);
        prop_assert_eq!(sent, received);
        let credit = pipe.writer.credit(1).expect("nobody wants an end");
        prop_assert!(credit >= FIRST_CREDIT / 2, "{credit} bytes of credit");
        prop_assert!(!pipe.reader.owes());
    }
}

#[test]
fn the_names_stand_for_what_they_say() {
    for (ppid, name) in [(BYTES, b"anbf"), (SIGNAL, b"anbs"), (Mark::End.message(0).ppid, b"anbe")]
    {
        assert_eq!(ppid, Ppid(u32::from_be_bytes(*name)));
    }
}
