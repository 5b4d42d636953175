//! Figures with one number per run, and additional values.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use serde_json::{Map, Value, json};

use super::{Options, Spread, Target, Trouble, median_notes};

/// A figure whose runs yield one number each.
#[derive(Debug)]
pub struct Single {
    /// Its key in the JSON output.
    pub key: &'static str,
    /// A description in one line.
    pub title: &'static str,
    /// The unit of the values.
    pub unit: &'static str,
    /// The target of the median.
    pub target: Target,
    /// Executes one run.
    pub measure: fn(&Bench<'_>) -> Result<Sample, Trouble>,
}

/// One measurement.
#[derive(Clone, Debug)]
pub struct Sample {
    /// The number.
    pub value: f64,
    /// Additional values.
    pub notes: Vec<(&'static str, f64)>,
}

/// Options shared by all runs.
#[derive(Debug)]
pub struct Bench<'a> {
    options: &'a Options,
}

impl Bench<'_> {
    /// Whether this is a quick run, whose numbers need not be precise.
    pub fn quick(&self) -> bool {
        self.options.quick
    }

    /// Whether [`program`](Self::program) is built by cargo, in the profile `release`.
    pub fn builds(&self) -> bool {
        self.options.program.is_none()
    }

    /// `count` in a full run, a twentieth of it in a quick one.
    pub fn many(&self, count: u64) -> u64 {
        if self.quick() { count / 20 } else { count }
    }

    /// The measured program: the given one, or the optimised one built by cargo.
    ///
    /// # Errors
    /// Fails if the program does not exist and cannot be built.
    pub fn program(&self) -> Result<PathBuf, Trouble> {
        static BUILT: OnceLock<Result<PathBuf, String>> = OnceLock::new();
        let Some(path) = &self.options.program else {
            return BUILT.get_or_init(build).clone().map_err(Trouble::Failed);
        };
        path.canonicalize()
            .map_err(|error| Trouble::Failed(format!("the program {}: {error}", path.display())))
    }
}

fn build() -> Result<PathBuf, String> {
    let failed = |error: String| format!("the program cannot be built: {error}");
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut build = Command::new(cargo);
    build.args(["build", "--quiet", "--release", "-p", "anabranch-cli"]);
    let status = build.status().map_err(|error| failed(error.to_string()))?;
    if !status.success() {
        return Err(failed(status.to_string()));
    }
    // This program's path is TARGET/PROFILE/deps/NAME-HASH.
    let own = std::env::current_exe().map_err(|error| failed(error.to_string()))?;
    let target = own.ancestors().nth(3).unwrap_or(Path::new("target"));
    Ok(target.join("release/anabranch"))
}

impl super::Figure for Single {
    type Outcome = Vec<Sample>;

    fn key(&self) -> &'static str {
        self.key
    }

    fn title(&self) -> &'static str {
        self.title
    }

    fn unit(&self) -> &'static str {
        self.unit
    }

    fn target(&self) -> Target {
        self.target
    }

    fn run(&self, options: &Options) -> Result<Vec<Sample>, Trouble> {
        let bench = Bench { options };
        (0..options.runs).map(|_| (self.measure)(&bench)).collect()
    }

    fn print(&self, samples: &Vec<Sample>) {
        if let Some(all) = Spread::of(samples.iter().map(|sample| sample.value)) {
            let digits = if all.max < 100.0 { 3 } else { 0 };
            let told =
                notes(samples).into_iter().map(|(name, value)| format!("  {name} {value:.3}"));
            let told: String = told.collect();
            println!("  {:.digits$} to {:.digits$}{told}", all.min, all.max);
        }
    }

    fn headline(&self, samples: &Vec<Sample>) -> Option<f64> {
        Some(Spread::of(samples.iter().map(|sample| sample.value))?.median)
    }

    fn details(&self, samples: &Vec<Sample>) -> Map<String, Value> {
        let values: Vec<f64> = samples.iter().map(|sample| sample.value).collect();
        let notes = notes(samples).into_iter().map(|(name, value)| (name.to_owned(), json!(value)));
        let notes = Value::Object(notes.collect());
        Map::from_iter([("values".to_owned(), json!(values)), ("notes".to_owned(), notes)])
    }
}

/// The medians of the samples' additional values.
fn notes(samples: &[Sample]) -> Vec<(&'static str, f64)> {
    median_notes(&samples.iter().map(|sample| sample.notes.as_slice()).collect::<Vec<_>>())
}
