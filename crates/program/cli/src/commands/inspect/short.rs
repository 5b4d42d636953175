//! Shows the associations of all endpoints in a few lines: a summary, and a line for each.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use anabranch::PathState;
use clap::ValueEnum;

use crate::control::{AssociationView, View};
use crate::output::{count, grouped, table};
use crate::perf::{short, time};
use crate::report::PathReport;

/// Which associations come first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Order {
    /// By process and name, in order of creation
    Id,
    /// Most bytes since the last poll
    Traffic,
    /// Most bytes waiting to be sent or acknowledged
    Queued,
    /// Longest round-trip time
    Rtt,
    /// Most retransmissions
    Retransmissions,
}

/// Bytes in and out of each association, by process, UDP port and name.
pub(super) type Totals = BTreeMap<(u32, u16, String), (u64, u64)>;

/// An association with its endpoint.
struct Row<'a> {
    view: &'a View,
    association: &'a AssociationView,
    /// Bytes in and out since the last poll, or in total.
    bytes: (u64, u64),
}

/// Bytes in and out over all paths.
fn bytes(association: &AssociationView) -> (u64, u64) {
    let add = |(received, sent): (u64, u64), path: &PathReport| {
        let (more_received, more_sent) = path.bytes();
        (received + more_received, sent + more_sent)
    };
    association.paths.iter().fold((0, 0), add)
}

fn key(view: &View, association: &AssociationView) -> (u32, u16, String) {
    (view.process, view.udp_port, association.id.clone())
}

/// The traffic of each association so far.
pub(super) fn totals(views: &[View]) -> Totals {
    let mut totals = Totals::new();
    for view in views {
        for association in &view.associations {
            totals.insert(key(view, association), bytes(association));
        }
    }
    totals
}

fn retransmissions(association: &AssociationView) -> u64 {
    let sctp = association.paths.iter().filter_map(PathReport::sctp);
    sctp.map(|path| path.retransmitted_chunks).sum()
}

/// The round-trip time of the primary path, in seconds.
fn rtt(association: &AssociationView) -> Option<f64> {
    let primary = association.paths.iter().find(|path| path.primary)?;
    Some(primary.sctp()?.srtt?.as_secs_f64())
}

fn queued(association: &AssociationView) -> u64 {
    let number = |name| association.counters.whole(name);
    number("send_queue_bytes") + number("outstanding_bytes")
}

impl Order {
    /// Sorts the associations of an endpoint by their totals.
    pub(super) fn sort(self, associations: &mut [AssociationView]) {
        associations.sort_by_cached_key(|association| self.rank(association, bytes(association)));
    }

    /// The rank of an association; the smallest comes first.
    fn rank(self, association: &AssociationView, (received, sent): (u64, u64)) -> u64 {
        let most = match self {
            Self::Id => 0,
            Self::Traffic => received + sent,
            Self::Queued => queued(association),
            Self::Rtt => rtt(association).map_or(0, |seconds| (seconds * 1e6) as u64),
            Self::Retransmissions => retransmissions(association),
        };
        u64::MAX - most
    }
}

/// The totals of all endpoints.
fn summary(views: &[View], rows: &[Row<'_>], seconds: Option<f64>) -> String {
    let (received, sent) =
        rows.iter().fold((0, 0), |(r, s), row| (r + row.bytes.0, s + row.bytes.1));
    let each = |bytes: u64| match seconds {
        Some(seconds) if seconds > 0.0 => format!("{}/s", short((bytes as f64 / seconds) as u64)),
        _ => short(bytes),
    };
    let paths = || rows.iter().flat_map(|row| &row.association.paths);
    let down = paths().filter(|path| path.state() != PathState::Active).count() as u64;
    let again: u64 = rows.iter().map(|row| retransmissions(row.association)).sum();
    format!(
        "{}, {}; {} in, {} out\n  {} not active, {} sent again\n",
        count(views.len() as u64, "endpoint"),
        count(views.iter().map(View::count).sum(), "association"),
        each(received),
        each(sent),
        count(down, "path"),
        count(again, "chunk"),
    )
}

fn cells(row: &Row<'_>, several: bool) -> Vec<String> {
    let association = row.association;
    let primary = association.paths.iter().find(|path| path.primary);
    let remote = primary.map_or_else(|| "-".to_owned(), |path| path.ends().1.to_string());
    let mut cells = Vec::new();
    if several {
        cells.push(row.view.process.to_string());
    }
    let paths = &association.paths;
    let active = paths.iter().filter(|path| path.state() == PathState::Active).count();
    cells.extend([
        association.id.clone(),
        remote,
        format!("{active}/{}", paths.len()),
        short(row.bytes.0),
        short(row.bytes.1),
        short(queued(association)),
        rtt(association).map_or_else(|| "-".to_owned(), time),
    ]);
    cells
}

/// A summary and a line for each association, at most `lines` lines in total. With `before` and the seconds since
/// then, it has rates instead of totals.
pub(super) fn text(
    views: &[View],
    order: Order,
    lines: Option<usize>,
    before: Option<(&Totals, f64)>,
) -> String {
    let mut rows = Vec::new();
    for view in views {
        for association in &view.associations {
            let (received, sent) = bytes(association);
            let known = before.and_then(|(totals, _)| totals.get(&key(view, association)));
            let (r, s) = known.copied().unwrap_or_default();
            let bytes = (received.saturating_sub(r), sent.saturating_sub(s));
            rows.push(Row { view, association, bytes });
        }
    }
    let mut text = summary(views, &rows, before.map(|(_, seconds)| seconds));
    // The sort is stable: equal associations keep their order.
    rows.sort_by_key(|row| order.rank(row.association, row.bytes));
    // Leave room for the summary, the heading, the line that counts the rest, and the cursor's line.
    let most = lines.map_or(rows.len(), |lines| lines.saturating_sub(5).max(1));
    let several = views.len() > 1;
    let process = several.then_some("process");
    let heading = ["association", "peer", "paths", "in", "out", "queued", "rtt"];
    let mut table_rows = vec![process.into_iter().chain(heading).map(str::to_owned).collect()];
    table_rows.extend(rows.iter().take(most).map(|row| cells(row, several)));
    if !rows.is_empty() {
        text.push_str(&table(&table_rows));
    }
    let unlisted: u64 = views.iter().map(|view| view.unlisted).sum();
    let more = rows.len().saturating_sub(most) as u64 + unlisted;
    if more > 0 {
        // Writing to a string does not fail.
        let _ = writeln!(text, "and {} more; --sort says which come first", grouped(more));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::numbers::Numbers;

    fn view(process: u32, associations: usize) -> View {
        let mut view = View { process, ..View::of_process() };
        for number in 0..associations {
            let mut counters = Numbers::default();
            counters.set("send_queue_bytes", number * 1000);
            let path = PathReport::tcp([10, 0, 0, 1].into(), [10, 0, 0, 2].into());
            view.associations.push(AssociationView {
                id: format!("{number}.0"),
                incoming: true,
                state: "ESTABLISHED".into(),
                local_port: 1,
                remote_port: 2,
                outbound_streams: 1,
                inbound_streams: 1,
                nr_sack: false,
                features: Vec::new(),
                counters,
                paths: vec![path],
            });
        }
        view
    }

    #[test]
    fn many_associations_fit_a_terminal() {
        let views = [view(1, 30), view(20_000, 40)];
        for lines in [6, 24, 40] {
            let text = text(&views, Order::Queued, Some(lines), None);
            assert!(text.lines().count() < lines.max(7), "{lines}: {text}");
            assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
            assert!(text.starts_with("2 endpoints, 70 associations; 0 B in, 0 B out\n"), "{text}");
            let shown = lines.saturating_sub(5).max(1);
            assert!(text.contains(&format!("\nand {} more; --sort", 70 - shown)), "{text}");
            let first = text.lines().nth(3).unwrap();
            assert!(first.contains("39.0") && first.contains("39.0 kB"), "{text}");
        }
        let all = text(&views, Order::Id, None, None);
        assert_eq!(all.lines().count(), 73, "{all}");
    }

    #[test]
    fn later_looks_have_rates() {
        let views = [view(1, 2)];
        let before = totals(&views);
        let text = text(&views, Order::Traffic, None, Some((&before, 2.0)));
        assert!(text.starts_with("1 endpoint, 2 associations; 0 B/s in, 0 B/s out\n"), "{text}");
    }
}
