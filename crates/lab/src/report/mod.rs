//! Results as one HTML page that needs nothing else.

mod page;

use std::fmt::Write as _;

use crate::chart::{Chart, Curve, Dot, Size, Style, escape};
use crate::check::{Agreement, Change, Judgement, Likeness, Verdict};
use crate::metrics::{self, METRICS, Metric};
use crate::reference::Reference;
use crate::runner::Results;
use crate::scenario::Scenario;
use crate::summary;

pub use page::{page, picture};

/// What is known of a scenario.
#[derive(Clone, Debug)]
pub struct Section {
    /// The scenario.
    pub scenario: Scenario,
    /// Its runs.
    pub results: Results,
    /// The original simulator's numbers.
    pub references: Vec<Reference>,
    /// How both agree, if there are any.
    pub agreement: Option<Agreement>,
    /// Its claims.
    pub judgements: Vec<Judgement>,
    /// Changes of its expectations.
    pub changes: Vec<Change>,
}

/// The report on some scenarios.
pub fn html(sections: &[Section]) -> String {
    let mut body = String::new();
    // Writing to a string does not fail.
    let _ = contents(&mut body, sections);
    page("anabranch lab", &body)
}

fn contents(body: &mut String, sections: &[Section]) -> std::fmt::Result {
    writeln!(body, "<h1>Results of the laboratory</h1>")?;
    let all = || sections.iter().flat_map(|section| &section.judgements);
    let count = |verdict| all().filter(|judgement| judgement.verdict == verdict).count();
    writeln!(
        body,
        "<p>{} claims: {} hold, {} differ, {} refute the document, {} open. Hollow marks are the original \
         simulator's.</p>",
        all().count(),
        count(Verdict::Holds),
        count(Verdict::Differs),
        count(Verdict::Refuted),
        count(Verdict::Open),
    )?;
    writeln!(body, "<nav><ul>")?;
    for section in sections {
        let id = escape(&section.scenario.id);
        let differs = section.judgements.iter().filter(|j| j.verdict == Verdict::Differs).count();
        let note = match differs {
            0 => String::new(),
            differs => format!(" <b class=\"differs\">{differs} differ</b>"),
        };
        let title = escape(&section.scenario.title);
        writeln!(body, "<li><a href=\"#{id}\">{id}</a> {title}{note}</li>")?;
    }
    writeln!(body, "</ul></nav>")?;
    for section in sections {
        figure(body, section)?;
    }
    Ok(())
}

fn figure(body: &mut String, section: &Section) -> std::fmt::Result {
    let scenario = &section.scenario;
    let id = escape(&scenario.id);
    writeln!(body, "<section id=\"{id}\"><h2>{id}: {}</h2>", escape(&scenario.title))?;
    writeln!(body, "<p class=\"source\">{}</p>", escape(&scenario.source))?;
    if !scenario.notes.trim().is_empty() {
        writeln!(body, "<p>{}</p>", escape(scenario.notes.trim()))?;
    }
    writeln!(body, "<p class=\"source\">{}</p>", runs(section))?;
    writeln!(body, "<pre>anabranch lab run {}</pre>", escape(&scenario.argument()))?;
    let mut drawn: Vec<&String> = vec![&scenario.figure.y];
    // Whoever waits for data cares for its gaps and delays as much as for its end.
    drawn.extend(scenario.figure.metrics.iter().filter(|name| **name != scenario.figure.y));
    for (index, name) in drawn.into_iter().enumerate() {
        let Some(metric) = metrics::find(name) else { continue };
        let charts = charts(section, metric);
        if charts.is_empty() {
            continue;
        }
        let what = METRICS.get(metric).map_or("", |metric| metric.what.as_str());
        let open = if index == 0 { " open" } else { "" };
        writeln!(body, "<details{open}><summary>{name}: {what}</summary><div class=\"charts\">")?;
        for (title, chart) in &charts {
            writeln!(
                body,
                "<figure><figcaption>{}</figcaption>{}</figure>",
                escape(title),
                chart.svg()
            )?;
        }
        writeln!(body, "</div></details>")?;
    }
    flows(body, section)?;
    claims(body, section)?;
    references(body, section)?;
    changes(body, section)?;
    writeln!(body, "</section>")
}

/// A chart of one metric for each panel that has runs.
fn charts(section: &Section, metric: usize) -> Vec<(String, Chart)> {
    let scenario = &section.scenario;
    let x_axis = scenario.figure.x.and_then(|axis| scenario.axes.get(axis));
    let series = scenario.figure.series.and_then(|axis| scenario.axes.get(axis));
    let x_names = x_axis
        .filter(|axis| !axis.is_numeric())
        .map(|axis| axis.values.iter().map(|value| value.text.clone()).collect::<Vec<_>>());
    let x_of = |index: usize| match (x_axis, &x_names) {
        (Some(axis), None) => axis.values.get(index).and_then(|value| value.number).unwrap_or(0.0),
        _ => index as f64,
    };
    let mut charts = Vec::new();
    for panel in summary::panels(scenario) {
        let mut curves = Vec::new();
        for (color, points) in panel.curves.iter().enumerate() {
            let name = series
                .and_then(|axis| Some(axis.curve(axis.values.get(color)?)))
                .unwrap_or_else(|| "all".to_owned());
            let places = || points.iter().enumerate().filter_map(|(at, p)| p.map(|p| (at, p)));
            let ours: Vec<Dot> = places()
                .filter_map(|(at, point)| {
                    let estimate = summary::estimate(scenario, &section.results, point, metric)?;
                    Some(Dot { x: x_of(at), y: estimate.value, half: estimate.half() })
                })
                .collect();
            let theirs: Vec<Dot> = places()
                .filter_map(|(at, point)| {
                    let known = |r: &&Reference| r.point == point && r.metric == metric;
                    let estimate = section.references.iter().find(known)?.estimate;
                    Some(Dot { x: x_of(at), y: estimate.value, half: estimate.half() })
                })
                .collect();
            if !ours.is_empty() {
                curves.push(Curve { name: name.clone(), color, style: Style::Line, dots: ours });
                if !theirs.is_empty() {
                    let name = format!("{name}, original simulator");
                    curves.push(Curve { name, color, style: Style::Marks, dots: theirs });
                }
            }
        }
        if curves.is_empty() {
            continue;
        }
        let info = METRICS.get(metric);
        let y_label = info.map_or_else(String::new, label);
        let x_label = x_axis.map_or_else(String::new, |axis| match axis.unit() {
            "" => axis.label.clone(),
            unit => format!("{} ({unit})", axis.label),
        });
        let title = format!("{} {}", scenario.id, panel.title);
        let chart = Chart {
            size: Size::SMALL,
            title,
            x_label,
            x_names: x_names.clone(),
            y_label,
            curves,
            x_from_zero: false,
            from_zero: true,
        };
        charts.push((panel.title, chart));
    }
    charts
}

/// What the axis of a metric says: its name in words, and its unit.
fn label(metric: &Metric) -> String {
    let suffix = match metric.unit {
        "s" => "_s",
        "kbit/s" => "_kbit_s",
        "%" => "_percent",
        _ => "",
    };
    let words = metric.name.strip_suffix(suffix).unwrap_or(&metric.name).replace('_', " ");
    // A chart of chunks that is called chunks needs no unit.
    if metric.unit.is_empty() || words.starts_with(metric.unit) {
        words
    } else {
        format!("{words} ({})", metric.unit)
    }
}

/// How often the points were run.
fn runs(section: &Section) -> String {
    let counts = || section.results.points.iter().map(Vec::len);
    let (least, most) = (counts().min().unwrap_or(0), counts().max().unwrap_or(0));
    let confidence = section.scenario.replications.confidence * 100.0;
    let runs = match least == most {
        true => format!("{most} runs"),
        false => format!("{least} to {most} runs"),
    };
    format!("{runs} of each point; bars are intervals of {confidence:.0}&nbsp;%.")
}

/// What each transfer got.
fn flows(body: &mut String, section: &Section) -> std::fmt::Result {
    let Some(rows) = summary::flows(&section.scenario, &section.results) else { return Ok(()) };
    writeln!(
        body,
        "<details open><summary>what each transfer got</summary><div class=\"wide\"><table>"
    )?;
    let heading = rows.first().cloned().unwrap_or_default();
    for (number, row) in rows.iter().enumerate() {
        write!(body, "<tr>")?;
        for (name, cell) in heading.iter().zip(row) {
            match number {
                0 => write!(body, "<th>{}</th>", escape(cell))?,
                _ => write!(body, "<td data-of=\"{}\">{}</td>", escape(name), escape(cell))?,
            }
        }
        writeln!(body, "</tr>")?;
    }
    writeln!(body, "</table></div></details>")
}

fn claims(body: &mut String, section: &Section) -> std::fmt::Result {
    if section.judgements.is_empty() {
        return Ok(());
    }
    writeln!(
        body,
        "<div class=\"wide\"><table><tr><th>claim</th><th>expected</th><th>document</th>\
         <th>reference</th><th>ours</th><th>runs</th><th>verdict</th></tr>"
    )?;
    for judgement in &section.judgements {
        let claim = &judgement.claim;
        let number = |value: Option<f64>| value.map_or(String::new(), |value| value.to_string());
        let ours = match &judgement.measured {
            Ok(estimate) => summary::display(estimate),
            Err(missing) => missing.to_string(),
        };
        writeln!(
            body,
            "<tr><td>{}<br><small>{}; {}</small></td><td data-of=\"expected\">{} {}</td>\
             <td data-of=\"document\">{}</td><td data-of=\"reference\">{}</td>\
             <td data-of=\"ours\">{ours}</td><td data-of=\"runs\">{}</td>\
             <td data-of=\"verdict\" class=\"{}\">{}</td></tr>",
            escape(&claim.text),
            escape(&claim.id),
            escape(&claim.source),
            claim.bounds,
            escape(&claim.unit),
            number(claim.document),
            number(claim.reference),
            judgement.seeds,
            judgement.verdict,
            judgement.verdict,
        )?;
        if let Some(reason) = judgement.reason() {
            writeln!(body, "<tr><td colspan=\"7\" class=\"reason\">{}</td></tr>", escape(reason))?;
        }
    }
    let argument = escape(&section.scenario.argument());
    writeln!(body, "</table></div><pre>anabranch lab check {argument}</pre>")
}

fn references(body: &mut String, section: &Section) -> std::fmt::Result {
    let Some(agreement) = &section.agreement else { return Ok(()) };
    let Some(largest) = agreement.largest() else { return Ok(()) };
    let point = section.scenario.points.get(largest.reference.point);
    writeln!(
        body,
        "<p>Of {} numbers of the original simulator {} are the same within {:.0} %, {} differ by \
         more, and the runs do not decide the others; on average ours are {:+.1} % off, the farthest \
         {:+.1} % at {}.</p>",
        agreement.comparisons.len(),
        agreement.count(Likeness::Same),
        section.scenario.reference_within * 100.0,
        agreement.count(Likeness::Different),
        agreement.mean_deviation().unwrap_or_default(),
        largest.deviation(),
        escape(point.map_or("", |point| point.key.as_str()))
    )
}

fn changes(body: &mut String, section: &Section) -> std::fmt::Result {
    if section.changes.is_empty() {
        return Ok(());
    }
    writeln!(body, "<h3>Expectations that were changed</h3><ul>")?;
    for change in &section.changes {
        writeln!(
            body,
            "<li>{} {}: {} <i>{}</i></li>",
            escape(&change.date),
            escape(&change.claim),
            escape(&change.expectation),
            escape(&change.why)
        )?;
    }
    writeln!(body, "</ul>")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runner::tests::run;
    use crate::scenario::tests::{read, text};
    use crate::stats::Estimate;

    #[test]
    fn a_report_has_charts_claims_references_and_changes() {
        let claim = "[[claim]]\nid = 'a'\nkind = 'value'\ntext = 'A < B'\nsource = 's'\nat_most = 1\n\
                     formula = '2'\nreason = 'the trace'\n";
        let scenario = read(&format!("{}{claim}", text()), &[]).unwrap();
        let results = run(&scenario, 2, None);
        let reference = Reference::of_mean(0, 0, Estimate::around(30.0, Some(1.0), 60));
        let judgement = Judgement {
            claim: scenario.claims[0].clone(),
            verdict: Verdict::Differs,
            measured: Ok(Estimate::around(2.0, None, 10)),
            seeds: 10,
        };
        let section = Section {
            agreement: Some(crate::check::agreement(
                &scenario,
                &results,
                std::slice::from_ref(&reference),
            )),
            scenario,
            results,
            references: vec![reference],
            judgements: vec![judgement],
            changes: vec![Change {
                date: "2026-11-21".into(),
                claim: "test/1/a".into(),
                expectation: "x".into(),
                why: "y".into(),
            }],
        };
        let html = html(&[section]);
        let parts = [
            "<svg",
            "A &lt; B",
            "class=\"differs\"",
            "the trace",
            "Same, original simulator",
            "transfer time (s)",
            "10 runs of each point",
            "data-of=\"verdict\"",
            "anabranch lab run test/1",
            "2026-11-21",
            "the farthest",
            "prefers-color-scheme",
        ];
        for part in parts {
            assert!(html.contains(part), "{part}");
        }
        assert!(!html.contains("http://") && !html.contains("https://"));
    }
}
