//! The output of `emulate` for lines and relays.

use anabranch_emulator::LinkReport;
use serde::Serialize;

use crate::failure::Failure;
use crate::output::{grouped, print, print_json, table};

#[derive(Serialize)]
#[serde(tag = "event", rename_all = "snake_case")]
enum Event<'a> {
    /// Packets are forwarded from now on.
    Forwarding { lines: Vec<String> },
    /// What the links did.
    Links { links: &'a [LinkReport] },
}

/// Reports that the devices or sockets are ready.
pub(crate) fn tell_ready(lines: Vec<String>, json: bool) -> Result<(), Failure> {
    if json {
        return print_json(&Event::Forwarding { lines });
    }
    print(&lines.iter().map(|line| format!("forwarding {line}\n")).collect::<String>())
}

/// Reports what the links did.
pub(crate) fn tell_links(links: &[LinkReport], json: bool) -> Result<(), Failure> {
    if json {
        return print_json(&Event::Links { links });
    }
    print(&text(links))
}

fn text(links: &[LinkReport]) -> String {
    let heading = [
        "link",
        "name",
        "offered",
        "delivered",
        "lost",
        "cut",
        "queue full",
        "too big",
        "most queued",
    ];
    let mut rows = vec![heading.map(str::to_owned).to_vec()];
    rows.extend(links.iter().map(|link| {
        let arrow = if link.direction == "send" { "->" } else { "<-" };
        let statistics = &link.statistics;
        let mut row = vec![
            format!("{} {arrow} {}", link.local, link.remote),
            link.name.clone().unwrap_or_default(),
        ];
        row.extend(
            [
                statistics.offered,
                statistics.delivered,
                statistics.lost_model,
                statistics.lost_down,
                statistics.queue_drops,
                statistics.too_big,
                statistics.max_queue_packets,
            ]
            .map(grouped),
        );
        row
    }));
    table(&rows)
}
