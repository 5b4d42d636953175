//! Measures what explicit congestion notification does for an association with another stack on a bottleneck of
//! 10 Mb/s, with this side and with the peer as the sender.

use std::time::{Duration, Instant};

use anabranch::impair::LinkStats;
use anabranch::impair::file::{Direction, ImpairmentFile};
use anabranch::{OutgoingMessage, Ppid};
use bytes::Bytes;

use crate::Selection;
use crate::cases::meeting::Meeting;
use crate::lane::{self, Family, Lane, Transport, isolated, no_unshare};
use crate::peer::Kind;
use crate::side::{self, Setting};

/// Duration of each measurement.
const WINDOW: Duration = Duration::from_secs(15);

/// Interval between two looks at the round-trip time.
const LOOK: Duration = Duration::from_millis(100);

/// Bytes of a message: it fills a packet.
const MESSAGE: usize = 1400;

/// Both ways: 10 Mb/s, a round trip of 50 ms, room for 200 packets.
fn impairment(discipline: &str, marks: bool) -> Result<ImpairmentFile, String> {
    let thresholds = match discipline {
        "red" => "min = \"15 packets\", max = \"60 packets\", weight = \"1 %\", ",
        _ => "",
    };
    let text = format!(
        "[[path]]\ndelay_ms = 25\nrate = \"10 Mb/s\"\nqueue = \"200 packets\"\n\
         discipline = \"{discipline}\"\n{discipline} = {{ {thresholds}ecn = {marks} }}\n"
    );
    text.parse().map_err(|e| format!("impairment: {e}"))
}

/// Measures everything and prints a table.
pub(crate) fn run(kind: Kind, transport: Transport) -> Result<(), String> {
    if kind.is_webrtc() {
        return Err("this peer does not know ECN".to_owned());
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|e| e.to_string())?;
    runtime.block_on(async {
        let program = kind.build().await?;
        println!("queue  sender     ECN   Mb/s  dropped   marked  longest queue  round trip");
        let mut lane = isolated("bottleneck-lane", kind, transport, Family::V4, &program)?;
        let status = lane.status().await.map_err(no_unshare)?;
        if status.success() { Ok(()) } else { Err("the run failed".to_owned()) }
    })
}

/// All measurements, within this process's namespaces.
pub(crate) fn lane(selection: &Selection) -> Result<(), String> {
    lane::within(selection, async |lane| {
        let mut slot = 0;
        for discipline in ["red", "codel"] {
            for ours in [true, false] {
                for marks in [false, true] {
                    let measured = measure(&lane, slot, (discipline, marks), ours).await?;
                    let sender = if ours { "anabranch" } else { lane.kind.name() };
                    println!(
                        "{discipline:<6} {sender:<9} {:>4} {measured}",
                        if marks { "yes" } else { "no" }
                    );
                    slot += 1;
                }
            }
        }
        Ok(())
    })
}

/// The rest of a row: user data in Mb/s, shares of the packets of the sender's direction that the queue dropped and
/// marked, the longest queue in packets, the median of the smoothed round-trip times.
async fn measure(
    lane: &Lane,
    slot: u16,
    (discipline, marks): (&str, bool),
    ours: bool,
) -> Result<String, String> {
    let impairment = impairment(discipline, marks)?;
    let mut setting = Setting { impairment: Some(&impairment), ..Setting::default() };
    setting.config.congestion.ecn = marks;
    // The round-trip time of a peer's queue is measured by heartbeats only.
    setting.config.timers.heartbeat_interval = Some(Duration::from_millis(100));
    // Of the associations that Linux 6.1 accepts, half do not react to marks: docs/ecn.md.
    let meeting = Meeting::begun(lane, slot, setting, ours).await?;
    let order = if ours { "sink".to_owned() } else { format!("source 1000000 {MESSAGE} 1 1") };
    side::command(&meeting.association, &order).await?;
    let (begun, mut bytes, mut looks) = (Instant::now(), 0, Vec::new());
    let mut look = tokio::time::interval(LOOK);
    let message = Bytes::from_static(&[7; MESSAGE]);
    while begun.elapsed() < WINDOW {
        tokio::select! {
            _ = look.tick() => {
                looks.extend(meeting.association.statistics().paths.iter().filter_map(|path| path.srtt));
            }
            sent = meeting.association.send(OutgoingMessage::new(0, Ppid(0), message.clone())), if ours => {
                sent.map_err(|e| format!("send: {e}"))?;
                bytes += MESSAGE;
            }
            received = meeting.association.recv(), if !ours => {
                let received = received.map_err(|e| e.to_string())?;
                bytes += received.ok_or("the peer shut down")?.payload.len();
            }
        }
    }
    let seconds = begun.elapsed().as_secs_f64();
    let statistics = meeting.association.statistics();
    if ours {
        bytes = bytes.saturating_sub(statistics.send_queue_bytes + statistics.outstanding_bytes);
    }
    let links = meeting.side.impaired.as_ref().map(|impaired| impaired.links()).unwrap_or_default();
    let way = if ours { Direction::Send } else { Direction::Receive };
    let link = links.iter().find(|link| link.direction == way).ok_or("no packets in a link")?;
    let LinkStats { offered, early_drops, queue_drops, marked, max_queue_packets, .. } =
        link.statistics;
    let share = |packets: u64| 100.0 * packets as f64 / offered.max(1) as f64;
    looks.sort_unstable();
    let median = looks.get(looks.len() / 2).copied().unwrap_or_default();
    meeting.association.abort(b"done");
    meeting.leave().await;
    Ok(format!(
        "{:>6.2}  {:>5.2} %  {:>5.2} %  {max_queue_packets:>13}  {:>7.0} ms",
        bytes as f64 * 8e-6 / seconds,
        share(early_drops + queue_drops),
        share(marked),
        median.as_secs_f64() * 1e3,
    ))
}
