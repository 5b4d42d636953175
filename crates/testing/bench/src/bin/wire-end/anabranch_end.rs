//! This project's SCTP over UDP.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anabranch::seal::{Allow, Invitation, Seal, SecretKey, Uplink};
use anabranch::{
    Association, AssociationConfig, ConnectOptions, Encapsulation, Endpoint, OutgoingMessage, Ppid,
};
use bytes::Bytes;
use serde_json::json;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use crate::measure::{self, Meter, Pings};
use crate::options::{Options, Transport};
use crate::{IP_MTU, Result};

/// The server's SCTP port.
const PORT: u16 = 7;

const SERVER: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

/// The client uses another address, because a raw socket gets all packets for its address.
const CLIENT: IpAddr = IpAddr::V4(Ipv4Addr::new(127, 0, 0, 2));

/// Concurrent handshakes of a client with many associations.
const HANDSHAKES: usize = 256;

/// Bytes that each of many associations transfers in either direction.
const EACH: usize = 10_000;

/// Duration of the CPU measurement of idle associations.
const IDLE: Duration = Duration::from_secs(5);

/// How long an end with busy polling stays awake after a packet.
const BUSY: Duration = Duration::from_millis(1);

/// The key of a sealed server, which its clients know.
fn server_key() -> SecretKey {
    SecretKey::from_bytes([2; 32])
}

/// An endpoint that listens on a free UDP port.
fn server(transport: Transport) -> Result<Endpoint> {
    if transport != Transport::Sealed {
        return endpoint(SERVER, transport);
    }
    let seal = Seal::listen(server_key(), [(SERVER, 0).into()]).allow(Allow::Any);
    Ok(Endpoint::builder().seal(seal).bind()?)
}

/// An endpoint that connects to the peer of these options.
fn client(options: &Options) -> Result<Endpoint> {
    if options.transport != Transport::Sealed {
        return endpoint(CLIENT, options.transport);
    }
    let line = Invitation::new(server_key().public(), [(SERVER, options.port).into()]);
    let seal = Seal::connect(SecretKey::generate()?, &line).uplinks([Uplink::address(CLIENT)]);
    Ok(Endpoint::builder().seal(seal).bind()?)
}

fn endpoint(address: IpAddr, transport: Transport) -> Result<Endpoint> {
    let builder = Endpoint::builder().local_addresses([address]).udp_port(0);
    let builder = match transport {
        Transport::Native => builder.encapsulation(Encapsulation::Ip),
        Transport::Busy => builder.busy_poll(BUSY),
        _ => builder,
    };
    Ok(builder.bind()?)
}

fn config() -> AssociationConfig {
    let mut config = AssociationConfig::default();
    config.mtu.max = IP_MTU;
    config
}

async fn connect(endpoint: &Endpoint, options: &Options) -> Result<Association> {
    let mut connect = ConnectOptions::from(config());
    connect.remote_udp_port = options.port;
    Ok(match options.transport {
        Transport::Sealed => endpoint.connect(server_key().public().remotes(PORT), connect).await?,
        _ => endpoint.connect((SERVER, PORT), connect).await?,
    })
}

/// Number of datagrams per system call.
fn batching(endpoint: &Endpoint) -> serde_json::Value {
    let totals = endpoint.statistics();
    let per = |datagrams: u64, calls: u64| datagrams as f64 / calls.max(1) as f64;
    json!({
        "datagrams_per_send": per(totals.datagrams_sent, totals.send_calls),
        "datagrams_per_batch": per(totals.datagrams_received, totals.batches_received),
    })
}

/// Receives everything on `associations` associations.
pub(crate) async fn sink(options: &Options) -> Result<()> {
    let endpoint = server(options.transport)?;
    let listener = endpoint.listen(PORT, config())?;
    measure::listening(endpoint.udp_port())?;
    let mut all = JoinSet::new();
    for _ in 0..options.associations {
        let association = listener.accept().await.ok_or("the endpoint was closed")?;
        all.spawn(async move {
            let mut meter = Meter::default();
            while let Some(message) = association.recv().await? {
                meter.add(message.payload.len());
            }
            meter.stop();
            association.closed().await?;
            Result::Ok(meter)
        });
    }
    let mut meters = Vec::new();
    while let Some(meter) = all.join_next().await {
        meters.push(meter??);
    }
    let mut more = batching(&endpoint);
    more["jain"] = jain(&meters.iter().map(Meter::rate).collect::<Vec<_>>()).into();
    // With several associations their rates matter, not this report.
    meters.first().ok_or("no association")?.report_with(&more);
    endpoint.close().await;
    Ok(())
}

/// Jain's fairness index: 1 if all have the same, 1/n if one has everything.
fn jain(rates: &[f64]) -> f64 {
    let (sum, squares): (f64, f64) =
        (rates.iter().sum(), rates.iter().map(|rate| rate * rate).sum());
    sum * sum / (rates.len() as f64 * squares)
}

/// Sends messages for a while on `associations` associations simultaneously.
pub(crate) async fn source(options: &Options) -> Result<()> {
    let endpoint = client(options)?;
    let mut associations = Vec::new();
    for _ in 0..options.associations {
        associations.push(connect(&endpoint, options).await?);
    }
    let data = Bytes::from(vec![0x5a; options.size]);
    let mut all = JoinSet::new();
    for association in associations {
        let (data, duration) = (data.clone(), options.duration);
        all.spawn(async move {
            let mut meter = Meter::started();
            while meter.elapsed() < duration {
                for _ in 0..16 {
                    association.send(OutgoingMessage::new(0, Ppid(0), data.clone())).await?;
                    meter.add(data.len());
                }
            }
            association.close().await?;
            meter.stop();
            Result::Ok(meter)
        });
    }
    let mut first = None;
    while let Some(meter) = all.join_next().await {
        first.get_or_insert(meter??);
    }
    first.ok_or("no association")?.report_with(&batching(&endpoint));
    endpoint.close().await;
    Ok(())
}

/// Returns every message of every association until one of them ends.
pub(crate) async fn echo(transport: Transport) -> Result<()> {
    let endpoint = endpoint(SERVER, transport)?;
    let listener = endpoint.listen(PORT, config())?;
    measure::listening(endpoint.udp_port())?;
    let mut all = JoinSet::new();
    loop {
        tokio::select! {
            association = listener.accept() => {
                let association = association.ok_or("the endpoint was closed")?;
                all.spawn(echo_one(association));
            }
            Some(ended) = all.join_next() => {
                measure::memory(0.0, 0.0)?;
                return ended?;
            }
        }
    }
}

async fn echo_one(association: Association) -> Result<()> {
    while let Some(message) = association.recv().await? {
        let (stream, ppid) = (message.stream, message.ppid);
        let data = message.payload.into_bytes();
        association.send(OutgoingMessage::new(stream, ppid, data)).await?;
    }
    Ok(association.closed().await?)
}

/// Connects many associations and transfers some data in both directions on each of them.
async fn many(endpoint: &Endpoint, options: &Options) -> Result<Vec<Association>> {
    let places = Arc::new(Semaphore::new(HANDSHAKES));
    let data = Bytes::from(vec![0x5a; EACH]);
    let mut all = JoinSet::new();
    for _ in 0..options.associations {
        let place = places.clone().acquire_owned().await?;
        let mut connect = ConnectOptions::from(config());
        connect.remote_udp_port = options.port;
        let (endpoint, data) = (endpoint.clone(), data.clone());
        all.spawn(async move {
            let association = endpoint.connect((SERVER, PORT), connect).await?;
            association.send(OutgoingMessage::new(0, Ppid(0), data)).await?;
            let mut left = EACH;
            while left > 0 {
                let message = association.recv().await?.ok_or("the peer ended")?;
                left = left.checked_sub(message.payload.len()).ok_or("more than was sent")?;
            }
            drop(place);
            Result::Ok(association)
        });
    }
    let mut associations = Vec::with_capacity(options.associations);
    while let Some(association) = all.join_next().await {
        associations.push(association??);
    }
    Ok(associations)
}

/// Measures time and memory of many associations, and the CPU time while they are idle.
pub(crate) async fn crowd(options: &Options) -> Result<()> {
    let endpoint = endpoint(CLIENT, options.transport)?;
    let meter = Meter::started();
    let associations = many(&endpoint, options).await?;
    let seconds = meter.elapsed().as_secs_f64();
    let before = measure::cpu();
    tokio::time::sleep(IDLE).await;
    measure::memory(seconds, (measure::cpu() - before) / IDLE.as_secs_f64())?;
    let last = associations.last().ok_or("no association")?;
    Ok(last.close().await?)
}

/// Measures round trips with idle associations in addition.
pub(crate) async fn ping(options: &Options) -> Result<()> {
    let endpoint = endpoint(CLIENT, options.transport)?;
    let others = Options { associations: options.associations - 1, ..*options };
    let idle = many(&endpoint, &others).await?;
    let association = connect(&endpoint, options).await?;
    let data = Bytes::from(vec![0x5a; options.size]);
    let count = options.count;
    let user = association.clone();
    // Run in a separate task, like a program's work on a multi-threaded runtime.
    let pings = tokio::spawn(async move {
        let mut pings = Pings::new(count);
        for _ in 0..count {
            let start = Instant::now();
            user.send(OutgoingMessage::new(0, Ppid(0), data.clone())).await?;
            user.recv().await?.ok_or("the peer ended")?;
            pings.add(start.elapsed());
        }
        Result::Ok(pings)
    });
    pings.await??.report();
    association.close().await?;
    // The idle associations end with the process.
    std::mem::forget(idle);
    Ok(())
}
