//! Options of a connection.

use std::time::Duration;

use crate::options::{ForwardRto, LossDetection, Reordering, Undo};

/// Options of a [`Connection`](crate::Connection). The defaults follow the RFCs of a standard
/// sender.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Config {
    /// Largest segment that this end accepts, in bytes of data (RFC 9293 section 3.7.1): an IP
    /// packet of 1500 bytes. At least 1; the smaller one of both ends applies.
    pub mss: u16,
    /// Whether selective acknowledgements are offered (RFC 2018); both ends must.
    pub sack: bool,
    /// Most bytes that are received and not read; they bound the window.
    pub receive_buffer: u32,
    /// Most bytes that are written and not acknowledged.
    pub send_buffer: u32,
    /// Initial window in segments; 0 is the value of RFC 5681 section 3.1.
    pub initial_window: u32,
    /// Whether the window grows by the number of acknowledgements, whatever they acknowledge, as it did
    /// before bytes were counted (RFC 3465 section 1); off counts bytes, at most one segment for each
    /// acknowledgement in slow start.
    pub packet_counting: bool,
    /// Segments by which reading must have widened the window for an immediate update; at least 1, with
    /// which every segment that is read at once is acknowledged at once. Kernels wait for 2 or more.
    pub window_update: u32,
    /// How long an acknowledgement may wait for a second segment (RFC 5681 section 4.2: at most
    /// 500 ms); zero acknowledges each segment.
    pub ack_delay: Duration,
    /// New segments for the first two duplicate acknowledgements (RFC 3042).
    pub limited_transmit: bool,
    /// RTO before the first measurement (RFC 6298 section 2.1).
    pub rto_initial: Duration,
    /// Least RTO (RFC 6298 section 2.4: a second).
    pub rto_min: Duration,
    /// The clock's granularity G, the minimum that is added to the smoothed round-trip time (RFC 6298 section 2.3).
    /// Linux has its minimum RTO here: with that alone, below the round trip, a timer expires before the answer to a
    /// segment whose acknowledgement is delayed.
    pub rto_granularity: Duration,
    /// Greatest RTO (RFC 6298 section 2.5: at least a minute).
    pub rto_max: Duration,
    /// Whether the timer keeps its back-off until a round-trip time was measured, which retransmissions without
    /// timestamps do not provide (RFC 6298 section 5, Karn); otherwise any new acknowledgement ends the back-off.
    /// Where packets wait in a queue for longer than the timer runs, nothing else ends needless timeouts.
    pub keep_back_off: bool,
    /// Whether each retransmission in a recovery restarts the timer (RFC 6675 section 6, which leaves it open).
    /// Otherwise the timer runs from the last acknowledgement of new data, and may expire while the answer to the
    /// retransmission is in flight. Linux restarts it.
    pub rearm_in_recovery: bool,
    /// Timeouts in a row after which the connection is given up (RFC 9293 section 3.8.3, R2).
    pub max_timeouts: u32,
    /// What makes a segment lost before the timer expires.
    pub loss_detection: LossDetection,
    /// Whether the round trip of the handshake counts for the smallest one, below which an answer to a retransmission
    /// is attributed to an earlier transmission (RFC 8985 section 6.2, step 1), with loss detection by time.
    pub handshake_rtt: bool,
    /// Distinguishes reordering from loss by counting later segments. Needs selective
    /// acknowledgements.
    pub reordering: Reordering,
    /// With fewer than four segments outstanding, and nothing new to send, fewer duplicate
    /// acknowledgements are enough (RFC 5827 section 3.2), until that proves needless.
    pub early_retransmit: bool,
    /// With fewer than four segments outstanding the timer counts from when the earliest one was
    /// sent (RFC 7765).
    pub rto_restart: bool,
    /// When nothing has come for two round trips one segment is sent (TLP, RFC 8985 section 7).
    /// Needs selective acknowledgements.
    pub tail_probe: bool,
    /// How a recovery with only needless retransmissions is undone.
    pub undo: Undo,
    /// Whether the acknowledgements after a timeout are checked for a spurious one (F-RTO, RFC
    /// 5682).
    pub f_rto: ForwardRto,
    /// Whether the receiver reports duplicates (D-SACK, RFC 2883). Needs selective
    /// acknowledgements.
    pub dsack: bool,
    /// Whether timestamps are offered (RFC 7323), 12 bytes a segment; both ends must. They also
    /// measure retransmissions. They do not detect old segments (no PAWS).
    pub timestamps: bool,
}

impl Config {
    /// Whether evidence is gathered beyond the requirements of a standard sender's RFCs.
    pub(crate) fn gathers(&self) -> bool {
        self.loss_detection != LossDetection::MissingReports
            || self.reordering != Reordering::Fixed
            || self.early_retransmit
            || self.tail_probe
            || self.undo != Undo::Off
    }
}

impl Default for Config {
    fn default() -> Self {
        Self {
            mss: 1460,
            sack: true,
            receive_buffer: 1 << 20,
            send_buffer: 1 << 20,
            initial_window: 0,
            packet_counting: false,
            window_update: 1,
            ack_delay: Duration::from_millis(200),
            limited_transmit: true,
            rto_initial: Duration::from_secs(1),
            rto_min: Duration::from_secs(1),
            rto_granularity: Duration::ZERO,
            rto_max: Duration::from_secs(60),
            keep_back_off: false,
            rearm_in_recovery: false,
            max_timeouts: 15,
            loss_detection: LossDetection::MissingReports,
            handshake_rtt: false,
            reordering: Reordering::Fixed,
            early_retransmit: false,
            rto_restart: false,
            tail_probe: false,
            undo: Undo::Off,
            f_rto: ForwardRto::Off,
            dsack: false,
            timestamps: false,
        }
    }
}
