//! The command line of a suite.

use std::ffi::OsString;
use std::path::PathBuf;

use lexopt::{Arg, Parser, ValueExt as _};

use super::{Figure, Suite};

/// What to run and where to write the results.
#[derive(Debug)]
pub struct Options {
    /// Keys of the figures to run; empty for all.
    pub only: Vec<String>,
    /// How often each figure is measured, 1 to 1000.
    pub runs: usize,
    /// Whether to make short runs that only show that everything works; the numbers mean little.
    pub quick: bool,
    /// Whether to list the figures only.
    pub list: bool,
    /// Where to write the results.
    pub json: Option<PathBuf>,
    /// The program to measure; if `None`, it is built.
    pub program: Option<PathBuf>,
}

impl Options {
    /// Whether a figure was requested.
    pub fn wants(&self, key: &str) -> bool {
        self.only.is_empty() || self.only.iter().any(|only| only == key)
    }

    /// Parses the arguments. An error is a message for the user.
    pub(super) fn parse<F: Figure>(
        suite: &Suite<F>,
        arguments: impl Iterator<Item = OsString>,
    ) -> Result<Self, String> {
        let mut options = Self {
            only: Vec::new(),
            runs: suite.runs,
            quick: false,
            list: false,
            json: None,
            program: None,
        };
        let mut runs = None;
        let mut under_cargo_bench = false;
        let mut any = false;
        let mut parser = Parser::from_args(arguments);
        while let Some(argument) = parser.next().map_err(|e| e.to_string())? {
            any = true;
            match argument {
                // Cargo adds it.
                Arg::Long("bench") => under_cargo_bench = true,
                Arg::Long("quick") => options.quick = true,
                Arg::Long("list") => options.list = true,
                Arg::Long("json") => options.json = Some(value(&mut parser)?.into()),
                Arg::Long("program") if suite.takes_program => {
                    options.program = Some(value(&mut parser)?.into());
                }
                Arg::Long("runs") => {
                    let count =
                        value(&mut parser)?.parse().ok().filter(|count| (1..=1000).contains(count));
                    runs = Some(count.ok_or("--runs takes a number from 1 to 1000")?);
                }
                Arg::Long("only") => {
                    let keys = value(&mut parser)?.into_string();
                    let keys = keys.map_err(|_| "--only takes figures' names".to_owned())?;
                    options.add(suite, &keys)?;
                }
                other => return Err(other.unexpected().to_string()),
            }
        }
        if options.quick {
            options.runs = 1;
        }
        options.runs = runs.unwrap_or(options.runs);
        // `cargo test --all-targets` also runs this program, without arguments. Measuring would
        // only delay the tests, so list the figures.
        options.list |= !any && !under_cargo_bench;
        Ok(options)
    }

    fn add<F: Figure>(&mut self, suite: &Suite<F>, keys: &str) -> Result<(), String> {
        for key in keys.split(',').filter(|key| !key.is_empty()) {
            if let Some((_, keys)) = suite.groups.iter().find(|(name, _)| *name == key) {
                self.add(suite, &keys.join(","))?;
                continue;
            }
            if !suite.figures.iter().any(|figure| figure.key() == key) {
                return Err(format!("there is no figure '{key}'; --list shows them all"));
            }
            self.only.push(key.to_owned());
        }
        Ok(())
    }
}

fn value(parser: &mut Parser) -> Result<OsString, String> {
    parser.value().map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use serde_json::{Map, Value};

    use super::super::{Target, Trouble};
    use super::*;

    struct One(&'static str);

    impl Figure for One {
        type Outcome = f64;
        fn key(&self) -> &'static str {
            self.0
        }
        fn title(&self) -> &'static str {
            "a number"
        }
        fn unit(&self) -> &'static str {
            "us"
        }
        fn target(&self) -> Target {
            Target::None
        }
        fn run(&self, _: &Options) -> Result<f64, Trouble> {
            Ok(1.0)
        }
        fn print(&self, _: &f64) {}
        fn headline(&self, value: &f64) -> Option<f64> {
            Some(*value)
        }
        fn details(&self, _: &f64) -> Map<String, Value> {
            Map::new()
        }
    }

    fn parse(arguments: &[&str], takes_program: bool) -> Result<Options, String> {
        let suite = Suite {
            name: "suite",
            figures: &[One("a"), One("b"), One("c")],
            groups: &[("both", &["a", "b"])],
            runs: 5,
            takes_program,
        };
        Options::parse(&suite, arguments.iter().map(OsString::from))
    }

    #[test]
    fn arguments_choose_figures_and_runs() {
        let options = parse(&["--bench"], false).unwrap();
        assert_eq!((options.runs, options.list, options.quick), (5, false, false));
        assert!(options.wants("a") && options.wants("b"));
        let options = parse(&["--only", "b,", "--quick"], false).unwrap();
        assert_eq!((options.runs, options.wants("a"), options.wants("b")), (1, false, true));
        let options = parse(&["--only", "both"], false).unwrap();
        assert_eq!(["a", "b", "c"].map(|key| options.wants(key)), [true, true, false]);
        assert_eq!(parse(&["--quick", "--runs", "7"], false).unwrap().runs, 7);
        // Tests of all targets only check that the program runs.
        assert!(parse(&[], false).unwrap().list);
        let program = parse(&["--program", "x"], true).unwrap().program;
        assert_eq!(program, Some(PathBuf::from("x")));
        for (wrong, reason) in [
            (&["--runs", "0"][..], "from 1 to 1000"),
            (&["--runs", "many"], "from 1 to 1000"),
            (&["--only", "d"], "there is no figure 'd'"),
            (&["--program", "x"], "--program"),
            (&["more"], "more"),
        ] {
            let said = parse(wrong, false).unwrap_err();
            assert!(said.contains(reason), "{wrong:?}: {said}");
        }
    }
}
