//! Packets that are neither data nor its acknowledgement, and their purpose.

use serde::Serialize;

/// The purpose of a packet without news.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Signal {
    /// Asks whether the other side is still there (RFC 9293 section 3.8.4).
    KeepAlive,
    /// Answers that.
    KeepAliveAnswer,
    /// Asks whether a closed window has opened (RFC 9293 section 3.8.6.1, RFC 9260 section 6.1 A).
    WindowProbe,
    /// Answers that it has not.
    WindowProbeAnswer,
    /// Closes the window.
    WindowClosed,
    /// Only announces a new window.
    WindowUpdate,
    /// A duplicate acknowledgement (RFC 5681 section 2).
    DuplicateAck,
    /// A SYN or FIN that was sent again.
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
