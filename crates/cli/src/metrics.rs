//! What endpoints do, in the text format of Prometheus (version 0.0.4).

use std::fmt::Write as _;

use crate::control::{AssociationView, View};
use anabranch::PathState;

use crate::report::PathReport;

/// One metric: its name, its kind, what it means, and its samples with their labels.
struct Metric {
    name: &'static str,
    kind: &'static str,
    help: &'static str,
    samples: Vec<(String, f64)>,
}

/// All metrics of these endpoints.
pub(crate) fn text(views: &[View]) -> String {
    let mut text = String::new();
    for metric in endpoints(views).into_iter().chain(associations(views)).chain(paths(views)) {
        // Writing to a string cannot fail.
        let Metric { name, kind, help, samples } = metric;
        let _ = writeln!(text, "# HELP {name} {help}\n# TYPE {name} {kind}");
        for (labels, value) in samples {
            let _ = writeln!(text, "{name}{{{labels}}} {value}");
        }
    }
    text
}

fn of_endpoint(view: &View) -> String {
    format!("process=\"{}\",udp_port=\"{}\"", view.process, view.udp_port)
}

fn endpoints(views: &[View]) -> Vec<Metric> {
    let metric = |name, kind, help, of: fn(&View) -> f64| {
        let samples = views.iter().map(|view| (of_endpoint(view), of(view))).collect();
        Metric { name, kind, help, samples }
    };
    vec![
        metric("anabranch_associations", "gauge", "Associations that have not ended.", |view| {
            view.associations.len() as f64
        }),
        metric("anabranch_datagrams_sent_total", "counter", "Datagrams sent.", |view| {
            view.datagrams_sent as f64
        }),
        metric("anabranch_datagrams_received_total", "counter", "Datagrams received.", |view| {
            view.datagrams_received as f64
        }),
        metric(
            "anabranch_datagrams_dropped_total",
            "counter",
            "Datagrams received that were not handled.",
            |view| view.datagrams_dropped as f64,
        ),
        metric("anabranch_send_errors_total", "counter", "Errors of sending.", |view| {
            view.send_errors as f64
        }),
    ]
}

fn associations(views: &[View]) -> Vec<Metric> {
    let metric = |name, kind, help, of: fn(&AssociationView) -> f64| {
        let of_view = |view: &View| {
            let endpoint = of_endpoint(view);
            let sample = move |association: &AssociationView| {
                (format!("{endpoint},association=\"{}\"", association.id), of(association))
            };
            view.associations.iter().map(sample).collect::<Vec<_>>()
        };
        Metric { name, kind, help, samples: views.iter().flat_map(of_view).collect() }
    };
    vec![
        metric("anabranch_messages_sent_total", "counter", "Messages sent.", |association| {
            association.messages_sent as f64
        }),
        metric("anabranch_messages_received_total", "counter", "Messages received.", |a| {
            a.messages_received as f64
        }),
        metric("anabranch_send_queue_bytes", "gauge", "User data not sent yet.", |association| {
            association.send_queue_bytes as f64
        }),
        metric("anabranch_outstanding_bytes", "gauge", "User data not acknowledged yet.", |a| {
            a.outstanding_bytes as f64
        }),
        metric("anabranch_receive_buffer_used_bytes", "gauge", "Receive buffer in use.", |a| {
            a.receive_buffer_used as f64
        }),
    ]
}

fn paths(views: &[View]) -> Vec<Metric> {
    let metric = |name, kind, help, of: fn(&PathReport) -> Option<f64>| {
        let mut samples = Vec::new();
        for view in views {
            for association in &view.associations {
                for path in &association.paths {
                    let labels = format!(
                        "{},association=\"{}\",local=\"{}\",remote=\"{}\"",
                        of_endpoint(view),
                        association.id,
                        path.ends().0,
                        path.ends().1
                    );
                    samples.extend(of(path).map(|value| (labels, value)));
                }
            }
        }
        Metric { name, kind, help, samples }
    };
    vec![
        metric("anabranch_path_active", "gauge", "1 if the path is active, else 0.", |path| {
            Some(f64::from(u8::from(path.state() == PathState::Active)))
        }),
        metric("anabranch_path_bytes_sent_total", "counter", "Bytes of packets sent.", |path| {
            Some(path.bytes().1 as f64)
        }),
        metric(
            "anabranch_path_bytes_received_total",
            "counter",
            "Bytes of packets received.",
            |p| Some(p.bytes().0 as f64),
        ),
        metric(
            "anabranch_path_retransmitted_chunks_total",
            "counter",
            "DATA chunks sent again.",
            |p| Some(p.sctp()?.retransmitted_chunks as f64),
        ),
        metric("anabranch_path_t3_timeouts_total", "counter", "Expiries of T3-rtx.", |path| {
            Some(path.sctp()?.t3_timeouts as f64)
        }),
        metric("anabranch_path_srtt_seconds", "gauge", "Smoothed round-trip time.", |path| {
            Some(path.sctp()?.srtt?.as_secs_f64())
        }),
        metric("anabranch_path_cwnd_bytes", "gauge", "Congestion window.", |path| {
            Some(path.sctp()?.cwnd as f64)
        }),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::Figures;

    /// As the format has it: a name, labels in braces with quotes, a number.
    fn is_sample(line: &str) -> bool {
        let Some((name, rest)) = line.split_once('{') else { return false };
        let Some((labels, value)) = rest.split_once("} ") else { return false };
        let word = |text: &str| {
            text.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_')
        };
        let label = |label: &str| {
            label.split_once('=').is_some_and(|(name, value)| {
                word(name) && value.len() >= 2 && value.starts_with('"') && value.ends_with('"')
            })
        };
        word(name) && labels.split(',').all(label) && value.parse::<f64>().is_ok()
    }

    #[test]
    fn every_line_is_of_the_format() {
        let mut path = PathReport::tcp([10, 0, 0, 1].into(), "2001:db8::1".parse().unwrap());
        if let Figures::Tcp(tcp) = &mut path.figures {
            (tcp.bytes_received, tcp.bytes_sent) = (8, 9);
        }
        let view = View {
            process: 7,
            udp_port: 9899,
            local_addresses: vec![[10, 0, 0, 1].into()],
            datagrams_sent: 1,
            datagrams_received: 2,
            datagrams_dropped: 3,
            send_errors: 4,
            metrics: Vec::new(),
            associations: vec![AssociationView {
                id: "0.0".into(),
                incoming: true,
                state: "ESTABLISHED".into(),
                local_port: 1,
                remote_port: 2,
                outbound_streams: 1,
                inbound_streams: 1,
                messages_sent: 5,
                messages_received: 6,
                send_queue_bytes: 0,
                outstanding_bytes: 0,
                peer_rwnd: 0,
                receive_buffer_used: 0,
                nr_sack: false,
                sender: Default::default(),
                paths: vec![path],
            }],
        };
        let text = text(&[view]);
        for line in text.lines().filter(|line| !line.starts_with('#')) {
            assert!(is_sample(line), "{line}");
        }
        let sent = "anabranch_datagrams_sent_total{process=\"7\",udp_port=\"9899\"} 1\n";
        assert!(text.contains(sent), "{text}");
        assert!(text.contains("remote=\"2001:db8::1\"} 9\n"), "{text}");
        assert_eq!(text.matches("# TYPE").count(), 17);
    }
}
