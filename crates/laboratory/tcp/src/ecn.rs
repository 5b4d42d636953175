//! Explicit congestion notification (RFC 3168 section 6.1).

use crate::segment::Segment;

/// The state of one end.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Ecn {
    /// Both ends use it; until the handshake is over, whether this end wants to.
    pub(crate) on: bool,
    /// A mark arrived, and the other end has not answered: acknowledgements report it.
    echo: bool,
    /// The window was lowered for a mark, which the next segment with new data says.
    answer: bool,
    /// The last segment returned may be marked.
    pub(crate) capable: bool,
}

impl Ecn {
    pub(crate) fn new(wanted: bool) -> Self {
        Self { on: wanted, ..Self::default() }
    }

    /// Sets the flags of a SYN or SYN ACK (section 6.1.1).
    pub(crate) fn write_syn(&mut self, segment: &mut Segment) {
        (segment.ece, segment.cwr) = (self.on, self.on && segment.acknowledgment.is_none());
        self.capable = false;
    }

    /// Reads the flags of a SYN or SYN ACK.
    pub(crate) fn read_syn(&mut self, segment: &Segment) {
        self.on &= segment.ece && segment.cwr == segment.acknowledgment.is_none();
    }

    /// Sets the flags of any other segment. Segments with new data may be marked; retransmissions, probes and
    /// acknowledgements may not (sections 6.1.4 to 6.1.6).
    pub(crate) fn write(&mut self, segment: &mut Segment, new_data: bool) {
        segment.ece = self.on && self.echo;
        segment.cwr = new_data && std::mem::take(&mut self.answer);
        self.capable = self.on && new_data;
    }

    /// Reads the flags of any other segment; `marked`: the network marked it (section 6.1.3). Returns whether it
    /// reports a mark.
    pub(crate) fn read(&mut self, segment: &Segment, marked: bool) -> bool {
        if !self.on {
            return false;
        }
        self.echo &= !segment.cwr;
        self.echo |= marked && !segment.payload.is_empty();
        segment.ece && !segment.syn
    }

    /// Records that the window was lowered for a mark.
    pub(crate) fn lowered(&mut self) {
        self.answer = true;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn data() -> Segment {
        Segment { payload: b"data".as_slice().into(), ..Segment::default() }
    }

    #[test]
    fn both_ends_must_want_it() {
        for (client, server) in [(true, true), (true, false), (false, true)] {
            let mut ends = [Ecn::new(client), Ecn::new(server)];
            let mut syn = Segment { syn: true, ..Segment::default() };
            ends[0].write_syn(&mut syn);
            ends[1].read_syn(&syn);
            let mut answer = Segment { syn: true, acknowledgment: Some(1), ..Segment::default() };
            ends[1].write_syn(&mut answer);
            ends[0].read_syn(&answer);
            assert!(ends.iter().all(|end| end.on == (client && server) && !end.capable));
        }
        // A broken host reflects the flags of the SYN.
        let mut ecn = Ecn::new(true);
        ecn.read_syn(&Segment { acknowledgment: Some(1), ece: true, cwr: true, ..data() });
        assert!(!ecn.on);
    }

    #[test]
    fn a_mark_is_reported_until_it_is_answered() {
        let (mut sender, mut receiver) = (Ecn::new(true), Ecn::new(true));
        assert!(!receiver.read(&data(), true));
        for _ in 0..3 {
            let mut ack = Segment::default();
            receiver.write(&mut ack, false);
            assert!(ack.ece && !receiver.capable && sender.read(&ack, false));
        }
        sender.lowered();
        let (mut again, mut new) = (data(), data());
        sender.write(&mut again, false);
        assert!(!again.cwr && !sender.capable);
        sender.write(&mut new, true);
        assert!(new.cwr && sender.capable);
        receiver.read(&new, false);
        let mut ack = Segment::default();
        receiver.write(&mut ack, false);
        assert!(!ack.ece);
        receiver.read(&new, true);
        receiver.write(&mut ack, false);
        assert!(ack.ece, "the answer itself was marked");
    }
}
