//! Reports as text and as rows of a table.

use std::fmt::Write as _;

use crate::analysis::{Protocol, Report};
use crate::distribution::Distribution;
use crate::flow::FlowReport;
use crate::reason::Reason;
use crate::signal::Signal;
use crate::track::Class;

/// Header of the table of flows.
pub fn csv_head() -> String {
    let column = |name: &str| name.replace(['(', ')'], "").replace([' ', '-'], "_");
    let side = |side: &str| {
        let own = ["packets", "bytes", "rtt_ns"].into_iter();
        let all = own.chain(Class::ALL.map(Class::name));
        all.map(|name| format!("{side}_{}", column(name))).collect::<Vec<_>>().join(",")
    };
    let signals = |side: &str| {
        Signal::ALL.map(|signal| format!("{side}_{}", column(signal.name()))).join(",")
    };
    format!(
        "interface,protocol,from,to,begun_ns,duration_ns,complete,{},{},{},{},place,udp_from,udp_to,paths,\
         elsewhere,reason",
        side("there"),
        side("back"),
        signals("there"),
        signals("back"),
    )
}

/// A flow as a row of the table.
pub fn csv_row(flow: &FlowReport) -> String {
    let protocol = match flow.protocol {
        Protocol::Tcp => "tcp",
        Protocol::Sctp => "sctp",
    };
    let mut row = format!(
        "{},{protocol},{},{},{},{},{}",
        flow.interface, flow.from, flow.to, flow.begun_ns, flow.duration_ns, flow.complete
    );
    let sides =
        flow.packets.iter().zip(&flow.bytes).zip(flow.rtt_ns.iter().zip(&flow.out_of_sequence));
    for ((packets, bytes), (rtt, classes)) in sides {
        let rtt = rtt.map(|rtt| rtt.to_string()).unwrap_or_default();
        let _ = write!(row, ",{packets},{bytes},{rtt}");
        for count in classes {
            let _ = write!(row, ",{count}");
        }
    }
    for count in flow.signals.iter().flatten() {
        let _ = write!(row, ",{count}");
    }
    let udp = flow.udp.map_or(",".to_owned(), |(from, to)| format!("{from},{to}"));
    let _ = write!(row, ",{},{udp},{},{},", flow.place, flow.paths, flow.elsewhere);
    row
}

/// Packets that belong to no flow, as rows of the table. The protocol is `left-out`; the columns `there_packets` and
/// `reason` contain the number and the reason.
pub fn csv_left_out(report: &Report) -> Vec<String> {
    let head = csv_head();
    let row = |(reason, count): (&Reason, &u64)| {
        let cells = head.split(',').map(|column| match column {
            "protocol" => "left-out".to_owned(),
            "there_packets" => count.to_string(),
            "reason" => reason.to_string(),
            _ => String::new(),
        });
        cells.collect::<Vec<_>>().join(",")
    };
    report.left_out.iter().map(row).collect()
}

/// A report as text.
pub fn text(report: &Report) -> String {
    let mut text = String::new();
    let mut line = |line: String| {
        text.push_str(&line);
        text.push('\n');
    };
    let understood = report.packets - report.others;
    line(format!("packets          {} ({understood} of TCP or SCTP)", report.packets));
    let mut left_out: Vec<_> = report.left_out.iter().collect();
    left_out.sort_by_key(|(reason, count)| (std::cmp::Reverse(**count), **reason));
    for (reason, count) in left_out {
        line(format!("  left out       {count}: {reason}"));
    }
    flows(report, &mut line);
    if let Some(seen) = report.options.get("handshake seen") {
        let options = report.options.iter().filter(|(name, _)| **name != "handshake seen");
        let options = options.map(|(name, count)| format!("{name} {count}"));
        list(format!("options          of {seen} handshakes:"), options, &mut line);
    }
    if !report.chunks.is_empty() {
        let chunks = report.chunks.iter().map(|(kind, count)| format!("{} {count}", chunk(*kind)));
        list(format!("{:<16}", "chunks"), chunks, &mut line);
    }
    let out: u64 = report.out_of_sequence.values().sum();
    line(format!("data             {}, out of sequence {}", report.data, share(out, report.data)));
    for class in Class::ALL {
        if let Some(count) = report.out_of_sequence.get(class.name()) {
            line(format!("  {:<26} {}", class.name(), share(*count, report.data)));
        }
    }
    for signal in Signal::ALL {
        if let Some(count) = report.signals.get(signal.name()) {
            line(format!("{:<28} {count}", format!("{}s", signal.name())));
        }
    }
    let flows: u64 = report.flows.values().sum();
    for (name, count) in &report.affected {
        line(format!("flows with {name:<17} {}", share(*count, flows)));
    }
    for (name, distribution, unit) in distributions(report) {
        if distribution.count > 0 {
            let tail = if unit == "packets" { " packets" } else { "" };
            line(format!(
                "{name:<19} mean {}, half <= {}, 90 % <= {}, max {}{tail}",
                readable(distribution.mean(), unit),
                readable(distribution.quantile(0.5) as f64, unit),
                readable(distribution.quantile(0.9) as f64, unit),
                readable(distribution.most as f64, unit)
            ));
        }
    }
    text
}

/// Words after a title, in lines of at most 80 columns.
fn list(title: String, words: impl Iterator<Item = String>, line: &mut impl FnMut(String)) {
    let mut text = title;
    let mut words = words.peekable();
    while let Some(word) = words.next() {
        let comma = if words.peek().is_some() { "," } else { "" };
        if text.len() + 1 + word.len() + comma.len() > 80 {
            line(std::mem::replace(&mut text, " ".repeat(16)));
        }
        let _ = write!(text, " {word}{comma}");
    }
    line(text);
}

/// The number of flows, and how many connections they are, because a connection may be captured more than once.
fn flows(report: &Report, line: &mut impl FnMut(String)) {
    let flows: u64 = report.flows.values().sum();
    let kinds: Vec<_> =
        report.flows.iter().map(|(name, count)| format!("{count} {name}")).collect();
    let kinds = if kinds.is_empty() { String::new() } else { format!(" ({})", kinds.join(", ")) };
    line(format!("flows            {flows}{kinds}, {} complete", report.complete));
    let distinct: u64 = report.distinct.values().sum();
    if distinct < flows {
        let (tcp, sctp) = (report.distinct.get("tcp"), report.distinct.get("sctp"));
        let names = [(tcp, "connection"), (sctp, "association")];
        let of = names.iter().filter_map(|(count, name)| Some((**count.as_ref()?, name)));
        let of: Vec<_> = of.map(|(count, name)| plural(count, name)).collect();
        line(format!("                 of {}, each counted at every interface", of.join(" and ")));
    }
    let associations = report.flows.get("sctp").copied().unwrap_or(0);
    if report.paths > associations {
        line(format!("                 {} in all", plural(report.paths, "path")));
    }
}

fn plural(count: u64, name: &str) -> String {
    if count == 1 { format!("1 {name}") } else { format!("{count} {name}s") }
}

/// A number with a unit that suits its size.
pub(crate) fn readable(value: f64, unit: &str) -> String {
    let steps: &[(f64, &str)] = match unit {
        "us" => &[(3.6e9, "h"), (6e7, "min"), (1e6, "s"), (1e3, "ms")],
        "B" => &[(1e12, "TB"), (1e9, "GB"), (1e6, "MB"), (1e3, "kB")],
        _ => &[],
    };
    let largest = steps.iter().find(|(worth, _)| value >= *worth);
    let (worth, unit) = largest.copied().unwrap_or((1.0, unit));
    let value = value / worth;
    // Show one decimal if it is significant.
    let digits = usize::from(value < 9.95 && value.fract() > 0.05);
    match unit {
        "packets" => format!("{value:.digits$}"),
        unit => format!("{value:.digits$} {unit}"),
    }
}

/// The distributions of a report, with their titles.
pub(crate) fn distributions(report: &Report) -> [(&'static str, &Distribution, &'static str); 5] {
    [
        ("data of a flow", &report.sizes, "B"),
        ("duration of a flow", &report.durations_us, "us"),
        ("shortest round trip", &report.rtts_us, "us"),
        ("reordering extent", &report.extents, "packets"),
        ("reordering lateness", &report.lateness_us, "us"),
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
    fn numbers_have_units_that_suit_them() {
        let cases = [
            (2_716_654.0, "us", "2.7 s"),
            (850.0, "us", "850 us"),
            (1500.0, "us", "1.5 ms"),
            (99_960.0, "us", "100 ms"),
            (90e6, "us", "1.5 min"),
            (7.2e9, "us", "2 h"),
            (1_048_575.0, "B", "1 MB"),
            (0.0, "B", "0 B"),
            (1234.0, "packets", "1234"),
        ];
        for (value, unit, expected) in cases {
            assert_eq!(readable(value, unit), expected);
        }
    }

    #[test]
    fn lines_fit_a_terminal() {
        let mut report = Report::default();
        report.chunks.extend([0, 1, 2, 3, 10, 11, 14, 64].map(|kind| (kind, 12_345)));
        report.options.insert("handshake seen", 12_345);
        report
            .options
            .extend(["one", "two", "three", "four", "five", "six"].map(|name| (name, 12_345)));
        report.durations_us.add(59_940_000_000);
        let text = super::text(&report);
        assert!(text.contains(" half <= 17 h, 90 % <= 17 h, max 17 h\n"), "{text}");
        report.rtts_us.add(570_000_000);
        report.extents.add(99_999);
        report.lateness_us.add(570_000_000);
        let text = super::text(&report);
        assert!(text.lines().all(|line| line.len() <= 80), "{text}");
    }

    #[test]
    fn what_is_left_out_has_a_row_of_as_many_columns() {
        let mut report = Report::default();
        report.left_out.insert(Reason::EtherType(0x0806), 3);
        let rows = csv_left_out(&report);
        assert_eq!(rows.len(), 1);
        assert!(
            rows[0].starts_with(",left-out,,,,,,3,") && rows[0].ends_with(",ARP"),
            "{}",
            rows[0]
        );
        assert_eq!(rows[0].split(',').count(), csv_head().split(',').count());
    }

    #[test]
    fn chunks_have_their_names() {
        // PAD (RFC 4820) is in all captures of this project, because MTU probes are padded.
        for (kind, name) in [(0, "DATA"), (132, "PAD"), (194, "I-FORWARD-TSN"), (77, "type 77")] {
            assert_eq!(chunk(kind), name);
        }
    }
}
