//! What endpoints do, in the text format of Prometheus (version 0.0.4).

use std::fmt::Write as _;

use anabranch::PathState;

use crate::control::{AssociationView, View};
use crate::counters::{COUNTERS, Counter};
use crate::report::PathReport;
use crate::transport::requests::Requests;

/// One metric: its name, its kind, what it means, and its samples with their labels.
struct Metric {
    name: String,
    kind: &'static str,
    help: &'static str,
    samples: Vec<(String, f64)>,
}

/// All metrics of these endpoints; with `each`, of each association and path as well.
pub(crate) fn text(views: &[View], each: bool) -> String {
    let mut metrics = endpoints(views);
    metrics.extend(totals(views));
    metrics.extend(requests(views));
    if each {
        metrics.extend(associations(views));
        metrics.extend(paths(views));
    }
    let mut text = String::new();
    for metric in metrics {
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

/// The sum over the associations of an endpoint.
fn all(view: &View, of: fn(&AssociationView) -> usize) -> f64 {
    view.associations.iter().map(of).sum::<usize>() as f64
}

fn endpoints(views: &[View]) -> Vec<Metric> {
    let metric = |name: &str, kind, help, of: fn(&View) -> f64| {
        let samples = views.iter().map(|view| (of_endpoint(view), of(view))).collect();
        Metric { name: name.to_owned(), kind, help, samples }
    };
    vec![
        metric("anabranch_associations", "gauge", "Associations that have not ended.", |view| {
            view.count() as f64
        }),
        metric("anabranch_send_queue_bytes", "gauge", "User data not sent yet.", |view| {
            all(view, |association| association.send_queue_bytes)
        }),
        metric("anabranch_outstanding_bytes", "gauge", "User data not acknowledged yet.", |v| {
            all(v, |association| association.outstanding_bytes)
        }),
        metric("anabranch_receive_buffer_used_bytes", "gauge", "Receive buffers in use.", |v| {
            all(v, |association| association.receive_buffer_used)
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
        metric(
            "anabranch_log_lines_dropped_total",
            "counter",
            "Lines of output that could not be written.",
            |view| view.dropped_lines as f64,
        ),
    ]
}

/// What all associations did, ended ones included.
fn totals(views: &[View]) -> Vec<Metric> {
    let metric = |counter: &Counter| {
        let of = |view: &View| Some((of_endpoint(view), *view.totals.get(counter.name)? as f64));
        let samples = views.iter().filter_map(of).collect();
        let name = format!("anabranch_{}_total", counter.name);
        Metric { name, kind: "counter", help: counter.help, samples }
    };
    COUNTERS.iter().map(metric).collect()
}

fn requests(views: &[View]) -> Vec<Metric> {
    let metric = |name: &str, help, of: fn(&Requests) -> u64| {
        let of_view = |view: &View| {
            let endpoint = of_endpoint(view);
            let sample = move |row: &Requests| {
                let (method, code) = (&row.method, row.code);
                (format!("{endpoint},method=\"{method}\",code=\"{code}\""), of(row) as f64)
            };
            view.requests.iter().map(sample).collect::<Vec<_>>()
        };
        let samples = views.iter().flat_map(of_view).collect();
        Metric { name: name.to_owned(), kind: "counter", help, samples }
    };
    vec![
        metric("anabranch_http_requests_total", "Requests answered.", |row| row.requests),
        metric("anabranch_http_response_bytes_total", "Bytes of the bodies of answers.", |row| {
            row.response_bytes
        }),
    ]
}

fn associations(views: &[View]) -> Vec<Metric> {
    let metric = |name: &str, kind, help, of: fn(&AssociationView) -> f64| {
        let of_view = |view: &View| {
            let endpoint = of_endpoint(view);
            let sample = move |association: &AssociationView| {
                (format!("{endpoint},association=\"{}\"", association.id), of(association))
            };
            view.associations.iter().map(sample).collect::<Vec<_>>()
        };
        let samples = views.iter().flat_map(of_view).collect();
        Metric { name: format!("anabranch_association_{name}"), kind, help, samples }
    };
    vec![
        metric("messages_sent_total", "counter", "Messages sent.", |a| a.messages_sent as f64),
        metric("messages_received_total", "counter", "Messages received.", |association| {
            association.messages_received as f64
        }),
        metric("send_queue_bytes", "gauge", "User data not sent yet.", |association| {
            association.send_queue_bytes as f64
        }),
        metric("outstanding_bytes", "gauge", "User data not acknowledged yet.", |association| {
            association.outstanding_bytes as f64
        }),
        metric("receive_buffer_used_bytes", "gauge", "Receive buffer in use.", |association| {
            association.receive_buffer_used as f64
        }),
    ]
}

fn paths(views: &[View]) -> Vec<Metric> {
    let metric = |name: &str, kind, help, of: fn(&PathReport) -> Option<f64>| {
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
        Metric { name: name.to_owned(), kind, help, samples }
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
        metric("anabranch_path_timeouts_total", "counter", "Expiries of T3-rtx.", |path| {
            Some(path.sctp()?.timeouts as f64)
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
            totals: COUNTERS.iter().map(|counter| (counter.name.to_owned(), 11)).collect(),
            requests: vec![Requests {
                method: "GET".into(),
                code: 206,
                requests: 12,
                response_bytes: 13,
            }],
            dropped_lines: 14,
            unlisted: 0,
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
        let all = text(std::slice::from_ref(&view), true);
        for line in all.lines().filter(|line| !line.starts_with('#')) {
            assert!(is_sample(line), "{line}");
        }
        let endpoint = "process=\"7\",udp_port=\"9899\"";
        for sample in [
            format!("anabranch_datagrams_sent_total{{{endpoint}}} 1\n"),
            format!("anabranch_associations{{{endpoint}}} 1\n"),
            format!("anabranch_associations_accepted_total{{{endpoint}}} 11\n"),
            format!("anabranch_retransmitted_chunks_total{{{endpoint}}} 11\n"),
            format!("anabranch_http_requests_total{{{endpoint},method=\"GET\",code=\"206\"}} 12\n"),
            format!(
                "anabranch_http_response_bytes_total{{{endpoint},method=\"GET\",code=\"206\"}} 13\n"
            ),
            format!("anabranch_log_lines_dropped_total{{{endpoint}}} 14\n"),
            "remote=\"2001:db8::1\"} 9\n".to_owned(),
        ] {
            assert!(all.contains(&sample), "{sample} is not in {all}");
        }
        let names: Vec<_> = all.lines().filter(|line| line.starts_with("# TYPE")).collect();
        let mut different = names.clone();
        different.sort_unstable();
        different.dedup();
        assert_eq!(names.len(), different.len(), "{all}");
        // What each association does has as many series as there are associations: only if they are wanted.
        let few = text(&[view], false);
        assert!(!few.contains("association=\"") && !few.contains("anabranch_path_active"), "{few}");
        assert!(few.contains("anabranch_associations_accepted_total{"), "{few}");
    }
}
