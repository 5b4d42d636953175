//! The interoperability cases.

mod authentication;
mod data;
mod ends;
mod interleaving;
pub(crate) mod meeting;
mod partial;
pub(crate) mod paths;
mod patience;
mod readdressing;
mod reconfiguration;
mod reported;
mod restarts;

use std::time::Duration;

use anabranch::Reliability;
use clap::ValueEnum;

use crate::lane::{Lane, Transport};
use crate::peer::Kind;

/// A case.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Case {
    /// This side begins the association; the peer returns messages; graceful end.
    Connect,
    /// The same, begun by the peer.
    Accept,
    /// Messages of 1 byte to 1 MB, including every length around a full packet.
    Lengths,
    /// Ordered messages of mixed lengths on one stream.
    Ordered,
    /// Unordered messages of mixed lengths on one stream.
    Unordered,
    /// Three messages on each of 400 streams, every other stream unordered.
    Streams,
    /// Both sides send at the same time.
    Both,
    /// The same with 1 % of the packets lost each way and a round trip of 20 ms.
    Loss,
    /// The same, and this side offers NR-SACKs; if the peer supports them, both sides send them.
    NrSack,
    /// Messages with short lifetimes, and losses: what is not given up arrives in order.
    PrTtl,
    /// The same with messages that may not be retransmitted.
    PrRtx,
    /// A full send buffer, and messages that are more important than those in it.
    PrPrio,
    /// Interleaved messages, with losses: short ones overtake a long one on another stream, in both directions.
    Interleave,
    /// This side resets a stream on which it sends, with messages in flight, and goes on.
    ResetOut,
    /// The peer resets a stream on which it sends, by itself and on request, and goes on.
    ResetIn,
    /// Both sides add streams of both directions, and use them.
    AddStreams,
    /// Both sides authenticate data with a secret, with losses; with another secret nothing arrives.
    Auth,
    /// Each side removes an address and adds it again, with losses; then it carries data, also when the other one is cut.
    Add,
    /// Each side removes the address that carries its data, with losses, and the network there is cut.
    Delete,
    /// Each side asks the other one to send to another address, with losses.
    Primary,
    /// Both sides are bound to all their addresses, of both IP versions. Networks of this side, and of the peer if it
    /// follows them, go and come back.
    Roam,
    /// Both sides send at the same time through queues that mark packets in place of dropping them.
    Ecn,
    /// The last two of a few packets are lost: a tail probe detects that before any timer.
    Probe,
    /// New data on two paths at the same time (CMT), with losses: the data arrives complete.
    Multipath,
    /// Two paths, each cut for a while and repaired in turn, while messages go both ways.
    Paths,
    /// The peer is killed and comes back from the same addresses and ports.
    Restart,
    /// This side vanishes and comes back from the same addresses and ports.
    Restarted,
    /// This side shuts down with messages in flight.
    Close,
    /// The peer shuts down with messages in flight.
    Closed,
    /// This side aborts in the middle of a transfer.
    Abort,
    /// The peer aborts in the middle of a transfer.
    Aborted,
    /// Each side in turn stops reading until its window is closed, then reads everything.
    Window,
    /// 30 s with heartbeats only.
    Idle,
}

impl Case {
    pub(crate) const ALL: [Case; 33] = [
        Case::Connect,
        Case::Accept,
        Case::Lengths,
        Case::Ordered,
        Case::Unordered,
        Case::Streams,
        Case::Both,
        Case::Loss,
        Case::Probe,
        Case::NrSack,
        Case::PrTtl,
        Case::PrRtx,
        Case::PrPrio,
        Case::Interleave,
        Case::ResetOut,
        Case::ResetIn,
        Case::AddStreams,
        Case::Auth,
        Case::Add,
        Case::Delete,
        Case::Primary,
        Case::Roam,
        Case::Ecn,
        Case::Multipath,
        Case::Paths,
        Case::Restart,
        Case::Restarted,
        Case::Close,
        Case::Closed,
        Case::Abort,
        Case::Aborted,
        Case::Window,
        Case::Idle,
    ];

    /// The name in tables and on command lines.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Case::Connect => "connect",
            Case::Accept => "accept",
            Case::Lengths => "lengths",
            Case::Ordered => "ordered",
            Case::Unordered => "unordered",
            Case::Streams => "streams",
            Case::Both => "both",
            Case::Loss => "loss",
            Case::Probe => "probe",
            Case::NrSack => "nr-sack",
            Case::PrTtl => "pr-ttl",
            Case::PrRtx => "pr-rtx",
            Case::PrPrio => "pr-prio",
            Case::Interleave => "interleave",
            Case::ResetOut => "reset-out",
            Case::ResetIn => "reset-in",
            Case::AddStreams => "add-streams",
            Case::Auth => "auth",
            Case::Add => "add",
            Case::Delete => "delete",
            Case::Primary => "primary",
            Case::Roam => "roam",
            Case::Ecn => "ecn",
            Case::Multipath => "multipath",
            Case::Paths => "paths",
            Case::Restart => "restart",
            Case::Restarted => "restarted",
            Case::Close => "close",
            Case::Closed => "closed",
            Case::Abort => "abort",
            Case::Aborted => "aborted",
            Case::Window => "window",
            Case::Idle => "idle",
        }
    }

    /// Whether the case only waits, so it can run in parallel with others. This does not hold for
    /// usrsctp on IP protocol 132: several processes on one host share all packets, and each new
    /// process answers those of the others with ABORT until it is configured not to.
    pub(crate) fn is_quiet(self, lane: &Lane) -> bool {
        self == Case::Idle && (lane.kind, lane.transport) != (Kind::Usrsctp, Transport::Native)
    }

    /// Selects the ports: each case has its own.
    fn slot(self) -> u16 {
        self as u16
    }

    /// Why the case cannot run with this peer, if it cannot.
    pub(crate) fn exclusion(self, lane: &Lane) -> Option<&'static str> {
        match (self, lane.kind) {
            (Case::Paths | Case::Multipath, kind) if kind.is_webrtc() => {
                Some("the peer has a single path")
            }
            (Case::Add | Case::Delete | Case::Primary | Case::Roam, kind) if kind.is_webrtc() => {
                Some("the peer has a single path")
            }
            (Case::Aborted, Kind::SctpProto) => {
                Some("sctp-proto 0.10 has no call that sends ABORT")
            }
            (Case::Aborted, Kind::Pion19) => Some(
                "pion 1.9.0 lets its reader end the writer that is to send ABORT, so that it mostly \
                 sends none",
            ),
            (Case::Restarted, Kind::Pion19) => {
                Some("pion 1.9.0 does not handle INIT for an association that it has")
            }
            (Case::AddStreams, Kind::Dcsctp) => {
                Some("dcsctp 0.1.16 does not answer requests for streams, and sends none")
            }
            (Case::AddStreams, Kind::RtcSctp) => {
                Some("rtc-sctp 0.21 does not answer requests for streams, and sends none")
            }
            (Case::AddStreams, Kind::SctpProto) => {
                Some("sctp-proto 0.10 does not answer requests for streams, and sends none")
            }
            (Case::AddStreams, Kind::Pion) => {
                Some("pion 1.12.1 does not answer requests for streams, and sends none")
            }
            (Case::AddStreams, Kind::Pion19) => {
                Some("pion 1.9.0 does not answer requests for streams, and sends none")
            }
            _ => None,
        }
    }

    /// Which part of the case is left out with this peer, if one is.
    pub(crate) fn limitation(self, lane: &Lane) -> Option<&'static str> {
        match (self, lane.kind) {
            (Case::Interleave, Kind::Linux) => Some(
                "Linux 6.1 numbers the second fragment of an I-DATA message 0, not 1: only messages of \
                 one chunk",
            ),
            (Case::Interleave, Kind::RtcSctp) => {
                Some("rtc-sctp 0.21 has no I-DATA: DATA is agreed")
            }
            (Case::Interleave, Kind::SctpProto) => {
                Some("sctp-proto 0.10 has no I-DATA: DATA is agreed")
            }
            (Case::Interleave, Kind::Pion19) => Some("pion 1.9.0 has no I-DATA: DATA is agreed"),
            (Case::Ecn, Kind::Usrsctp) if !data::sees_codepoints(lane) => Some(
                "usrsctp 0.9.5 sets and sees codepoints on IPv4 sockets for IP protocol 132 only: that both \
                 agree is checked",
            ),
            (Case::Ecn, kind) if kind.is_webrtc() => {
                Some("the peer has no ECN: that nothing is marked is checked")
            }
            (Case::Auth, kind) if kind.is_webrtc() => {
                Some("the peer has no AUTH: that nothing is authenticated is checked")
            }
            (Case::PrTtl | Case::PrRtx, Kind::Usrsctp) => Some(
                "usrsctp 0.9.5 may discard whole messages behind one that FORWARD TSN skips: these may be missing",
            ),
            (Case::Add, Kind::Usrsctp) => {
                Some("usrsctp 0.9.5 may send its SACKs to a network that is cut: none is cut")
            }
            (Case::Delete, Kind::Usrsctp) => Some(
                "usrsctp 0.9.5 asks from an address to remove that address, which RFC 5061 forbids: only \
                 this side removes its own",
            ),
            (Case::Roam, Kind::Usrsctp) => {
                Some("usrsctp does not follow addresses on Linux: only this side moves")
            }
            (Case::ResetIn, kind) if kind.is_webrtc() => {
                Some("the peer resets its streams, but not on request")
            }
            _ => None,
        }
    }

    pub(crate) async fn run(self, lane: &Lane) -> Result<(), String> {
        let slot = self.slot();
        match self {
            Case::Connect => data::connect(lane, slot).await,
            Case::Accept => data::accept(lane, slot).await,
            Case::Lengths => data::lengths(lane, slot).await,
            Case::Ordered => data::one_stream(lane, slot, 4).await,
            Case::Unordered => data::one_stream(lane, slot, 5).await,
            Case::Streams => data::streams(lane, slot).await,
            Case::Both => data::both(lane, slot, false).await,
            Case::Loss => data::both(lane, slot, true).await,
            Case::Probe => data::probe(lane, slot).await,
            Case::NrSack => data::nr_sack(lane, slot).await,
            Case::PrTtl => {
                partial::by_loss(lane, slot, Reliability::Lifetime(Duration::from_millis(1))).await
            }
            Case::PrRtx => partial::by_loss(lane, slot, Reliability::Retransmissions(0)).await,
            Case::PrPrio => partial::by_priority(lane, slot).await,
            Case::Interleave => interleaving::both(lane, slot).await,
            Case::ResetOut => reconfiguration::reset_out(lane, slot).await,
            Case::ResetIn => reconfiguration::reset_in(lane, slot).await,
            Case::AddStreams => reconfiguration::add_streams(lane, slot).await,
            Case::Auth => authentication::both(lane, slot).await,
            Case::Add => readdressing::add(lane, slot).await,
            Case::Delete => readdressing::delete(lane, slot).await,
            Case::Primary => readdressing::primary(lane, slot).await,
            Case::Roam => readdressing::roam(lane, slot).await,
            Case::Ecn => data::ecn(lane, slot).await,
            Case::Multipath => data::multipath(lane, slot).await,
            Case::Paths => paths::cut_each(lane, slot).await,
            Case::Restart => restarts::of_the_peer(lane, slot).await,
            Case::Restarted => restarts::of_ours(lane, slot).await,
            Case::Close => ends::close(lane, slot).await,
            Case::Closed => ends::closed(lane, slot).await,
            Case::Abort => ends::abort(lane, slot).await,
            Case::Aborted => ends::aborted(lane, slot).await,
            Case::Window => patience::window(lane, slot).await,
            Case::Idle => patience::idle(lane, slot).await,
        }
    }
}
