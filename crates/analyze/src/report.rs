//! Reports as text and as rows of a table.

use std::fmt::Write as _;

use crate::analysis::{FlowReport, Protocol, Report};
use crate::distribution::Distribution;
use crate::track::Class;

/// Heading of a table of flows.
pub fn csv_head() -> String {
    let classes = Class::ALL.map(|class| class.name().replace(['(', ')'], "").replace(' ', "_"));
    let side = |name: &str| {
        let own =
            ["packets", "bytes", "rtt_ns"].map(str::to_owned).into_iter().chain(classes.clone());
        own.map(|column| format!("{name}_{column}")).collect::<Vec<_>>().join(",")
    };
    format!(
        "interface,protocol,from,to,begun_ns,duration_ns,complete,{},{}",
        side("there"),
        side("back")
    )
}

/// A flow as a row of that table.
pub fn csv_row(flow: &FlowReport) -> String {
    let protocol = match flow.protocol {
        Protocol::Tcp => "tcp",
        Protocol::Sctp => "sctp",
    };
    let mut row = format!(
        "{},{protocol},{},{},{},{},{}",
        flow.interface, flow.from, flow.to, flow.begun_ns, flow.duration_ns, flow.complete
    );
    for side in 0..2 {
        let rtt = flow.rtt_ns[side].map(|rtt| rtt.to_string()).unwrap_or_default();
        let _ = write!(row, ",{},{},{rtt}", flow.packets[side], flow.bytes[side]);
        for count in flow.out_of_sequence[side] {
            let _ = write!(row, ",{count}");
        }
    }
    row
}

/// A report for reading.
pub fn text(report: &Report) -> String {
    let mut text = String::new();
    let mut line = |line: String| {
        text.push_str(&line);
        text.push('\n');
    };
    let understood = report.packets - report.others;
    line(format!("packets          {} ({understood} of TCP or SCTP)", report.packets));
    let flows: u64 = report.flows.values().sum();
    let kinds: Vec<_> =
        report.flows.iter().map(|(name, count)| format!("{count} {name}")).collect();
    let kinds = if kinds.is_empty() { String::new() } else { format!(" ({})", kinds.join(", ")) };
    line(format!("flows            {flows}{kinds}, {} complete", report.complete));
    if let Some(seen) = report.options.get("handshake seen") {
        let options = report.options.iter().filter(|(name, _)| **name != "handshake seen");
        let options: Vec<_> = options.map(|(name, count)| format!("{name} {count}")).collect();
        line(format!("options          of {seen} handshakes: {}", options.join(", ")));
    }
    if !report.chunks.is_empty() {
        let chunks = report.chunks.iter().map(|(kind, count)| format!("{} {count}", chunk(*kind)));
        line(format!("chunks           {}", chunks.collect::<Vec<_>>().join(", ")));
    }
    let out: u64 = report.out_of_sequence.values().sum();
    line(format!(
        "data             {}, of which out of sequence {}",
        report.data,
        share(out, report.data)
    ));
    for class in Class::ALL {
        if let Some(count) = report.out_of_sequence.get(class.name()) {
            line(format!("  {:<26} {}", class.name(), share(*count, report.data)));
        }
    }
    for (name, count) in &report.affected {
        line(format!("flows with {name:<17} {}", share(*count, flows)));
    }
    for (name, distribution, unit) in distributions(report) {
        if distribution.count > 0 {
            line(format!(
                "{name:<28} mean {:.0} {unit}, half up to {}, 90 % up to {}, most {}",
                distribution.mean(),
                distribution.quantile(0.5),
                distribution.quantile(0.9),
                distribution.most
            ));
        }
    }
    text
}

/// The distributions of a report, with what they are of.
pub(crate) fn distributions(report: &Report) -> [(&'static str, &Distribution, &'static str); 5] {
    [
        ("data of a flow", &report.sizes, "B"),
        ("duration of a flow", &report.durations_us, "us"),
        ("shortest round trip", &report.rtts_us, "us"),
        ("extent of reordering", &report.extents, "packets"),
        ("lateness of reordered data", &report.lateness_us, "us"),
    ]
}

pub(crate) fn share(count: u64, all: u64) -> String {
    format!("{count} ({:.3} %)", count as f64 / all.max(1) as f64 * 100.0)
}

fn chunk(kind: u8) -> String {
    match kind {
        0 => "DATA".into(),
        1 => "INIT".into(),
        2 => "INIT ACK".into(),
        3 => "SACK".into(),
        4 => "HEARTBEAT".into(),
        5 => "HEARTBEAT ACK".into(),
        6 => "ABORT".into(),
        7 => "SHUTDOWN".into(),
        8 => "SHUTDOWN ACK".into(),
        9 => "ERROR".into(),
        10 => "COOKIE ECHO".into(),
        11 => "COOKIE ACK".into(),
        12 => "ECNE".into(),
        13 => "CWR".into(),
        14 => "SHUTDOWN COMPLETE".into(),
        15 => "AUTH".into(),
        16 => "NR-SACK".into(),
        64 => "I-DATA".into(),
        128 => "ASCONF-ACK".into(),
        130 => "RE-CONFIG".into(),
        132 => "PAD".into(),
        192 => "FORWARD TSN".into(),
        193 => "ASCONF".into(),
        194 => "I-FORWARD-TSN".into(),
        other => format!("type {other}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_capture_without_flows_has_no_kinds_of_them() {
        let text = text(&Report::default());
        assert!(text.contains("\nflows            0, 0 complete\n"), "{text}");
    }

    #[test]
    fn chunks_have_their_names() {
        // RFC 4820's stands in every capture of ours: MTU probes are padded.
        for (kind, name) in [(0, "DATA"), (132, "PAD"), (194, "I-FORWARD-TSN"), (77, "type 77")] {
            assert_eq!(chunk(kind), name);
        }
    }
}
