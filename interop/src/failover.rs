//! Runs `anabranch perf` in both directions over two paths, and cuts and repairs each in turn. Measures
//! how long it takes to continue over the other path, and to return.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use crate::client::{Client, Interval, Summary};
use crate::lane::{self, Family, Lane, Transport, isolated, no_unshare};
use crate::peer::{Kind, Mode};
use crate::side::{self, Setting};
use crate::{Selection, chart, net};

/// Path.Max.Retrans of the runs.
const LIMITS: [u32; 3] = [0, 1, 5];

/// Points of the chart per second.
pub(crate) const POINTS: f64 = 10.0;

/// How long each path is cut, and how long it then works before the next cut.
const CUT: Duration = Duration::from_secs(7);
const WHOLE: Duration = Duration::from_secs(4);

/// How long data is sent: a little longer than all cuts take.
const SENDING: Duration = Duration::from_secs(26);

/// One run.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Run {
    /// Path.Max.Retrans.
    pub(crate) limit: u32,
    /// User data in MB/s, [`POINTS`] per second: sent and received over path 0, then over path 1.
    pub(crate) samples: Vec<[f64; 4]>,
    pub(crate) cuts: Vec<Cut>,
    /// Number of messages sent, and received.
    pub(crate) messages: [u64; 2],
    /// Bits per second over the whole run, sent and received.
    pub(crate) rates: [f64; 2],
}

/// One path, cut and repaired. All times are in seconds; `None` if it did not happen.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Cut {
    pub(crate) link: u8,
    /// Since the association was set up.
    pub(crate) at: f64,
    /// Since the association was set up.
    pub(crate) repaired: f64,
    /// Sent data, and received data.
    pub(crate) directions: [Detour; 2],
    /// From the cut until the path was inactive for this side.
    pub(crate) inactive: Option<f64>,
    /// From the repair until the path was active.
    pub(crate) active: Option<f64>,
}

/// The effect of a cut on the data of one direction.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct Detour {
    /// From the cut until data took the other path.
    pub(crate) over: Option<f64>,
    /// Longest time in which nothing new arrived, as far as this side knew.
    pub(crate) pause: f64,
    /// From the repair until data took this path again.
    pub(crate) back: Option<f64>,
}

/// Runs everything, prints the times and draws the chart.
pub(crate) fn run(kind: Kind, transport: Transport, svg: &Path) -> Result<(), String> {
    if kind.is_webrtc() {
        return Err("this peer has a single path".to_owned());
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|e| e.to_string())?;
    let runs = runtime.block_on(async {
        let mut build = vec!["build", "--quiet", "--locked", "-p", "anabranch-cli"];
        if !cfg!(debug_assertions) {
            build.push("--release");
        }
        net::run("cargo", &build).await?;
        let program = kind.build().await?;
        let mut runs = Vec::new();
        // Sequentially, because each run sends as fast as it can.
        for limit in LIMITS {
            runs.push(spawn(kind, transport, limit, &program).await?);
        }
        Ok::<_, String>(runs)
    })?;
    print!("{}", table(&runs));
    let title = format!("{} over {}", kind.name(), transport.name());
    std::fs::write(svg, chart::draw(&title, &runs)).map_err(|e| format!("{}: {e}", svg.display()))
}

/// The times of all runs, in seconds.
fn table(runs: &[Run]) -> String {
    let mut text = "                 sent                    received\n\
                    PMR  cut path    over   pause    back    over   pause    back  inactive  active\n"
        .to_owned();
    let time = |time: Option<f64>, width: usize| match time {
        Some(seconds) => format!("{seconds:>width$.2}"),
        None => format!("{:>width$}", "-"),
    };
    for run in runs {
        for cut in &run.cuts {
            text.push_str(&format!("{:<5}{:<8}", run.limit, cut.link));
            for Detour { over, pause, back } in cut.directions {
                text.extend([over, Some(pause), back].map(|t| time(t, 8)));
            }
            text.push_str(&format!("{}{}\n", time(cut.inactive, 10), time(cut.active, 8)));
        }
        let ([sent, received], [up, down]) = (run.messages, run.rates);
        text.push_str(&format!(
            "     {sent} messages sent, {received} received, none lost or changed; {:.0} and {:.0} \
             Mb/s with the cuts\n",
            up / 1e6,
            down / 1e6
        ));
    }
    text
}

async fn spawn(kind: Kind, transport: Transport, limit: u32, program: &str) -> Result<Run, String> {
    let mut lane = isolated("failover-lane", kind, transport, Family::V4, program)?;
    let output = lane.args(["--pmr", &limit.to_string()]).output().await.map_err(no_unshare)?;
    serde_json::from_slice(&output.stdout).map_err(|_| {
        let said = String::from_utf8_lossy(&output.stderr);
        format!("the run with PMR {limit} failed: {}", said.trim())
    })
}

/// One run within this process's namespaces.
pub(crate) fn lane(selection: &Selection, limit: u32) -> Result<(), String> {
    let run = lane::within(selection, async |lane| measure(&lane, limit).await)?;
    println!("{}", serde_json::to_string(&run).map_err(|e| e.to_string())?);
    Ok(())
}

async fn measure(lane: &Lane, limit: u32) -> Result<Run, String> {
    let mut config = side::config();
    config.paths.path_max_retrans = limit;
    config.timers.rto_max = Duration::from_secs(1);
    let setting = Setting { links: &[0, 1], mode: Mode::Perf, config, ..Setting::default() };
    let mut peer = setting.start(lane, 0, true).start().await?;
    let mut client = Client::start(&program()?, lane, &setting, SENDING)?;
    let begun = client.connected().await?;
    let (whole, waiting) = tokio::sync::oneshot::channel();
    let cutting = async {
        waiting.await.map_err(|_| "the paths do not become active")?;
        cut_each(lane, begun).await
    };
    let both = |interval: &Interval| [0, 1].iter().all(|&l| is_active(lane.family, interval, l));
    let (cuts, (intervals, summary)) = tokio::try_join!(cutting, client.run(both, whole))?;
    let end = peer.end().await?;
    let [sent, received] = [summary.sent, summary.received].map(Option::unwrap_or_default);
    if end.how != "shutdown" || end.bytes as u64 != sent.bytes {
        return Err(format!(
            "the peer saw '{}' after {} of {} bytes",
            end.how, end.bytes, sent.bytes
        ));
    }
    peer.kill().await;
    let intervals = from_start(intervals, &summary);
    Ok(Run {
        limit,
        samples: samples(lane.family, &intervals),
        cuts: cuts.into_iter().map(|cut| evaluate(lane.family, cut, &intervals)).collect(),
        messages: [sent.messages, received.messages],
        rates: [sent.bits_per_second, received.bits_per_second],
    })
}

/// The program `anabranch`, next to this one.
fn program() -> Result<PathBuf, String> {
    let own = std::env::current_exe().map_err(|e| e.to_string())?;
    Ok(own.with_file_name("anabranch"))
}

/// When a path was cut and repaired, relative to `begun`.
struct Times {
    link: u8,
    at: f64,
    repaired: f64,
}

async fn cut_each(lane: &Lane, begun: Instant) -> Result<Vec<Times>, String> {
    let mut cuts = Vec::new();
    tokio::time::sleep(WHOLE / 2).await;
    for link in [0, 1] {
        let at = Instant::now();
        lane.set_cut(link, true).await?;
        tokio::time::sleep(CUT.saturating_sub(at.elapsed())).await;
        let repaired = Instant::now();
        lane.set_cut(link, false).await?;
        tokio::time::sleep(WHOLE.saturating_sub(repaired.elapsed())).await;
        let since = |instant: Instant| (instant - begun).as_secs_f64();
        cuts.push(Times { link, at: since(at), repaired: since(repaired) });
    }
    Ok(cuts)
}

/// Makes times relative to the setup of the association.
fn from_start(mut intervals: Vec<Interval>, summary: &Summary) -> Vec<Interval> {
    for interval in &mut intervals {
        interval.from_seconds -= summary.connect_seconds;
        interval.to_seconds -= summary.connect_seconds;
    }
    intervals
}

/// Whether the path between the addresses of a link is active.
fn is_active(family: Family, interval: &Interval, link: u8) -> bool {
    let ends = (net::near(family, link), net::far(family, link));
    interval.paths.iter().any(|path| (path.local, path.remote) == ends && path.active > 0)
}

/// User bytes of an interval: sent and received over path 0, then over path 1.
fn bytes(family: Family, interval: &Interval) -> [u64; 4] {
    let mut bytes = [0; 4];
    for path in &interval.paths {
        for link in [0, 1] {
            if path.remote == net::far(family, link) {
                let at = 2 * usize::from(link);
                bytes[at] += path.data_bytes_sent;
                bytes[at + 1] += path.data_bytes_received;
            }
        }
    }
    bytes
}

fn samples(family: Family, intervals: &[Interval]) -> Vec<[f64; 4]> {
    let mut samples: Vec<[f64; 4]> = Vec::new();
    for interval in intervals {
        let middle = (interval.from_seconds + interval.to_seconds) / 2.0;
        let index = (middle.max(0.0) * POINTS) as usize;
        if samples.len() <= index {
            samples.resize(index + 1, [0.0; 4]);
        }
        for (sample, bytes) in samples[index].iter_mut().zip(bytes(family, interval)) {
            *sample += bytes as f64 * POINTS / 1e6;
        }
    }
    samples
}

/// Evaluates the intervals around a cut.
fn evaluate(family: Family, times: Times, intervals: &[Interval]) -> Cut {
    let Times { link, at, repaired } = times;
    let (this, other) = (2 * usize::from(link), 2 * usize::from(1 - link));
    // Data that uses another path anyway does not take a detour.
    let used = |direction: usize| {
        let before = intervals.iter().filter(|i| i.to_seconds <= at && i.to_seconds > at - 1.0);
        before.map(|interval| bytes(family, interval)[this + direction]).sum::<u64>() > 0
    };
    let first = |since: f64, until: f64, happened: &dyn Fn(&Interval) -> bool| {
        let mut after =
            intervals.iter().filter(|i| i.from_seconds >= since && i.to_seconds < until);
        after.find(|interval| happened(interval)).map(|interval| interval.to_seconds - since)
    };
    let active = |interval: &Interval| is_active(family, interval, link);
    let detour = |direction: usize| {
        let over = |at: usize| move |i: &Interval| bytes(family, i)[at + direction] > 0;
        let used = used(direction);
        Detour {
            over: used.then(|| first(at, repaired, &over(other))).flatten(),
            pause: pause(intervals, at, repaired, direction),
            back: used.then(|| first(repaired, f64::MAX, &over(this))).flatten(),
        }
    };
    Cut {
        link,
        at,
        repaired,
        directions: [detour(0), detour(1)],
        inactive: first(at, repaired, &|interval| !active(interval)),
        active: first(repaired, f64::MAX, &active),
    }
}

/// Longest time within a cut without acknowledged data (direction 0) or without received data (1).
fn pause(intervals: &[Interval], at: f64, repaired: f64, direction: usize) -> f64 {
    let (mut longest, mut current) = (0.0_f64, 0.0);
    for interval in intervals.iter().filter(|i| i.to_seconds > at && i.from_seconds < repaired) {
        let new = [interval.bytes_sent, interval.bytes_received][direction];
        let length = interval.to_seconds - interval.from_seconds;
        current = if new == 0 { current + length } else { 0.0 };
        longest = longest.max(current);
    }
    longest
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::PathInterval;

    /// An interval of a tenth of a second with these bytes sent and received over the paths.
    fn interval(tenth: u32, bytes: [u64; 4], active: [u64; 2]) -> Interval {
        let path = |link: u8| PathInterval {
            local: net::near(Family::V4, link),
            remote: net::far(Family::V4, link),
            active: active[usize::from(link)],
            data_bytes_sent: bytes[2 * usize::from(link)],
            data_bytes_received: bytes[2 * usize::from(link) + 1],
        };
        Interval {
            from_seconds: f64::from(tenth) / 10.0,
            to_seconds: f64::from(tenth + 1) / 10.0,
            bytes_sent: bytes[0] + bytes[2],
            bytes_received: bytes[1] + bytes[3],
            paths: vec![path(0), path(1)],
        }
    }

    #[test]
    fn a_cut_is_told_by_what_went_where() {
        // Path 0 is cut from 1 s to 2 s: sent data pauses for 0.3 s, received data for 0.2 s.
        let intervals: Vec<_> = (0..30)
            .map(|tenth| match tenth {
                0..10 => interval(tenth, [5, 5, 0, 0], [1, 1]),
                10..12 => interval(tenth, [0; 4], [1, 1]),
                12 => interval(tenth, [0, 0, 0, 5], [0, 1]),
                13..22 => interval(tenth, [0, 0, 5, 5], [0, 1]),
                _ => interval(tenth, [5, 5, 0, 0], [1, 1]),
            })
            .collect();
        let close = |time: Option<f64>, expected: f64| {
            assert!(time.is_some_and(|time| (time - expected).abs() < 0.02), "{time:?}");
        };
        let cut = evaluate(Family::V4, Times { link: 0, at: 0.99, repaired: 2.0 }, &intervals);
        let [sent, received] = cut.directions;
        close(sent.over, 0.41);
        close(received.over, 0.31);
        close(Some(sent.pause), 0.3);
        close(Some(received.pause), 0.2);
        close(sent.back, 0.3);
        close(received.back, 0.3);
        close(cut.inactive, 0.31);
        close(cut.active, 0.3);
        // Path 1 carries no data before it is cut.
        let cut = evaluate(Family::V4, Times { link: 1, at: 0.5, repaired: 0.9 }, &intervals);
        assert!(cut.directions.iter().all(|d| d.over.is_none() && d.back.is_none()));
        assert!(cut.directions.iter().all(|d| d.pause == 0.0));
        assert_eq!(samples(Family::V4, &intervals)[15], [0.0, 0.0, 5e-5, 5e-5]);
        let run = Run {
            limit: 0,
            samples: Vec::new(),
            cuts: vec![cut],
            messages: [1, 2],
            rates: [0.0; 2],
        };
        assert!(table(&[run]).contains("1 messages sent, 2 received"));
    }
}
