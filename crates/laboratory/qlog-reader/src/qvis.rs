//! Converts a log to QUIC terms for qvis, which supports no others: a trace for each path, packets with numbers of
//! their own, and acknowledgements of these. docs/qlog.md describes what is lost.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::read::{Chunk, Data, Event, Header};

/// Path and packet number.
type PacketName = (u16, u64);

/// A log that is being converted.
#[derive(Debug, Default)]
pub struct Converter {
    associations: BTreeMap<String, Association>,
}

#[derive(Debug, Default)]
struct Association {
    /// Traces by path.
    traces: BTreeMap<u16, PathTrace>,
    /// The packet that last carried each chunk, by extended TSN, until the chunk is acknowledged or lost.
    outstanding: BTreeMap<i64, PacketName>,
    /// The chunks of packets that are neither acknowledged nor lost.
    packets: BTreeMap<PacketName, Vec<i64>>,
    /// The latest TSN, extended beyond 32 bits.
    latest: Option<i64>,
}

#[derive(Debug, Default)]
struct PathTrace {
    events: Vec<Value>,
    sent: u64,
    received: u64,
}

impl PathTrace {
    fn put(&mut self, time: f64, name: &str, data: Value) {
        self.events.push(json!({ "time": time, "name": name, "data": data }));
    }
}

impl Converter {
    /// Converts an event of the log.
    pub fn take(&mut self, event: &Event) {
        if !event.group_id.is_empty() {
            self.associations.entry(event.group_id.clone()).or_default().take(event);
        }
    }

    /// The resulting file.
    pub fn document(self, header: &Header) -> Value {
        let reference = header.trace.common_fields.reference_time;
        let mut traces = Vec::new();
        for (id, association) in self.associations {
            for (path, trace) in association.traces {
                traces.push(json!({
                    "title": format!("association {id}, path {path}"),
                    "vantage_point": { "name": header.trace.vantage_point.name,
                                       "type": header.trace.vantage_point.kind },
                    "common_fields": { "group_id": format!("{id} path {path}"),
                                       "protocol_type": ["QUIC"],
                                       "time_format": "relative", "reference_time": reference },
                    "events": trace.events,
                }));
            }
        }
        json!({
            "qlog_version": "0.3", "qlog_format": "JSON", "title": header.title,
            "description": "SCTP in the words of QUIC", "traces": traces,
        })
    }
}

impl Association {
    fn trace(&mut self, path: Option<u16>) -> &mut PathTrace {
        let first = self.traces.keys().next().copied().unwrap_or(0);
        self.traces.entry(path.unwrap_or(first)).or_default()
    }

    /// Extends a TSN so that it does not wrap.
    fn extend(&mut self, tsn: u32) -> i64 {
        let latest = self.latest.unwrap_or(tsn.into());
        let extended = latest + i64::from(tsn.wrapping_sub(latest as u32) as i32);
        self.latest = Some(latest.max(extended));
        extended
    }

    fn take(&mut self, event: &Event) {
        let (time, data) = (event.time, &event.data);
        match event.name.as_str() {
            "transport:packet_sent" => self.take_sent(time, data),
            "transport:packet_received" => self.take_received(time, data),
            "recovery:packet_lost" => self.take_lost(time, data),
            "recovery:metrics_updated" => {
                let metrics = json!({
                    "congestion_window": data.congestion_window, "ssthresh": data.ssthresh,
                    "bytes_in_flight": data.bytes_in_flight, "smoothed_rtt": data.smoothed_rtt,
                    "rtt_variance": data.rtt_variance, "min_rtt": data.min_rtt,
                });
                self.trace(data.path_id).put(time, &event.name, without_null(metrics));
            }
            "connectivity:association_state_updated" => {
                let states = without_null(json!({ "old": data.old, "new": data.new }));
                self.trace(None).put(time, "connectivity:connection_state_updated", states);
            }
            "connectivity:association_closed" => {
                let reason = json!({ "reason": data.reason });
                self.trace(None).put(time, "connectivity:connection_closed", reason);
            }
            "connectivity:path_updated" => {
                let state = data.new.as_deref().unwrap_or_default();
                let message = json!({ "message": format!("the path is {state}") });
                self.trace(data.path_id).put(time, "generic:info", message);
            }
            "recovery:loss_timer_updated" => {
                let timer =
                    json!({ "timer_type": "pto", "event_type": "expired", "delta": data.rto });
                self.trace(data.path_id).put(time, &event.name, without_null(timer));
            }
            _ => {}
        }
    }

    fn take_sent(&mut self, time: f64, data: &Data) {
        let path = data.path_id.unwrap_or(0);
        let number = self.trace(Some(path)).sent;
        for tsn in data.chunks.iter().filter_map(|chunk| chunk.tsn) {
            let tsn = self.extend(tsn);
            self.outstanding.insert(tsn, (path, number));
            self.packets.entry((path, number)).or_default().push(tsn);
        }
        let packet = packet(number, data, data.chunks.iter().map(frame).collect());
        let trace = self.trace(Some(path));
        trace.sent += 1;
        trace.put(time, "transport:packet_sent", packet);
    }

    fn take_received(&mut self, time: f64, data: &Data) {
        let path = data.path_id.unwrap_or(0);
        // Packets that were sent on other paths are acknowledged in their traces.
        let mut acked: BTreeMap<u16, Vec<u64>> = BTreeMap::from([(path, Vec::new())]);
        for chunk in &data.chunks {
            for (path, number) in self.acknowledged(chunk) {
                acked.entry(path).or_default().push(number);
            }
        }
        for (on, mut numbers) in acked {
            numbers.sort_unstable();
            numbers.dedup();
            let mut frames: Vec<Value> = match on == path {
                true => data
                    .chunks
                    .iter()
                    .filter(|c| !c.chunk_type.ends_with("SACK"))
                    .map(frame)
                    .collect(),
                false => Vec::new(),
            };
            if !numbers.is_empty() {
                frames.push(json!({ "frame_type": "ack", "acked_ranges": ranges(&numbers) }));
            }
            let trace = self.trace(Some(on));
            let packet = packet(trace.received, data, frames);
            trace.received += 1;
            trace.put(time, "transport:packet_received", packet);
        }
    }

    /// The packets whose chunks are newly acknowledged.
    fn acknowledged(&mut self, chunk: &Chunk) -> Vec<PacketName> {
        let Some(cumulative) = chunk.cumulative_tsn else { return Vec::new() };
        if self.outstanding.is_empty() {
            return Vec::new();
        }
        let cumulative = self.extend(cumulative);
        let mut acked: Vec<i64> =
            self.outstanding.range(..=cumulative).map(|(tsn, _)| *tsn).collect();
        for (first, last) in &chunk.gaps {
            let (first, last) = (self.extend(*first), self.extend(*last));
            acked.extend(self.outstanding.range(first..=last.max(first)).map(|(tsn, _)| *tsn));
        }
        acked.into_iter().filter_map(|tsn| self.settle(tsn)).collect()
    }

    /// Marks the packet of a chunk as acknowledged or lost, whichever comes first. Returns the packet the first time.
    fn settle(&mut self, tsn: i64) -> Option<PacketName> {
        let packet = self.outstanding.remove(&tsn)?;
        for other in self.packets.remove(&packet)? {
            if self.outstanding.get(&other) == Some(&packet) {
                self.outstanding.remove(&other);
            }
        }
        Some(packet)
    }

    fn take_lost(&mut self, time: f64, data: &Data) {
        let Some(tsn) = data.tsn else { return };
        let tsn = self.extend(tsn);
        if let Some((path, number)) = self.settle(tsn) {
            let lost = json!({ "header": header(number), "trigger": data.trigger });
            self.trace(Some(path)).put(time, "recovery:packet_lost", lost);
        }
    }
}

fn header(number: u64) -> Value {
    json!({ "packet_type": "1RTT", "packet_number": number })
}

fn packet(number: u64, data: &Data, frames: Vec<Value>) -> Value {
    json!({ "header": header(number), "raw": { "length": data.length }, "frames": frames })
}

/// The most similar QUIC frame for a chunk.
fn frame(chunk: &Chunk) -> Value {
    match chunk.chunk_type.as_str() {
        "DATA" | "I-DATA" => json!({
            "frame_type": "stream", "stream_id": chunk.stream_id, "offset": 0,
            "length": chunk.payload_length,
        }),
        "HEARTBEAT" => json!({ "frame_type": "ping" }),
        "PAD" => json!({ "frame_type": "padding" }),
        "ABORT" | "SHUTDOWN" => {
            json!({ "frame_type": "connection_close", "reason": chunk.chunk_type })
        }
        other => json!({ "frame_type": "unknown", "raw_frame_type": 0, "description": other }),
    }
}

/// Converts sorted numbers to inclusive ranges.
fn ranges(numbers: &[u64]) -> Vec<(u64, u64)> {
    let mut ranges: Vec<(u64, u64)> = Vec::new();
    for number in numbers {
        match ranges.last_mut() {
            Some((_, last)) if *last + 1 == *number => *last = *number,
            _ => ranges.push((*number, *number)),
        }
    }
    ranges
}

/// Removes unknown values from an object.
fn without_null(mut object: Value) -> Value {
    if let Some(fields) = object.as_object_mut() {
        fields.retain(|_, value| !value.is_null());
    }
    object
}

#[cfg(test)]
mod tests {
    use super::*;

    fn convert(events: &[Value]) -> Value {
        let header = json!({
            "qlog_format": "JSON-SEQ",
            "trace": { "vantage_point": { "type": "client" }, "common_fields": {} },
        });
        let mut converter = Converter::default();
        for (number, event) in events.iter().enumerate() {
            let mut event = event.clone();
            event["time"] = number.into();
            event["group_id"] = "0.0".into();
            converter.take(&serde_json::from_value(event).unwrap());
        }
        converter.document(&serde_json::from_value(header).unwrap())
    }

    fn sent(path: u16, tsn: u32) -> Value {
        let chunk =
            json!({ "chunk_type": "DATA", "tsn": tsn, "stream_id": 1, "payload_length": 9 });
        json!({ "name": "transport:packet_sent",
                "data": { "path_id": path, "length": 40, "chunks": [chunk] } })
    }

    fn sack(path: u16, cumulative: u32, gaps: &[(u32, u32)]) -> Value {
        let chunk = json!({ "chunk_type": "SACK", "cumulative_tsn": cumulative, "gaps": gaps });
        json!({ "name": "transport:packet_received",
                "data": { "path_id": path, "length": 40, "chunks": [chunk] } })
    }

    #[test]
    fn what_goes_out_again_is_another_packet_and_acknowledged_on_its_own_path() {
        let last = u32::MAX;
        let lost = json!({ "name": "recovery:packet_lost",
                           "data": { "path_id": 0, "tsn": last, "trigger": "timeout" } });
        let document = convert(&[
            sent(0, last),
            sent(0, 0),
            sent(0, 1),
            sack(0, last - 1, &[(0, 0)]),
            lost,
            sent(1, last),
            sack(0, 1, &[]),
        ]);
        let traces = document["traces"].as_array().unwrap();
        let named = |trace: usize, name: &str| -> Vec<Value> {
            let events = traces[trace]["events"].as_array().unwrap();
            events.iter().filter(|event| event["name"] == name).map(|e| e["data"].clone()).collect()
        };
        let numbers: Vec<_> = named(0, "transport:packet_sent")
            .iter()
            .map(|data| data["header"]["packet_number"].clone())
            .collect();
        assert_eq!(numbers, [0, 1, 2]);
        assert_eq!(named(0, "recovery:packet_lost")[0]["header"]["packet_number"], 0);
        let acked = |trace| -> Vec<Value> {
            let packets = named(trace, "transport:packet_received");
            packets.iter().map(|data| data["frames"][0]["acked_ranges"].clone()).collect()
        };
        assert_eq!(acked(0), [json!([[1, 1]]), json!([[2, 2]])]);
        assert_eq!(acked(1), [json!([[0, 0]])]);
    }

    #[test]
    fn a_shutdown_acknowledges_the_last_packets() {
        let chunk = json!({ "chunk_type": "SHUTDOWN", "length": 8, "cumulative_tsn": 7 });
        let shutdown = json!({ "name": "transport:packet_received",
                               "data": { "path_id": 0, "length": 20, "chunks": [chunk] } });
        let document = convert(&[sent(0, 7), shutdown]);
        let frames = &document["traces"][0]["events"][1]["data"]["frames"];
        assert_eq!(frames[0]["frame_type"], "connection_close");
        assert_eq!(frames[1]["acked_ranges"], json!([[0, 0]]));
    }

    #[test]
    fn numbers_become_ranges() {
        assert_eq!(ranges(&[1, 2, 3, 7, 9, 10]), [(1, 3), (7, 7), (9, 10)]);
        assert_eq!(ranges(&[]), []);
    }
}
