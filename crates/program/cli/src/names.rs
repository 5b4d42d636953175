//! Tests that each number and each event has the same name everywhere. `docs/counters.md`, `docs/events.md` and their
//! schemas list the names in each format; they are generated from the engine's tables, and `ANABRANCH_WRITE=1 cargo
//! test -p anabranch-cli names` writes them.

use std::fmt::Write as _;
use std::path::Path;

use anabranch::{
    Counter, CounterKind, Detail, InQlog, Notification, NotificationKind, PathStatistics,
    Statistics, Unit,
};
use anabranch_lab::metrics::{self as lab, engine};
use serde_json::{Value, json};

use crate::metrics;

/// The names of a number in each format.
struct Names {
    name: &'static str,
    help: String,
    kind: &'static str,
    json: String,
    prometheus: String,
    qlog: String,
    lab: String,
}

const KINDS: [(CounterKind, &str); 3] = [
    (CounterKind::Counter, "counter"),
    (CounterKind::Amount, "amount"),
    (CounterKind::Gauge, "gauge"),
];

/// Names that the events of QUIC's qlog define.
const OF_QLOG: [(&str, &str); 4] = [
    ("cwnd", "congestion_window"),
    ("flight", "bytes_in_flight"),
    ("srtt", "smoothed_rtt"),
    ("rttvar", "rtt_variance"),
];

fn names<S: 'static>(row: &Counter<S>, prefix: &str, lab_suffix: &str) -> Names {
    let lab = engine::name(row).0 + lab_suffix;
    let in_qlog = row.qlog.or((row.kind == CounterKind::Counter).then_some(row.name));
    let known = lab::names().split(", ").any(|name| name == lab);
    Names {
        name: row.name,
        help: row.help(),
        kind: KINDS.iter().find(|(kind, _)| *kind == row.kind).unwrap().1,
        json: row.json_name(),
        prometheus: metrics::name(prefix, row),
        qlog: in_qlog.unwrap_or("-").to_owned(),
        lab: if known { lab } else { "-".to_owned() },
    }
}

fn of_associations() -> Vec<Names> {
    Statistics::counters().map(|row| names(row, "association_", "")).collect()
}

fn of_paths() -> Vec<Names> {
    PathStatistics::counters().map(|row| names(row, "path_", "_path{n}")).collect()
}

/// The name without the affixes that a format adds for units and kinds.
fn bare(name: &str) -> &str {
    let name = name.strip_suffix("_path{n}").unwrap_or(name);
    let name = ["anabranch_association_", "anabranch_path_"]
        .iter()
        .find_map(|prefix| name.strip_prefix(prefix))
        .unwrap_or(name);
    let name = name.strip_suffix("_total").unwrap_or(name);
    let units = ["_seconds", "_s", "_percent", "_share", "_kb", "_bytes_per_second", "_bytes"];
    units.iter().find_map(|unit| name.strip_suffix(unit)).unwrap_or(name)
}

#[test]
fn a_number_has_the_same_name_everywhere() {
    for number in of_associations().iter().chain(&of_paths()) {
        let name = bare(number.name);
        assert_eq!(bare(&number.json), name);
        assert_eq!(bare(&number.prometheus), name, "all are in Prometheus");
        for other in [&number.qlog, &number.lab].into_iter().filter(|name| *name != "-") {
            let standard = OF_QLOG.contains(&(number.name, other));
            assert!(bare(other) == name || standard, "{other} is {name} elsewhere");
        }
        if number.kind == "counter" {
            assert!(number.qlog != "-" && number.lab != "-", "{name} is everywhere");
        }
    }
}

fn table(text: &mut String, names: &[Names]) {
    text.push_str("| JSON, C | kind | Prometheus | qlog | lab | |\n|---|---|---|---|---|---|\n");
    for Names { name: _, help, kind, json, prometheus, qlog, lab } in names {
        let code = |name: &str| if name == "-" { String::new() } else { format!("`{name}`") };
        let (qlog, lab) = (code(qlog), code(lab));
        let _ = writeln!(text, "| `{json}` | {kind} | `{prometheus}` | {qlog} | {lab} | {help} |");
    }
}

/// Generates the page of counters.
fn page() -> String {
    let mut text = "# Counters

What the engine counts and measures. A number has one name. Each format adds its own convention:

| format | convention |
|---|---|
| JSON of `inspect` and `perf`, C (`ANABRANCH_COUNTER`) | times in seconds, `_seconds` |
| Prometheus | `anabranch_association_` or `anabranch_path_`, the unit, `_total` for counters |
| qlog | times in milliseconds; gauges of paths when they change, with the names that qlog has for QUIC; counters when an \
association ends |
| lab | times `_s`, shares `_percent`, `_bytes` at the end `_kb`; counters of paths with the path's number |

A counter only grows. Amounts and counters of several associations can be added up; gauges cannot. Without
`--metrics-associations`, Prometheus has the sums of all associations as `anabranch_NAME`, and of counters of paths, too.
The lab has these sums without a suffix.

This page is written by a test: `ANABRANCH_WRITE=1 cargo test -p anabranch-cli names`.

## Of an association

"
    .to_owned();
    table(&mut text, &of_associations());
    text.push_str("\n## Of a path\n\n");
    table(&mut text, &of_paths());
    text
}

fn object(properties: impl Iterator<Item = (String, Value)>) -> Value {
    let properties: serde_json::Map<_, _> = properties.collect();
    let required: Vec<_> = properties.keys().cloned().collect();
    json!({ "type": "object", "properties": properties, "required": required })
}

/// Generates the schema of a row.
fn in_schema<S: 'static>(row: &Counter<S>) -> Value {
    let is_whole = !matches!(row.unit, Unit::Seconds | Unit::Share) && !row.name.contains("_mean_");
    let kind = if is_whole { "integer" } else { "number" };
    let kind = match row.kind {
        CounterKind::Counter => json!(kind),
        _ => json!([kind, "null"]),
    };
    json!({ "type": kind, "description": row.help() })
}

/// The counters by their names in a qlog.
fn at_the_end<S: 'static>(
    rows: impl Iterator<Item = &'static Counter<S>>,
) -> impl Iterator<Item = (String, Value)> {
    rows.filter(|row| row.kind == CounterKind::Counter).map(|row| {
        let kind = if row.unit == Unit::Seconds { "number" } else { "integer" };
        (row.name.to_owned(), json!({ "type": kind }))
    })
}

fn schemas() -> String {
    // In JSON, the runs of timeouts are a list.
    let of_a_list = |row: &&Counter<PathStatistics>| !row.name.starts_with("timeout_runs_");
    let runs = json!({ "type": "array", "items": { "type": "integer" } });
    let plain = |kind: &str| json!({ "type": kind });
    let state = [
        ("id", plain("integer")),
        ("local", plain("string")),
        ("remote", plain("string")),
        ("remote_udp_port", plain("integer")),
        ("state", plain("string")),
        ("verified", plain("boolean")),
        ("disowned", plain("boolean")),
        ("primary", plain("boolean")),
        ("unverified", json!({ "type": ["string", "null"] })),
        ("timeout_runs", runs.clone()),
    ];
    let state = state.map(|(name, schema)| (name.to_owned(), schema));
    let rows = PathStatistics::counters().filter(of_a_list);
    let path = state.into_iter().chain(rows.map(|row| (row.json_name(), in_schema(row))));
    let path_id = [("path_id".to_owned(), plain("integer"))].into_iter();
    let schemas = json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Numbers of associations and paths, written from the engine's table",
        "$defs": {
            "association":
                object(Statistics::counters().map(|row| (row.json_name(), in_schema(row)))),
            "path": object(path),
            "qlog_association": object(at_the_end(Statistics::counters())),
            "qlog_path": object(path_id.chain(at_the_end(PathStatistics::counters()))),
        },
    });
    pretty(&schemas)
}

/// Formats JSON like the other schemas.
fn pretty(value: &Value) -> String {
    let mut text = Vec::new();
    let format = serde_json::ser::PrettyFormatter::with_indent(b" ");
    let mut serializer = serde_json::Serializer::with_formatter(&mut text, format);
    serde::Serialize::serialize(value, &mut serializer).unwrap();
    String::from_utf8(text).unwrap() + "\n"
}

/// The schema of a field.
fn detail_schema(detail: &Detail) -> Value {
    let kind = match detail {
        Detail::Flag(_) => "boolean",
        Detail::Number(_) => "integer",
        _ => "string",
    };
    json!({ "type": kind })
}

fn fields(kind: &NotificationKind) -> impl Iterator<Item = (String, Value)> {
    (kind.fields)().into_iter().map(|(name, detail)| (name.to_owned(), detail_schema(&detail)))
}

/// The meaning of an event in one line. Links of the Rust documentation are replaced by their text, and links to other
/// events by their names.
fn meaning(kind: &NotificationKind) -> String {
    let doc = kind.doc.iter().map(|line| line.trim()).collect::<Vec<_>>().join(" ");
    let mut parts = doc.split("[`");
    let mut text = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let (name, rest) = part.split_once("`](").unwrap();
        let (target, rest) = rest.split_once(')').unwrap();
        let event = target.strip_prefix("Self::").map(|variant| {
            let kinds = Notification::KINDS.iter().map(|kind| kind.name);
            kinds.into_iter().find(|name| name.replace('_', "") == variant.to_lowercase()).unwrap()
        });
        let _ = write!(text, "`{}`{rest}", event.unwrap_or(name));
    }
    text
}

fn event_schemas() -> String {
    let described = |mut schema: Value, kind: &NotificationKind| {
        schema["title"] = json!(meaning(kind));
        schema
    };
    let event = Notification::KINDS.iter().map(|kind| {
        let own =
            [("seconds", json!({ "type": "number" })), ("event", json!({ "const": kind.name }))];
        let own = own.map(|(name, schema)| (name.to_owned(), schema));
        described(object(own.into_iter().chain(fields(kind))), kind)
    });
    let in_qlog = Notification::KINDS.iter().filter_map(|kind| {
        let InQlog::Event(name) = kind.qlog else { return None };
        let own = [
            ("time", json!({ "type": "number" })),
            ("name", json!({ "const": name })),
            ("group_id", json!({ "type": "string" })),
            ("data", object(fields(kind))),
        ];
        Some(described(
            object(own.map(|(name, schema)| (name.to_owned(), schema)).into_iter()),
            kind,
        ))
    });
    pretty(&json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Events of associations, written from the engine's table",
        "$defs": {
            "event": { "anyOf": event.collect::<Vec<_>>() },
            "qlog": { "anyOf": in_qlog.collect::<Vec<_>>() },
        },
    }))
}

/// Generates the page of events.
fn event_page() -> String {
    let mut text = "# Events

What happens to an association besides its data. Each event has one name: in Rust (`Notification`), in the `events` of
`--json`, in a qlog, and in C, where those that RFC 6458 does not have are an ANABRANCH_EVENT.

This page is written by a test: `ANABRANCH_WRITE=1 cargo test -p anabranch-cli names`.

| JSON | fields | qlog | C | |
|---|---|---|---|---|
"
    .to_owned();
    for kind in Notification::KINDS {
        let fields: Vec<_> = fields(kind).map(|(name, _)| format!("`{name}`")).collect();
        let (InQlog::Event(qlog) | InQlog::Compared(qlog)) = kind.qlog else { continue };
        let sockets = kind.sockets.name();
        let doc = meaning(kind);
        let (name, fields) = (kind.name, fields.join(", "));
        let _ = writeln!(text, "| `{name}` | {fields} | `{qlog}` | `{sockets}` | {doc} |");
    }
    text
}

#[test]
fn the_lists_of_names_are_those_of_the_table() {
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../docs");
    for (file, made) in [
        ("counters.md", page()),
        ("schemas/counters.json", schemas()),
        ("events.md", event_page()),
        ("schemas/events.json", event_schemas()),
    ] {
        let file = docs.join(file);
        if std::env::var_os("ANABRANCH_WRITE").is_some() {
            std::fs::write(&file, &made).unwrap();
        }
        let kept = std::fs::read_to_string(&file).unwrap_or_default();
        assert!(made == kept, "ANABRANCH_WRITE=1 cargo test -p anabranch-cli names");
    }
}
