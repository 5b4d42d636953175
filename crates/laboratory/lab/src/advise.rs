//! Recommends a policy: the decision trees of the multihoming study (caro Figs 4.8, 4.11 and 6.1)
//! as a function.
//!
//! The study simulated bulk transfers over paths of equal rate. Its author calls the tree an
//! intuition, to be used with caution, and makes no recommendation beyond its scope.

use std::time::Duration;

use anabranch_proto::RetransmissionPolicy;

/// Below this loss rate timeouts are too rare for the choice to matter (caro 4.3.1).
const LOW_LOSS: f64 = 0.03;
/// Delays are roughly equal if none is more than this many times another one (caro 3.3.1).
const ROUGHLY_EQUAL: f64 = 2.0;
/// From this ratio the alternate path is an order of magnitude slower (caro 2.5.3).
const MUCH_SLOWER: f64 = 10.0;
/// Discoveries up to this time are short, from [`LONG_DISCOVERY`] they are long (caro 4.3.1).
const SHORT_DISCOVERY: Duration = Duration::from_millis(250);
const LONG_DISCOVERY: Duration = Duration::from_millis(500);
/// Caches up to this lifetime are short: a little more than one timeout (caro 4.2).
const SHORT_CACHE: Duration = Duration::from_millis(1200);
/// Caches from this lifetime are long: more than two consecutive timeouts. The text also mentions
/// the minimum RTO (caro 4.5); its figures support this.
const LONG_CACHE: Duration = Duration::from_millis(3200);

/// The expected conditions of a network; unknown ones are missing.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Conditions {
    /// Share of packets that the primary path loses, 0 to 1.
    pub loss: Option<f64>,
    /// RTT of the slowest alternate path, as a multiple of the primary path's.
    pub rtt_ratio: Option<f64>,
    /// How routes are found.
    pub routing: Option<Routing>,
}

/// How routes are found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Routing {
    /// In advance, as in fixed networks.
    Proactive,
    /// When a packet needs a route.
    Reactive {
        /// How long an idle route is remembered.
        cache: Option<Duration>,
        /// How long a discovery takes.
        discovery: Option<Duration>,
    },
}

/// The recommendation of the study.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Advice {
    /// The choice; `None` if the study has no answer.
    pub choice: Option<Choice>,
    /// The path through the tree: each question with its answer and source.
    pub path: Vec<String>,
}

/// A policy with its failover threshold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Choice {
    /// Where lost chunks are retransmitted.
    pub retransmission: RetransmissionPolicy,
    /// Path.Max.Retrans.
    pub path_max_retrans: u32,
    /// MFR and timestamps: the extensions that serve both policies best (caro 2.4.4).
    pub extensions: &'static [&'static str],
}

const HYBRID: Choice = Choice {
    retransmission: RetransmissionPolicy::FrSameRtoAlt,
    path_max_retrans: 0,
    extensions: &["mfr", "timestamps"],
};
const CAUTIOUS: Choice = Choice {
    retransmission: RetransmissionPolicy::AllRtxSame,
    path_max_retrans: 1,
    extensions: &["mfr", "timestamps"],
};

/// Walks through the tree.
pub fn advise(conditions: &Conditions) -> Advice {
    let mut path = Vec::new();
    let choice = walk(conditions, &mut path);
    Advice { choice, path }
}

fn walk(conditions: &Conditions, path: &mut Vec<String>) -> Option<Choice> {
    let mut say = |line: String| path.push(line);
    match conditions.loss {
        Some(loss) if loss < LOW_LOSS => {
            say(format!("loss {:.2} % is below 3 % (caro 4.5, 6.2)", loss * 100.0));
            return Some(HYBRID);
        }
        Some(loss) => say(format!("loss {:.2} % is not below 3 %", loss * 100.0)),
        None => say("the loss is not known".to_owned()),
    }
    let Some(ratio) = conditions.rtt_ratio else {
        say("the delays are not known: the cautious choice (caro 6.2)".to_owned());
        return Some(CAUTIOUS);
    };
    if ratio >= MUCH_SLOWER {
        say(format!(
            "the alternate RTT is {ratio:.1} times the primary's, at least 10 (caro 2.5.3)"
        ));
        return Some(CAUTIOUS);
    }
    if ratio > ROUGHLY_EQUAL {
        say(format!(
            "the alternate RTT is {ratio:.1} times the primary's, between 2 and 10: the study has \
             no recommendation (caro 4.3.2)"
        ));
        return None;
    }
    // A primary path slower than twice its alternate is not roughly equal to it either.
    if ratio < 1.0 / ROUGHLY_EQUAL {
        say(format!(
            "the alternate RTT is {ratio:.2} times the primary's, which is not roughly equal: the \
             study has no recommendation (caro 4.3.2)"
        ));
        return None;
    }
    say(format!("the delays are roughly equal, {ratio:.1} to 1"));
    match conditions.routing {
        None => {
            say("the routing is not known: the cautious choice (caro 6.2)".to_owned());
            Some(CAUTIOUS)
        }
        Some(Routing::Proactive) => {
            say("routes are found in advance (caro 4.5)".to_owned());
            Some(HYBRID)
        }
        Some(Routing::Reactive { cache, discovery }) => reactive(cache, discovery, &mut say),
    }
}

fn reactive(
    cache: Option<Duration>,
    discovery: Option<Duration>,
    say: &mut dyn FnMut(String),
) -> Option<Choice> {
    say("routes are found when needed".to_owned());
    if let Some(discovery) = discovery.filter(|discovery| *discovery <= SHORT_DISCOVERY) {
        say(format!("a discovery takes {discovery:?}, at most 250 ms (caro 4.3.1)"));
        return Some(HYBRID);
    }
    if let Some(cache) = cache.filter(|cache| *cache >= LONG_CACHE) {
        say(format!("routes are remembered for {cache:?}, at least 3.2 s (caro 4.3.1)"));
        return Some(HYBRID);
    }
    let uncovered = |what, value: Option<Duration>, from, to| {
        value.filter(|v| *v > from && *v < to).map(|v| {
            format!("{what} {v:?}, which the study does not cover: no recommendation (caro 4.3.2)")
        })
    };
    let between = uncovered("a discovery takes", discovery, SHORT_DISCOVERY, LONG_DISCOVERY)
        .or_else(|| uncovered("routes are remembered for", cache, SHORT_CACHE, LONG_CACHE));
    if let Some(line) = between {
        say(line);
        return None;
    }
    say("discoveries are long or not known, and routes not remembered for long (caro 4.5)"
        .to_owned());
    Some(CAUTIOUS)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn conditions(loss: Option<f64>, ratio: Option<f64>, routing: Option<Routing>) -> Conditions {
        Conditions { loss, rtt_ratio: ratio, routing }
    }

    fn reactive(cache: Option<u64>, discovery: Option<u64>) -> Option<Routing> {
        Some(Routing::Reactive {
            cache: cache.map(Duration::from_millis),
            discovery: discovery.map(Duration::from_millis),
        })
    }

    #[test]
    fn every_leaf() {
        let proactive = Some(Routing::Proactive);
        let rows = [
            (conditions(Some(0.02), None, None), Some(HYBRID), 1),
            (conditions(Some(0.02), Some(20.0), reactive(None, None)), Some(HYBRID), 1),
            (conditions(None, None, None), Some(CAUTIOUS), 2),
            (conditions(Some(0.03), None, proactive), Some(CAUTIOUS), 2),
            (conditions(Some(0.05), Some(10.0), proactive), Some(CAUTIOUS), 2),
            (conditions(Some(0.05), Some(5.0), proactive), None, 2),
            (conditions(None, Some(2.01), None), None, 2),
            (conditions(None, Some(0.4), proactive), None, 2),
            (conditions(Some(0.05), Some(2.0), None), Some(CAUTIOUS), 3),
            (conditions(Some(0.05), Some(2.0), proactive), Some(HYBRID), 3),
            (conditions(None, Some(0.5), proactive), Some(HYBRID), 3),
            (conditions(None, Some(1.0), reactive(Some(500), Some(250))), Some(HYBRID), 4),
            (conditions(None, Some(1.0), reactive(Some(3200), Some(1000))), Some(HYBRID), 4),
            (conditions(None, Some(1.0), reactive(Some(1200), Some(500))), Some(CAUTIOUS), 4),
            (conditions(None, Some(1.0), reactive(None, None)), Some(CAUTIOUS), 4),
            (conditions(None, Some(1.0), reactive(Some(1200), Some(300))), None, 4),
            (conditions(None, Some(1.0), reactive(Some(2000), Some(1000))), None, 4),
        ];
        for (conditions, choice, steps) in rows {
            let advice = advise(&conditions);
            assert_eq!(advice.choice, choice, "{conditions:?}");
            assert_eq!(advice.path.len(), steps, "{:?}", advice.path);
        }
    }
}
