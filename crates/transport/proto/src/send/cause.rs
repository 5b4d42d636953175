//! Causes of retransmissions: the reactions to them differ, and statistics count them separately.

/// Why a chunk is retransmitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Cause {
    /// Chunks sent later were acknowledged (RFC 9260 section 7.2.4).
    MissingReports,
    /// The same, with fewer reports because no more could arrive (RFC 5827).
    FewPackets,
    /// Later packets arrived, and there was enough time for this one to arrive, too (RFC 8985).
    TimeThreshold,
    /// Nothing arrived for long, and the last chunk is sent again as a probe (RFC 8985 section 7).
    TailProbe,
    /// T3-rtx expired (RFC 9260 section 6.3.3).
    Timeout,
    /// This host cannot send on the path.
    InterfaceGone,
    /// A path that had timed out answers, so packets sent before are not waited for.
    PathAnswered,
    /// The maximum packet size of the path has decreased.
    MtuFell,
    /// The chunk probed a closed window, which has opened now.
    WindowOpened,
    /// The chunk was sent to an address or port that is not the peer's.
    WrongAddress,
    /// The chunk is late on a slow path, and chunks sent later on a fast one wait for it.
    Overtaken,
}

impl Cause {
    /// Its name in logs.
    pub const fn name(self) -> &'static str {
        match self {
            Self::MissingReports => "missing_reports",
            Self::FewPackets => "early_retransmit",
            Self::TimeThreshold => "time_threshold",
            Self::TailProbe => "tail_probe",
            Self::Timeout => "timeout",
            Self::InterfaceGone => "interface_gone",
            Self::PathAnswered => "path_answered",
            Self::MtuFell => "mtu_fell",
            Self::WindowOpened => "window_opened",
            Self::WrongAddress => "wrong_address",
            Self::Overtaken => "overtaken",
        }
    }

    /// Whether acknowledgements showed the loss, rather than their absence.
    pub(crate) fn is_reported(self) -> bool {
        matches!(self, Self::MissingReports | Self::FewPackets | Self::TimeThreshold)
    }

    /// Whether the cause is evidence about the loss rate of the path.
    pub(crate) fn is_loss(self) -> bool {
        match self {
            Self::MissingReports | Self::FewPackets | Self::TimeThreshold => true,
            Self::Timeout | Self::InterfaceGone | Self::PathAnswered => true,
            Self::TailProbe | Self::Overtaken => false,
            Self::MtuFell | Self::WindowOpened | Self::WrongAddress => false,
        }
    }
}
