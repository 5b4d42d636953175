//! Metrics of endpoints in the text format of Prometheus (version 0.0.4).

use std::fmt::Write as _;
use std::sync::{Arc, OnceLock};

use anabranch::{Counter, CounterKind, PathState, PathStatistics, Statistics, Unit};
use anabranch_gateway::{Accounts, Traffic};
use anabranch_pictures::Converter;

use crate::control::{AssociationView, View};
use crate::counters::{self, Noted};
use crate::report::{Figures, PathReport};
use crate::transport::requests::Requests;

/// Maximum number of associations of an endpoint that have their own series. Each has about a hundred, so
/// a response is smaller than 10 MB.
const MOST_EACH: usize = 512;

/// The gateway of this process.
static GATEWAY: OnceLock<Gateway> = OnceLock::new();

/// What a gateway counts.
#[derive(Debug)]
struct Gateway {
    traffic: Arc<Traffic>,
    pictures: Option<Arc<Converter>>,
    accounts: Option<Arc<Accounts>>,
}

/// Adds the metrics of the gateway of this process, which has one at most, of its converter of pictures, and of its
/// users.
pub(crate) fn also(
    traffic: &Arc<Traffic>,
    pictures: Option<&Arc<Converter>>,
    accounts: Option<&Arc<Accounts>>,
) {
    let traffic = Arc::clone(traffic);
    let (pictures, accounts) = (pictures.cloned(), accounts.cloned());
    // A process runs one command.
    let _ = GATEWAY.set(Gateway { traffic, pictures, accounts });
}

/// The metrics of this process: those of its endpoint, and of its gateway if it is one.
pub(crate) fn of_process(view: View, each: bool) -> String {
    let mut all = text(&[view], each);
    if let Some(gateway) = GATEWAY.get() {
        all.push_str(&gateway.traffic.prometheus());
        if let Some(pictures) = &gateway.pictures {
            all.push_str(&anabranch_gateway::prometheus_of_pictures(&pictures.statistics()));
        }
        if let Some(accounts) = &gateway.accounts {
            all.push_str(&accounts.prometheus());
        }
    }
    all
}

/// One metric: name, kind, help text, and samples with their labels.
struct Metric {
    name: String,
    kind: &'static str,
    help: String,
    samples: Vec<(String, f64)>,
}

/// The metrics of these endpoints; with `each`, also those of each association and path.
pub(crate) fn text(views: &[View], each: bool) -> String {
    let mut metrics = endpoints(views);
    metrics.extend(amounts(views));
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

/// The name of a number in Prometheus, with its unit if the name lacks it, and `_total` for counters.
pub(crate) fn name<S>(prefix: &str, row: &Counter<S>) -> String {
    let unit = match row.unit {
        Unit::Bytes if row.name.split('_').all(|word| word != "bytes") => "_bytes",
        Unit::BytesPerSecond => "_bytes_per_second",
        _ => "",
    };
    let total = if row.kind == CounterKind::Counter { "_total" } else { "" };
    format!("anabranch_{prefix}{}{unit}{total}", row.json_name())
}

fn kind<S>(row: &Counter<S>) -> &'static str {
    if row.kind == CounterKind::Counter { "counter" } else { "gauge" }
}

fn of_endpoint(view: &View) -> String {
    format!("process=\"{}\",udp_port=\"{}\"", view.process, view.udp_port)
}

fn endpoints(views: &[View]) -> Vec<Metric> {
    let metric = |name: &str, kind, help: &str, of: fn(&View) -> u64| {
        let samples = views.iter().map(|view| (of_endpoint(view), of(view) as f64)).collect();
        Metric { name: name.to_owned(), kind, help: help.to_owned(), samples }
    };
    let counter = |name: &str, help, of| metric(name, "counter", help, of);
    vec![
        metric("anabranch_associations", "gauge", "Associations that have not ended.", View::count),
        counter("anabranch_datagrams_sent_total", "Datagrams sent.", |view| view.datagrams_sent),
        counter("anabranch_datagrams_received_total", "Datagrams received.", |view| {
            view.datagrams_received
        }),
        counter(
            "anabranch_datagrams_dropped_total",
            "Datagrams received that were not handled.",
            |view| view.datagrams_dropped,
        ),
        counter("anabranch_send_errors_total", "Errors of sending.", |view| view.send_errors),
        counter(
            "anabranch_log_lines_dropped_total",
            "Lines of output that could not be written.",
            |view| view.dropped_lines,
        ),
    ]
}

/// Sums over the current associations of an endpoint.
fn amounts(views: &[View]) -> impl Iterator<Item = Metric> {
    let rows = Statistics::counters().filter(|row| row.kind == CounterKind::Amount);
    rows.map(|row| {
        let of = |view: &View| {
            let known = view.associations.iter().filter_map(|a| a.counters.get(&row.json_name()));
            (of_endpoint(view), known.sum())
        };
        let samples = views.iter().map(of).collect();
        Metric { name: name("", row), kind: kind(row), help: row.help(), samples }
    })
}

/// Totals over all associations, including ended ones.
fn totals(views: &[View]) -> Vec<Metric> {
    let metric = |json_name: String, name: String, help: String| {
        let of = |view: &View| Some((of_endpoint(view), view.totals.get(&json_name)?));
        let samples = views.iter().filter_map(of).collect();
        Metric { name, kind: "counter", help, samples }
    };
    let noted = Noted::ALL.into_iter().map(|noted| {
        let (name, help) = noted.describe();
        metric(name.to_owned(), format!("anabranch_{name}_total"), help.to_owned())
    });
    let of_associations =
        counters::of_associations().map(|row| metric(row.json_name(), name("", row), row.help()));
    let of_paths =
        counters::of_paths().map(|row| metric(row.json_name(), name("", row), row.help()));
    noted.chain(of_associations).chain(of_paths).collect()
}

fn requests(views: &[View]) -> Vec<Metric> {
    let metric = |name: &str, help: &str, of: fn(&Requests) -> u64| {
        let of_view = |view: &View| {
            let endpoint = of_endpoint(view);
            let sample = move |row: &Requests| {
                let (method, code) = (&row.method, row.code);
                (format!("{endpoint},method=\"{method}\",code=\"{code}\""), of(row) as f64)
            };
            view.requests.iter().map(sample).collect::<Vec<_>>()
        };
        let samples = views.iter().flat_map(of_view).collect();
        Metric { name: name.to_owned(), kind: "counter", help: help.to_owned(), samples }
    };
    vec![
        metric("anabranch_http_requests_total", "Requests answered.", |row| row.requests),
        metric("anabranch_http_response_bytes_total", "Bytes of the bodies of answers.", |row| {
            row.response_bytes
        }),
    ]
}

fn of_association(view: &View, association: &AssociationView) -> String {
    format!("{},association=\"{}\"", of_endpoint(view), association.id)
}

/// The associations that have their own series.
fn each(view: &View) -> impl Iterator<Item = &AssociationView> {
    view.associations.iter().take(MOST_EACH)
}

fn associations(views: &[View]) -> Vec<Metric> {
    let rows = Statistics::counters().map(|row| {
        let json_name = row.json_name();
        let mut samples = Vec::new();
        for view in views {
            samples.extend(each(view).filter_map(|association| {
                Some((of_association(view, association), association.counters.get(&json_name)?))
            }));
        }
        Metric { name: name("association_", row), kind: kind(row), help: row.help(), samples }
    });
    rows.collect()
}

/// The value of a row for a path, if its transport provides it.
fn of_path(row: &Counter<PathStatistics>, path: &PathReport) -> Option<f64> {
    match &path.figures {
        Figures::Sctp(path) => Some((row.get)(&path.statistics)?.as_f64()),
        Figures::Tcp(path) => match row.name {
            "bytes_sent" => Some(path.bytes_sent as f64),
            "bytes_received" => Some(path.bytes_received as f64),
            _ => None,
        },
    }
}

fn paths(views: &[View]) -> Vec<Metric> {
    let metric = |name, kind, help, of: &dyn Fn(&PathReport) -> Option<f64>| {
        let mut samples = Vec::new();
        for view in views {
            for association in each(view) {
                for path in &association.paths {
                    let (local, remote) = path.ends();
                    let association = of_association(view, association);
                    let labels = format!("{association},local=\"{local}\",remote=\"{remote}\"");
                    samples.extend(of(path).map(|value| (labels, value)));
                }
            }
        }
        Metric { name, kind, help, samples }
    };
    let active = |path: &PathReport| Some(f64::from(u8::from(path.state() == PathState::Active)));
    let help = "1 if the path is active, else 0.".to_owned();
    let first = metric("anabranch_path_active".to_owned(), "gauge", help, &active);
    let rows = PathStatistics::counters()
        .map(|row| metric(name("path_", row), kind(row), row.help(), &|path| of_path(row, path)));
    [first].into_iter().chain(rows).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::numbers::Numbers;

    /// The line format: a name, labels in braces with quotes, a number.
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

    /// An endpoint with an association over TCP.
    fn view() -> View {
        let mut path = PathReport::tcp([10, 0, 0, 1].into(), "2001:db8::1".parse().unwrap());
        if let Figures::Tcp(tcp) = &mut path.figures {
            (tcp.bytes_received, tcp.bytes_sent) = (8, 9);
        }
        let mut totals = Numbers::default();
        let noted = Noted::ALL.map(|noted| noted.describe().0.to_owned());
        let of_paths = counters::of_paths().map(Counter::json_name);
        for name in noted.into_iter().chain(of_paths) {
            totals.set(&name, 11_u64);
        }
        View {
            process: 7,
            udp_port: 9899,
            local_addresses: vec![[10, 0, 0, 1].into()],
            datagrams_sent: 1,
            datagrams_received: 2,
            datagrams_dropped: 3,
            send_errors: 4,
            metrics: Vec::new(),
            totals,
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
                nr_sack: false,
                features: Vec::new(),
                counters: Numbers::default(),
                paths: vec![path],
            }],
        }
    }

    #[test]
    fn every_line_is_of_the_format() {
        let view = view();
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
        // Series of each association are included only on request.
        let few = text(&[view], false);
        assert!(!few.contains("association=\"") && !few.contains("anabranch_path_active"), "{few}");
        assert!(few.contains("anabranch_associations_accepted_total{"), "{few}");
    }
    #[test]
    fn series_of_associations_are_bounded() {
        let mut view = view();
        let one = view.associations[0].clone();
        view.associations = (0..MOST_EACH + 100)
            .map(|number| AssociationView { id: format!("{number}.0"), ..one.clone() })
            .collect();
        let all = text(&[view], true);
        let active = all.lines().filter(|line| line.starts_with("anabranch_path_active{"));
        assert_eq!(active.count(), MOST_EACH);
    }
}
