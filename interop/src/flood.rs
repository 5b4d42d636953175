//! Measures the goodput of an association while another host floods its endpoint.

use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::process::Stdio;
use std::time::{Duration, Instant};

use anabranch_wire::{Header, PacketWriter, kind};
use clap::{Args, ValueEnum};
use socket2::{Domain, Protocol, Socket, Type};
use tokio::process::Command;

use crate::cases::meeting::Meeting;
use crate::lane::{self, Family, Lane, Transport, isolated, no_unshare};
use crate::peer::Kind;
use crate::side::{self, Setting};
use crate::{Selection, net};

/// Duration of each measurement.
const WINDOW: Duration = Duration::from_secs(2);

/// Number of different packets in a flood.
const PACKETS: usize = 4096;

/// Protocol number of SCTP.
const SCTP: i32 = 132;

/// The packets of a flood.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Flood {
    /// INIT with valid checksums from random ports.
    Init,
    /// Random bytes.
    Random,
    /// DATA for the association with wrong verification tags.
    Tags,
}

/// Options of the flooding process.
#[derive(Args)]
pub(crate) struct Options {
    #[arg(long, value_enum)]
    kind: Flood,
    #[arg(long, value_enum)]
    transport: Transport,
    /// The endpoint, with its UDP port.
    #[arg(long)]
    to: SocketAddr,
    /// SCTP port of both sides of the association.
    #[arg(long)]
    port: u16,
}

fn packet(options: &Options) -> Vec<u8> {
    if options.kind == Flood::Random {
        return std::iter::repeat_with(|| fastrand::u8(..))
            .take(fastrand::usize(1..1400))
            .collect();
    }
    let init = options.kind == Flood::Init;
    let header = Header {
        source_port: if init { fastrand::u16(1..) } else { options.port },
        destination_port: options.port,
        verification_tag: if init { 0 } else { fastrand::u32(1..) },
    };
    let mut bytes = Vec::new();
    let mut writer = PacketWriter::new(&mut bytes, header, 1400);
    if init {
        let mut value = Vec::new();
        value.extend_from_slice(&fastrand::u32(1..).to_be_bytes());
        value.extend_from_slice(&100_000_u32.to_be_bytes());
        value.extend_from_slice(&[0, 10, 0, 10]);
        value.extend_from_slice(&fastrand::u32(..).to_be_bytes());
        let _ = writer.raw(kind::INIT, 0, &value);
    } else {
        let _ = writer.raw(kind::DATA, 3, &[7; 1000]);
    }
    writer.finish();
    bytes
}

/// Sends as fast as it can until it is killed.
pub(crate) fn send(options: &Options) -> Result<(), String> {
    let packets: Vec<Vec<u8>> = (0..PACKETS).map(|_| packet(options)).collect();
    let error = |e: std::io::Error| format!("flood: {e}");
    let raw = match options.transport {
        Transport::Native => {
            let domain = Domain::for_address(options.to);
            Some(Socket::new(domain, Type::RAW, Some(Protocol::from(SCTP))).map_err(error)?)
        }
        Transport::Udp => None,
    };
    let any: IpAddr = if options.to.is_ipv4() { [0; 4].into() } else { [0_u16; 8].into() };
    let udp = UdpSocket::bind((any, 0)).map_err(error)?;
    let mut sent = 0_u64;
    let begun = Instant::now();
    loop {
        for packet in &packets {
            // Packets dropped by the host's own queues do not count.
            let done = match &raw {
                Some(raw) => raw.send_to(packet, &SocketAddr::new(options.to.ip(), 0).into()),
                None => udp.send_to(packet, options.to),
            };
            sent += u64::from(done.is_ok());
        }
        if begun.elapsed() > WINDOW {
            println!("{:.0}", sent as f64 / begun.elapsed().as_secs_f64());
            return Ok(());
        }
    }
}

/// Runs all floods over both transports, with usrsctp as the peer, and prints the results.
pub(crate) fn run() -> Result<(), String> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|e| e.to_string())?;
    runtime.block_on(async {
        let program = Kind::Usrsctp.build().await?;
        println!("over    flood   packets/s  goodput MB/s  alone MB/s  share");
        for transport in Transport::ALL {
            let mut lane = isolated("flood-lane", Kind::Usrsctp, transport, Family::V4, &program)?;
            let status = lane.status().await.map_err(no_unshare)?;
            if !status.success() {
                return Err(format!("the run over {} failed", transport.name()));
            }
        }
        Ok(())
    })
}

/// All floods over one transport, within this process's namespaces.
pub(crate) fn lane(selection: &Selection) -> Result<(), String> {
    lane::within(selection, async |lane| measure(&lane).await)
}

async fn measure(lane: &Lane) -> Result<(), String> {
    let meeting = Meeting::ours(lane, 0, Setting::default()).await?;
    let _listener = meeting.side.listen()?;
    side::command(&meeting.association, "source 100000000 16384 1 1").await?;
    goodput(&meeting).await?;
    for flood in Flood::value_variants() {
        let alone = goodput(&meeting).await?;
        let name = flood.to_possible_value().ok_or("no such flood")?.get_name().to_string();
        let own = std::env::current_exe().map_err(|e| e.to_string())?;
        let to = SocketAddr::new(net::near(lane.family, 0), lane.our_udp_port(0));
        let flooding = Command::new("ip")
            .args(["netns", "exec", "peer"])
            .arg(own)
            .args(["flooder", "--kind", &name, "--transport", lane.transport.name()])
            .args(["--to", &to.to_string(), "--port", &lane.sctp_port(0).to_string()])
            .stdin(Stdio::null())
            .kill_on_drop(true)
            .output();
        let (flooding, flooded) = tokio::join!(flooding, goodput(&meeting));
        let flooding = flooding.map_err(|e| format!("flooder: {e}"))?;
        let rate = String::from_utf8_lossy(&flooding.stdout).trim().to_string();
        let flooded = flooded?;
        let (transport, share) = (lane.transport.name(), flooded / alone);
        println!("{transport:<8}{name:<8}{rate:>9}{flooded:>14.1}{alone:>12.1}{share:>7.2}");
    }
    meeting.association.abort(b"done");
    meeting.leave().await;
    Ok(())
}

/// Received MB/s.
async fn goodput(meeting: &Meeting) -> Result<f64, String> {
    let begun = Instant::now();
    let mut bytes = 0;
    while begun.elapsed() < WINDOW {
        let message = meeting.association.recv().await.map_err(|e| e.to_string())?;
        bytes += message.ok_or("the peer shut down")?.payload.len();
    }
    Ok(bytes as f64 / begun.elapsed().as_secs_f64() / 1e6)
}
