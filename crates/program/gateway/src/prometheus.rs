//! Metrics in the text format of Prometheus (version 0.0.4).

use std::fmt::Write as _;

use anabranch_pictures::Statistics;

use crate::traffic::Traffic;

/// Adds a metric with its samples: labels in braces or none, and a value.
pub(crate) fn metric(
    text: &mut String,
    name: &str,
    kind: &str,
    help: &str,
    samples: impl IntoIterator<Item = (String, f64)>,
) {
    // Writing to a string cannot fail.
    let _ = writeln!(text, "# HELP anabranch_gateway_{name} {help}");
    let _ = writeln!(text, "# TYPE anabranch_gateway_{name} {kind}");
    for (labels, value) in samples {
        let _ = writeln!(text, "anabranch_gateway_{name}{labels} {value}");
    }
}

/// A label in braces.
pub(crate) fn label(name: &str, value: &str) -> String {
    let mut escaped = String::new();
    for c in value.chars() {
        match c {
            '\\' | '"' => escaped.extend(['\\', c]),
            '\n' => escaped.push_str("\\n"),
            _ => escaped.push(c),
        }
    }
    format!("{{{name}=\"{escaped}\"}}")
}

impl Traffic {
    /// Its metrics, whose names begin with `anabranch_gateway_`. They have no hosts, because hosts are many.
    pub fn prometheus(&self) -> String {
        let mut text = String::new();
        let (open, amount) = self.totals();
        let none = String::new;
        let help = "Connections and requests that have not ended.";
        metric(&mut text, "open", "gauge", help, [(none(), open as f64)]);
        let help = "Connections and requests that have ended, by their outcome.";
        let ended = |(asked, status, count)| {
            (format!("{{asked=\"{asked}\",status=\"{status}\"}}"), count as f64)
        };
        let outcomes = self.outcomes().into_iter().map(ended);
        metric(&mut text, "ended_total", "counter", help, outcomes);
        let sent = [(none(), amount.bytes_sent as f64)];
        metric(&mut text, "target_bytes_sent_total", "counter", "Bytes towards targets.", sent);
        let received = [(none(), amount.bytes_received as f64)];
        let help = "Bytes from targets.";
        metric(&mut text, "target_bytes_received_total", "counter", help, received);
        text
    }
}

/// The metrics of a converter of pictures.
pub fn prometheus_of_pictures(pictures: &Statistics) -> String {
    let mut text = String::new();
    let outcome = |outcome, count: u64| (label("outcome", outcome), count as f64);
    let outcomes = [
        outcome("converted", pictures.converted),
        outcome("unchanged", pictures.unchanged),
        outcome("failed", pictures.failed),
    ];
    let help = "Pictures that were tried to convert, by their outcome.";
    metric(&mut text, "pictures_total", "counter", help, outcomes);
    let before = [(String::new(), pictures.bytes_before as f64)];
    let help = "Bytes of converted pictures before.";
    metric(&mut text, "picture_bytes_before_total", "counter", help, before);
    let after = [(String::new(), pictures.bytes_after as f64)];
    metric(
        &mut text,
        "picture_bytes_after_total",
        "counter",
        "Bytes of converted pictures after.",
        after,
    );
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_escaped() {
        assert_eq!(label("uplink", "a\"b\\c\nd"), "{uplink=\"a\\\"b\\\\c\\nd\"}");
        let text = Traffic::new(0).prometheus();
        assert!(text.contains("\nanabranch_gateway_open 0\n"), "{text}");
        let text = prometheus_of_pictures(&Statistics::default());
        assert!(
            text.contains("anabranch_gateway_pictures_total{outcome=\"failed\"} 0\n"),
            "{text}"
        );
    }
}
