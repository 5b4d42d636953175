//! A log event, stored until it is written.

use std::net::IpAddr;

use anabranch_proto::{
    AssociationId, AssociationState, Counter, CounterKind, Decision, Detail, Instant, Number,
    PathState, PathStatistics, Statistics,
};

use crate::chunks::ChunkNote;
use crate::json::Object;

/// A log event.
#[derive(Clone, Debug)]
pub struct Entry {
    pub(crate) time: Instant,
    /// The engine, if an endpoint has several.
    pub(crate) shard: Option<usize>,
    pub(crate) association: AssociationId,
    pub(crate) what: What,
}

/// What happened.
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
    Notification {
        name: &'static str,
        details: Box<[(&'static str, Detail)]>,
    },
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
        metrics: Metrics,
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
        statistics: Box<Statistics>,
    },
}

/// Changed numbers of a path, with their names.
pub(crate) type Metrics = Box<[(&'static str, Number)]>;

impl Entry {
    /// Approximate memory use in bytes.
    pub(crate) fn size(&self) -> usize {
        let more = match &self.what {
            What::Packet { chunks, .. } => chunks.iter().map(ChunkNote::size).sum(),
            What::Notification { details, .. } => size_of_val(&**details),
            What::Metrics { metrics, .. } => size_of_val(&**metrics),
            What::Closed { reason, statistics } => {
                size_of_val(&**statistics) + size_of_val(&*statistics.paths) + reason.len()
            }
            _ => 0,
        };
        size_of::<Self>() + more
    }

    /// Writes the event as a JSON text; times are relative to `reference`.
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
            Self::Notification { name, .. } => name,
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
            Self::Notification { details, .. } => {
                for (name, detail) in details {
                    match detail {
                        Detail::Flag(flag) => data.plain(name, flag),
                        Detail::Number(number) => data.plain(name, number),
                        Detail::Text(text) => data.text(name, text),
                        _ => {}
                    }
                }
            }
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
                metrics.iter().for_each(|(name, value)| write_number(data, name, *value));
            }
            Self::PeerWindow(bytes) => data.plain("peer_rwnd", bytes),
            Self::Decision(decision) => write_decision(data, decision),
            Self::Packet { path, length, chunks, .. } => {
                data.plain_if("path_id", *path);
                data.plain("length", length);
                data.list("chunks", chunks, |out, chunk| chunk.write(out));
            }
            Self::Closed { reason, statistics } => {
                data.text("reason", reason);
                let of_association = Statistics::counters();
                data.object("counters", |object| {
                    write_counters(object, of_association, statistics);
                });
                data.list("paths", &statistics.paths, |out, path| {
                    let mut object = Object::begin(out);
                    object.plain("path_id", path.id.number());
                    write_counters(&mut object, PathStatistics::counters(), path);
                    object.end();
                });
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
        // A decision from a later version.
        _ => {}
    }
}

/// The final counters of an association or a path.
fn write_counters<S: 'static>(
    object: &mut Object<'_>,
    rows: impl Iterator<Item = &'static Counter<S>>,
    statistics: &S,
) {
    for row in rows.filter(|row| row.kind == CounterKind::Counter) {
        if let Some(value) = (row.get)(statistics) {
            write_number(object, row.name, value);
        }
    }
}

/// Writes a number. Times are in milliseconds, as everywhere in a log.
fn write_number(object: &mut Object<'_>, name: &str, value: Number) {
    match value {
        Number::Time(time) => object.millis(name, time.as_nanos()),
        Number::Whole(count) => object.plain(name, count),
        value => object.plain(name, value.as_f64()),
    }
}
