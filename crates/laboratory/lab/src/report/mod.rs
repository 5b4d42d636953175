//! Results as one self-contained HTML page.

mod charts;
mod download;
mod elsewhere;

use std::fmt::Write as _;

use anabranch_chart::{Chart, escape, page, picture};

use crate::check::{Agreement, Change, Judgement, Likeness, Totals, Verdict};
use crate::metrics::{self, METRICS};
use crate::provenance::{self, Provenance};
use crate::reference::Reference;
use crate::runner::Results;
use crate::scenario::Scenario;
use crate::summary;

pub(crate) use download::link;

/// The data of a scenario.
#[derive(Clone, Debug)]
pub struct Section {
    /// The scenario.
    pub scenario: Scenario,
    /// Its runs.
    pub results: Results,
    /// The original simulator's numbers.
    pub references: Vec<Reference>,
    /// How well both agree, if there are reference numbers.
    pub agreement: Option<Agreement>,
    /// Its claims.
    pub judgements: Vec<Judgement>,
    /// Changes of its expectations.
    pub changes: Vec<Change>,
    /// Whether the runs themselves are drawn too: boxes, and their distribution at each point.
    pub distributions: bool,
}

/// The report on some scenarios.
pub fn html(sections: &[Section], made_by: &Provenance) -> String {
    let mut body = String::new();
    // Writing to a string does not fail.
    let _ = contents(&mut body, sections, made_by);
    page("anabranch lab", &body)
}

fn contents(body: &mut String, sections: &[Section], made_by: &Provenance) -> std::fmt::Result {
    writeln!(body, "<h1>Results of the laboratory</h1>\n{}", made_by.html())?;
    let totals = Totals::of(sections.iter().flat_map(|section| &section.judgements));
    writeln!(
        body,
        "<p>{} claims: {}. {} Hollow marks are the original simulator's.</p>",
        totals.claims,
        totals.verdicts(),
        totals.by_chance().unwrap_or_default(),
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
    for (index, section) in sections.iter().enumerate() {
        figure(body, section, made_by)?;
        // The results of the tests come after the last scenario of a document.
        let document = section.scenario.document();
        let goes_on = |next: &Section| next.scenario.document() == document;
        if !document.is_empty() && !sections.get(index + 1).is_some_and(goes_on) {
            elsewhere::shown(body, section)?;
        }
    }
    Ok(())
}

/// The charts of a scenario's metrics as separate SVG pictures, each with a name for its file:
/// `timely-bundling.delay_mean_s.messages=20`.
pub fn pictures(section: &Section) -> Vec<(String, String)> {
    let scenario = &section.scenario;
    let plain = |text: &str| -> String {
        let plain = |c: char| if c.is_alphanumeric() || "=._".contains(c) { c } else { '-' };
        text.chars().map(plain).collect::<String>().trim_matches('-').to_owned()
    };
    let mut pictures = Vec::new();
    let others = scenario.figure.metrics.iter().filter(|name| **name != scenario.figure.y);
    for name in std::iter::once(&scenario.figure.y).chain(others) {
        let Some(metric) = metrics::find(name) else { continue };
        for (panel, chart) in charts::means(section, metric) {
            let parts = [plain(&scenario.id), plain(name), plain(&panel)];
            let parts = parts.into_iter().filter(|part| !part.is_empty());
            pictures.push((parts.collect::<Vec<_>>().join("."), picture(&chart)));
        }
    }
    pictures
}

/// Charts that can be collapsed.
fn folded(
    body: &mut String,
    open: bool,
    title: &str,
    charts: &[(String, Chart)],
) -> std::fmt::Result {
    let open = if open { " open" } else { "" };
    writeln!(body, "<details{open}><summary>{}</summary><div class=\"charts\">", escape(title))?;
    for (title, chart) in charts {
        let (caption, svg) = (escape(title), chart.svg());
        writeln!(body, "<figure><figcaption>{caption}</figcaption>{svg}</figure>")?;
    }
    writeln!(body, "</div></details>")
}

fn figure(body: &mut String, section: &Section, made_by: &Provenance) -> std::fmt::Result {
    let scenario = &section.scenario;
    let id = escape(&scenario.id);
    writeln!(body, "<section id=\"{id}\"><h2>{id}: {}</h2>", escape(&scenario.title))?;
    writeln!(body, "<p class=\"source\">{}</p>", escape(&scenario.source))?;
    if !scenario.notes.trim().is_empty() {
        writeln!(body, "<p>{}</p>", escape(scenario.notes.trim()))?;
    }
    writeln!(body, "<p class=\"source\">{}</p>", runs(section))?;
    writeln!(body, "{}", provenance::scenario_html(scenario))?;
    writeln!(body, "<pre>anabranch lab run {}</pre>", escape(&scenario.argument()))?;
    let mut drawn: Vec<&String> = vec![&scenario.figure.y];
    // Gaps and delays of data matter as much as the end of the transfer.
    drawn.extend(scenario.figure.metrics.iter().filter(|name| **name != scenario.figure.y));
    for (index, name) in drawn.into_iter().enumerate() {
        let Some(metric) = metrics::find(name) else { continue };
        let charts = charts::means(section, metric);
        if charts.is_empty() {
            continue;
        }
        let what = METRICS.get(metric).map_or("", |metric| metric.what.as_str());
        folded(body, index == 0, &format!("{name}: {what}"), &charts)?;
        if section.distributions {
            let boxes = charts::boxes(section, metric);
            folded(body, false, &format!("{name}: the runs as boxes"), &boxes)?;
            let shares = charts::distributions(section, metric);
            folded(body, false, &format!("{name}: how the runs are distributed"), &shares)?;
        }
    }
    download::links(body, section, made_by)?;
    flows(body, section)?;
    claims(body, section)?;
    references(body, section)?;
    changes(body, section)?;
    writeln!(body, "</section>")
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

/// The share of each transfer.
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
            judgement.reference(),
            judgement.seeds,
            judgement.verdict,
            judgement.verdict,
        )?;
        if let Some(reason) = judgement.reason() {
            writeln!(body, "<tr><td colspan=\"7\" class=\"reason\">{}</td></tr>", escape(reason))?;
        }
        if let Some(warning) = judgement.warning(&section.scenario) {
            let warning = escape(&warning);
            writeln!(body, "<tr><td colspan=\"7\" class=\"reason\">{warning}</td></tr>")?;
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
    use crate::check::Tail;
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
            confidence: 0.9,
            theirs: None,
            tail: Some(Tail { point: 0, metric: 0, mean: 20.0, median: 2.0 }),
            seeds: 10,
        };
        let section = Section {
            distributions: true,
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
        let hash = section.scenario.sha256();
        let made_by = Provenance { commit: "c0ffee-dirty".to_owned(), ..Provenance::default() };
        let html = html(&[section], &made_by);
        let parts = [
            "commit <code>c0ffee-dirty</code>",
            "c0ffee-dirty,",
            hash.as_str(),
            "<svg",
            "A &lt; B",
            "class=\"differs\"",
            "the trace",
            "few runs decide a mean: transfer_time_s at loss=1 %, policy=Same has the mean 20.00",
            "1 claims: 0 hold, 0 fitted, 1 differ, 0 refute the document, 0 open.",
            "Same, original simulator",
            "transfer time (s)",
            "10 runs of each point",
            "data-of=\"verdict\"",
            "anabranch lab run test/1",
            "2026-11-21",
            "the farthest",
            "prefers-color-scheme",
            "the runs as boxes",
            "how the runs are distributed",
            "share of the runs",
            "download=\"test-1.csv\"",
            "download=\"test-1-runs.csv\"",
        ];
        for part in parts {
            assert!(html.contains(part), "{part}");
        }
        assert!(!html.contains("http://") && !html.contains("https://"));
    }
}
