//! An HTML page that shows a log.

use std::fmt::Write as _;

use anabranch_chart::{Chart, Curve, Dot, Style, escape, page, thinned};

use crate::read::Header;
use crate::story::{PathStory, Series, Stories, Story};

/// Maximum number of associations drawn; further ones appear only in the text.
const MOST: usize = 20;

/// Maximum number of state changes listed for one association.
const MOST_STATES: usize = 500;

/// The page. `file` is its title, `sentence` describes problems of the log, and `text` describes an association in a
/// few lines.
pub fn html(
    file: &str,
    header: &Header,
    stories: &Stories,
    sentence: Option<&str>,
    text: impl Fn(&Story) -> String,
) -> String {
    let mut body = String::new();
    // Writing to a string does not fail.
    let _ = writeln!(body, "<h1>{}</h1><pre>{}</pre>", escape(file), escape(&header.title));
    let point = &header.trace.vantage_point;
    let _ = writeln!(
        body,
        "<p>Seen by: {}, {}. Times count from the beginning of the log.</p>",
        escape(&point.kind),
        escape(&point.name)
    );
    for sentence in sentence.into_iter().chain(left_out(stories).as_deref()) {
        let _ = writeln!(body, "<p class=\"differs\">{}</p>", escape(sentence));
    }
    for story in stories.all.iter().take(MOST) {
        section(&mut body, story, &text(story));
    }
    if stories.all.len() > MOST {
        let rest = stories.all.len() - MOST;
        let _ = writeln!(
            body,
            "<p>{rest} associations more are not drawn; --association draws one.</p>"
        );
    }
    page(file, &body)
}

/// Describes the gaps in a log; `None` if there are none.
pub fn left_out(stories: &Stories) -> Option<String> {
    (stories.left_out > 0).then(|| {
        format!("the log lacks {} events that the disk was too slow for", stories.left_out)
    })
}

fn section(body: &mut String, story: &Story, text: &str) {
    let _ = writeln!(body, "<h2>Association {}</h2><pre>{}</pre>", escape(&story.id), escape(text));
    for chart in charts(story) {
        let (caption, svg) = (escape(&chart.title), chart.svg());
        let _ = writeln!(
            body,
            "<figure class=\"large\"><figcaption>{caption}</figcaption>{svg}</figure>"
        );
    }
    let _ =
        writeln!(body, "<details><summary>States of the association and of its paths</summary>");
    let _ = writeln!(body, "<table><tr><th>time (s)</th><th>state</th></tr>");
    for (at, what) in story.states.iter().take(MOST_STATES) {
        let _ = writeln!(body, "<tr><td>{at:.6}</td><td>{}</td></tr>", escape(what));
    }
    let _ = writeln!(body, "</table></details>");
}

/// The charts that contain data.
fn charts(story: &Story) -> Vec<Chart> {
    let window =
        |path: &PathStory| [("cwnd", path.cwnd.clone()), ("ssthresh", path.ssthresh.clone())];
    let rtt = |path: &PathStory| [("SRTT", path.srtt.clone()), ("least", path.min_rtt.clone())];
    let charts = [
        Chart::over_time("Chunks sent and lost", "chunk", sequence(story)),
        Chart::over_time("Chunks lost so far, by cause", "chunks", losses(story)),
        Chart::over_time("Congestion windows", "bytes", over_time(story, window)),
        Chart::over_time(
            "Bytes in flight",
            "bytes",
            over_time(story, |path| [("in flight", path.flight.clone())]),
        ),
        Chart::over_time("Round-trip times", "ms", over_time(story, rtt)),
        Chart::over_time("Retransmission timeouts", "RTO (ms)", timeouts(story)),
        Chart::over_time(
            "The peer's receive window",
            "bytes",
            vec![Curve::over_time("as this side sees it", 0, until(&story.peer_rwnd, story.end))],
        ),
        Chart::over_time(
            "States of paths",
            STATES_LABEL,
            over_time(story, |path| [("state", path.states.clone())]),
        ),
    ];
    let drawn = |chart: &Chart| chart.curves.iter().any(|curve| !curve.dots.is_empty());
    charts.into_iter().filter(drawn).collect()
}

/// The meaning of the numbers in that chart.
const STATES_LABEL: &str = "3 active, 2 PF, 1 inactive, 0 unconfirmed";

/// Extends the last value to the end of the log.
fn until(series: &Series, end: f64) -> Series {
    let last = series.last().map(|(_, value)| (end, *value));
    series.iter().copied().chain(last).collect()
}

/// Curves for each path; those of one path have neighbouring colours.
fn over_time<const N: usize>(
    story: &Story,
    read: impl Fn(&PathStory) -> [(&'static str, Series); N],
) -> Vec<Curve> {
    let paths = story.paths.iter().enumerate();
    let curves = paths.flat_map(|(place, (id, path))| {
        let series = read(path).into_iter().enumerate();
        series.map(move |(number, (what, series))| {
            let name = format!("{what}, path {id}");
            Curve::over_time(name, 2 * place + number, until(&series, story.end))
        })
    });
    curves.filter(|curve: &Curve| !curve.dots.is_empty()).collect()
}

/// A curve of dots.
fn dots(name: String, color: usize, series: &Series) -> Curve {
    let dots = series.iter().map(|(x, y)| Dot::at(*x, *y)).collect();
    Curve { name, color, style: Style::Points, dots }
}

/// Chunks by number: sent, with lost ones on top.
fn sequence(story: &Story) -> Vec<Curve> {
    let mut curves = Vec::new();
    for (place, (id, path)) in story.paths.iter().enumerate() {
        let mut sent = dots(format!("sent, path {id}"), 2 * place, &path.sent);
        sent.dots = thinned(sent.dots);
        curves.push(sent);
    }
    // Draw all losses, because they are what a reader looks for.
    curves.extend(lost(story).map(|(name, color, series)| dots(name, color, series)));
    curves.retain(|curve| !curve.dots.is_empty());
    curves
}

/// The number of chunks lost so far.
fn losses(story: &Story) -> Vec<Curve> {
    let counted = lost(story).map(|(name, color, series)| {
        let before = series.first().map(|(at, _)| (*at, 0.0));
        let counts = series.iter().zip(1_u32..).map(|((at, _), count)| (*at, f64::from(count)));
        let counts: Series = before.into_iter().chain(counts).collect();
        Curve::over_time(name, color, until(&counts, story.end))
    });
    counted.collect()
}

/// The losses of each path and cause, with a name and a colour.
fn lost(story: &Story) -> impl Iterator<Item = (String, usize, &Series)> {
    story.paths.iter().enumerate().flat_map(|(place, (id, path))| {
        path.lost.iter().enumerate().map(move |(number, (cause, series))| {
            let name = format!("lost, path {id}: {}", cause.replace('_', " "));
            (name, 2 * (place + number) + 1, series)
        })
    })
}

fn timeouts(story: &Story) -> Vec<Curve> {
    let mut curves = over_time(story, |path| [("RTO", path.rto.clone())]);
    for (place, (id, path)) in story.paths.iter().enumerate() {
        if !path.timeouts.is_empty() {
            curves.push(dots(format!("expired, path {id}"), 2 * place + 1, &path.timeouts));
        }
    }
    curves
}
