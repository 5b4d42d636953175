//! Stream reconfiguration (RFC 6525): streams that are reset and added while the association is up.

mod endings;
mod hostile;
mod requests;
mod streams;
mod tsns;

use std::time::Duration;

use anabranch_harness::{Pair, Verdict, craft};
use anabranch_impair::LinkConfig;
use anabranch_proto::ReconfigurationResult::{Denied, Failed, Performed};
use anabranch_proto::byte_mode::{self, Ledger, Mark};
use anabranch_proto::{
    AssociationConfig, CloseReason, Event, Notification, OutgoingMessage, Ppid,
    ReconfigurationError, ReconfigurationResult, Reliability, StreamDirection,
};
use anabranch_wire::{Chunk, List, Packet, Parameter, Parameters, ReConfig, Tsn, kind};

const LONG: Duration = Duration::from_secs(100);

fn config() -> AssociationConfig {
    AssociationConfig::rfc9260().with(|config| {
        config.sending.stream_reconfiguration = true;
        config.sending.outbound_streams = 10;
        config.receiving.inbound_streams = 20;
        config.receiving.accept_association_resets = true;
    })
}

fn pair() -> Pair {
    Pair::connected(1, config())
}

/// A pair whose network loses this share of the packets, in percent.
fn lossy(percent: u64, seed: u64) -> Pair {
    let mut pair = pair();
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    pair.net.script(move |_| {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        if (state >> 33) % 100 < percent { Verdict::Drop } else { Verdict::Pass }
    });
    pair
}

fn reset(
    pair: &mut Pair,
    node: usize,
    direction: StreamDirection,
    streams: &[u16],
) -> Result<(), ReconfigurationError> {
    let now = pair.net.now();
    pair.association_mut(node).reset_streams(now, direction, streams)
}

fn add(
    pair: &mut Pair,
    node: usize,
    outgoing: u16,
    incoming: u16,
) -> Result<(), ReconfigurationError> {
    let now = pair.net.now();
    pair.association_mut(node).add_streams(now, outgoing, incoming)
}

/// Resets that a node heard of.
fn resets(pair: &Pair, node: usize) -> Vec<(bool, Vec<u16>, ReconfigurationResult)> {
    let events = pair.events[node].iter();
    let resets = events.filter_map(|event| match event {
        Event::Notification(Notification::StreamsReset { outgoing, streams, result }) => {
            Some((*outgoing, streams.to_vec(), *result))
        }
        _ => None,
    });
    resets.collect()
}

/// Numbers of streams, outgoing and incoming, that a node heard of.
fn added(pair: &Pair, node: usize) -> Vec<(u16, u16, ReconfigurationResult)> {
    let events = pair.events[node].iter();
    let added = events.filter_map(|event| match event {
        Event::Notification(Notification::StreamsAdded {
            outbound_streams,
            inbound_streams,
            result,
        }) => Some((*outbound_streams, *inbound_streams, *result)),
        _ => None,
    });
    added.collect()
}

/// New TSNs that a node heard of: its own and the peer's.
fn tsn_resets(pair: &Pair, node: usize) -> Vec<(u32, u32, ReconfigurationResult)> {
    let events = pair.events[node].iter();
    let resets = events.filter_map(|event| match event {
        Event::Notification(Notification::AssociationReset { local_tsn, remote_tsn, result }) => {
            Some((*local_tsn, *remote_tsn, *result))
        }
        _ => None,
    });
    resets.collect()
}

/// SSNs of the messages that a node received on a stream.
fn ssns(pair: &Pair, node: usize, stream: u16) -> Vec<u32> {
    let of_stream = pair.received[node].iter().filter(|message| message.stream == stream);
    of_stream.map(|message| message.sequence).collect()
}

fn text(pair: &Pair, node: usize) -> String {
    String::from_utf8(pair.received_bytes(node)).unwrap()
}

/// Passes requests to a node as if its peer had sent them, and returns the answers with a RE-CONFIG.
fn request(pair: &mut Pair, to: usize, parameters: &[Parameter<'_>]) -> Vec<String> {
    let mut value = Vec::new();
    parameters.iter().for_each(|parameter| parameter.encode(&mut value));
    let chunk = Chunk::ReConfig(ReConfig { parameters: Parameters::new(&value) });
    let packet = craft::packet(pair.header(1 - to), |packet| packet.chunk(&chunk));
    let answers = pair.answers(to, packet);
    let mut shown = Vec::new();
    for answer in &answers {
        let packet = anabranch_wire::Packet::parse(answer).unwrap();
        for chunk in packet.chunks().map_while(Result::ok) {
            if matches!(chunk.kind, kind::RE_CONFIG | kind::ERROR | kind::ABORT) {
                shown.push(chunk.decode().unwrap().to_string());
            }
        }
    }
    shown
}

/// The number of the next request to a node, and the last TSN of the peer.
fn numbers(pair: &Pair, to: usize) -> (u32, Tsn) {
    let last = pair.association(to).unwrap().cumulative_tsn();
    (last.wrapping_add(1), Tsn(last))
}
