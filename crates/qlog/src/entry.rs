//! One event of the log, stored until it is written.

use std::net::IpAddr;
use std::time::Duration;

use anabranch_proto::{AssociationId, AssociationState, Counters, Decision, Instant, PathState};

use crate::chunks::ChunkNote;
use crate::json::Object;

/// One event.
#[derive(Clone, Debug)]
pub struct Entry {
    pub(crate) time: Instant,
    /// The engine, where an endpoint has several.
    pub(crate) shard: Option<usize>,
    pub(crate) association: AssociationId,
    pub(crate) what: What,
}

/// The event.
#[derive(Clone, Debug)]
pub(crate) enum What {
    Started {
        incoming: bool,
        local_port: u16,
        remote_port: u16,
    },
    State {
        old: Option<AssociationState>,
        new: AssociationState,
    },
    Restarted,
    /// `new` is `None` if the path was removed.
    Path {
        path: u16,
        ends: (IpAddr, IpAddr),
        old: Option<PathState>,
        new: Option<PathState>,
    },
    ActivePath {
        path: u16,
        primary: u16,
    },
    Metrics {
        path: u16,
        metrics: Box<Metrics>,
    },
    PeerWindow(u32),
    Decision(Decision),
    Packet {
        sent: bool,
        path: Option<u16>,
        length: usize,
        chunks: Box<[ChunkNote]>,
    },
    Closed {
        reason: String,
        counters: Box<Counters>,
    },
}

/// Windows and times of a path; the log only has those that have changed.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Metrics {
    pub(crate) cwnd: Option<usize>,
    pub(crate) ssthresh: Option<usize>,
    pub(crate) in_flight: Option<usize>,
    pub(crate) srtt: Option<Duration>,
    pub(crate) rttvar: Option<Duration>,
    pub(crate) min_rtt: Option<Duration>,
    pub(crate) rto: Option<Duration>,
    pub(crate) mtu: Option<u16>,
    pub(crate) errors: Option<u32>,
}

impl Metrics {
    /// The values that have changed; `None` if none have.
    pub(crate) fn since(&self, before: &Self) -> Option<Self> {
        fn other<T: PartialEq + Copy>(now: Option<T>, before: Option<T>) -> Option<T> {
            now.filter(|_| now != before)
        }
        let changed = Self {
            cwnd: other(self.cwnd, before.cwnd),
            ssthresh: other(self.ssthresh, before.ssthresh),
            in_flight: other(self.in_flight, before.in_flight),
            srtt: other(self.srtt, before.srtt),
            rttvar: other(self.rttvar, before.rttvar),
            min_rtt: other(self.min_rtt, before.min_rtt),
            rto: other(self.rto, before.rto),
            mtu: other(self.mtu, before.mtu),
            errors: other(self.errors, before.errors),
        };
        (changed != Self::default()).then_some(changed)
    }

    fn write(&self, data: &mut Object<'_>) {
        data.plain_if("congestion_window", self.cwnd);
        data.plain_if("ssthresh", self.ssthresh);
        data.plain_if("bytes_in_flight", self.in_flight);
        data.millis_if("smoothed_rtt", self.srtt);
        data.millis_if("rtt_variance", self.rttvar);
        data.millis_if("min_rtt", self.min_rtt);
        data.millis_if("rto", self.rto);
        data.plain_if("mtu", self.mtu);
        data.plain_if("error_count", self.errors);
    }
}

impl Entry {
    /// Bytes of memory, roughly.
    pub(crate) fn size(&self) -> usize {
        let more = match &self.what {
            What::Packet { chunks, .. } => chunks.iter().map(ChunkNote::size).sum(),
            What::Metrics { .. } => size_of::<Metrics>(),
            What::Closed { reason, .. } => size_of::<Counters>() + reason.len(),
            _ => 0,
        };
        size_of::<Self>() + more
    }

    /// Writes the event as a JSON text; its time counts from `reference`.
    pub(crate) fn write(&self, out: &mut String, reference: Instant) {
        let mut event = Object::begin(out);
        event.millis("time", self.time.saturating_since(reference).as_nanos());
        event.text("name", self.what.name());
        match self.shard {
            Some(shard) => event.text("group_id", format_args!("{shard}/{}", self.association)),
            None => event.text("group_id", self.association),
        }
        event.object("data", |data| self.what.write(data));
        event.end();
    }
}

impl What {
    fn name(&self) -> &'static str {
        match self {
            Self::Started { .. } => "connectivity:association_started",
            Self::State { .. } => "connectivity:association_state_updated",
            Self::Restarted => "connectivity:association_restarted",
            Self::Path { .. } => "connectivity:path_updated",
            Self::ActivePath { .. } => "connectivity:active_path_updated",
            Self::Metrics { .. } => "recovery:metrics_updated",
            Self::PeerWindow(_) => "transport:peer_window_updated",
            Self::Decision(Decision::Lost { .. }) => "recovery:packet_lost",
            Self::Decision(_) => "recovery:loss_timer_updated",
            Self::Packet { sent: true, .. } => "transport:packet_sent",
            Self::Packet { sent: false, .. } => "transport:packet_received",
            Self::Closed { .. } => "connectivity:association_closed",
        }
    }

    fn write(&self, data: &mut Object<'_>) {
        match self {
            Self::Started { incoming, local_port, remote_port } => {
                data.text("initiator", if *incoming { "remote" } else { "local" });
                data.plain("local_port", local_port);
                data.plain("remote_port", remote_port);
            }
            Self::State { old, new } => {
                if let Some(old) = old {
                    data.text("old", old);
                }
                data.text("new", new);
            }
            Self::Restarted => {}
            Self::Path { path, ends, old, new } => {
                data.plain("path_id", path);
                data.text("local_address", ends.0);
                data.text("remote_address", ends.1);
                if let Some(old) = old {
                    data.text("old", old);
                }
                match new {
                    Some(new) => data.text("new", new),
                    None => data.text("new", "removed"),
                }
            }
            Self::ActivePath { path, primary } => {
                data.plain("path_id", path);
                data.plain("primary_path_id", primary);
            }
            Self::Metrics { path, metrics } => {
                data.plain("path_id", path);
                metrics.write(data);
            }
            Self::PeerWindow(bytes) => data.plain("peer_rwnd", bytes),
            Self::Decision(decision) => write_decision(data, decision),
            Self::Packet { path, length, chunks, .. } => {
                data.plain_if("path_id", *path);
                data.plain("length", length);
                data.list("chunks", chunks, |out, chunk| chunk.write(out));
            }
            Self::Closed { reason, counters } => {
                data.text("reason", reason);
                data.object("counters", |object| write_counters(object, counters));
            }
        }
    }
}

fn write_decision(data: &mut Object<'_>, decision: &Decision) {
    match decision {
        Decision::Lost { tsn, path, to, bytes, cause } => {
            data.plain("path_id", path);
            data.plain("tsn", tsn);
            data.plain("payload_length", bytes);
            data.text("trigger", cause.name());
            data.plain("retransmission_path_id", to);
        }
        Decision::TimedOut { path, rto, cause, excused } => {
            data.plain("path_id", path);
            data.text("timer_type", "t3_rtx");
            data.text("event_type", "expired");
            data.millis("rto", rto.as_nanos());
            data.text("trigger", cause.name());
            data.plain("window_closed", excused);
        }
        // A decision of a later version.
        _ => {}
    }
}

/// An association's counters of losses: the sums of its events.
fn write_counters(object: &mut Object<'_>, counters: &Counters) {
    for (name, value) in [
        ("fast_retransmitted_chunks", counters.fast_retransmitted_chunks),
        ("early_retransmitted_chunks", counters.early_retransmitted_chunks),
        ("probe_retransmitted_chunks", counters.probe_retransmitted_chunks),
        ("timeout_retransmitted_chunks", counters.timeout_retransmitted_chunks),
        ("useless_retransmitted_chunks", counters.useless_retransmitted_chunks),
        ("spurious_retransmissions", counters.spurious_retransmissions),
        ("timeouts", counters.timeouts),
        ("spurious_timeouts", counters.spurious_timeouts),
        ("fast_recoveries", counters.fast_recoveries),
        ("tail_probes", counters.tail_probes),
    ] {
        object.plain(name, value);
    }
}
