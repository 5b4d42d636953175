//! The null test of all studies: no effect, order or edge holds when nothing makes a difference.

use std::path::Path;
use std::sync::atomic::AtomicBool;

use anabranch_lab::check;
use anabranch_lab::runner::{Nobody, Runner};
use anabranch_lab::scenario::{Library, Scenario};
use anabranch_lab::setup::Platform;
use anabranch_lab::simulation::Simulation;

/// A study whose transfers are limited to 300 kB, to 1 MB if they are meant to go beyond slow start, or to 3 s if they
/// have no end: equal variants are equal at any size, and small files need little time.
fn small(library: &Library, id: &str) -> Scenario {
    let file = library.directory().join(format!("{id}.toml"));
    let text = std::fs::read_to_string(&file).unwrap();
    let endless = text.contains("size = \"100 GB\"");
    let shrunk = |line: &str| match line.strip_prefix("size = \"") {
        Some("100 GB\"") => line.to_owned(),
        Some(size) if size.contains('M') => "size = \"300 kB\"".to_owned(),
        Some(size) if size.contains('G') => "size = \"1 MB\"".to_owned(),
        _ if endless => line
            .replace("from = \"20 s\"", "from = \"1 s\"")
            .replace("time_limit = \"80 s\"", "time_limit = \"3 s\"")
            .replace("time_limit = \"1220 s\"", "time_limit = \"3 s\""),
        _ => line.to_owned(),
    };
    let text = text.lines().map(shrunk).collect::<Vec<_>>().join("\n");
    Scenario::read(&text, &file, id, &[]).unwrap_or_else(|error| panic!("{id}: {error:?}"))
}

#[test]
fn no_effect_of_any_study_survives() {
    let library = Library::find(Path::new(env!("CARGO_MANIFEST_DIR"))).unwrap();
    let stop = AtomicBool::new(false);
    let runner =
        Runner { experiment: &Simulation, jobs: 2, stop: &stop, observer: &Nobody, store: None };
    let (mut tested, mut wrong) = (0, Vec::new());
    // The transfers of nat-ch3 have no end, and a run needs seconds: use `lab check nat-ch3 --null`.
    let ids = library.ids().unwrap().into_iter().filter(|id| !id.starts_with("nat-ch3/"));
    for id in ids {
        let scenario = small(&library, &id);
        // Scenarios in real time are also left to that command.
        if scenario.points.iter().any(|point| point.setup.on == Platform::Emulator) {
            continue;
        }
        for survivor in check::null(&runner, &scenario, 2).unwrap() {
            tested += 1;
            let claim = &survivor.judgement.claim;
            if survivor.holds() && !survivor.expected {
                wrong.push(format!("{id}/{} ({})", claim.id, claim.kind));
            }
        }
    }
    assert_eq!(wrong, [] as [String; 0]);
    assert!(tested > 150, "only {tested} claims are about what was made the same");
}
