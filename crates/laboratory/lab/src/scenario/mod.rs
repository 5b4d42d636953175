//! A scenario file: one experiment, the axes along which it is varied, the figure, and the claims
//! that its results are checked against.

mod axis;
mod claim;
mod figure;
mod library;
mod null;
mod pattern;
mod resolved;

use std::path::{Path as FilePath, PathBuf};
use std::sync::Arc;

pub use axis::{Axis, AxisValue};
pub use claim::{Bounds, Claim, Kind as ClaimKind};
pub use figure::Figure;
pub use library::Library;
pub use null::Null;
pub(crate) use resolved::sha256;

use crate::metrics::{self, Names};
use crate::setup::{Platform, Setup};
use crate::tree::{Checked, Fields, Node, Problem, problem};
use crate::units::{Kind, MOST_TEXT, read_text};

/// Most points of one scenario.
const MAX_POINTS: usize = 100_000;

/// Why a file was refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ScenarioError {
    /// A mistake in the file.
    #[error("{file}:{line}: {reason}")]
    InFile {
        /// The file.
        file: String,
        /// Line from 1.
        line: usize,
        /// The error.
        reason: String,
    },
    /// A mistake in the command line.
    #[error("{0}")]
    Argument(String),
    /// The file cannot be read.
    #[error("{file} cannot be read: {reason}")]
    Unreadable {
        /// The file.
        file: String,
        /// Why.
        reason: String,
    },
}

/// How often each point is run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Replications {
    /// Runs of a point; the maximum if a precision is set.
    pub seeds: usize,
    /// Maximum number of runs of a point to decide a claim that is still open after `seeds` runs.
    pub budget: usize,
    /// Runs before the precision is checked.
    pub min_seeds: usize,
    /// Stop as soon as the half width of the interval is at most this share of the mean.
    pub precision: Option<f64>,
    /// Confidence of intervals: 0.9 or 0.95.
    pub confidence: f64,
}

/// A scenario.
#[derive(Clone, Debug)]
pub struct Scenario {
    /// `document/figure`, or the file's name.
    pub id: String,
    /// The file.
    pub file: PathBuf,
    /// The title, one line.
    pub title: String,
    /// Where the scenario comes from.
    pub source: String,
    /// Notes for the reader: choices that the source leaves open.
    pub notes: String,
    /// How often each point is run.
    pub replications: Replications,
    /// The axes.
    pub axes: Vec<Axis>,
    /// How results are drawn.
    pub figure: Figure,
    /// The claims.
    pub claims: Vec<Claim>,
    /// Reference numbers next to the file.
    pub reference: Option<PathBuf>,
    /// The tolerance for our mean relative to the reference, as a share.
    pub reference_within: f64,
    /// The claims' results without a difference between variants.
    pub null: Null,
    /// Names of the paths and of the transfers, in the order of the file.
    pub names: Names,
    /// All combinations of the axes' values that are not skipped, the last axis varying fastest.
    pub points: Vec<Point>,
    /// Every value in the file after the changes to it, the values that are run, and the hashes of pattern files:
    /// one line each.
    pub resolved: String,
}

/// The field that selects where a scenario runs.
pub const ON: &str = "run.on";

/// One combination of the axes' values.
#[derive(Clone, Debug)]
pub struct Point {
    /// Index of the value on each axis.
    pub at: Vec<usize>,
    /// `axis=value` for each axis, joined by commas.
    pub key: String,
    /// The same without paired axes: the seed depends on it.
    pub seed_key: String,
    /// The experiment.
    pub setup: Arc<Setup>,
}

/// A change that the command line makes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Override {
    /// An axis, or a path of names.
    pub key: String,
    /// The value; for an axis one or several of its values, separated by commas.
    pub value: String,
    /// Whether an axis that varies the same field takes precedence.
    pub yields: bool,
}

impl Scenario {
    /// Its name in commands: its own name, or that of its file if it is not in a library.
    pub fn argument(&self) -> String {
        match self.id.contains('/') {
            true => self.id.clone(),
            false => self.file.display().to_string(),
        }
    }

    /// Identifies the experiment: the hash of [`resolved`](Self::resolved), SHA-256 in hexadecimal digits.
    pub fn sha256(&self) -> String {
        sha256(self.resolved.as_bytes())
    }

    /// Takes the claims of the scenario before it was changed: a changed one has none, because they are about the one
    /// in the file.
    ///
    /// # Errors
    /// Fails if it lacks values of an axis.
    pub fn take_claims(&mut self, original: Self) -> Result<(), String> {
        let values = |of: &Self| of.axes.iter().map(|axis| axis.values.len()).collect::<Vec<_>>();
        if values(self) != values(&original) {
            let id = self.argument();
            return Err(format!("{id}: a change restricts an axis, whose values the claims need"));
        }
        self.claims = original.claims;
        Ok(())
    }

    /// Reads a file, with changes to it.
    ///
    /// # Errors
    /// Returns the first error in the file.
    pub fn load(file: &FilePath, id: &str, overrides: &[Override]) -> Result<Self, ScenarioError> {
        let text = read_text(file, MOST_TEXT).map_err(|error| ScenarioError::Unreadable {
            file: file.display().to_string(),
            reason: error.to_string(),
        })?;
        Self::from_text(&text, file, id, overrides)
    }

    /// Reads the text of a file, which need not exist, with changes to it.
    ///
    /// # Errors
    /// Returns the first error in the text.
    pub fn from_text(
        text: &str,
        file: &FilePath,
        id: &str,
        overrides: &[Override],
    ) -> Result<Self, ScenarioError> {
        Self::read(text, file, id, overrides).map_err(|Problem { line, reason }| match line {
            0 => ScenarioError::Argument(reason),
            line => ScenarioError::InFile { file: file.display().to_string(), line, reason },
        })
    }

    /// Reads the text of a file.
    ///
    /// # Errors
    /// Returns the first mistake; line 0 means an override.
    pub fn read(text: &str, file: &FilePath, id: &str, overrides: &[Override]) -> Checked<Self> {
        let mut tree = Node::parse(text)?;
        let all_axes = axis::read(&tree)?;
        let (axes, fixed) = axis::select(all_axes.clone(), overrides)?;
        for change in fixed {
            axis::check_target(&tree, &change.key, 0)?;
            tree.set(&change.key, Node::from_argument(&change.value))?;
        }
        let root = tree.fields("")?;
        let title = root.required_text("title")?.to_owned();
        let source = root.text("source")?.unwrap_or_default().to_owned();
        let notes = root.text("notes")?.unwrap_or_default().to_owned();
        let replications = replications(&root)?;
        let called = |key| -> Checked<Vec<String>> {
            Ok(root.tables(key)?.into_iter().map(|(name, _)| name.to_owned()).collect())
        };
        let names = Names { paths: called("path")?, flows: called("traffic")? };
        let figure = figure::read(&root, &axes, &names)?;
        let claims = claim::read(&root, &all_axes, &names)?;
        let null = null::read(&root, &all_axes, &claims)?;
        let within = root.quantity("reference_within", Kind::Share, 0.001, 1.0)?;
        // Claims are about the scenario as written in the file, on any platform.
        let as_in_file = overrides.iter().all(|change| change.key == ON);
        let claims = if as_in_file { claims } else { Vec::new() };
        let reference = match root.text("reference")? {
            None => None,
            Some(name) => {
                let path = file.parent().unwrap_or(FilePath::new("")).join(name);
                if !path.is_file() {
                    return problem(root.line_of("reference"), format!("there is no file {name}"));
                }
                Some(path)
            }
        };
        let skips = axis::read_skips(&tree, &all_axes, &axes)?;
        let base = file.parent().unwrap_or(FilePath::new(""));
        let points = points(&tree, base, &axes, &skips)?;
        let resolved = resolved::text(&tree, &axes, base);
        let (id, file) = (id.to_owned(), file.to_owned());
        Ok(Self {
            id,
            file,
            title,
            source,
            notes,
            replications,
            axes,
            figure,
            claims,
            reference,
            reference_within: within.unwrap_or(0.05),
            null,
            names,
            points,
            resolved,
        })
    }

    /// The point's parameters: name of the axis and spelling of the value.
    pub fn params<'a>(
        &'a self,
        point: &'a Point,
    ) -> impl Iterator<Item = (&'a str, &'a AxisValue)> {
        self.axes
            .iter()
            .zip(&point.at)
            .filter_map(|(axis, index)| Some((axis.name.as_str(), axis.values.get(*index)?)))
    }

    /// Index of an axis.
    pub fn axis(&self, name: &str) -> Option<usize> {
        self.axes.iter().position(|axis| axis.name == name)
    }

    /// The document of a scenario: the part of its name before the slash.
    pub fn document(&self) -> &str {
        self.id.split_once('/').map_or("", |(document, _)| document)
    }
}

fn replications(root: &Fields<'_>) -> Checked<Replications> {
    let Some(run) = root.table("run")? else {
        return problem(1, "there is no [run] that says how many seeds there are");
    };
    let Some(seeds) = run.count("seeds", 1, 100_000)? else {
        return problem(run.line(), "run.seeds is missing");
    };
    let seeds = seeds as usize;
    let min_seeds = run.count("min_seeds", 2, 100_000)?.map_or(seeds.min(5), |n| n as usize);
    let budget = run.count("budget", 1, 100_000)?.map_or(seeds, |n| n as usize);
    if budget < seeds {
        return problem(run.line_of("budget"), "run.budget is smaller than run.seeds");
    }
    run.choice("on", &Platform::NAMES)?;
    let precision = run.quantity("precision", Kind::Share, 0.0001, 1.0)?;
    let line = run.line_of("confidence");
    let confidence = run.quantity("confidence", Kind::Share, 0.5, 0.999)?.unwrap_or(0.9);
    if min_seeds > seeds {
        return problem(run.line_of("min_seeds"), "run.min_seeds is larger than run.seeds");
    }
    if ![0.9, 0.95].iter().any(|known| (confidence - known).abs() < 1e-9) {
        return problem(line, "run.confidence is \"90 %\" or \"95 %\"");
    }
    run.finish()?;
    Ok(Replications { seeds, budget, min_seeds, precision, confidence })
}

/// All combinations, each with its setup.
fn points(
    tree: &Node,
    base: &FilePath,
    axes: &[Axis],
    skips: &[axis::Skip],
) -> Checked<Vec<Point>> {
    let count = axes.iter().try_fold(1usize, |n, axis| n.checked_mul(axis.values.len()));
    match count {
        Some(count) if count <= MAX_POINTS => {}
        _ => return problem(1, format!("the axes have more than {MAX_POINTS} combinations")),
    }
    let mut points = Vec::new();
    let mut at = vec![0; axes.len()];
    loop {
        if !skips.iter().any(|skip| skip.matches(&at)) {
            points.push(point(tree, base, axes, &at)?);
        }
        let Some(next) = successor(&at, axes) else { break };
        at = next;
    }
    if points.is_empty() {
        return problem(1, "every combination of the axes is skipped");
    }
    Ok(points)
}

/// The next combination; the last axis varies fastest.
fn successor(at: &[usize], axes: &[Axis]) -> Option<Vec<usize>> {
    let mut next = at.to_vec();
    for (index, axis) in next.iter_mut().zip(axes).rev() {
        *index += 1;
        if *index < axis.values.len() {
            return Some(next);
        }
        *index = 0;
    }
    None
}

fn point(tree: &Node, base: &FilePath, axes: &[Axis], at: &[usize]) -> Checked<Point> {
    let mut tree = tree.clone();
    let (mut key, mut seed_key) = (Vec::new(), Vec::new());
    for (axis, index) in axes.iter().zip(at) {
        let Some(value) = axis.values.get(*index) else { continue };
        for (path, node) in &value.overlay {
            tree.set(path, node.clone())?;
        }
        let entry = format!("{}={}", axis.name, value.text);
        if !axis.paired {
            seed_key.push(entry.clone());
        }
        key.push(entry);
    }
    pattern::rebase(&mut tree, base);
    let root = tree.fields("")?;
    let setup = Setup::read(&root)?;
    // Mark the keys of the sweep as known; they were read before.
    for key in [
        "title",
        "source",
        "notes",
        "run",
        "axis",
        "skip",
        "figure",
        "claim",
        "reference",
        "reference_within",
        "fitted",
        "null",
    ] {
        root.node(key);
    }
    root.finish()?;
    Ok(Point {
        at: at.to_vec(),
        key: key.join(", "),
        seed_key: seed_key.join(", "),
        setup: Arc::new(setup),
    })
}

/// The standard name of a metric, with numbers for paths and transfers. Fails if there is no such
/// metric.
fn known_metric(name: &str, names: &Names, line: usize) -> Checked<String> {
    let found = metrics::find_named(name, names);
    match found.and_then(|index| metrics::METRICS.get(index)) {
        Some(metric) => Ok(metric.name.clone()),
        None => problem(line, format!("there is no metric '{name}': {}", metrics::names())),
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::setup::tests::SMALL;
    use crate::tree::tests::refused;

    pub(crate) const HEAD: &str = r#"
title = "A test"
[run]
seeds = 10
[axis.loss]
set = "path.primary.loss"
values = ["1 %", "3 %"]
[axis.policy.variants.Same]
association.retransmission = "all-rtx-same"
[axis.policy.variants.Alt]
association.retransmission = "all-rtx-alt"
[figure]
x = "loss"
y = "transfer_time_s"
series = "policy"
"#;

    pub(crate) fn text() -> String {
        format!("{HEAD}{SMALL}")
    }

    pub(crate) fn read(text: &str, overrides: &[(&str, &str)]) -> Checked<Scenario> {
        let overrides: Vec<_> = overrides
            .iter()
            .map(|(key, value)| Override {
                key: (*key).into(),
                value: (*value).into(),
                yields: false,
            })
            .collect();
        Scenario::read(text, FilePath::new("test.toml"), "test/1", &overrides)
    }

    #[test]
    fn where_all_is_carried_out_gives_way_to_an_axis_that_varies_it() {
        let places = |text: &str, yields: bool| {
            let change = Override { key: ON.into(), value: "emulator".into(), yields };
            let read = Scenario::read(text, FilePath::new("test.toml"), "test/1", &[change]);
            read.map(|s| s.points.iter().map(|p| p.setup.on).collect::<Vec<_>>())
        };
        use Platform::{Emulator, Simulator};
        assert_eq!(places(&text(), true), Ok(vec![Emulator; 4]));
        let varied = text().replace(
            "association.retransmission = \"all-rtx-alt\"",
            "association.retransmission = \"all-rtx-alt\"\nrun.on = \"emulator\"",
        );
        assert_eq!(places(&varied, true), Ok([Simulator, Emulator].repeat(2)));
        let refused = places(&varied, false).unwrap_err();
        assert!(refused.reason.contains("run.on is varied by the axis 'policy'"), "{refused:?}");
    }

    #[test]
    fn points_are_all_combinations() {
        let scenario = read(&text(), &[]).unwrap();
        let keys: Vec<_> = scenario.points.iter().map(|point| point.key.as_str()).collect();
        let expected = [
            "loss=1 %, policy=Same",
            "loss=1 %, policy=Alt",
            "loss=3 %, policy=Same",
            "loss=3 %, policy=Alt",
        ];
        assert_eq!(keys, expected);
        // Variants share their seeds, values do not.
        assert_eq!(scenario.points[0].seed_key, scenario.points[1].seed_key);
        assert_ne!(scenario.points[0].seed_key, scenario.points[2].seed_key);
        let policy = |index: usize| scenario.points[index].setup.sender.paths.retransmission;
        assert_ne!(policy(0), policy(1));
        assert_eq!(policy(0), policy(2));
    }

    #[test]
    fn the_command_line_changes_fields_and_narrows_axes() {
        let scenario =
            read(&text(), &[("loss", "3 %"), ("association.pmr", "0"), ("policy", "Alt")]).unwrap();
        assert_eq!(scenario.points.len(), 1);
        assert_eq!(scenario.points[0].key, "loss=3 %, policy=Alt");
        assert_eq!(scenario.points[0].setup.sender.paths.path_max_retrans, 0);
        // A value that the file does not list is tried nevertheless.
        let scenario = read(&text(), &[("loss", "7 %")]).unwrap();
        assert_eq!(scenario.points[0].key, "loss=7 %, policy=Same");
        let refused = [("policy", "Never"), ("association.prm", "0"), ("association.pmr", "-1")];
        for (key, value) in refused {
            let error = read(&text(), &[(key, value)]).unwrap_err();
            assert_eq!(error.line, 0, "{key}: {error:?}");
        }
    }

    /// The engine's message, as on the command line and in packet scripts.
    #[test]
    fn options_out_of_range_are_refused_in_the_engines_words() {
        for (key, value, sentence) in [
            ("association.rto_min", "0 s", "rto_min must be a time from 1 ns to 1 h, not '0 s'"),
            ("association.har", "maybe", "heartbeat_after_rto must be on or off, not 'maybe'"),
        ] {
            let error = read(&text(), &[(key, value)]).unwrap_err();
            assert!(error.reason.contains(sentence), "{error:?}");
        }
    }

    #[test]
    fn mistakes_are_refused_with_line_and_reason() {
        let cases = [
            ("seeds = 10", "seeds = 0", 4, "run.seeds is 0, outside 1 to 100000"),
            ("seeds = 10", "seeds = 10\nconfidence = \"80 %\"", 5, "90 %"),
            ("seeds = 10", "speeds = 10", 3, "run.seeds is missing"),
            (
                "\"path.primary.loss\"",
                "\"path.primary.lost\"",
                7,
                "unknown key 'path.primary.lost'",
            ),
            ("\"path.primary.loss\"", "\"path.third.loss\"", 6, "there is no [path.third]"),
            ("[\"1 %\", \"3 %\"]", "[]", 7, "no values"),
            ("[\"1 %\", \"3 %\"]", "[\"1 %\", \"1 %\"]", 7, "twice"),
            ("[\"1 %\", \"3 %\"]", "[\"1 %\", \"101 %\"]", 7, "outside 0 % to 100 %"),
            ("x = \"loss\"", "x = \"los\"", 13, "'los' is not an axis"),
            ("\"transfer_time_s\"", "\"transfer_time\"", 14, "there is no metric 'transfer_time'"),
            ("\"all-rtx-alt\"", "\"all\"", 11, "all-rtx-alt"),
            ("title = \"A test\"", "title = \"A test\"\nsubtitle = 1", 3, "unknown key 'subtitle'"),
        ];
        for (from, to, line, reason) in cases {
            assert!(text().contains(from), "{from}");
            refused(read(&text().replacen(from, to, 1), &[]), line, reason);
        }
    }

    #[test]
    fn combinations_can_be_skipped() {
        let more = "[[skip]]\nloss = \"3 %\"\npolicy = \"Alt\"\n";
        let scenario = read(&format!("{}{more}", text()), &[]).unwrap();
        assert_eq!(scenario.points.len(), 3);
        // Skipped combinations may name values that the command line has removed.
        let only = |value: &str| {
            read(&format!("{}{more}", text()), &[("loss", value)]).unwrap().points.len()
        };
        assert_eq!((only("1"), only("3")), (2, 1));
        let wrong = "[[skip]]\nloss = \"4 %\"\n";
        let error = read(&format!("{}{wrong}", text()), &[]).unwrap_err();
        assert!(error.reason.contains("has no value"), "{error:?}");
    }
}
