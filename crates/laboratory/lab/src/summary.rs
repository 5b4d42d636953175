//! Results as numbers for people and programs: means with intervals, tables of curves, JSON.

use anabranch_chart::digits;
use serde_json::{Map, Value, json};

use crate::metrics::{self, METRICS, Metric};
use crate::provenance::Provenance;
use crate::reference::Reference;
use crate::runner::{self, Results};
use crate::scenario::{AxisValue, Scenario};
use crate::stats::{self, Estimate};

/// The mean of a metric at a point, with the scenario's confidence; `None` if no run measured it.
pub fn estimate(
    scenario: &Scenario,
    results: &Results,
    point: usize,
    metric: usize,
) -> Option<Estimate> {
    at_confidence(results, point, metric, scenario.replications.confidence)
}

fn at_confidence(
    results: &Results,
    point: usize,
    metric: usize,
    confidence: f64,
) -> Option<Estimate> {
    let values: Vec<f64> =
        results.points.get(point)?.iter().filter_map(|run| run.at(metric)).collect();
    stats::mean_estimate(&values, confidence)
}

/// Version of the JSON format, which docs/lab.md describes. Version 2 has the values of every run.
pub const JSON_VERSION: u32 = 2;

/// The results as a JSON document.
pub fn json(
    scenario: &Scenario,
    results: &Results,
    references: &[Reference],
    made_by: &Provenance,
) -> Value {
    let points = scenario.points.iter().enumerate().map(|(index, point)| {
        let params: Map<String, Value> =
            scenario.params(point).map(|(name, value)| (name.to_owned(), param(value))).collect();
        let metrics: Map<String, Value> = METRICS
            .iter()
            .enumerate()
            .filter_map(|(metric, info)| {
                Some((info.name.clone(), measured(scenario, results, index, metric)?))
            })
            .collect();
        let runs = results.points.get(index).map_or(0, Vec::len);
        let seeds: Vec<String> = (0..runs)
            .map(|number| runner::seed(&scenario.id, &point.seed_key, number).to_string())
            .collect();
        let mut entry = json!({ "params": params, "seeds": seeds, "metrics": metrics });
        let beside: Map<String, Value> = references
            .iter()
            .filter(|reference| reference.point == index)
            .filter_map(|reference| {
                let name = METRICS.get(reference.metric)?.name.clone();
                Some((name, number(&reference.estimate, "ci90")))
            })
            .collect();
        if !beside.is_empty()
            && let Some(entry) = entry.as_object_mut()
        {
            entry.insert("reference".to_owned(), beside.into());
        }
        entry
    });
    json!({
        "version": JSON_VERSION,
        "scenario": scenario.id,
        "scenario_sha256": scenario.sha256(),
        "title": scenario.title,
        "made_by": made_by.json(),
        "paths": scenario.names.paths,
        "flows": scenario.names.flows,
        "points": points.collect::<Vec<_>>(),
    })
}

/// A value of an axis: a plain number if possible, otherwise a text with its unit.
fn param(value: &AxisValue) -> Value {
    if let Ok(whole) = value.text.parse::<i64>() {
        return json!(whole);
    }
    match value.text.parse::<f64>() {
        Ok(number) => json!(number),
        Err(_) => json!(value.text),
    }
}

fn measured(scenario: &Scenario, results: &Results, point: usize, metric: usize) -> Option<Value> {
    let mut value = number(&at_confidence(results, point, metric, 0.9)?, "ci90");
    let values: Vec<Option<f64>> =
        results.points.get(point)?.iter().map(|run| run.at(metric)).collect();
    if let Some(value) = value.as_object_mut() {
        value.insert("values".to_owned(), json!(values));
    }
    if scenario.replications.confidence > 0.9
        && let Some(half) = at_confidence(results, point, metric, 0.95)?.half()
        && let Some(value) = value.as_object_mut()
    {
        value.insert("ci95".to_owned(), json!(half));
    }
    Some(value)
}

fn number(estimate: &Estimate, half: &str) -> Value {
    json!({ "mean": estimate.value, half: estimate.half(), "n": estimate.n })
}

/// A table of curves: one panel of the figure, for one metric.
#[derive(Clone, Debug, PartialEq)]
pub struct Table {
    /// The values of the panels' axes: `profile=rfc2960, loss=3 %`.
    pub title: String,
    /// Heading first, then a row for each value of x.
    pub rows: Vec<Vec<String>>,
}

/// Indices of points, by series and x, of each panel.
#[derive(Clone, Debug, PartialEq)]
pub struct Panel {
    /// The values of the panels' axes.
    pub title: String,
    /// For each value of the series' axis, for each value of x, the point.
    pub curves: Vec<Vec<Option<usize>>>,
}

/// The panels of a scenario's figure that have points.
pub fn panels(scenario: &Scenario) -> Vec<Panel> {
    let count = |axis: Option<usize>| {
        axis.and_then(|axis| scenario.axes.get(axis)).map_or(1, |axis| axis.values.len())
    };
    let figure = &scenario.figure;
    let mut panels: Vec<(Vec<usize>, Panel)> = Vec::new();
    for (index, point) in scenario.points.iter().enumerate() {
        let coordinate = |axis: &usize| point.at.get(*axis).copied().unwrap_or(0);
        let key: Vec<usize> = figure.panels.iter().map(coordinate).collect();
        let place = match panels.iter().position(|(other, _)| *other == key) {
            Some(place) => place,
            None => {
                let title: Vec<String> = figure
                    .panels
                    .iter()
                    .filter_map(|axis| {
                        let named = scenario.axes.get(*axis)?;
                        let value = named.values.get(coordinate(axis))?;
                        Some(format!("{}={}", named.name, value.text))
                    })
                    .collect();
                let curves = vec![vec![None; count(figure.x)]; count(figure.series)];
                panels.push((key, Panel { title: title.join(", "), curves }));
                panels.len() - 1
            }
        };
        let (series, x) =
            (figure.series.map_or(0, |a| coordinate(&a)), figure.x.map_or(0, |a| coordinate(&a)));
        if let Some(slot) = panels
            .get_mut(place)
            .and_then(|(_, panel)| panel.curves.get_mut(series))
            .and_then(|curve| curve.get_mut(x))
        {
            *slot = Some(index);
        }
    }
    panels.into_iter().map(|(_, panel)| panel).collect()
}

/// The curves of one metric as tables, one for each panel; reference numbers are in brackets.
pub fn tables(
    scenario: &Scenario,
    results: &Results,
    references: &[Reference],
    metric: usize,
) -> Vec<Table> {
    let unit = METRICS.get(metric).map_or("", |metric: &Metric| metric.unit);
    panels(scenario)
        .into_iter()
        .map(|panel| {
            let x = scenario.figure.x.and_then(|axis| scenario.axes.get(axis));
            let series = scenario.figure.series.and_then(|axis| scenario.axes.get(axis));
            let mut heading = vec![x.map_or(String::new(), |axis| axis.name.clone())];
            for index in 0..panel.curves.len() {
                let name = series.and_then(|axis| axis.values.get(index));
                let name = match (series, name) {
                    (Some(axis), Some(value)) => axis.curve(value),
                    _ => "all".to_owned(),
                };
                heading.push(if unit.is_empty() { name } else { format!("{name} ({unit})") });
            }
            let mut rows = vec![heading];
            let length = panel.curves.first().map_or(0, Vec::len);
            for at in 0..length {
                let name = x.and_then(|axis| axis.values.get(at));
                let mut row = vec![name.map_or(String::new(), |value| value.text.clone())];
                let points = panel.curves.iter().map(|curve| curve.get(at).copied().flatten());
                row.extend(points.map(|point| cell(scenario, results, references, point, metric)));
                rows.push(row);
            }
            Table { title: panel.title, rows }
        })
        .collect()
}

/// The share of each transfer, and the fairness, with a row for each point; `None` if there is only one transfer.
pub fn flows(scenario: &Scenario, results: &Results) -> Option<Vec<Vec<String>>> {
    let flows = &scenario.names.flows;
    if flows.len() < 2 {
        return None;
    }
    let numbers = (1..=flows.len()).map(|n| format!("throughput_flow{n}_kbit_s"));
    let columns: Vec<_> =
        numbers.chain(["jain_index".to_owned()]).filter_map(|name| metrics::find(&name)).collect();
    let heading = ["point".to_owned()].into_iter();
    let names = flows.iter().take(metrics::MAX_FLOWS).map(|flow| format!("{flow} (kbit/s)"));
    let mut rows = vec![heading.chain(names).chain(["Jain's index".to_owned()]).collect()];
    for (index, point) in scenario.points.iter().enumerate() {
        let cells = columns.iter().map(|metric| cell(scenario, results, &[], Some(index), *metric));
        rows.push([point.key.clone()].into_iter().chain(cells).collect());
    }
    Some(rows)
}

fn cell(
    scenario: &Scenario,
    results: &Results,
    references: &[Reference],
    point: Option<usize>,
    metric: usize,
) -> String {
    let Some(point) = point else { return String::new() };
    let ours = match estimate(scenario, results, point, metric) {
        Some(estimate) => display(&estimate),
        None => "-".to_owned(),
    };
    match references.iter().find(|r| r.point == point && r.metric == metric) {
        Some(reference) => format!("{ours} [{}]", display(&reference.estimate)),
        None => ours,
    }
}

/// A number and its interval, with as many digits as make sense for the number.
pub fn display(estimate: &Estimate) -> String {
    let digits = digits(estimate.value);
    let number = |number: f64| format!("{number:.digits$}");
    let value = number(estimate.value);
    match estimate.interval {
        Some([low, high]) if !estimate.is_symmetric() => {
            format!("{value} ({} to {})", number(low), number(high))
        }
        Some([low, high]) => format!("{value} ±{}", number((high - low) / 2.0)),
        None => value,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runner::tests::run;
    use crate::scenario::tests::{read, text};

    #[test]
    fn json_has_the_documented_form() {
        let scenario = read(&text(), &[]).unwrap();
        let results = run(&scenario, 2, None);
        let made_by = Provenance { commit: "c0ffee".to_owned(), ..Provenance::default() };
        let value = json(&scenario, &results, &[], &made_by);
        assert_eq!(value["scenario"], "test/1");
        assert_eq!(value["scenario_sha256"], scenario.sha256());
        assert_eq!(value["made_by"]["commit"], "c0ffee");
        assert_eq!(value["points"].as_array().unwrap().len(), 4);
        let point = &value["points"][3];
        assert_eq!(point["params"], json!({ "loss": "3 %", "policy": "Alt" }));
        let time = &point["metrics"]["transfer_time_s"];
        assert_eq!(time["n"], 10);
        assert!(time["mean"].as_f64().unwrap() > 35.0 && time["ci90"].as_f64().unwrap() > 0.0);
        assert_eq!(point["metrics"]["longest_gap_s"], Value::Null);
        // The runs behind a mean. Seeds are texts, because numbers in JSON cannot hold 64 bits.
        assert_eq!(value["version"], 2);
        let first = &results.points[3][0];
        assert_eq!(time["values"][0].as_f64(), first.get("transfer_time_s"));
        assert_eq!(time["values"].as_array().unwrap().len(), 10);
        let seed = crate::runner::seed("test/1", &scenario.points[3].seed_key, 9);
        assert_eq!(point["seeds"][9], seed.to_string());
    }

    #[test]
    fn whole_numbers_of_an_axis_stay_whole() {
        let more = "[axis.pmr]\nset = \"association.pmr\"\nvalues = [0, 5]\n";
        let scenario = read(&format!("{}{more}", text()), &[]).unwrap();
        let value = json(&scenario, &run(&scenario, 2, None), &[], &Provenance::default());
        let numbers: Vec<_> = value["points"].as_array().unwrap()[..2]
            .iter()
            .map(|point| point["params"]["pmr"].to_string())
            .collect();
        assert_eq!(numbers, ["0", "5"]);
        assert_eq!(scenario.axes[2].curve(&scenario.axes[2].values[1]), "pmr 5");
    }

    #[test]
    fn tables_show_curves_and_references() {
        let scenario = read(&text(), &[]).unwrap();
        let results = run(&scenario, 2, None);
        let reference = Reference::of_mean(1, 0, Estimate::around(30.0, Some(1.5), 60));
        let tables = tables(&scenario, &results, &[reference], 0);
        assert_eq!(tables.len(), 1);
        assert_eq!(tables[0].rows[0], ["loss", "Same (s)", "Alt (s)"]);
        assert_eq!(tables[0].rows[1][0], "1 %");
        assert!(tables[0].rows[1][2].ends_with("[30.00 ±1.50]"), "{:?}", tables[0].rows);
        assert_eq!(tables[0].rows.len(), 3);
    }

    #[test]
    fn an_interval_has_the_digits_of_its_number() {
        let shown = |value, half| display(&Estimate::around(value, Some(half), 9));
        assert_eq!(shown(31.374, 0.000_02), "31.37 ±0.00");
        assert_eq!(shown(9.526, 0.8474), "9.53 ±0.85");
        assert_eq!(shown(0.852_63, 0.001), "0.8526 ±0.0010");
        assert_eq!(shown(1234.5, 12.34), "1234 ±12");
        let uneven = Estimate { value: 9.5, interval: Some([9.0, 12.345_6]), n: 9 };
        assert_eq!(display(&uneven), "9.50 (9.00 to 12.35)");
    }

    #[test]
    fn panels_are_the_other_axes() {
        let more = "[axis.pmr]\nset = \"association.pmr\"\nvalues = [0, 5]\n";
        let scenario = read(&format!("{}{more}", text()), &[]).unwrap();
        let panels = panels(&scenario);
        let titles: Vec<_> = panels.iter().map(|panel| panel.title.as_str()).collect();
        assert_eq!(titles, ["pmr=0", "pmr=5"]);
        assert_eq!(panels[1].curves, [[Some(1), Some(5)], [Some(3), Some(7)]]);
    }
}
