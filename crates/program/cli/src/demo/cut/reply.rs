//! What the page asks the server, and the answer.

use std::time::Duration;

use serde::Serialize;

use super::compute::{Carried, CutConditions, PathSettings};
use super::events::Events;
use super::summary::{Outcome, summary};
use crate::demo::link::Link;

/// A replay ends this long after the last event if a download has stopped.
const AFTERMATH: Duration = Duration::from_secs(15);

/// The data that the page shows. Times are in seconds from the start of the handshake.
#[derive(Debug, Serialize)]
pub(crate) struct Reply {
    interval_s: f64,
    /// When there is nothing more to see.
    end_s: f64,
    bytes: u64,
    ways: Vec<Way>,
    summary: String,
}

#[derive(Debug, Serialize)]
struct Way {
    key: &'static str,
    name: &'static str,
    connected_s: Option<f64>,
    completed_s: Option<f64>,
    failed_s: Option<f64>,
    /// The bytes of the file that had arrived at the end of each interval, up to the last arrival.
    arrived: Vec<u64>,
    /// For each path, the bytes of IP packets that arrived in each interval, up to the last packet.
    carried: Vec<Vec<u64>>,
    /// Beginning and end of the pauses that were longer than all before them.
    pauses: Vec<(f64, f64)>,
}

/// Computes what a link says.
///
/// # Errors
/// The link says something that is not possible.
pub(crate) fn reply(query: &str) -> Result<Reply, String> {
    let (conditions, ways) = read(query)?;
    let outcomes = Outcome::compute_all(&conditions, &ways)?;
    Ok(Reply {
        interval_s: conditions.interval().as_secs_f64(),
        end_s: end(&conditions.events, &outcomes).as_secs_f64(),
        bytes: conditions.bytes as u64,
        ways: outcomes.iter().map(|outcome| way(&conditions, outcome)).collect(),
        summary: summary(&conditions.events, &outcomes),
    })
}

/// When a replay has shown everything.
fn end(events: &Events, outcomes: &[Outcome]) -> Duration {
    let ends = outcomes.iter().map(|outcome| match outcome.done.completed {
        Some(at) => at,
        None if outcome.has_stopped() => {
            let last = outcome.last().max(events.last()).unwrap_or_default();
            last + AFTERMATH
        }
        None => outcome.done.ended,
    });
    ends.max().unwrap_or_default().max(Duration::from_secs(1))
}

fn way(conditions: &CutConditions, outcome: &Outcome) -> Way {
    let seconds = |time: Option<Duration>| time.map(|time| time.as_secs_f64());
    let interval = conditions.interval();
    let last = outcome.last().unwrap_or_default().as_nanos() / interval.as_nanos().max(1);
    let last = u32::try_from(last).unwrap_or(u32::MAX);
    let pauses = outcome.done.record_pauses().into_iter();
    Way {
        key: outcome.way.key(),
        name: outcome.way.name(),
        connected_s: seconds(outcome.done.connected),
        completed_s: seconds(outcome.done.completed),
        failed_s: seconds(outcome.done.failed.as_ref().map(|(at, _)| *at)),
        arrived: (1..=last.saturating_add(1))
            .map(|count| outcome.done.bytes_at(interval * count))
            .collect(),
        carried: outcome.done.carried.clone(),
        pauses: pauses.map(|(from, to)| (from.as_secs_f64(), to.as_secs_f64())).collect(),
    }
}

/// Parses the settings of a link.
fn read(query: &str) -> Result<(CutConditions, Vec<Carried>), String> {
    let link = Link::new(query);
    let number = |name, least, most| link.number(name, least, most);
    let path = |rate, rtt| PathSettings::read(&link, rate, rtt);
    let conditions = CutConditions {
        bytes: (number("size", 0.1, 50.0)? * 1e6) as usize,
        paths: [path("rate1", "rtt1")?, path("rate2", "rtt2")?],
        loss: number("loss", 0.0, 10.0)? / 100.0,
        seed: number("seed", 1.0, 1e15)? as u64,
        events: Events::read(link.text("events"))?,
    };
    Ok((conditions, link.shown(Carried::from_key)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The page's settings with a smaller file.
    const QUERY: &str = "size=4&rate1=10&rtt1=40&rate2=6&rtt2=60&loss=0&seed=1\
                         &show=sctp%2Csctp-both%2Ctcp%2Chttp3&events=";

    fn run(events: &str) -> Reply {
        reply(&format!("{QUERY}{events}")).unwrap()
    }

    fn of<'a>(reply: &'a Reply, key: &str) -> &'a Way {
        reply.ways.iter().find(|way| way.key == key).unwrap()
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        for (from, to) in [
            ("size=4", "size=0"),
            ("size=4", "size=51"),
            ("rate1=10", "rate1=101"),
            ("rate2=6", "rate2=NaN"),
            ("rtt2=60", "rtt2=-1"),
            ("loss=0", "loss=11"),
            ("&seed=1", ""),
            ("http3", "http4"),
            ("&events=", "&events=cut3-1"),
            ("&events=", "&events=repair1-1"),
        ] {
            assert!(read(&QUERY.replace(from, to)).is_err(), "{to}");
        }
        let (_, ways) = read(&QUERY.replace("http3", "sctp,tcp")).unwrap();
        assert_eq!(ways, [Carried::Sctp, Carried::Multipath, Carried::Tcp]);
    }

    #[test]
    fn before_a_cut_nothing_differs_and_the_same_link_gives_the_same_run() {
        let text = |reply: &Reply| serde_json::to_string(reply).unwrap();
        let (whole, cut) = (run(""), run("cut1-1.5"));
        assert_eq!(text(&cut), text(&run("cut1-1.5")));
        assert_ne!(text(&cut), text(&whole));
        assert_eq!(cut.interval_s, whole.interval_s);
        let before = (1.5 / cut.interval_s) as usize;
        assert!(before >= 10);
        for (one, other) in cut.ways.iter().zip(&whole.ways) {
            assert_eq!(one.arrived[..before], other.arrived[..before], "{}", one.key);
            for (one, other) in one.carried.iter().zip(&other.carried) {
                // Nothing follows the last bytes that a path has carried.
                let at = |carried: &[u64], place| carried.get(place).copied().unwrap_or(0);
                for place in 0..before {
                    assert_eq!(at(one, place), at(other, place), "{place}");
                }
            }
            let early = |way: &Way| {
                way.pauses.iter().filter(|(_, to)| *to < 1.5).copied().collect::<Vec<_>>()
            };
            assert_eq!(early(one), early(other), "{}", one.key);
        }
    }

    #[test]
    fn without_a_cut_all_have_the_file_in_the_time_that_their_paths_need() {
        let whole = run("");
        for (key, rate) in [("sctp", 10e6), ("sctp-both", 16e6), ("tcp", 10e6), ("http3", 10e6)] {
            let way = of(&whole, key);
            let (time, least) = (way.completed_s.unwrap(), 32e6 / rate);
            assert!(time > least && time < 1.6 * least, "{key}: {time} {least}");
            assert_eq!(way.arrived.last(), Some(&4_000_000), "{key}");
            let used: Vec<_> = way.carried.iter().map(|path| path.iter().sum::<u64>()).collect();
            // The second path carries heartbeats at most, unless data uses both.
            assert_eq!(used[1] > 10_000, key == "sctp-both", "{key}: {used:?}");
        }
        assert!(
            !whole.summary.contains("stops") && !whole.summary.contains("Longest"),
            "{whole:?}"
        );
    }

    #[test]
    fn after_a_cut_sctp_goes_on_and_tcp_and_quic_stop_until_the_repair() {
        let cut = run("cut1-1.5");
        for key in ["sctp", "sctp-both"] {
            let way = of(&cut, key);
            assert!(way.completed_s.is_some(), "{key}: {}", cut.summary);
            let (from, to) = *way.pauses.last().unwrap();
            assert!(to - from < 1.0, "{key}: {from} {to}");
        }
        for key in ["tcp", "http3"] {
            let way = of(&cut, key);
            assert_eq!(way.completed_s, None, "{key}");
            // Only what was in flight still arrives.
            let arrived = way.arrived.len() as f64 * cut.interval_s;
            assert!(arrived <= 1.5 + cut.interval_s, "{key}: {arrived}");
            assert!(way.arrived.last() < Some(&3_000_000), "{key}");
        }
        for name in ["One TCP connection stops at ", "HTTP/3 (QUIC) stops at "] {
            assert!(cut.summary.contains(name), "{}", cut.summary);
        }
        assert!(cut.summary.contains("Path 1 is cut at 1.5 s."), "{}", cut.summary);
        // All go on after the repair, those with one path later.
        let repaired = run("cut1-1.5_repair1-4");
        for way in &repaired.ways {
            assert!(way.completed_s.is_some(), "{}: {}", way.key, repaired.summary);
            let (from, to) = *way.pauses.last().unwrap();
            let has_stopped = from < 1.6 && to > 4.0;
            assert_eq!(has_stopped, !way.key.starts_with("sctp"), "{}: {from} {to}", way.key);
        }
        assert!(!repaired.summary.contains("stops"), "{}", repaired.summary);
    }

    #[test]
    fn the_second_path_may_be_cut_and_both() {
        let second = run("cut2-1");
        assert!(second.ways.iter().all(|way| way.completed_s.is_some()), "{}", second.summary);
        let both = run("cut1-1_cut2-1_repair2-6");
        assert!(of(&both, "sctp").completed_s.is_some(), "{}", both.summary);
        assert!(of(&both, "sctp").pauses.last().unwrap().1 > 6.0, "{}", both.summary);
        assert_eq!(of(&both, "tcp").completed_s, None);
    }

    #[test]
    fn a_file_that_nobody_can_get_is_said_so() {
        let never = run("cut1-0_cut2-0");
        assert!(never.ways.iter().all(|way| way.arrived == [0] && way.completed_s.is_none()));
        assert!(!never.summary.contains("first"), "{}", never.summary);
        assert_eq!(
            never.summary.matches("at 0 %: nothing arrives").count(),
            4,
            "{}",
            never.summary
        );
    }
}
