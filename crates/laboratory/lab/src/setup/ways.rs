//! Paths whose packets may take several ways between the same interfaces of both hosts.

use anabranch_sim::Spread;

use super::network::{Draft, Path, Way, route, slowest};
use crate::tree::{Checked, Fields, Value, problem};

/// The names in files.
const SPREADS: [(&str, Spread); 4] = [
    ("one", Spread::One),
    ("round-robin", Spread::RoundRobin),
    ("random", Spread::Random),
    ("flow", Spread::Flow),
];

/// Maximum weight of a way.
const MOST: i64 = 1000;

/// How packets are distributed over several ways, forward and back.
pub(super) fn spread(fields: &Fields<'_>) -> Checked<(Spread, Spread)> {
    let forward = fields.choice("spread", &SPREADS)?.unwrap_or_default();
    let back = fields.choice("spread_back", &SPREADS)?.unwrap_or(forward);
    Ok((forward, back))
}

/// A path with `links` or `ways`: lists of links separated by spaces.
pub(super) fn path(
    name: &str,
    fields: &Fields<'_>,
    nodes: &[String],
    drafts: &[Draft],
) -> Checked<Path> {
    let spread = spread(fields)?;
    let weights = weights(fields)?;
    let line = fields.line_of("links");
    let Some(texts) = fields.texts("ways")? else {
        if fields.node("weights").is_some() {
            let reason = format!("path '{name}' has weights and no ways");
            return problem(fields.line_of("weights"), reason);
        }
        let names = fields.texts("links")?.unwrap_or_default();
        let links = route(name, line, &names, nodes, drafts)?;
        let core = slowest(&links, drafts);
        return Ok(Path { spread, ..Path::of(name, links, core) });
    };
    let line = fields.line_of("ways");
    let wrong = |reason: &str| problem(line, format!("path '{name}' {reason}"));
    if fields.node("links").is_some() || texts.is_empty() {
        return wrong("has links or ways");
    }
    if weights.as_ref().is_some_and(|weights| weights.len() != texts.len()) {
        return wrong("has as many weights as ways");
    }
    let mut ways = Vec::new();
    for (index, (line, text)) in texts.into_iter().enumerate() {
        let names: Vec<_> = text.split_whitespace().map(|link| (line, link)).collect();
        let links = route(name, line, &names, nodes, drafts)?;
        let weight = weights.as_ref().and_then(|weights| weights.get(index)).copied().unwrap_or(1);
        ways.push(Way { links, weight });
    }
    let ends = |way: &Way| (way.links.first().copied(), way.links.last().copied());
    let Some(first) = ways.first() else { return wrong("has no way") };
    if ways.iter().any(|way| ends(way) != ends(first)) {
        return wrong("begins and ends with the same links on all its ways");
    }
    let links = first.links.clone();
    // Cuts and measurements of the path refer to the first way.
    let inner = links.get(1..links.len().saturating_sub(1)).filter(|inner| !inner.is_empty());
    let core = slowest(inner.unwrap_or(&links), drafts);
    Ok(Path { name: name.to_owned(), links, core, ways, spread })
}

fn weights(fields: &Fields<'_>) -> Checked<Option<Vec<u32>>> {
    let Some(node) = fields.node("weights") else { return Ok(None) };
    let wrong = || {
        let reason = format!("{} are whole numbers from 1 to {MOST}", fields.name("weights"));
        problem(node.line, reason)
    };
    let Value::List(nodes) = &node.value else { return wrong() };
    let mut weights = Vec::new();
    for node in nodes {
        match node.value {
            Value::Integer(weight) if (1..=MOST).contains(&weight) => weights.push(weight as u32),
            _ => return wrong(),
        }
    }
    Ok(Some(weights))
}

#[cfg(test)]
mod tests {
    use super::super::tests::read;
    use super::*;
    use crate::tree::tests::refused;

    const MESH: &str = r#"
[network]
shape = "links"
hosts = ["S", "D"]
routers = ["A", "B", "C", "E"]
[link.in]
ends = ["S", "A"]
rate = "10 Mb/s"
delay = "1 ms"
queue = "10 packets"
[link.ab]
ends = ["A", "B"]
rate = "2 Mb/s"
delay = "5 ms"
queue = "10 packets"
[link.ac]
ends = ["A", "C"]
rate = "1 Mb/s"
delay = "9 ms"
queue = "10 packets"
[link.be]
ends = ["B", "E"]
rate = "2 Mb/s"
delay = "5 ms"
queue = "10 packets"
[link.ce]
ends = ["C", "E"]
rate = "2 Mb/s"
delay = "5 ms"
queue = "10 packets"
[link.out]
ends = ["E", "D"]
rate = "10 Mb/s"
delay = "1 ms"
queue = "10 packets"
[path.mesh]
ways = ["in ab be out", "in ac ce out"]
weights = [3, 1]
spread = "round-robin"
spread_back = "flow"
[tcp]
[traffic.file]
size = "1 MB"
message = "1 kB"
over = "tcp"
"#;

    #[test]
    fn a_path_may_have_several_ways() {
        let setup = read(MESH).unwrap();
        let path = &setup.network.paths[0];
        assert_eq!(path.spread, (Spread::RoundRobin, Spread::Flow));
        assert_eq!(path.ways.len(), 2);
        assert_eq!((path.ways[0].weight, path.ways[1].weight), (3, 1));
        assert_eq!(path.links, path.ways[0].links);
        assert_eq!(setup.network.links[path.core].name, "ab");
        let cases = [
            ("weights = [3, 1]", "weights = [3]", 37, "as many weights as ways"),
            ("weights = [3, 1]", "weights = [3, 0]", 38, "whole numbers from 1"),
            ("ce out\"]", "ce\"]", 37, "ends at 'E'"),
            ("spread = \"round-robin\"", "spread = \"both\"", 39, "path.mesh.spread"),
            ("ways = [\"in ab be out\", \"in ac ce out\"]", "links = [\"in\"]", 38, "no ways"),
        ];
        for (from, to, line, reason) in cases {
            refused(read(&MESH.replace(from, to)), line, reason);
        }
    }
}
