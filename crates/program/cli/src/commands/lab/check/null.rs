//! `anabranch lab check --null`.

use std::path::PathBuf;

use anabranch_lab::check::{self, Survivor};
use anabranch_lab::provenance::{self, Provenance};
use anabranch_lab::scenario::Scenario;
use anabranch_lab::summary;
use serde_json::{Value, json};

use crate::commands::lab::session::{self, RunOptions};
use crate::failure::Failure;
use crate::output;

/// Default number of runs of each point. Paired runs of the same experiment are identical, so a few
/// are enough.
const SEEDS: usize = 4;

/// A scenario, and its claims about the variants that were made equal.
type Tested = (Scenario, Vec<Survivor>);

pub(super) async fn run(
    scenarios: Vec<Scenario>,
    options: RunOptions,
    json: Option<PathBuf>,
    made_by: &Provenance,
) -> Result<(), Failure> {
    let seeds = options.seeds.map_or(SEEDS, |seeds| seeds as usize);
    let tested: Vec<Tested> = options
        .with_runner(move |runner, progress| {
            let mut tested = Vec::new();
            for scenario in scenarios {
                progress.title(&scenario.id);
                let survivors = check::null(runner, &scenario, seeds);
                progress.finish();
                tested.push((scenario, survivors.map_err(session::failed)?));
            }
            Ok(tested)
        })
        .await?;
    let text = table(&tested);
    match &json {
        Some(file) => {
            session::write_json(file, &document(&tested, seeds, made_by))?;
            if file.as_os_str() != "-" {
                output::print(&text)?;
            }
        }
        None => output::print(&text)?,
    }
    let wrong: Vec<String> = all(&tested)
        .filter(|(_, survivor)| survivor.is_wrong())
        .map(|(scenario, survivor)| format!("{}/{}", scenario.id, survivor.judgement.claim.id))
        .collect();
    if wrong.is_empty() {
        return Ok(());
    }
    Err(Failure::failed(format!(
        "without any effect these should not hold, or are listed and do not: {}",
        wrong.join(", ")
    )))
}

fn all(tested: &[Tested]) -> impl Iterator<Item = (&Scenario, &Survivor)> {
    tested.iter().flat_map(|(scenario, survivors)| {
        survivors.iter().map(move |survivor| (scenario, survivor))
    })
}

fn table(tested: &[Tested]) -> String {
    let head = ["holds without any effect", "kind", "expected", "ours", "listed"];
    let mut rows = vec![head.map(str::to_owned).to_vec()];
    for (scenario, survivor) in all(tested).filter(|(_, s)| s.holds() || s.is_wrong()) {
        let judgement = &survivor.judgement;
        let claim = &judgement.claim;
        rows.push(vec![
            format!("{}/{}", scenario.id, claim.id),
            claim.kind.to_string(),
            format!("{} {}", claim.bounds, claim.unit).trim_end().to_owned(),
            match &judgement.measured {
                Ok(estimate) => summary::display(estimate),
                Err(missing) => missing.to_string(),
            },
            if survivor.expected { "yes" } else { "no" }.to_owned(),
        ]);
    }
    let mut text = output::table(&rows);
    let held = all(tested).filter(|(_, survivor)| survivor.holds()).count();
    let listed = all(tested).filter(|(_, s)| s.holds() && s.expected).count();
    text.push_str(&format!(
        "\nof {} claims about variants made equal, {held} hold, {listed} of them as they should\n",
        all(tested).count()
    ));
    text
}

fn document(tested: &[Tested], seeds: usize, made_by: &Provenance) -> Value {
    let claims: Vec<Value> = all(tested)
        .map(|(scenario, survivor)| {
            let mut claim = survivor.judgement.json(scenario, "null");
            if let Some(claim) = claim.as_object_mut() {
                claim.insert("listed".to_owned(), survivor.expected.into());
            }
            claim
        })
        .collect();
    let scenarios: Vec<Value> =
        tested.iter().map(|(scenario, _)| provenance::scenario(scenario)).collect();
    json!({
        "mode": "null",
        "seeds": seeds,
        "made_by": made_by.json(),
        "scenarios": scenarios,
        "claims": claims,
    })
}
