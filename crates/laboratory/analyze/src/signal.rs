//! Packets that carry neither new data nor its acknowledgement, and their purpose.

use serde::Serialize;

/// The purpose of a packet without new information.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Signal {
    /// Asks whether the peer is still there (RFC 9293 section 3.8.4).
    KeepAlive,
    /// Answers a keep-alive.
    KeepAliveAnswer,
    /// Asks whether a closed window has opened (RFC 9293 section 3.8.6.1, RFC 9260 section 6.1 A).
    WindowProbe,
    /// Answers that the window has not opened.
    WindowProbeAnswer,
    /// Closes the window.
    WindowClosed,
    /// Only announces a new window.
    WindowUpdate,
    /// A duplicate acknowledgement (RFC 5681 section 2).
    DuplicateAck,
    /// A retransmitted SYN or FIN.
    HandshakeAgain,
}

impl Signal {
    /// All purposes.
    pub const ALL: [Self; 8] = [
        Self::KeepAlive,
        Self::KeepAliveAnswer,
        Self::WindowProbe,
        Self::WindowProbeAnswer,
        Self::WindowClosed,
        Self::WindowUpdate,
        Self::DuplicateAck,
        Self::HandshakeAgain,
    ];

    /// Its name in reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::KeepAlive => "keep-alive",
            Self::KeepAliveAnswer => "keep-alive answer",
            Self::WindowProbe => "window probe",
            Self::WindowProbeAnswer => "window probe answer",
            Self::WindowClosed => "window closed",
            Self::WindowUpdate => "window update",
            Self::DuplicateAck => "duplicate acknowledgement",
            Self::HandshakeAgain => "SYN or FIN again",
        }
    }
}
