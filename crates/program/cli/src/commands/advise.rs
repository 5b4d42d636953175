//! `anabranch advise`.

use std::path::PathBuf;
use std::time::Duration;

use anabranch_lab::advise::{Advice, Conditions, Routing, advise};
use anabranch_lab::advise_latency;
use anabranch_lab::advise_timely::{self, Recommended, Sends, Traffic};
use anabranch_units::{read_text, read_text_from};
use clap::{Args, ValueEnum};
use serde_json::{Value, json};

use crate::failure::Failure;
use crate::options::duration;
use crate::output;

/// Say which options suit a network and what is sent over it
///
/// Walks through the decision tree of the study of multihoming (caro Figs 4.8, 4.11, 6.1) with what
/// is known about the network, from options or from the statistics of a live association, and shows
/// each decision. With --sends, --reorders, --stands-still or --many-short it says which options of
/// recovery, bundling and the cache of metrics suit, by the measurements of docs/timeliness.md. For
/// small messages over paths whose round-trip times are known, it also says whether the lowest latency,
/// copies or classes are worth it (docs/latency.md).
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  anabranch advise --loss 1%
  anabranch advise --sends signalling --stands-still
  anabranch advise --sends signalling --loss 3% --primary-rtt 60ms --alternate-rtt 40ms
  anabranch advise --loss 5% --primary-rtt 90ms --alternate-rtt 120ms --routing proactive
  anabranch get sctp://a,b:8080/file --json | anabranch advise --statistics - --routing proactive
  anabranch inspect --once --json | anabranch advise --statistics -    # of what runs now")]
pub(crate) struct Advise {
    /// Share of packets that the primary path loses, such as 2.5%
    #[arg(long, value_name = "SHARE", value_parser = share)]
    loss: Option<f64>,
    /// RTT of the primary path
    #[arg(long, value_name = "TIME", value_parser = duration, requires = "alternate_rtt")]
    primary_rtt: Option<Duration>,
    /// RTT of the slowest alternate path
    #[arg(long, value_name = "TIME", value_parser = duration, requires = "primary_rtt")]
    alternate_rtt: Option<Duration>,
    /// How routes are found: in advance, or when a packet needs one
    #[arg(long, value_enum)]
    routing: Option<How>,
    /// With reactive routing: how long an idle route is remembered
    #[arg(long, value_name = "TIME", value_parser = duration)]
    route_cache: Option<Duration>,
    /// With reactive routing: how long a discovery takes
    #[arg(long, value_name = "TIME", value_parser = duration)]
    route_discovery: Option<Duration>,
    /// Take loss and RTTs from a JSON report with paths, as 'get --json' and 'inspect --once
    /// --json' print it; '-' reads standard input. Uses the first of several reports that has a
    /// loss
    #[arg(long, value_name = "FILE", conflicts_with_all = ["loss", "primary_rtt"])]
    statistics: Option<PathBuf>,
    /// What the application sends
    #[arg(long, value_enum, value_name = "WHAT")]
    sends: Option<What>,
    /// The network reorders packets
    #[arg(long)]
    reorders: bool,
    /// Links stand still for longer than a timeout, like a radio link that changes cells
    #[arg(long)]
    stands_still: bool,
    /// Many short associations follow each other between the same hosts
    #[arg(long)]
    many_short: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// What an application sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum What {
    /// Few large transfers
    Bulk,
    /// A few small messages at a time; the sender waits for each
    Signalling,
    /// Objects on streams of their own
    Web,
    /// Small messages on stream 0 and bulk on others, on one association
    Mixed,
}

/// How routes are found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum How {
    /// In advance
    Proactive,
    /// When a packet needs one
    Reactive,
}

impl Advise {
    pub(crate) fn run(self) -> Result<(), Failure> {
        let conditions = self.conditions()?;
        let traffic = self.traffic();
        let mut timely = advise_timely::advise(&traffic);
        timely.extend(advise_latency::advise(&conditions, traffic.sends));
        // A user who asks for only one of the two gets no message that data for the other is
        // missing.
        let asks_for_paths = conditions != Conditions::default() || timely.is_empty();
        let advice = asks_for_paths.then(|| advise(&conditions));
        if self.json {
            return output::print_json(&report(&conditions, advice.as_ref(), &timely));
        }
        let paths = advice.as_ref().map(text).unwrap_or_default();
        output::print(&output::filled(&(paths + &timely_text(&timely))))
    }

    fn traffic(&self) -> Traffic {
        Traffic {
            sends: self.sends.map(|what| match what {
                What::Bulk => Sends::Bulk,
                What::Signalling => Sends::Signalling,
                What::Web => Sends::Web,
                What::Mixed => Sends::Mixed,
            }),
            reorders: self.reorders,
            stands_still: self.stands_still,
            many_short: self.many_short,
        }
    }

    fn conditions(&self) -> Result<Conditions, Failure> {
        let routing = match self.routing {
            Some(How::Reactive) => {
                Some(Routing::Reactive { cache: self.route_cache, discovery: self.route_discovery })
            }
            how if self.route_cache.or(self.route_discovery).is_some() => {
                let what = if how.is_some() { "proactive" } else { "unknown" };
                return Err(Failure::usage(format!(
                    "--route-cache and --route-discovery mean nothing with {what} routing: add \
                     --routing reactive"
                )));
            }
            Some(How::Proactive) => Some(Routing::Proactive),
            None => None,
        };
        let (loss, rtt_ratio) = match &self.statistics {
            Some(file) => measured(&read(file)?)?,
            None => {
                let rtts = self.alternate_rtt.zip(self.primary_rtt);
                if rtts.is_some_and(|(_, primary)| primary.is_zero()) {
                    return Err(Failure::usage("--primary-rtt must be above zero".to_owned()));
                }
                (
                    self.loss,
                    rtts.map(|(other, primary)| other.as_secs_f64() / primary.as_secs_f64()),
                )
            }
        };
        Ok(Conditions { loss, rtt_ratio, routing })
    }
}

/// Parses a share such as `2.5%`.
fn share(text: &str) -> Result<f64, String> {
    let number = text.strip_suffix('%').ok_or("a share has a percent sign, as in 2.5%")?;
    let percent: f64 = number.trim().parse().map_err(|_| format!("'{number}' is not a number"))?;
    if (0.0..=100.0).contains(&percent) {
        Ok(percent / 100.0)
    } else {
        Err(format!("{percent} % is not between 0 % and 100 %"))
    }
}

/// Maximum bytes of reports to read.
const MOST: u64 = 1 << 28;

/// Reads the consecutive JSON documents of a file.
fn read(file: &PathBuf) -> Result<Vec<Value>, Failure> {
    let (read, name) = if file.as_os_str() == "-" {
        (read_text_from(std::io::stdin(), MOST), "standard input".to_owned())
    } else {
        (read_text(file, MOST), file.display().to_string())
    };
    let text = read.map_err(|error| Failure::failed(format!("{name} cannot be read: {error}")))?;
    let documents: Result<Vec<Value>, _> =
        serde_json::Deserializer::from_str(&text).into_iter().collect();
    match documents {
        Ok(documents) if !documents.is_empty() => Ok(documents),
        Ok(_) => Err(Failure::failed(format!("{name} is empty: there is no report in it"))),
        Err(error) => Err(Failure::failed(format!("{name} is not a JSON document: {error}"))),
    }
}

/// Returns the loss of the primary path, and the RTT of the slowest other path as a multiple of the
/// primary path's RTT.
///
/// Only a sender knows losses: the first report or endpoint that has a loss is used.
fn measured(reports: &[Value]) -> Result<(Option<f64>, Option<f64>), Failure> {
    let mut known = Vec::new();
    for report in reports {
        find_paths(report, &mut known);
    }
    let all: Vec<_> =
        known.into_iter().filter_map(|(owner, paths)| figures(owner, paths)).collect();
    let best = all.iter().find(|(loss, _)| loss.is_some()).or(all.first());
    best.copied().ok_or_else(|| {
        Failure::failed("the report has no paths with an RTT: was there an association?".to_owned())
    })
}

/// Returns loss and ratio of the RTTs of one list of paths.
fn figures(owner: &Value, paths: &[Value]) -> Option<(Option<f64>, Option<f64>)> {
    let marked = paths.iter().position(|path| path["primary"] == Value::Bool(true));
    let named =
        || paths.iter().position(|path| path["id"].is_u64() && path["id"] == owner["primary"]);
    let primary = paths.get(marked.or_else(named).unwrap_or(0))?;
    let others = paths.iter().filter(|path| !std::ptr::eq(*path, primary)).filter_map(rtt);
    let ratio = rtt(primary)
        .filter(|primary| *primary > 0.0)
        .and_then(|primary| others.reduce(f64::max).map(|other| other / primary));
    Some((loss(primary), ratio))
}

/// Finds all lists of paths with measurements in a report, and the values that contain them.
fn find_paths<'v>(value: &'v Value, found: &mut Vec<(&'v Value, &'v Vec<Value>)>) {
    let here = value["paths"].as_array().filter(|paths| paths.iter().any(|p| rtt(p).is_some()));
    if let Some(paths) = here {
        found.push((value, paths));
        return;
    }
    match value {
        Value::Array(items) => items.iter().for_each(|item| find_paths(item, found)),
        Value::Object(fields) => fields.values().for_each(|field| find_paths(field, found)),
        _ => {}
    }
}

/// A field of a path; `get` nests it one level deeper.
fn field<'v>(path: &'v Value, name: &str) -> &'v Value {
    if path[name].is_null() { &path["sctp"][name] } else { &path[name] }
}

fn loss(path: &Value) -> Option<f64> {
    field(path, "loss").as_f64().filter(|loss| (0.0..=1.0).contains(loss))
}

/// Returns seconds, given as a number or in the form of the engine's statistics.
fn rtt(path: &Value) -> Option<f64> {
    let duration = field(path, "srtt");
    let parts = || Some(duration["secs"].as_f64()? + duration["nanos"].as_f64()? / 1e9);
    field(path, "srtt_seconds").as_f64().or_else(parts)
}

fn report(conditions: &Conditions, advice: Option<&Advice>, timely: &[Recommended]) -> Value {
    json!({
        "conditions": {
            "loss": conditions.loss,
            "rtt_ratio": conditions.rtt_ratio,
            "routing": conditions.routing.map(|routing| match routing {
                Routing::Proactive => "proactive",
                Routing::Reactive { .. } => "reactive",
            }),
        },
        "recommendation": advice.and_then(|advice| advice.choice).map(|choice| json!({
            "retransmission": choice.retransmission.name(),
            "pmr": choice.path_max_retrans,
            "extensions": choice.extensions,
        })),
        "path": advice.map(|advice| &advice.path[..]).unwrap_or_default(),
        "options": timely.iter().map(|known| json!({
            "option": known.option,
            "value": known.value,
            "reason": known.reason,
            "study": known.study,
        })).collect::<Vec<_>>(),
    })
}

/// The options as they are written on the command line.
fn timely_text(timely: &[Recommended]) -> String {
    let line = |known: &Recommended| {
        let Recommended { option, value, reason, study } = known;
        let option = option.replace('_', "-");
        let value = if *value == "on" { String::new() } else { format!(" {value}") };
        format!("= --{option}{value}: {reason} ({study})\n")
    };
    timely.iter().map(line).collect()
}

fn text(advice: &Advice) -> String {
    let mut text: String = advice.path.iter().map(|line| format!("- {line}\n")).collect();
    text.push_str(&match advice.choice {
        Some(choice) => format!(
            "= recommended: --retransmission {} --pmr {} --{}\n",
            choice.retransmission,
            choice.path_max_retrans,
            choice.extensions.join(" --"),
        ),
        None => "= no recommendation\n".to_owned(),
    });
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_have_a_percent_sign() {
        assert_eq!(share("2.5%"), Ok(0.025));
        for wrong in ["2.5", "%", "-1%", "101%", "NaN%", "x%"] {
            assert!(share(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn reports_of_any_depth_are_read() {
        let get = json!({ "connections": [{ "paths": [
            { "primary": false, "sctp": { "srtt_seconds": 0.2, "loss": 0.5 } },
            { "primary": true, "sctp": { "srtt_seconds": 0.1, "loss": 0.04 } },
            { "primary": false, "sctp": { "srtt_seconds": 0.15, "loss": null } },
        ] }] });
        assert_eq!(measured(std::slice::from_ref(&get)), Ok((Some(0.04), Some(2.0))));
        let engine = json!({ "primary": 0, "paths": [
            { "srtt": { "secs": 1, "nanos": 0 }, "loss": null },
            { "srtt": null, "loss": 0.1 },
        ] });
        assert_eq!(measured(std::slice::from_ref(&engine)), Ok((None, None)));
        // The receiver of a transfer does not know about losses.
        assert_eq!(measured(&[engine, get]), Ok((Some(0.04), Some(2.0))));
        for nothing in [json!({}), json!([1, "x"]), json!({ "paths": [{}] }), Value::Null] {
            assert!(measured(std::slice::from_ref(&nothing)).is_err(), "{nothing}");
        }
    }

    #[test]
    fn the_answer_names_the_options() {
        let advice = advise(&Conditions { loss: Some(0.01), ..Conditions::default() });
        let text = text(&advice);
        assert!(text.contains("--retransmission fr-same-rto-alt --pmr 0 --mfr"), "{text}");
        let value = report(&Conditions::default(), Some(&advise(&Conditions::default())), &[]);
        assert_eq!(value["recommendation"]["retransmission"], "all-rtx-same");
        assert_eq!(value["recommendation"]["pmr"], 1);
    }
}
