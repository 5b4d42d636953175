//! Marks on rarely taken branches, which count how often tests reach them.
//!
//! `mark!(Name)` counts; without the feature `marks` it does nothing. The counts are those of the
//! whole process: they show what a swarm has covered, not what a particular association did.

/// Counts that a branch was reached.
macro_rules! mark {
    ($name:ident) => {
        $crate::marks::hit($crate::marks::Mark::$name)
    };
}
pub(crate) use mark;

macro_rules! marks {
    ($($name:ident = $text:literal,)*) => {
        /// A branch that is rarely taken.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(crate) enum Mark {
            $($name,)*
        }

        #[cfg(feature = "marks")]
        const NAMES: &[&str] = &[$($text),*];
    };
}

marks! {
    CookieRestart = "restart: action A",
    CookieCollision = "collision: action B, this side's handshake under way",
    CookieCollisionLate = "collision: action B, this side is up",
    CookieIgnored = "cookie ignored: action C and the rest",
    CookieFirst = "collision: action D, the peer's cookie comes first",
    CookieRepeated = "cookie repeated: action D",
    CookieWhileShuttingDown = "restart while shutting down",
    CookieStale = "stale cookie answered",
    CookieOfEnded = "cookie of an association that has ended",
    AddressRefused = "address that is not verified given up for an ABORT from there",
    StaleCookieRetry = "handshake restarted after a stale cookie",
    InitCollision = "INIT collision",
    InitRestart = "INIT for an association that is up",
    InitNewAddresses = "INIT for an association with new addresses",
    InitWhileShuttingDown = "INIT while shutting down",
    InitRetransmitted = "INIT retransmitted",
    CookieEchoRetransmitted = "COOKIE ECHO retransmitted",
    InitGivenUp = "handshake given up",
    CandidateDropped = "candidate address refused, another one asked",
    ParallelInit = "several addresses asked at the same time",
    SharedPeer = "association replaced by one with the same peer",
    ShutdownCollision = "SHUTDOWN from both sides",
    ShutdownReceivedPending = "SHUTDOWN while this side's waits for data",
    ShutdownRepeatedForData = "SHUTDOWN repeated for late data",
    ShutdownRetransmitted = "SHUTDOWN retransmitted",
    ShutdownAckRetransmitted = "SHUTDOWN ACK retransmitted",
    ShutdownGivenUp = "shutdown given up",
    ShutdownGuard = "T5-shutdown-guard expired",
    ShutdownCompleteLost = "peer is gone although its SHUTDOWN COMPLETE is missing",
    ShutdownAfterRestart = "shutdown goes on after the peer restarted",
    CongestionEcho = "window lowered for an ECN mark",
    OldEcho = "ECN mark reported again",
    LeavesEcn = "path that swallows or marks all ECN-capable packets left alone",
    EarlyRetransmit = "lost by fewer reports than usual",
    ReorderingTimer = "late packet looked at again",
    NeedlessByDuplicate = "retransmission needless by a duplicate",
    Undone = "recovery undone",
    SpuriousTimeout = "timeout spurious by F-RTO",
    TailProbe = "tail probe",
    TailProbeNeedless = "tail probe needless",
    TailProbeRepaired = "tail probe repaired a loss",
    StreamRefused = "message for a stream that was not agreed on",
    GivenUp = "message given up after it was sent",
    GivenUpBegun = "message given up before all of it was sent",
    Displaced = "message given up for a more important one",
    ForwardTsnSent = "FORWARD TSN sent",
    ForwardTsnReceived = "FORWARD TSN received",
    SkippedArrived = "chunk of a message that was skipped",
    ForwardTsnOld = "FORWARD TSN that is old",
    MessageSkipped = "incomplete message dropped because the peer gave it up",
    LifetimeOverInQueue = "lifetime of a message over while it waits",
    BundledAlone = "chunk that must stand alone bundled with others",
    OutOfTheBlueAbort = "packet out of the blue answered with ABORT",
    OutOfTheBlueComplete = "SHUTDOWN ACK out of the blue answered",
    Autoclose = "autoclose",
    GivenBack = "data behind a hole given back to the endpoint",
    GaveWay = "association at rest evicted for others",
    DataRefused = "DATA outside what can be reported",
    DataDuplicate = "DATA received again",
    DataNoRoom = "DATA dropped for want of room",
    DataReneged = "out-of-order DATA dropped again for want of room",
    DataReserve = "DATA taken from the reserve",
    DataInvalidStream = "DATA on a stream that does not exist",
    PieceCopied = "small piece copied out of its packet",
    PartialDelivery = "message delivered in parts",
    TsnWrapped = "TSN wrapped",
    SackOld = "old SACK",
    SackReneged = "acknowledged data reported missing again",
    NrSackFreed = "data acknowledged for good between holes",
    NrSackRenegable = "NR-SACK with renegable data",
    FastRecovery = "fast recovery entered",
    FastRetransmitAgain = "fast-retransmitted chunk lost again (MFR)",
    Timeout = "T3-rtx expired",
    TimeoutExcused = "T3-rtx expired at a closed window",
    RetransmittedElsewhere = "retransmission sent on another path",
    Copied = "chunk copied to a second path",
    CopyWithoutRoom = "no second path has room for a copy",
    CopiesOverdue = "chunk lost on both paths",
    LowerLatency = "new data moved to a path with lower latency",
    MultipathTurn = "new data on another path than the packet before",
    MultipathShare = "path held back by its share of the buffers",
    MultipathReports = "several missing reports by one acknowledgement",
    MultipathOvertaken = "late on a slow path, and sent again on a fast one",
    MultipathRested = "a slow path answers after a rest",
    RtxAsapMoved = "retransmission moved to a path with room",
    RecoveredWindow = "window of a path that was potentially failed raised",
    Oversized = "chunk larger than the path MTU has become",
    WindowProbe = "closed window probed",
    WindowOpenedAfterProbe = "closed window opened after a probe",
    IdleWindow = "cwnd reduced for idle time",
    ResetDeferred = "reset of streams waits for data",
    StreamsReset = "streams of the peer reset",
    ReconfigurationRepeated = "reconfiguration request sent again",
    AddressChangeRepeated = "change of addresses sent again",
    AddressChangeAgain = "change of addresses answered again",
    AddressChangeOutOfOrder = "change of addresses out of order",
    IllegalAddressAnswer = "answer to no change of addresses",
    PeerAddressAdded = "address of the peer added",
    PeerAddressRemoved = "address of the peer removed",
    ReconfigurationAgain = "reconfiguration request answered again",
    ReconfigurationCrossed = "peer asks for a reset that is under way",
    AssociationReset = "TSNs reset",
    LifetimeOver = "message expired unsent",
    SpuriousRetransmission = "needless retransmission found by a timestamp",
    PathFailed = "path failed",
    PathBack = "failed path answers",
    PathPotentiallyFailed = "path potentially failed",
    PotentiallyFailedBack = "potentially failed path answers",
    PotentiallyFailedFailed = "potentially failed path failed",
    AllPotentiallyFailed = "every path failed at least potentially",
    PotentiallyFailedMoved = "data moved to another potentially failed path",
    PathConfirmed = "address verified",
    FailedOver = "failover to another path",
    FailedOverTwice = "failover from the alternate path to yet another one",
    Dormant = "every path failed",
    DormantMoved = "dormant association moved to another path",
    DormantEnded = "dormant association has a path again",
    PrimaryGivenUp = "failover made permanent",
    PrimaryKept = "permanent failover refused: the other path promises less",
    PrimaryChosen = "primary path changed by the user",
    HeartbeatAfterTimeout = "heartbeat after a timeout (HAR)",
    AddressVanished = "local address vanished under a path in use",
    SendErrorInFlight = "host could not send, with data in flight",
    DataStopped = "data stopped coming, and the peer was asked",
    PathAsked = "path that timed out asked because something came on it",
    Resumed = "sent again because a path answers, before its timer",
    PeerRefused = "peer given up because its port refuses",
    PathRefused = "unconfirmed path ended by its ABORT",
    MtuRaised = "path MTU raised",
    MtuBlackHole = "black hole: path MTU back at its base",
    MtuRouterSaid = "path MTU lowered by a router's word",
    MtuBelowBase = "path MTU below its base",
    Unreachable = "peer given up",
}

#[cfg(feature = "marks")]
mod counts {
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::{Mark, NAMES};

    static COUNTS: [AtomicU64; NAMES.len()] = [const { AtomicU64::new(0) }; NAMES.len()];

    pub(crate) fn hit(mark: Mark) {
        COUNTS[mark as usize].fetch_add(1, Ordering::Relaxed);
    }

    /// Every mark with the number of times that it was reached in this process.
    pub fn reached() -> impl Iterator<Item = (&'static str, u64)> {
        let counts = COUNTS.iter().map(|count| count.load(Ordering::Relaxed));
        NAMES.iter().copied().zip(counts)
    }
}

/// Counts nothing.
#[cfg(not(feature = "marks"))]
pub(crate) const fn hit(_: Mark) {}

#[cfg(feature = "marks")]
pub(crate) use counts::hit;
#[cfg(feature = "marks")]
pub use counts::reached;
