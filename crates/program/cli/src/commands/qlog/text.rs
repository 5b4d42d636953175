//! Describes one association of a log as text.

use anabranch_qlog_reader::Story;

use crate::output::{count, filled, grouped, table};

/// A few lines of text.
pub(super) fn text(story: &Story) -> String {
    let who = if story.incoming { "the peer" } else { "this side" };
    let end = match &story.reason {
        Some(reason) => reason.as_str(),
        None => "not ended in the log",
    };
    let mut text = filled(&format!(
        "association {}, begun by {who}, port {} here and {} there, {:.3} s to {:.3} s: {end}\n",
        story.id, story.ports.0, story.ports.1, story.begin, story.end
    ));
    let titles =
        ["path", "to", "state", "packets out", "in", "lost", "timeouts", "SRTT", "cwnd max"];
    let mut rows = vec![titles.map(str::to_owned).to_vec()];
    for (id, path) in &story.paths {
        let lost: usize = path.lost.values().map(Vec::len).sum();
        let srtt = path.srtt.last().map_or("-".to_owned(), |(_, ms)| format!("{ms:.1} ms"));
        let cwnd = path.cwnd.iter().map(|(_, bytes)| *bytes).fold(0.0, f64::max);
        rows.push(vec![
            id.to_string(),
            path.ends.1.clone(),
            path.state.clone(),
            grouped(path.packets.0),
            grouped(path.packets.1),
            lost.to_string(),
            path.timeouts.len().to_string(),
            srtt,
            grouped(cwnd as u64),
        ]);
    }
    text.push_str(&table(&rows));
    for (cause, chunks) in story.causes() {
        text.push_str(&format!("  {} lost: {cause}\n", count(chunks, "chunk")));
    }
    text
}
