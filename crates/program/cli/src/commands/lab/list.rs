//! `anabranch lab list`.

use anabranch_lab::elsewhere;
use anabranch_lab::scenario::Library;
use clap::Args;
use serde_json::json;

use super::session::refused;
use crate::failure::Failure;
use crate::output;

/// List the scenarios
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  anabranch lab list
  anabranch lab list caro hurtig/III")]
pub(crate) struct List {
    /// Documents, scenarios or files [default: all]
    #[arg(value_name = "ID")]
    ids: Vec<String>,
    /// Print JSON
    #[arg(long)]
    json: bool,
    /// List the claims as a Markdown table
    #[arg(long, conflicts_with = "json")]
    claims: bool,
}

impl List {
    pub(super) fn run(self, library: &Library) -> Result<(), Failure> {
        if self.claims {
            return output::print(&self.claims(library)?);
        }
        let mut rows =
            vec![["scenario", "points", "seeds", "claims", "title"].map(str::to_owned).to_vec()];
        let mut listed = Vec::new();
        for id in self.wanted(library)? {
            let scenario = library.load(&id, &[]).map_err(refused)?;
            let seeds = scenario.replications.seeds;
            rows.push(vec![
                id,
                scenario.points.len().to_string(),
                seeds.to_string(),
                scenario.claims.len().to_string(),
                scenario.title.clone(),
            ]);
            listed.push(json!({
                "scenario": scenario.id,
                "title": scenario.title,
                "source": scenario.source,
                "points": scenario.points.len(),
                "seeds": seeds,
                "claims": scenario.claims.len(),
            }));
        }
        let document = json!({ "scenarios": listed });
        match self.json {
            true => output::print_json(&document),
            false => output::print(&output::list_with_prose(&rows)),
        }
    }

    /// The requested scenarios.
    fn wanted(&self, library: &Library) -> Result<Vec<String>, Failure> {
        match self.ids.is_empty() {
            true => library.ids().map_err(refused),
            false => library.expand(&self.ids).map_err(refused),
        }
    }

    /// Whether a whole document was requested.
    fn is_whole(&self, document: &str) -> bool {
        self.ids.is_empty() || self.ids.iter().any(|id| id.trim_end_matches('/') == document)
    }

    /// The source and expectation of each claim.
    fn claims(&self, library: &Library) -> Result<String, Failure> {
        let mut text = String::from(
            "| claim | kind | source | expected | what it says |\n|---|---|---|---|---|\n",
        );
        let cell =
            |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ").replace('|', "/");
        let ids = self.wanted(library)?;
        for (index, id) in ids.iter().enumerate() {
            let scenario = library.load(id, &[]).map_err(refused)?;
            for claim in &scenario.claims {
                text.push_str(&format!(
                    "| {id}/{} | {} | {} | {} {} | {} |\n",
                    claim.id,
                    claim.kind,
                    cell(&claim.source),
                    claim.bounds,
                    claim.unit,
                    cell(&claim.text)
                ));
            }
            // After the last scenario of a document, list the claims that tests of this repository
            // show.
            let document = scenario.document();
            let goes_on = |next: &String| next.split('/').next() == Some(document);
            if self.is_whole(document) && !ids.get(index + 1).is_some_and(goes_on) {
                let directory = library.directory().join(document);
                for claim in elsewhere::read(&directory).map_err(Failure::failed)? {
                    text.push_str(&format!(
                        "| {} | test | {} | `{}`, `{}` | {} |\n",
                        claim.id,
                        cell(&claim.source),
                        claim.file,
                        claim.test,
                        cell(&claim.text)
                    ));
                }
            }
        }
        Ok(text)
    }
}
