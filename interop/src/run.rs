//! Builds the peers, runs the lanes in parallel and collects their reports.

use std::process::Stdio;
use std::sync::Arc;

use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::sync::Semaphore;

use crate::cases::Case;
use crate::lane::{Family, Outcome, Report, Transport, isolated, no_unshare};
use crate::peer::Kind;
use crate::{Selection, net, table};

/// A lane to run.
struct Planned {
    kind: Kind,
    transport: Transport,
    family: Family,
    program: String,
}

/// Runs the selection. Returns whether nothing failed.
pub(crate) fn run(selection: &Selection, jobs: usize, json: bool) -> Result<bool, String> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|e| e.to_string())?;
    runtime.block_on(async {
        let cases = or_all(&selection.case, &Case::ALL);
        let (lanes, missing) = plan(selection).await?;
        let places = Arc::new(Semaphore::new(jobs.max(1)));
        let mut running = Vec::new();
        for lane in lanes {
            let (places, cases) = (places.clone(), cases.clone());
            running.push(tokio::spawn(async move {
                let _place = places.acquire_owned().await;
                run_lane(&lane, &cases, json).await
            }));
        }
        let mut reports = Vec::new();
        for lane in running {
            reports.extend(lane.await.map_err(|e| e.to_string())?);
        }
        if !json {
            print!("{}", table::render(&reports, &cases));
        }
        for what in &missing {
            eprintln!("skipped: {what}");
        }
        let failed = reports.iter().any(|report| report.outcome == Outcome::Failed);
        Ok(!failed && (missing.is_empty() || !is_all_required()))
    })
}

/// Whether a missing peer is a failure.
pub(crate) fn is_all_required() -> bool {
    std::env::var("ANABRANCH_REQUIRE_ALL").is_ok_and(|value| value == "1")
}

/// Checks that lanes can have their own namespaces here. The error says why not.
pub(crate) async fn can_unshare() -> Result<(), String> {
    let tried = net::run("unshare", &["-n", "-m", "true"]).await;
    tried.map(|_| ()).map_err(|error| format!("no namespaces here (they need root): {error}"))
}

fn or_all<T: Clone>(some: &[T], all: &[T]) -> Vec<T> {
    if some.is_empty() { all.to_vec() } else { some.to_vec() }
}

/// The lanes to run, and what other lanes lack.
async fn plan(selection: &Selection) -> Result<(Vec<Planned>, Vec<String>), String> {
    let (mut lanes, mut missing) = (Vec::new(), Vec::new());
    if let Err(error) = can_unshare().await {
        return Ok((lanes, vec![error]));
    }
    for kind in or_all(&selection.peer, &Kind::ALL) {
        let program = match kind.build().await {
            Ok(program) => program,
            Err(error) => {
                missing.push(format!("{}: {error}", kind.name()));
                continue;
            }
        };
        for transport in or_all(&selection.transport, &Transport::ALL) {
            if transport == Transport::Native && kind.is_webrtc() {
                continue;
            }
            for family in or_all(&selection.family, &Family::ALL) {
                lanes.push(Planned { kind, transport, family, program: program.clone() });
            }
        }
    }
    Ok((lanes, missing))
}

/// Runs a lane in its own namespaces. All its processes end with it.
async fn run_lane(lane: &Planned, cases: &[Case], json: bool) -> Vec<Report> {
    let mut reports = Vec::new();
    let error = match gather(lane, cases, json, &mut reports).await {
        Ok(()) => "the lane ended early".to_string(),
        Err(error) => error,
    };
    for case in cases {
        if !reports.iter().any(|report| report.case == case.name()) {
            reports.push(Report {
                peer: lane.kind.name().into(),
                transport: lane.transport.name().into(),
                family: lane.family.name().into(),
                case: case.name().into(),
                outcome: Outcome::Failed,
                detail: error.clone(),
                seconds: 0.0,
            });
        }
    }
    reports
}

async fn gather(
    lane: &Planned,
    cases: &[Case],
    json: bool,
    reports: &mut Vec<Report>,
) -> Result<(), String> {
    let mut command = isolated("lane", lane.kind, lane.transport, lane.family, &lane.program)?;
    let cases: Vec<&str> = cases.iter().map(|case| case.name()).collect();
    let mut child = command
        .args(["--case", &cases.join(",")])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(no_unshare)?;
    let output = child.stdout.take().ok_or("no output")?;
    let errors = child.stderr.take().ok_or("no output")?;
    let (transport, family) = (lane.transport.name(), lane.family.name());
    let label = format!("{} {transport} {family}", lane.kind.name());
    let listen = async {
        let mut lines = BufReader::new(output).lines();
        while let Ok(Some(line)) = lines.next_line().await {
            if let Ok(report) = serde_json::from_str::<Report>(&line) {
                if report.outcome == Outcome::Failed {
                    eprintln!("{label}, {}: {}", report.case, report.detail);
                }
                if json {
                    println!("{line}");
                }
                reports.push(report);
            }
        }
    };
    let complain = async {
        let mut last = String::new();
        let mut lines = BufReader::new(errors).lines();
        while let Ok(Some(line)) = lines.next_line().await {
            eprintln!("{label}: {line}");
            last = line;
        }
        last
    };
    let ((), last) = tokio::join!(listen, complain);
    let status = child.wait().await.map_err(|e| e.to_string())?;
    if status.success() { Ok(()) } else { Err(last) }
}
