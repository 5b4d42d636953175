//! Recommends options of recovery, bundling and the metric cache for an application's traffic, based on the
//! measurements in `docs/timeliness.md`.

/// The traffic of an application.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sends {
    /// Few large transfers.
    Bulk,
    /// A few small messages at a time; the application waits for each of them.
    Signalling,
    /// Objects on separate streams.
    Web,
    /// Small messages and bulk on one association.
    Mixed,
}

/// The conditions of traffic and network.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    /// The traffic of the application.
    pub sends: Option<Sends>,
    /// The network reorders packets.
    pub reorders: bool,
    /// Links stall for longer than a retransmission timeout, like radio links that change cells.
    pub stands_still: bool,
    /// Many short associations follow each other between the same hosts.
    pub many_short: bool,
}

/// An option with its reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Recommended {
    /// Its name, or `profile`.
    pub option: &'static str,
    /// The value.
    pub value: &'static str,
    /// Why.
    pub reason: &'static str,
    /// The study that shows it.
    pub study: &'static str,
}

const fn recommended(
    option: &'static str,
    value: &'static str,
    reason: &'static str,
    study: &'static str,
) -> Recommended {
    Recommended { option, value, reason, study }
}

/// The options that suit what an application sends.
fn for_sends(sends: Sends) -> Vec<Recommended> {
    match sends {
        Sends::Bulk => vec![recommended(
            "profile",
            "bulk",
            "buffers for long paths; small messages share packets and wait for a round trip at most",
            "timely/bundling",
        )],
        Sends::Signalling => vec![
            recommended(
                "profile",
                "signalling",
                "no message waits for another, and a lost one is found by time and by probes: 50 ms \
                 and not 90 where the round trip is 20 ms",
                "timely/signalling",
            ),
            recommended(
                "bundling",
                "none",
                "Nagle's rule holds a lone message back until a delayed acknowledgement comes, 120 ms \
                 on average",
                "timely/bundling",
            ),
        ],
        Sends::Web => vec![recommended(
            "profile",
            "web",
            "streams take turns, and small ends of objects share packets",
            "timely/bundling",
        )],
        Sends::Mixed => vec![
            recommended(
                "interleaving",
                "on",
                "a small message does not wait for the end of a long one on another stream",
                "latency/classes",
            ),
            recommended(
                "scheduler",
                "round-robin",
                "nor for all that was given before it",
                "latency/classes",
            ),
        ],
    }
}

/// The options that suit this traffic.
pub fn advise(traffic: &Traffic) -> Vec<Recommended> {
    let mut all = traffic.sends.map(for_sends).unwrap_or_default();
    if traffic.reorders {
        all.push(recommended(
            "loss_detection",
            "time-threshold",
            "what is overtaken for less than a quarter of a round trip is not taken for lost",
            "timely/reordering",
        ));
        all.push(recommended(
            "undo",
            "duplicates",
            "and what was is taken back: nearly the full rate where the standard has 70 % of it",
            "timely/reordering",
        ));
    }
    if traffic.stands_still {
        all.push(recommended(
            "f_rto",
            "on",
            "after a timeout for nothing 4 chunks leave again and not 368",
            "timely/spurious",
        ));
    }
    if traffic.many_short {
        all.push(recommended(
            "metric_cache",
            "selective",
            "a lost INIT leaves again after the last round-trip time; ssthresh of the last transfer \
             would make the next ones 15 % slower",
            "timely/cache",
        ));
    }
    all
}

#[cfg(test)]
mod tests {
    use anabranch_proto::AssociationConfig;

    use super::*;

    #[test]
    fn what_is_recommended_exists_and_each_word_counts() {
        let nothing = Traffic::default();
        assert_eq!(advise(&nothing), []);
        let mut seen = 0;
        for traffic in [
            Traffic { sends: Some(Sends::Bulk), ..nothing },
            Traffic { sends: Some(Sends::Signalling), ..nothing },
            Traffic { sends: Some(Sends::Web), ..nothing },
            Traffic { sends: Some(Sends::Mixed), ..nothing },
            Traffic { reorders: true, ..nothing },
            Traffic { stands_still: true, ..nothing },
            Traffic { many_short: true, ..nothing },
        ] {
            let options = advise(&traffic);
            assert!(!options.is_empty(), "{traffic:?}");
            for Recommended { option, value, study, .. } in options {
                seen += 1;
                if option == "profile" {
                    assert!(AssociationConfig::profile(value).is_some(), "{value}");
                } else {
                    let mut config = AssociationConfig::rfc9260();
                    config.set(option, value).unwrap();
                }
                let file = std::path::Path::new(env!("CARGO_MANIFEST_DIR"))
                    .join(format!("../../../scenarios/{study}.toml"));
                assert!(file.is_file(), "{study}");
            }
        }
        assert_eq!(seen, 10);
    }
}
