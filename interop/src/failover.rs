//! Two paths, each cut and repaired in turn while data goes both ways: how long it takes to go on
//! over the other path, and to come back.

use std::collections::VecDeque;
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

use anabranch::{Association, PathState};
use serde::{Deserialize, Serialize};
use tokio::process::Command;

use crate::cases::meeting::Meeting;
use crate::cases::paths;
use crate::lane::{self, Family, Lane, PROGRAM, Transport};
use crate::peer::Kind;
use crate::plan::{self, Expected, Planned};
use crate::side::{self, Setting};
use crate::{Selection, chart, net};

/// Path.Max.Retrans of the runs.
const LIMITS: [u32; 3] = [0, 1, 5];

/// Time between two samples.
const SAMPLE: Duration = Duration::from_millis(100);

/// What is sent every 5 ms: 2 MB/s each way.
const BURST: [usize; 2] = [5000; 2];

/// When the paths are cut and for how long, and how long they are whole after it.
const CUT: Duration = Duration::from_secs(7);
const WHOLE: Duration = Duration::from_secs(4);

/// One run.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Run {
    /// Path.Max.Retrans.
    pub(crate) limit: u32,
    /// Every tenth of a second: out and in over path 0, out and in over path 1, in MB/s.
    pub(crate) samples: Vec<[f64; 4]>,
    pub(crate) cuts: Vec<Cut>,
    /// Messages that came back, each compared.
    pub(crate) messages: usize,
}

/// One path, cut and repaired. All in seconds.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Cut {
    pub(crate) link: u8,
    /// Since the start.
    pub(crate) at: f64,
    /// Since the start.
    pub(crate) repaired: f64,
    /// Longest time without a message that came back, while it was cut.
    pub(crate) pause: f64,
    /// From the cut until the path was inactive.
    pub(crate) inactive: f64,
    /// From the repair until the path was active.
    pub(crate) active: f64,
}

/// Runs everything, prints the times and draws the chart.
pub(crate) fn run(kind: Kind, transport: Transport, svg: &Path) -> Result<(), String> {
    let script = kind.build_script().filter(|_| !kind.is_webrtc());
    let script = script.ok_or("this peer has a single path")?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|e| e.to_string())?;
    let runs = runtime.block_on(async {
        let output = net::run(script, &[]).await?;
        let program = output.lines().last().unwrap_or_default();
        let [a, b, c] = LIMITS.map(|limit| spawn(kind, transport, limit, program));
        let (a, b, c) = tokio::try_join!(a, b, c)?;
        Ok::<_, String>([a, b, c])
    })?;
    println!("PMR  path  longest pause  inactive after  active after repair");
    for run in &runs {
        for cut in &run.cuts {
            println!(
                "{:<5}{:<6}{:>10.2} s {:>13.2} s {:>18.2} s",
                run.limit, cut.link, cut.pause, cut.inactive, cut.active
            );
        }
        println!("     {} messages there and back, none lost or changed", run.messages);
    }
    let title = format!("{} over {}", kind.name(), transport.name());
    std::fs::write(svg, chart::draw(&title, &runs)).map_err(|e| format!("{}: {e}", svg.display()))
}

async fn spawn(kind: Kind, transport: Transport, limit: u32, program: &str) -> Result<Run, String> {
    let own = std::env::current_exe().map_err(|e| e.to_string())?;
    let output = Command::new("unshare")
        .args(["--net", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"])
        .arg(own)
        .args(["failover-lane", "--peer", kind.name(), "--transport", transport.name()])
        .args(["--family", Family::V4.name(), "--pmr", &limit.to_string()])
        .env(PROGRAM, program)
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .kill_on_drop(true)
        .output()
        .await
        .map_err(|e| format!("unshare: {e}"))?;
    serde_json::from_slice(&output.stdout).map_err(|_| format!("the run with PMR {limit} failed"))
}

/// One run within this process's namespaces.
pub(crate) fn lane(selection: &Selection, limit: u32) -> Result<(), String> {
    let run = lane::within(selection, async |lane| measure(&lane, limit).await)?;
    println!("{}", serde_json::to_string(&run).map_err(|e| e.to_string())?);
    Ok(())
}

async fn measure(lane: &Lane, limit: u32) -> Result<Run, String> {
    let mut config = side::config();
    config.path_max_retrans = limit;
    config.rto_max = Duration::from_secs(1);
    let setting = Setting { links: &[0, 1], config, ..Setting::default() };
    let meeting = Meeting::ours(lane, 0, setting).await?;
    let association = &meeting.association;
    for link in [0, 1] {
        paths::state(lane, association, link, PathState::Active).await?;
    }
    let begun = Instant::now();
    let mut arrivals: Vec<f64> = Vec::new();
    let mut samples = Vec::new();
    let (stop, stopped) = tokio::sync::watch::channel(false);
    let (queue, mut sent) = tokio::sync::mpsc::unbounded_channel::<Planned>();
    let send = async {
        let mut index = 0;
        while !*stopped.borrow() {
            for length in BURST {
                let data = plan::pattern(length, 16, index);
                let planned = Planned { stream: 0, ppid: index as u32, data };
                index += 1;
                // Known to the receiver before it can come back.
                let _ = queue.send(planned.clone());
                association.send(planned.outgoing()).await.map_err(|e| format!("send: {e}"))?;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        drop(queue);
        Ok::<(), String>(())
    };
    let receive = async {
        let mut waiting = VecDeque::new();
        let mut expected = Expected::new(true);
        while let Some(planned) = sent.recv().await {
            waiting.push_back(planned);
            expected.add(waiting.make_contiguous());
            waiting.clear();
            side::receive(association, &mut expected).await?;
            arrivals.push(begun.elapsed().as_secs_f64());
        }
        Ok::<(), String>(())
    };
    let sample = async {
        let mut before = counters(lane, association)?;
        while !*stopped.borrow() {
            tokio::time::sleep(SAMPLE).await;
            let after = counters(lane, association)?;
            let rate = |i: usize| (after[i] - before[i]) as f64 / SAMPLE.as_secs_f64() / 1e6;
            samples.push([rate(0), rate(1), rate(2), rate(3)]);
            before = after;
        }
        Ok::<(), String>(())
    };
    let cut = async {
        let mut cuts = Vec::new();
        tokio::time::sleep(WHOLE / 2).await;
        for link in [0, 1] {
            let at = Instant::now();
            let inactive = async {
                paths::state(lane, association, link, PathState::Inactive).await?;
                Ok(at.elapsed().as_secs_f64())
            };
            let ((), inactive) = tokio::try_join!(lane.set_cut(link, true), inactive)?;
            tokio::time::sleep(CUT.saturating_sub(at.elapsed())).await;
            let repaired = Instant::now();
            let active = async {
                paths::state(lane, association, link, PathState::Active).await?;
                Ok(repaired.elapsed().as_secs_f64())
            };
            let ((), active) = tokio::try_join!(lane.set_cut(link, false), active)?;
            tokio::time::sleep(WHOLE.saturating_sub(repaired.elapsed())).await;
            let since = |instant: Instant| (instant - begun).as_secs_f64();
            let (at, repaired) = (since(at), since(repaired));
            cuts.push(Cut { link, at, repaired, pause: 0.0, inactive, active });
        }
        stop.send_replace(true);
        Ok::<_, String>(cuts)
    };
    let ((), (), (), mut cuts) = tokio::try_join!(send, receive, sample, cut)?;
    for cut in &mut cuts {
        let gaps = arrivals.windows(2).filter(|pair| pair[1] >= cut.at && pair[0] <= cut.repaired);
        cut.pause = gaps.map(|pair| pair[1] - pair[0]).fold(0.0, f64::max);
    }
    meeting.part().await?;
    Ok(Run { limit, samples, cuts, messages: arrivals.len() })
}

/// User bytes out and in over path 0, out and in over path 1.
fn counters(lane: &Lane, association: &Association) -> Result<[u64; 4], String> {
    let statistics = association.statistics().ok_or("the endpoint closed")?;
    let mut counters = [0; 4];
    for path in &statistics.paths {
        for link in [0, 1] {
            if path.remote == net::far(lane.family, link) {
                let at = 2 * usize::from(link);
                counters[at] += path.data_bytes_sent;
                counters[at + 1] += path.data_bytes_received;
            }
        }
    }
    Ok(counters)
}
