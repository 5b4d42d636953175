//! Messages that a program takes in parts, and whose rest may not come (RFC 6458 section 6.1.7).
//!
//! The parts of a message come one after the other. The report that the rest does not come must follow the parts that
//! have come. Otherwise the program would take the next part for the beginning of a message.

use anabranch::Message;

use crate::notification::CutShort;

/// The messages of an association that are taken in parts.
#[derive(Debug, Default)]
pub(super) struct Partial {
    /// The message to take now, unless this is its last part.
    open: Option<CutShort>,
    /// The last message that the association has reported as cut short.
    reported: Option<CutShort>,
}

impl Partial {
    /// Records the next message, or part of one, to take. Returns the one before it if its end did not come.
    pub(super) fn next(&mut self, message: &Message) -> Option<CutShort> {
        let cut = if message.begin { self.open.take() } else { None };
        if cut.is_some() && cut == self.reported {
            self.reported = None;
        }
        self.open = (!message.end).then_some(CutShort {
            stream: message.stream,
            ssn: if message.unordered { 0 } else { message.sequence as u16 },
            unordered: message.unordered,
        });
        cut
    }

    /// Records the report of the association.
    pub(super) fn report(&mut self, stream: u16, ssn: u16, unordered: bool) {
        let ssn = if unordered { 0 } else { ssn };
        self.reported = Some(CutShort { stream, ssn, unordered });
    }

    /// Everything that has come was taken. Returns the message of the last part if it was reported.
    pub(super) fn all_taken(&mut self) -> Option<CutShort> {
        if self.open == self.reported { self.end() } else { None }
    }

    /// Nothing more comes. Returns the message of the last part.
    pub(super) fn end(&mut self) -> Option<CutShort> {
        self.reported = None;
        self.open.take()
    }
}

#[cfg(test)]
mod tests {
    use anabranch::Ppid;

    use super::*;

    fn part(ssn: u16, begin: bool, end: bool) -> Message {
        let mut message = Message::new(3, Ppid(0), bytes::Bytes::from_static(b"x"));
        (message.sequence, message.begin, message.end) = (ssn.into(), begin, end);
        message
    }

    const FIRST: CutShort = CutShort { stream: 3, ssn: 7, unordered: false };

    #[test]
    fn the_next_message_shows_that_the_one_before_was_cut_short() {
        let mut partial = Partial::default();
        assert_eq!(partial.next(&part(7, true, false)), None);
        partial.report(3, 7, false);
        assert_eq!(
            partial.next(&part(7, false, false)),
            None,
            "a part that came before the report"
        );
        assert_eq!(partial.next(&part(8, true, true)), Some(FIRST));
        assert_eq!((partial.all_taken(), partial.end()), (None, None), "once");
        assert_eq!(partial.next(&part(7, true, false)), None);
        assert_eq!(partial.all_taken(), None, "the report was of another one");
    }

    #[test]
    fn the_report_shows_it_when_all_parts_were_taken() {
        let mut partial = Partial::default();
        assert_eq!(partial.next(&part(7, true, false)), None);
        assert_eq!(partial.all_taken(), None, "the rest may come");
        partial.report(3, 7, false);
        assert_eq!(partial.all_taken(), Some(FIRST));
        assert_eq!((partial.all_taken(), partial.end()), (None, None));
        assert_eq!(partial.next(&part(8, true, false)), None);
        assert_eq!(partial.all_taken(), None, "an old report");
    }

    #[test]
    fn the_end_shows_it_too() {
        let mut partial = Partial::default();
        assert_eq!(partial.next(&part(7, true, false)), None);
        assert_eq!(partial.next(&part(7, false, true)), None);
        assert_eq!(partial.end(), None);
        let mut unordered = part(9, true, false);
        unordered.unordered = true;
        assert_eq!(partial.next(&unordered), None);
        assert_eq!(partial.end(), Some(CutShort { ssn: 0, unordered: true, ..FIRST }));
    }
}
