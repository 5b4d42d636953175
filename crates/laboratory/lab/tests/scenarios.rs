//! The scenario files of this repository.

use std::path::Path;
use std::sync::atomic::AtomicBool;

use anabranch_lab::provenance::Provenance;
use anabranch_lab::runner::{Nobody, Results, Runner};
use anabranch_lab::scenario::{Library, Override, Scenario};
use anabranch_lab::simulation::Simulation;
use anabranch_lab::{check, reference, summary};

fn library() -> Library {
    Library::find(Path::new(env!("CARGO_MANIFEST_DIR"))).unwrap()
}

#[test]
fn every_scenario_can_be_read_and_its_expectations_are_logged() {
    let library = library();
    let ids = library.ids().unwrap();
    assert!(ids.contains(&"caro/2.5".to_owned()));
    for id in ids {
        let scenario = library.load(&id, &[]).unwrap_or_else(|error| panic!("{error}"));
        let references = reference::load(&scenario).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(references.is_empty(), scenario.reference.is_none(), "{id}");
        assert_eq!(check::unrecorded(&scenario).unwrap(), [] as [&str; 0], "{id}");
    }
}

/// A margin that is ours does not refute the document.
#[test]
fn margins_of_ours_are_marked() {
    let library = library();
    let (mut marked, mut fitted, mut wrong) = (0, 0, Vec::new());
    for id in library.ids().unwrap() {
        for claim in library.load(&id, &[]).unwrap().claims {
            marked += usize::from(claim.ours);
            fitted += usize::from(claim.fitted.is_some());
            let is_ours = claim.source.contains("our margin");
            if is_ours && claim.reference.is_some() && !claim.ours {
                wrong.push(format!("{id}/{}", claim.id));
            }
        }
    }
    assert_eq!(wrong, [] as [String; 0]);
    // Both tables and the loads that they are compared at, three claims about the size of a file, and those about
    // handovers; two claims about latency, and four about the shares of a mix of connections.
    assert_eq!((marked, fitted), (37, 39));
}

/// A corner of a figure, run with this number of threads.
fn corner(jobs: usize) -> (Scenario, Results) {
    let change =
        |key: &str, value: &str| Override { key: key.into(), value: value.into(), yields: false };
    let changes = [
        change("profile", "rfc2960-agent"),
        change("primary_loss", "5 %"),
        change("alternate_loss", "0,10"),
    ];
    let scenario = library().load("caro/2.5", &changes).unwrap();
    let stop = AtomicBool::new(false);
    let runner =
        Runner { experiment: &Simulation, jobs, stop: &stop, observer: &Nobody, store: None };
    let mut results = Results::default();
    runner.complete(&scenario, &mut results, Some(3)).unwrap();
    (scenario, results)
}

#[test]
fn the_number_of_threads_changes_no_result() {
    let json = |jobs| {
        let (scenario, results) = corner(jobs);
        let references = reference::load(&scenario).unwrap();
        let made_by = Provenance::default();
        serde_json::to_string(&summary::json(&scenario, &results, &references, &made_by)).unwrap()
    };
    let one = json(1);
    assert_eq!(one, json(3));
    assert!(one.contains("\"reference\""), "{one}");
}

/// Without loss on the alternate path AllRtxAlt beats AllRtxSame; with 10 % it loses by far. This
/// is the subject of Fig 2.5 of the study.
#[test]
fn the_alternate_paths_loss_decides_what_retransmissions_there_are_worth() {
    let (scenario, results) = corner(2);
    let time = |policy: &str, loss: &str| {
        let key = format!(
            "profile=rfc2960-agent, policy={policy}, primary_loss=5 %, alternate_loss={loss}"
        );
        let point = scenario.points.iter().position(|point| point.key == key).unwrap();
        summary::estimate(&scenario, &results, point, 0).unwrap().value
    };
    assert!(time("AllRtxAlt", "0 %") < time("AllRtxSame", "0 %"));
    assert!(time("AllRtxAlt", "10 %") > 1.4 * time("AllRtxSame", "10 %"));
}
