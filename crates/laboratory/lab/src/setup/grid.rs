//! A mesh of routers in rows and columns, with the sender at one corner and the receiver at the opposite corner. All
//! shortest routes between them carry packets.

use std::time::Duration;

use anabranch_impair::pattern::Patterns;
use anabranch_impair::{Discipline, Loss};
use anabranch_sim::Spread;

use super::network::{Channel, Draft, Link, Network, Path, Way, finish};
use super::queue::{self, Queue};
use super::ways;
use super::wire::Faults;
use crate::tree::{Checked, Fields, problem};
use crate::units::{Kind, duration};

const MAX_RATE: f64 = 1e12;
const MAX_DELAY: f64 = 3600e9;

/// A grid from the keys of `[network]`: `core_` for the links between routers, `edge_` for the links of the hosts.
pub(super) fn read(root: &Fields<'_>, network: Fields<'_>) -> Checked<Network> {
    let line = network.line();
    let rows = network.count("rows", 2, 64)?;
    let columns = network.count("columns", 2, 64)?;
    let (Some(rows), Some(columns)) = (rows, columns) else {
        return problem(line, "network.rows and network.columns are missing");
    };
    let required =
        |key: &'static str, kind, least, most| match network.quantity(key, kind, least, most)? {
            Some(value) => Ok(value),
            None => problem(line, format!("network.{key} is missing")),
        };
    let core_rate = required("core_rate", Kind::Rate, 1.0, MAX_RATE)?;
    let core_delay = required("core_delay", Kind::Time, 0.0, MAX_DELAY)?;
    let edge_rate = required("edge_rate", Kind::Rate, 1.0, MAX_RATE)?;
    let edge_delay = required("edge_delay", Kind::Time, 0.0, MAX_DELAY)?;
    let further = network.quantity("core_delay_varies", Kind::Time, 0.0, MAX_DELAY)?.unwrap_or(0.0);
    let loss = network.quantity("core_loss", Kind::Share, 0.0, 1.0)?.unwrap_or(0.0);
    let spread = ways::spread(&network)?;
    let keys = queue::Keys::read(&network)?;
    let Some(room) = keys.room() else {
        return problem(line, "network.queue is missing");
    };
    let manner = keys.manner()?;
    network.finish()?;
    let mut paths = root.tables("path")?.into_iter();
    let (Some((name, fields)), None) = (paths.next(), paths.next()) else {
        return problem(line, "a grid has one [path.NAME]");
    };
    fields.finish()?;
    let grid = Grid { rows: rows as usize, columns: columns as usize };
    let loss = anabranch_impair::Probability::fraction(loss).map_or(Loss::None, Loss::Uniform);
    let channel = |rate: f64, delay: Duration, loss: &Loss| Channel {
        rate: rate as u64,
        delay,
        queue: Queue::Packets(0),
        discipline: Discipline::DropTail,
        loss: loss.clone(),
        faults: Faults::default(),
        patterns: Patterns::default(),
    };
    let mut drafts = Vec::new();
    for (name, from, to) in grid.links() {
        let edge = from < 2 || to < 2;
        let delay = if edge { edge_delay } else { core_delay + further * share(drafts.len()) };
        let rate = if edge { edge_rate } else { core_rate };
        let loss = if edge { &Loss::None } else { &loss };
        let both = channel(rate, duration(delay), loss);
        let link = Link { name, from, to, forward: both.clone(), backward: both };
        drafts.push(Draft { link, rooms: (room, room), manner, line });
    }
    finish(grid.nodes(), drafts, vec![grid.path(name, spread)])
}

/// A number from 0 to 1 that differs between links and is the same in each run.
fn share(link: usize) -> f64 {
    let golden = (link as u64).wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (golden >> 40) as f64 / (1_u64 << 24) as f64
}

struct Grid {
    rows: usize,
    columns: usize,
}

impl Grid {
    /// The node of a router; 0 and 1 are the hosts.
    fn node(&self, row: usize, column: usize) -> usize {
        2 + row * self.columns + column
    }

    fn nodes(&self) -> Vec<String> {
        let routers =
            (0..self.rows).flat_map(|row| (0..self.columns).map(move |column| (row, column)));
        let hosts = ["S", "D"].map(str::to_owned).into_iter();
        hosts.chain(routers.map(|(row, column)| format!("r{row}-{column}"))).collect()
    }

    /// Name and ends of all links: those of the sender and the receiver, then the links from each router to the right
    /// and down.
    fn links(&self) -> Vec<(String, usize, usize)> {
        let mut links = vec![
            ("in".to_owned(), 0, self.node(0, 0)),
            ("out".to_owned(), self.node(self.rows - 1, self.columns - 1), 1),
        ];
        for row in 0..self.rows {
            for column in 0..self.columns {
                let from = self.node(row, column);
                if column + 1 < self.columns {
                    links.push((format!("right{row}-{column}"), from, self.node(row, column + 1)));
                }
                if row + 1 < self.rows {
                    links.push((format!("down{row}-{column}"), from, self.node(row + 1, column)));
                }
            }
        }
        links
    }

    /// The path over all links, which all lead from the sender's corner to the receiver's: each router has one or two
    /// next links. The first way goes down and right alternately.
    fn path(&self, name: &str, spread: (Spread, Spread)) -> Path {
        let links = self.links();
        let number = |name: &str| links.iter().position(|(other, ..)| other == name).unwrap_or(0);
        let (mut row, mut column) = (0, 0);
        let mut first = vec![(0, false)];
        while (row, column) != (self.rows - 1, self.columns - 1) {
            let down = column + 1 == self.columns || (row + 1 < self.rows && row <= column);
            let kind = if down { "down" } else { "right" };
            first.push((number(&format!("{kind}{row}-{column}")), false));
            (row, column) = if down { (row + 1, column) } else { (row, column + 1) };
        }
        first.push((1, false));
        let core = first.get(1).map_or(0, |(link, _)| *link);
        // A way only determines the next links at each router, so one way with all links uses all routes equally.
        let all = Way { links: (0..links.len()).map(|link| (link, false)).collect(), weight: 1 };
        let ways = vec![Way { links: first.clone(), weight: 0 }, all];
        Path { name: name.to_owned(), links: first, core, ways, spread }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::read;
    use super::*;
    use crate::tree::tests::refused;

    const SMALL: &str = r#"
[network]
shape = "grid"
rows = 3
columns = 4
core_rate = "10 Mb/s"
core_delay = "1 ms"
core_delay_varies = "4 ms"
edge_rate = "100 Mb/s"
edge_delay = "0 ms"
queue = "50 packets"
spread = "random"
spread_back = "one"
[path.mesh]
[tcp]
[traffic.file]
size = "1 MB"
message = "1 kB"
over = "tcp"
"#;

    #[test]
    fn all_ways_of_the_fewest_hops_are_there() {
        let setup = read(SMALL).unwrap();
        let network = &setup.network;
        assert_eq!(network.nodes.len(), 2 + 12);
        // 3 rows of 3, 4 columns of 2, and both hosts.
        assert_eq!(network.links.len(), 9 + 8 + 2);
        let path = &network.paths[0];
        assert_eq!((path.links.len(), path.ways[1].links.len()), (1 + 5 + 1, 19));
        assert_eq!(path.spread, (Spread::Random, Spread::One));
        let delays: Vec<_> = network.links.iter().skip(2).map(|link| link.forward.delay).collect();
        let ms = Duration::from_millis;
        assert!(delays.iter().all(|delay| (ms(1)..ms(5)).contains(delay)), "{delays:?}");
        assert!(delays.iter().max() > delays.iter().min());
        refused(read(&SMALL.replace("rows = 3\n", "")), 2, "rows and network.columns");
        refused(read(&SMALL.replace("[path.mesh]", "[path.a]\n[path.b]")), 2, "one [path.NAME]");
    }
}
