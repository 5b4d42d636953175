//! Options of a connection.

use std::time::Duration;

use crate::options::{
    Congestion, ForwardRto, LossDetection, Profile, Reordering, SlowStartLimit, Undo,
};

/// Options of a [`Connection`](crate::Connection). The defaults are those of a standard sender in the RFCs, and of a
/// receiver as hosts have it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Config {
    /// Largest segment that this end accepts, in bytes of data (RFC 9293 section 3.7.1); by default that of an IP
    /// packet of 1500 bytes. At least 1. The smaller value of both ends applies.
    pub mss: u16,
    /// Whether to offer selective acknowledgements (RFC 2018). Both ends must offer them.
    pub sack: bool,
    /// Maximum number of bytes received and not read; bounds the window.
    pub receive_buffer: u32,
    /// Window that the receiver announces at first, in bytes; 0 for all of the buffer. Linux begins with 64 KiB and widens
    /// the window by two segments for each segment that arrives, up to what the buffer has room for. As long as it does,
    /// it acknowledges each segment at once (`tcp_grow_window` of `net/ipv4/tcp_input.c`).
    pub window_start: u32,
    /// Maximum number of bytes written and not acknowledged.
    pub send_buffer: u32,
    /// Initial window in segments; 0 means the value of RFC 5681 section 3.1.
    pub initial_window: u32,
    /// How the congestion window changes.
    pub congestion: Congestion,
    /// With `reno` and `linux-reno`: whether the window grows by the number of acknowledgements regardless of what they acknowledge, as it did before
    /// bytes were counted (RFC 3465 section 1). If off, bytes are counted, in slow start up to `slow_start_limit`.
    pub packet_counting: bool,
    /// By how many segments one acknowledgement may widen the window in slow start, where bytes are counted (RFC 3465
    /// section 2.3, L). If receivers acknowledge every second segment, the window grows by half in a round trip with
    /// one, and doubles with the others.
    pub slow_start_limit: SlowStartLimit,
    /// Number of segments by which reading must have widened the window for an immediate update, at least 1; 2 by
    /// default, the least that RFC 9293 section 3.8.6.2.2 knows besides half of the buffer. With 1, every segment that
    /// is read immediately is acknowledged immediately, which no host does for long.
    pub window_update: u32,
    /// Number of acknowledgements that do not wait for a second segment, at the start, after a pause longer than the
    /// RTO, and after data that came twice; 0 for none. 16 by default, as in Linux (`TCP_MAX_QUICKACKS`).
    pub quick_acks: u32,
    /// How long an acknowledgement may wait for a second segment (RFC 5681 section 4.2: at most
    /// 500 ms); zero acknowledges each segment. Linux waits for 40 to 200 ms.
    pub ack_delay: Duration,
    /// Whether to send new segments for the first two duplicate acknowledgements (RFC 3042).
    pub limited_transmit: bool,
    /// RTO before the first measurement (RFC 6298 section 2.1).
    pub rto_initial: Duration,
    /// Minimum RTO (RFC 6298 section 2.4: a second).
    pub rto_min: Duration,
    /// The clock granularity G, the minimum that is added to the smoothed round-trip time (RFC 6298 section 2.3). Linux
    /// uses its minimum RTO here. If only `rto_min` applied and was below the round-trip time, the timer would expire
    /// before a delayed acknowledgement arrives.
    pub rto_granularity: Duration,
    /// Maximum RTO (RFC 6298 section 2.5: at least a minute).
    pub rto_max: Duration,
    /// Whether the timer keeps its back-off until a round-trip time was measured (RFC 6298 section 5, Karn).
    /// Retransmissions without timestamps give no measurement. If off, any new acknowledgement ends the back-off. If
    /// packets wait in a queue for longer than the timer runs, only this option ends needless timeouts.
    pub keep_back_off: bool,
    /// Whether each retransmission in a recovery restarts the timer (optional in RFC 6675 section 6). Otherwise the
    /// timer runs from the last acknowledgement of new data, and may expire while the answer to the retransmission is
    /// in flight. Linux restarts it.
    pub rearm_in_recovery: bool,
    /// Consecutive timeouts after which the connection is given up (RFC 9293 section 3.8.3, R2).
    pub max_timeouts: u32,
    /// What marks a segment lost before the timer expires.
    pub loss_detection: LossDetection,
    /// Whether the handshake counts for the minimum round-trip time, with loss detection by time. An answer to a
    /// retransmission that comes sooner than this minimum is attributed to an earlier transmission (RFC 8985 section
    /// 6.2, step 1).
    pub handshake_rtt: bool,
    /// How many later segments distinguish a loss from reordering. Needs selective acknowledgements.
    pub reordering: Reordering,
    /// With fewer than four segments outstanding and no new data to send, fewer duplicate acknowledgements are enough
    /// (RFC 5827 section 3.2), until that proves needless.
    pub early_retransmit: bool,
    /// With fewer than four segments outstanding, the timer runs from when the earliest one was sent (RFC 7765).
    pub rto_restart: bool,
    /// Send a segment if nothing arrives for two round trips (TLP, RFC 8985 section 7). Needs selective
    /// acknowledgements.
    pub tail_probe: bool,
    /// How a recovery whose retransmissions were all needless is recognised and undone.
    pub undo: Undo,
    /// Whether the acknowledgements after a timeout are checked to detect a spurious timeout (F-RTO, RFC 5682).
    pub f_rto: ForwardRto,
    /// Whether the receiver reports duplicates (D-SACK, RFC 2883). Needs selective
    /// acknowledgements.
    pub dsack: bool,
    /// Whether to offer timestamps (RFC 7323), 12 bytes per segment. Both ends must offer them. They also measure the
    /// round-trip time of retransmissions. They do not detect old segments (no PAWS).
    pub timestamps: bool,
    /// Whether to offer explicit congestion notification (RFC 3168). Both ends must offer it.
    pub ecn: bool,
    /// Whether segments have a checksum, and are verified when they arrive. Where nothing damages them, checksums are
    /// unnecessary, and computing them is slow. Both ends must agree.
    pub checksum: bool,
}

impl Config {
    /// The options of a profile.
    pub fn of(profile: Profile) -> Self {
        match profile {
            Profile::Standard => Self::default(),
            Profile::Linux => Self::linux(),
        }
    }

    /// TCP as current Linux kernels have it: CUBIC, an initial window of ten segments (RFC 6928), slow start without a
    /// limit for an acknowledgement, RACK-TLP (RFC 8985), a minimum RTO of 200 ms, selective acknowledgements, D-SACKs,
    /// timestamps, F-RTO and undo of spurious recoveries, in IP packets of at most 1,500 bytes.
    pub fn linux() -> Self {
        Self {
            mss: 1448,
            window_start: 1 << 16,
            initial_window: 10,
            congestion: Congestion::Cubic,
            slow_start_limit: SlowStartLimit::Unlimited,
            ack_delay: Duration::from_millis(40),
            rto_min: Duration::from_millis(200),
            rto_granularity: Duration::from_millis(200),
            keep_back_off: true,
            rearm_in_recovery: true,
            loss_detection: LossDetection::TimeThreshold,
            handshake_rtt: true,
            tail_probe: true,
            undo: Undo::Both,
            f_rto: ForwardRto::Sack,
            dsack: true,
            timestamps: true,
            ..Self::default()
        }
    }

    /// The window that the receiver announces at first, in bytes.
    pub(crate) fn first_window(&self) -> u32 {
        match self.window_start {
            0 => self.receive_buffer,
            start => start.min(self.receive_buffer),
        }
    }

    /// Whether evidence is gathered beyond what the RFCs require of a standard sender.
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
            window_start: 0,
            send_buffer: 1 << 20,
            initial_window: 0,
            congestion: Congestion::Reno,
            packet_counting: false,
            slow_start_limit: SlowStartLimit::One,
            window_update: 2,
            quick_acks: 16,
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
            ecn: false,
            checksum: true,
        }
    }
}
