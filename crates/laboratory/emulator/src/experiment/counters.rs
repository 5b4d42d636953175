//! Counters of the kernel in a namespace.

use std::collections::HashMap;
use std::io;

use anabranch_lab::metrics::Metrics;

/// The counters of this thread's namespace, by name.
pub(super) fn here() -> io::Result<HashMap<String, u64>> {
    let mut counters = HashMap::new();
    for file in ["snmp", "netstat"] {
        let text = std::fs::read_to_string(format!("/proc/thread-self/net/{file}"))?;
        read(&text, &mut counters);
    }
    Ok(counters)
}

/// Parses pairs of lines: names, then numbers, both with the same first word.
fn read(text: &str, counters: &mut HashMap<String, u64>) {
    let mut lines = text.lines();
    while let (Some(names), Some(values)) = (lines.next(), lines.next()) {
        for (name, value) in names.split_whitespace().zip(values.split_whitespace()).skip(1) {
            if let Ok(value) = value.parse() {
                let protocol = names.split(':').next().unwrap_or_default();
                counters.insert(format!("{protocol}.{name}"), value);
            }
        }
    }
}

/// The metrics of a host that sends over TCP. The kernel counts a retransmitted SYN also among segments and timeouts;
/// here it has a metric of its own.
pub(super) fn of_sender(counters: &HashMap<String, u64>, metrics: &mut Metrics) {
    let handshakes = counters.get("TcpExt.TCPSynRetrans").copied().unwrap_or(0);
    let sum = |names: &[&str]| {
        let found: Vec<u64> =
            names.iter().filter_map(|name| counters.get(*name)).copied().collect();
        (!found.is_empty()).then(|| found.iter().sum::<u64>() as f64)
    };
    let undone = [
        "TcpExt.TCPFullUndo",
        "TcpExt.TCPPartialUndo",
        "TcpExt.TCPDSACKUndo",
        "TcpExt.TCPLossUndo",
    ];
    for (metric, names) in [
        ("timeouts", &["TcpExt.TCPTimeouts"][..]),
        ("fast_retransmitted_chunks", &["TcpExt.TCPFastRetrans"]),
        ("timeout_retransmitted_chunks", &["TcpExt.TCPSlowStartRetrans"]),
        ("retransmitted_chunks_path1", &["Tcp.RetransSegs"]),
        ("fast_recoveries", &["TcpExt.TCPRenoRecovery", "TcpExt.TCPSackRecovery"]),
        ("undone_recoveries", &undone),
        ("lost_retransmissions", &["TcpExt.TCPLostRetransmit"]),
        ("handshake_retransmissions", &["TcpExt.TCPSynRetrans"]),
    ] {
        if let Some(value) = sum(names) {
            let with_handshakes = matches!(metric, "timeouts" | "retransmitted_chunks_path1");
            let handshakes = if with_handshakes { handshakes as f64 } else { 0.0 };
            metrics.set(metric, (value - handshakes).max(0.0));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_stand_below_their_names() {
        let mut counters = HashMap::new();
        read("Tcp: RtoMin RetransSegs MaxConn\nTcp: 200 7 -1\n", &mut counters);
        assert_eq!(counters.get("Tcp.RetransSegs"), Some(&7));
        assert_eq!(counters.get("Tcp.MaxConn"), None);
        let text = "TcpExt: TCPFullUndo TCPLossUndo TCPSynRetrans TCPLostRetransmit\n\
                    TcpExt: 2 3 1 4\n";
        read(text, &mut counters);
        let mut metrics = Metrics::default();
        of_sender(&counters, &mut metrics);
        assert_eq!(metrics.get("undone_recoveries"), Some(5.0));
        assert_eq!(metrics.get("lost_retransmissions"), Some(4.0));
        assert_eq!(
            (metrics.get("retransmitted_chunks_path1"), metrics.get("timeouts")),
            (Some(6.0), None),
            "without the SYN"
        );
        assert_eq!(metrics.get("handshake_retransmissions"), Some(1.0));
        // This process has real counters.
        assert!(here().is_ok_and(|counters| counters.contains_key("TcpExt.TCPTimeouts")));
    }
}
