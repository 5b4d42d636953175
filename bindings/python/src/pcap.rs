//! Analysis of captures.

use std::fs::File;
use std::path::PathBuf;
use std::sync::mpsc;

use anabranch_analyze::track::Class;
use anabranch_analyze::{Analysis, FlowReport, Protocol, Signal, Stopped, text};
use anabranch_lab::export::{Column, Values};
use anabranch_wire::kind;
use pyo3::exceptions::{PyOSError, PyValueError};
use pyo3::prelude::*;

use crate::table::Table;

/// The text of a report, the same as JSON, chunks of each type, flows, and where files were damaged.
type Read = (String, String, Vec<(String, u64)>, Table, Vec<String>);

/// Reads captures, one after the other.
#[pyfunction]
pub(crate) fn read_captures(py: Python<'_>, files: Vec<PathBuf>) -> PyResult<Read> {
    py.detach(|| read(&files))
}

fn read(files: &[PathBuf]) -> PyResult<Read> {
    let (sender, receiver) = mpsc::channel();
    // The receiver outlives the analysis.
    let mut analysis = Analysis::new().on_flow(move |flow| drop(sender.send(flow.clone())));
    let mut damaged = Vec::new();
    for path in files {
        let name = path.display();
        let unreadable = |error| PyOSError::new_err(format!("{name} cannot be read: {error}"));
        let file = File::open(path).map_err(unreadable)?;
        let stopped = analysis.read(file);
        let stopped = stopped.map_err(|error| PyValueError::new_err(format!("{name}: {error}")))?;
        if let Stopped::Damaged(at, reason) = stopped {
            damaged.push(format!("{name}, byte {at}: {reason}"));
        }
    }
    let report = analysis.finish();
    let flows: Vec<FlowReport> = receiver.iter().collect();
    let json =
        serde_json::to_string(&report).map_err(|error| PyValueError::new_err(error.to_string()))?;
    let chunks = report.chunks.iter().map(|(id, count)| (kind::Name(*id).to_string(), *count));
    Ok((text(&report), json, chunks.collect(), Table::new(columns(&flows)), damaged))
}

/// One row a flow: `there` is the direction of its first packet.
fn columns(flows: &[FlowReport]) -> Vec<Column> {
    let texts = |of: &dyn Fn(&FlowReport) -> String| Values::Texts(flows.iter().map(of).collect());
    let counts = |of: &dyn Fn(&FlowReport) -> u64| Values::Counts(flows.iter().map(of).collect());
    let numbers =
        |of: &dyn Fn(&FlowReport) -> Option<f64>| Values::Numbers(flows.iter().map(of).collect());
    let protocol = |flow: &FlowReport| match flow.protocol {
        Protocol::Tcp => "tcp".to_owned(),
        Protocol::Sctp => "sctp".to_owned(),
    };
    let seconds = |nanoseconds: u64| nanoseconds as f64 * 1e-9;
    let mut all = vec![
        ("protocol".to_owned(), texts(&protocol)),
        ("from".to_owned(), texts(&|flow| flow.from.clone())),
        ("to".to_owned(), texts(&|flow| flow.to.clone())),
        ("interface".to_owned(), counts(&|flow| u64::from(flow.interface))),
        ("begun_s".to_owned(), numbers(&|flow| Some(seconds(flow.begun_ns)))),
        ("duration_s".to_owned(), numbers(&|flow| Some(seconds(flow.duration_ns)))),
        ("complete".to_owned(), counts(&|flow| u64::from(flow.complete))),
        ("paths".to_owned(), counts(&|flow| flow.paths)),
    ];
    for (index, side) in ["there", "back"].into_iter().enumerate() {
        let at = |values: &[u64; 2]| values.get(index).copied().unwrap_or(0);
        let rtt = |flow: &FlowReport| flow.rtt_ns.get(index).copied().flatten().map(seconds);
        all.push((format!("{side}_packets"), counts(&|flow| at(&flow.packets))));
        all.push((format!("{side}_bytes"), counts(&|flow| at(&flow.bytes))));
        all.push((format!("{side}_rtt_s"), numbers(&rtt)));
        let count = |of: Option<&[u64]>, place: usize| {
            of.and_then(|counts| counts.get(place).copied()).unwrap_or(0)
        };
        for (place, class) in Class::ALL.into_iter().enumerate() {
            let value = |flow: &FlowReport| {
                count(flow.out_of_sequence.get(index).map(|counts| &counts[..]), place)
            };
            all.push((format!("{side}_{}", plain(class.name())), counts(&value)));
        }
        for (place, signal) in Signal::ALL.into_iter().enumerate() {
            let value =
                |flow: &FlowReport| count(flow.signals.get(index).map(|counts| &counts[..]), place);
            all.push((format!("{side}_{}", plain(signal.name())), counts(&value)));
        }
    }
    all.into_iter().map(|(name, values)| Column { name, values }).collect()
}

/// A name as it is in the table of `anabranch analyze --csv`.
fn plain(name: &str) -> String {
    name.replace(['(', ')'], "").replace([' ', '-'], "_")
}
