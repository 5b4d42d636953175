//! Options of the measurement.

use std::path::PathBuf;

pub(crate) struct Options {
    /// Shorter runs, and only one of the large numbers.
    pub(crate) quick: bool,
    pub(crate) associations: Vec<usize>,
    pub(crate) shards: Vec<usize>,
    /// File for one line per figure.
    pub(crate) json: Option<PathBuf>,
}

fn numbers(list: Option<String>) -> Vec<usize> {
    let list = list.unwrap_or_default();
    list.split(',').map(|number| number.parse().expect("numbers with commas")).collect()
}

pub(crate) fn parse() -> Options {
    let (mut quick, mut associations, mut shards, mut json) = (false, None, vec![1, 2], None);
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "--quick" => quick = true,
            "--associations" => associations = Some(numbers(arguments.next())),
            "--shards" => shards = numbers(arguments.next()),
            "--json" => json = arguments.next().map(PathBuf::from),
            // cargo passes this option.
            "--bench" => {}
            other => panic!("unknown option {other}"),
        }
    }
    let all = if quick { vec![1, 1000] } else { vec![1, 128, 1000, 10_000] };
    Options { quick, associations: associations.unwrap_or(all), shards, json }
}
