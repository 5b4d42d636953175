//! Directions of links, with their names in logs and reports.

use super::topology::Topology;

/// One direction of a link.
#[derive(Clone, Debug)]
pub struct Way {
    /// Name of the link.
    pub link: String,
    /// The host or router where it starts.
    pub from: String,
    /// The host or router where it ends.
    pub to: String,
    /// The link's name with an arrow: `sat>` from its first end to its second, `sat<` back.
    pub short: String,
    /// Titles of its patterns, each as one word.
    pub(super) patterns: Vec<String>,
    /// Whether one of them has a filter.
    pub(super) filtered: bool,
}

/// All directions; the two of a link are adjacent.
pub(crate) fn ways(topology: &Topology) -> Vec<Way> {
    let mut ways = Vec::new();
    for link in &topology.links {
        let ends = link.ends.map(|end| topology.nodes.get(end).map_or("", |n| n.name.as_str()));
        for (direction, config) in link.configs.iter().enumerate() {
            let patterns = config.patterns.list().iter();
            let filtered = patterns.clone().any(|pattern| !pattern.filter.is_any());
            ways.push(Way {
                link: link.name.clone(),
                from: ends[direction].to_owned(),
                to: ends[1 - direction].to_owned(),
                short: format!("{}{}", link.name, ['>', '<'][direction]),
                patterns: patterns.map(|pattern| pattern.title().replace(' ', "_")).collect(),
                filtered,
            });
        }
    }
    ways
}
