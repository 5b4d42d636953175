//! What made a result. All documents carry it, so that a file alone tells how to make it again.

use anabranch_chart::escape;
use serde_json::{Value, json};

use crate::runner;
use crate::scenario::Scenario;

/// The program that made results, and how it was called.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Provenance {
    /// Its name and version.
    pub program: String,
    /// The commit that it was built from, with `-dirty` if files had changed since; `unknown` if nothing told the
    /// build.
    pub commit: String,
    /// The command line, without options that change no result: files, threads, progress.
    pub command: String,
}

impl Provenance {
    /// The object `made_by` of JSON documents.
    pub fn json(&self) -> Value {
        json!({ "program": self.program, "commit": self.commit, "command": self.command })
    }

    /// Headings and values of the columns that tables have, the same in each row.
    pub(crate) fn columns(&self, scenario: &Scenario) -> [(&'static str, String); 4] {
        [
            ("program", self.program.clone()),
            ("commit", self.commit.clone()),
            ("scenario_sha256", scenario.sha256()),
            ("command", self.command.clone()),
        ]
    }

    /// The paragraph of pages.
    pub(crate) fn html(&self) -> String {
        let [program, commit, command] =
            [&self.program, &self.commit, &self.command].map(|text| escape(text));
        format!(
            "<p class=\"source\">Made by {program}, commit <code>{commit}</code>:</p><pre>{command}</pre>"
        )
    }
}

/// What identifies a scenario: its name, its hash, and the first of the seeds that follow from its name and its
/// points.
pub fn scenario(scenario: &Scenario) -> Value {
    json!({
        "scenario": scenario.id,
        "sha256": scenario.sha256(),
        "first_seed": first_seed(scenario).map(|seed| seed.to_string()),
    })
}

/// The paragraph of pages about a scenario.
pub(crate) fn scenario_html(scenario: &Scenario) -> String {
    let seed = first_seed(scenario).map_or(String::new(), |seed| format!(", first seed {seed}"));
    format!("<p class=\"source\">Scenario: SHA-256 <code>{}</code>{seed}.</p>", scenario.sha256())
}

/// The seed of the first run of the first point; `None` if there is no point.
fn first_seed(scenario: &Scenario) -> Option<u64> {
    scenario.points.first().map(|point| runner::seed(&scenario.id, &point.seed_key, 0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::tests::{read, text};

    #[test]
    fn a_document_names_program_commit_scenario_seed_and_command() {
        let made = Provenance {
            program: "anabranch 1.2.3".to_owned(),
            commit: "abc-dirty".to_owned(),
            command: "anabranch lab run 'a<b.toml'".to_owned(),
        };
        let test = read(&text(), &[]).unwrap();
        assert_eq!(made.json()["commit"], "abc-dirty");
        assert_eq!(made.columns(&test)[2], ("scenario_sha256", test.sha256()));
        assert!(made.html().contains("a&lt;b.toml"), "{}", made.html());
        let seed = runner::seed("test/1", &test.points[0].seed_key, 0).to_string();
        let named = scenario(&test);
        assert_eq!((&named["first_seed"], &named["scenario"]), (&json!(seed), &json!("test/1")));
        assert!(
            scenario_html(&test).contains(&seed) && scenario_html(&test).contains(&test.sha256())
        );
        let changed = read(&text(), &[("association.pmr", "1")]).unwrap();
        assert_ne!(named["sha256"], scenario(&changed)["sha256"]);
    }
}
