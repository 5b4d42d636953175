//! Recommends how small messages use several paths, based on the measurements in `docs/latency.md`.

use crate::advise::Conditions;
use crate::advise_timely::{Recommended, Sends};

/// Round-trip times that differ by at least this factor are worth a choice: the option itself moves data to a path that
/// is shorter by a fifth.
const DIFFERENT: f64 = 1.25;

/// From this loss rate on, more than one in a hundred messages waits for a retransmission.
const LOSSY: f64 = 0.01;

/// The options that suit an application with this traffic. None for paths of which nothing is known, and none for bulk
/// transfers, which use several paths at once.
pub fn advise(conditions: &Conditions, sends: Option<Sends>) -> Vec<Recommended> {
    let Some(ratio) = conditions.rtt_ratio else { return Vec::new() };
    match sends {
        Some(Sends::Signalling) => signalling(conditions, ratio),
        Some(Sends::Mixed) => mixed(ratio),
        _ => Vec::new(),
    }
}

/// Small messages alone.
fn signalling(conditions: &Conditions, ratio: f64) -> Vec<Recommended> {
    let mut all = Vec::new();
    if !(1.0 / DIFFERENT..DIFFERENT).contains(&ratio) {
        all.push(Recommended {
            option: "data_path",
            value: "lowest-latency",
            reason: "data takes the path with the shortest round trip, whichever is the primary one",
            study: "latency/messages",
        });
    }
    if conditions.loss.is_some_and(|loss| loss >= LOSSY) {
        all.push(Recommended {
            option: "copies_up_to",
            value: "1000B",
            reason: "a message is late only if both paths lose it; copies take at most a quarter of a window",
            study: "latency/copies",
        });
    }
    all
}

/// Small messages on stream 0 and bulk on the others. `ratio`: the round-trip time of the other path to that of the
/// primary one.
fn mixed(ratio: f64) -> Vec<Recommended> {
    let class =
        |option, value, reason| Recommended { option, value, reason, study: "latency/classes" };
    let mut all = vec![
        class("class_from", "1", "bulk on streams from 1 on has paths of its own"),
        class("class_bound", "on", "bulk waits for its path and does not fill the other one"),
    ];
    if ratio < 1.0 / DIFFERENT {
        all.push(class("class_paths", "primary", "the longer path is good enough for bulk"));
        all.push(class("data_path", "lowest-latency", "small messages take the shorter path"));
    }
    all
}

#[cfg(test)]
mod tests {
    use anabranch_proto::AssociationConfig;

    use super::*;

    fn options(loss: f64, ratio: f64, sends: Sends) -> Vec<&'static str> {
        let conditions =
            Conditions { loss: Some(loss), rtt_ratio: Some(ratio), ..Conditions::default() };
        let all = advise(&conditions, Some(sends));
        for known in &all {
            let mut config = AssociationConfig::default();
            config.set(known.option, known.value).unwrap();
            assert_ne!(config, AssociationConfig::default(), "{known:?}");
        }
        all.into_iter().map(|known| known.option).collect()
    }

    #[test]
    fn delays_call_for_a_choice_and_losses_for_copies() {
        let nothing: [&str; 0] = [];
        assert_eq!(options(0.0, 1.0, Sends::Signalling), nothing);
        assert_eq!(options(0.0, 3.0, Sends::Signalling), ["data_path"]);
        assert_eq!(options(0.0, 0.5, Sends::Signalling), ["data_path"]);
        assert_eq!(options(0.03, 1.1, Sends::Signalling), ["copies_up_to"]);
        assert_eq!(options(0.03, 10.0, Sends::Signalling), ["data_path", "copies_up_to"]);
        assert_eq!(options(0.03, 10.0, Sends::Bulk), nothing);
        assert_eq!(options(0.03, 1.0, Sends::Mixed), ["class_from", "class_bound"]);
        let all = ["class_from", "class_bound", "class_paths", "data_path"];
        assert_eq!(options(0.03, 0.3, Sends::Mixed), all);
    }

    #[test]
    fn one_path_has_no_second_one() {
        let conditions = Conditions { loss: Some(0.1), ..Conditions::default() };
        assert_eq!(advise(&conditions, Some(Sends::Signalling)), []);
    }
}
