//! TCP-NCR (RFC 4653). A loss is assumed when nearly a window has arrived after a gap, about a round trip later.
//! Meanwhile new data is sent at half the rate (careful) or at the full rate (aggressive).

use crate::options::Reordering;

/// Extended limited transmit: from the first block until there is a loss or the gap is closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ncr {
    careful: bool,
    /// Bytes outstanding when it began (FlightSizePrev).
    pub(crate) flight_before: u64,
    /// Bytes that have arrived without permitting new data (Skipped).
    skipped: u64,
    /// Number of segments that must arrive after a gap (DupThresh).
    pub(crate) threshold: u32,
}

impl Ncr {
    /// Starts at the first block, with this many bytes outstanding.
    // req: rfc4653 3.1 "TCP MUST save the current FlightSize"
    pub(crate) fn begin(how: Reordering, flight: u64, mss: u64) -> Self {
        let careful = how == Reordering::NcrCareful;
        let mut ncr = Self { careful, flight_before: flight, skipped: 0, threshold: 0 };
        ncr.adapt(flight, mss);
        ncr
    }

    /// The threshold follows the outstanding data (step E.6).
    // req: rfc4653 3.3 "DupThresh MUST be reset via"
    pub(crate) fn adapt(&mut self, flight: u64, mss: u64) {
        // req: rfc4653 3 "A constant MUST be set, depending on which variant"
        let segments = if self.careful { flight * 2 / (3 * mss) } else { flight / (2 * mss) };
        self.threshold = u32::try_from(segments).unwrap_or(u32::MAX).max(3);
    }

    /// Continues after the cumulative acknowledgement has advanced while there is still a gap (step T.4).
    // req: rfc4653 3.2 "MUST be taken (but step (I.1) MUST NOT be executed)"
    pub(crate) fn go_on(&mut self, flight: u64, mss: u64) {
        self.skipped = 0;
        self.adapt(flight, mss);
    }

    /// Bytes that may be sent while `pipe` bytes are in the network (step E.2).
    pub(crate) fn room(&self, pipe: u64) -> u64 {
        self.flight_before.saturating_sub(pipe + self.skipped)
    }

    /// Records that a new segment is sent (step E.4).
    // req: rfc4653 3.3 "If using Careful Limited Transmit, Skipped MUST be incremented"
    pub(crate) fn sent(&mut self, mss: u64) {
        if self.careful {
            self.skipped += mss;
        }
    }

    /// The new window and threshold when the cumulative acknowledgement advances with this many bytes outstanding
    /// (steps T.1 and T.2).
    // req: rfc4653 3.2 "A TCP MUST reset cwnd to"
    // req: rfc4653 3.2 "A TCP MUST set ssthresh to"
    pub(crate) fn windows(&self, flight: u64, mss: u64) -> (u64, u64) {
        ((flight + mss).min(self.flight_before), self.flight_before)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MSS: u64 = 1000;

    /// The number of segments sent while `arrived` segments of a window of 20 arrive one by one after a gap, and the
    /// final threshold.
    fn extended(how: Reordering, arrived: u64) -> (u64, u32) {
        let mut flight = 20 * MSS;
        let mut pipe = flight;
        let mut ncr = Ncr::begin(how, flight, MSS);
        let mut sent = 0;
        for _ in 0..arrived {
            pipe -= MSS;
            while ncr.room(pipe) >= MSS {
                (pipe, flight, sent) = (pipe + MSS, flight + MSS, sent + 1);
                ncr.sent(MSS);
            }
            ncr.adapt(flight, MSS);
        }
        (sent, ncr.threshold)
    }

    // test: rfc4653 3 "A constant MUST be set, depending on which variant"
    // test: rfc4653 3.3 "If using Careful Limited Transmit, Skipped MUST be incremented"
    // test: rfc4653 3.3 "DupThresh MUST be reset via"
    #[test]
    fn a_window_has_to_arrive_and_careful_sends_half_of_it() {
        // Section 3: ideally 1.5 and 2 windows are outstanding, and two thirds and a half of these are
        // one window.
        assert_eq!(extended(Reordering::NcrCareful, 20), (10, 20));
        assert_eq!(extended(Reordering::NcrAggressive, 20), (20, 20));
        assert_eq!(extended(Reordering::NcrCareful, 0), (0, 13));
        assert_eq!(Ncr::begin(Reordering::NcrAggressive, 4 * MSS, MSS).threshold, 3);
    }

    // test: rfc4653 3.2 "A TCP MUST reset cwnd to"
    // test: rfc4653 3.2 "A TCP MUST set ssthresh to"
    #[test]
    fn the_window_does_not_grow_over_reordering() {
        let mut ncr = Ncr::begin(Reordering::NcrCareful, 20 * MSS, MSS);
        assert_eq!(ncr.windows(25 * MSS, MSS), (20 * MSS, 20 * MSS));
        assert_eq!(ncr.windows(12 * MSS, MSS), (13 * MSS, 20 * MSS));
        ncr.sent(MSS);
        ncr.go_on(9 * MSS, MSS);
        assert_eq!((ncr.skipped, ncr.threshold, ncr.flight_before), (0, 6, 20 * MSS));
    }
}
