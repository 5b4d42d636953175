//! Draws the output of `perf --json`: throughput or bytes over time.

use std::path::{Path, PathBuf};

use anabranch_chart::{Chart, Curve, Dot, Style, picture};
use anabranch_units::read_text;
use serde::Deserialize;

use crate::failure::Failure;

/// The fields of an interval that are drawn.
#[derive(Debug, Deserialize)]
struct Line {
    event: String,
    #[serde(default)]
    from_seconds: f64,
    #[serde(default)]
    to_seconds: f64,
    #[serde(default)]
    bytes_sent: u64,
    #[serde(default)]
    bytes_received: u64,
    #[serde(default)]
    paths: Vec<PathLine>,
}

#[derive(Debug, Deserialize)]
struct PathLine {
    local: String,
    remote: String,
    data_bytes_sent: u64,
    data_bytes_received: u64,
}

/// The quantity to draw.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum What {
    /// Mb/s in each interval: of user data in total, and of the packets' data on each path.
    Rate,
    /// Megabytes of user data delivered so far.
    Bytes,
}

/// A measurement: its name in the legend, and its file.
#[derive(Clone, Debug)]
pub(crate) struct Source {
    pub(crate) name: String,
    pub(crate) file: PathBuf,
}

impl std::str::FromStr for Source {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.split_once('=') {
            Some((name, file)) if !name.is_empty() && !file.is_empty() => {
                Ok(Self { name: name.to_owned(), file: file.into() })
            }
            None if !text.is_empty() => Ok(Self { name: String::new(), file: text.into() }),
            _ => Err("expected FILE or NAME=FILE".to_owned()),
        }
    }
}

/// Draws the measurements into one picture.
pub(crate) fn draw(title: &str, sources: &[Source], what: What) -> Result<String, Failure> {
    let mut curves = Vec::new();
    for source in sources {
        let lines = read(&source.file)?;
        let named = |what: String| match source.name.as_str() {
            "" => what,
            name => format!("{name}: {what}"),
        };
        match what {
            What::Bytes => {
                let name = match source.name.as_str() {
                    "" => source.file.display().to_string(),
                    name => name.to_owned(),
                };
                curves.push(curve(curves.len(), name, bytes(&lines)));
            }
            What::Rate => {
                let total =
                    lines.iter().map(|line| (line, line.bytes_received.max(line.bytes_sent)));
                curves.push(curve(curves.len(), named("all paths".to_owned()), rate(total)));
                for (local, remote) in used_paths(&lines) {
                    let carried = lines.iter().map(|line| {
                        let of = line
                            .paths
                            .iter()
                            .filter(|p| (&p.local, &p.remote) == (&local, &remote));
                        let data = of.map(|p| p.data_bytes_received.max(p.data_bytes_sent)).sum();
                        (line, data)
                    });
                    let name = named(format!("{local} - {remote}"));
                    curves.push(curve(curves.len(), name, rate(carried)));
                }
            }
        }
    }
    let y_label = match what {
        What::Rate => "Mb/s",
        What::Bytes => "megabytes",
    };
    Ok(picture(&Chart::over_time(title, y_label, curves)))
}

/// Maximum length of a file with measurements, in bytes: enough for several months.
const MOST: u64 = 1 << 30;

/// The intervals of a measurement.
fn read(file: &Path) -> Result<Vec<Line>, Failure> {
    let name = file.display();
    let text = read_text(file, MOST)
        .map_err(|error| Failure::failed(format!("{name} cannot be read: {error}")))?;
    let mut lines = Vec::new();
    for (number, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
        let line: Line = serde_json::from_str(line).map_err(|error| {
            Failure::failed(format!(
                "{name}, line {}: no output of perf --json: {error}",
                number + 1
            ))
        })?;
        if line.event == "interval" {
            lines.push(line);
        }
    }
    if lines.is_empty() {
        return Err(Failure::failed(format!(
            "{name} has no intervals: measure with --json and an --interval above 0s"
        )));
    }
    Ok(lines)
}

/// Paths that carried more than a hundredth of all data.
fn used_paths(lines: &[Line]) -> Vec<(String, String)> {
    let mut paths: Vec<(String, String, u64)> = Vec::new();
    for path in lines.iter().flat_map(|line| &line.paths) {
        let data = path.data_bytes_received.max(path.data_bytes_sent);
        match paths.iter_mut().find(|known| known.0 == path.local && known.1 == path.remote) {
            Some(known) => known.2 += data,
            None => paths.push((path.local.clone(), path.remote.clone(), data)),
        }
    }
    let all: u64 = paths.iter().map(|path| path.2).sum();
    paths.retain(|path| path.2 > all / 100);
    paths.into_iter().map(|(local, remote, _)| (local, remote)).collect()
}

/// Draws each interval as a step from its beginning to its end.
fn rate<'a>(lines: impl Iterator<Item = (&'a Line, u64)>) -> Vec<Dot> {
    let mut dots: Vec<Dot> = Vec::new();
    let mut end = None;
    for (line, bytes) in lines.filter(|(line, _)| line.to_seconds > line.from_seconds) {
        let y = bytes as f64 * 8e-6 / (line.to_seconds - line.from_seconds);
        dots.push(Dot { x: line.from_seconds, y, ..Dot::default() });
        end = Some(Dot { x: line.to_seconds, y, ..Dot::default() });
    }
    dots.extend(end);
    dots
}

fn bytes(lines: &[Line]) -> Vec<Dot> {
    let mut sum = 0;
    let so_far = lines.iter().map(|line| {
        sum += line.bytes_received.max(line.bytes_sent);
        Dot { x: line.to_seconds, y: sum as f64 * 1e-6, ..Dot::default() }
    });
    so_far.collect()
}

fn curve(number: usize, name: String, dots: Vec<Dot>) -> Curve {
    Curve { name, color: number, style: Style::Steps, dots }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MEASURED: &str = r#"{"event":"connected","peer":"x","transport":"sctp","associations":1,"seconds":0.1}
{"event":"interval","from_seconds":0,"to_seconds":1,"bytes_sent":1000000,"bytes_received":0,"paths":[
{"local":"10.0.0.1","remote":"10.0.0.2","data_bytes_sent":600000,"data_bytes_received":0},
{"local":"10.1.0.1","remote":"10.1.0.2","data_bytes_sent":400000,"data_bytes_received":0},
{"local":"10.0.0.1","remote":"10.1.0.2","data_bytes_sent":0,"data_bytes_received":0}]}
{"event":"interval","from_seconds":1,"to_seconds":2,"bytes_sent":2000000,"bytes_received":0,"paths":[]}
"#;

    fn file(name: &str, text: &str) -> Source {
        let file = std::env::temp_dir().join(format!("perf-chart-{}-{name}", std::process::id()));
        // Each document is on one line.
        let text = text.replace(",\n{", ",{").replace("[\n", "[");
        std::fs::write(&file, text).unwrap();
        Source { name: name.to_owned(), file }
    }

    #[test]
    fn paths_that_carried_data_have_curves() {
        let source = file("cmt", MEASURED);
        let svg = draw("two paths", std::slice::from_ref(&source), What::Rate).unwrap();
        assert!(svg.contains("cmt: all paths") && svg.contains("10.1.0.1 - 10.1.0.2"), "{svg}");
        assert!(!svg.contains("10.0.0.1 - 10.1.0.2"));
        assert!(svg.starts_with("<svg") && svg.contains("xmlns="));
        let lines = read(&source.file).unwrap();
        let megabytes: Vec<f64> = bytes(&lines).iter().map(|dot| dot.y).collect();
        assert_eq!(megabytes, [1.0, 3.0]);
        let dots = rate(lines.iter().map(|line| (line, line.bytes_sent)));
        let drawn: Vec<_> = dots.iter().map(|dot| (dot.x, dot.y)).collect();
        assert_eq!(drawn, [(0.0, 8.0), (1.0, 16.0), (2.0, 16.0)]);
        std::fs::remove_file(source.file).unwrap();
    }

    #[test]
    fn what_is_no_measurement_is_refused() {
        for (name, text, expected) in [
            ("empty", "", "has no intervals"),
            ("other", "{\"event\": 7}", "line 1: no output of perf --json"),
            ("text", "hello\n", "line 1: no output of perf --json"),
        ] {
            let source = file(name, text);
            let error = draw("", std::slice::from_ref(&source), What::Rate).unwrap_err();
            let Failure::Failed(error) = error else { panic!("{error:?}") };
            assert!(error.contains(expected), "{error}");
            std::fs::remove_file(source.file).unwrap();
        }
        let missing = Source { name: String::new(), file: "/nonexistent/file".into() };
        assert!(draw("", &[missing], What::Bytes).is_err());
        assert!("=x".parse::<Source>().is_err() && "".parse::<Source>().is_err());
    }
}
