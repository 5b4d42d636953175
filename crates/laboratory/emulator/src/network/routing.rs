//! Chooses the link on which a packet leaves a node.

use std::collections::{BTreeMap, VecDeque};
use std::net::IpAddr;

use anabranch_impair::pattern::Facts;

use super::topology::{Balance, Topology};

/// An end of a link at a host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Attachment {
    pub(crate) link: usize,
    pub(crate) end: usize,
    pub(crate) node: usize,
}

/// The links that a packet for an attachment may take, by node and attachment.
#[derive(Debug)]
pub(crate) struct Routes {
    pub(crate) attachments: Vec<Attachment>,
    by_address: BTreeMap<IpAddr, usize>,
    /// By node and attachment: the link that leads there, and all equally good links.
    next: Vec<Vec<Next>>,
    balances: Vec<Option<Balance>>,
    /// Packets that each node has distributed so far.
    turns: Vec<usize>,
}

#[derive(Clone, Debug, Default)]
struct Next {
    usual: Option<usize>,
    equal: Vec<usize>,
}

impl Routes {
    pub(crate) fn new(topology: &Topology) -> Self {
        let mut attachments = Vec::new();
        let mut by_address = BTreeMap::new();
        for (link, spec) in topology.links.iter().enumerate() {
            for (end, &node) in spec.ends.iter().enumerate() {
                if topology.nodes.get(node).is_some_and(|node| node.is_host) {
                    for address in spec.addresses(end) {
                        by_address.insert(address, attachments.len());
                    }
                    attachments.push(Attachment { link, end, node });
                }
            }
        }
        let of_node =
            |node: usize| attachments.iter().map(|to| next(topology, node, *to)).collect();
        let next = (0..topology.nodes.len()).map(of_node).collect();
        let balances = topology.nodes.iter().map(|node| node.balance).collect();
        let turns = vec![0; topology.nodes.len()];
        Self { attachments, by_address, next, balances, turns }
    }

    /// The attachment that has an address.
    pub(crate) fn find(&self, address: IpAddr) -> Option<usize> {
        self.by_address.get(&address).copied()
    }

    /// The link on which a host's kernel sends to an attachment.
    pub(crate) fn usual(&self, node: usize, to: usize) -> Option<usize> {
        self.next.get(node)?.get(to)?.usual
    }

    /// The link that a packet takes from a node; `chosen` is the choice of the host's kernel.
    pub(crate) fn choose(
        &mut self,
        node: usize,
        to: usize,
        chosen: Option<usize>,
        facts: &Facts,
    ) -> Option<usize> {
        let next = self.next.get(node)?.get(to)?;
        let count = next.equal.len();
        match self.balances.get(node).copied().flatten() {
            Some(balance) if count > 1 => {
                let turn = match balance {
                    Balance::Packet => {
                        let turn = self.turns.get_mut(node)?;
                        *turn = turn.wrapping_add(1);
                        *turn - 1
                    }
                    Balance::Flow => hash(facts),
                };
                next.equal.get(turn % count).copied()
            }
            _ => chosen.or(next.usual),
        }
    }
}

/// A hash of a flow that is the same in every run.
fn hash(facts: &Facts) -> usize {
    let text = facts.flow().to_string();
    let sum = text.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    (sum >> 32) as usize
}

fn next(topology: &Topology, node: usize, to: Attachment) -> Next {
    let Some(spec) = topology.links.get(to.link) else { return Next::default() };
    if node == to.node {
        return Next::default();
    }
    let far = spec.ends[1 - to.end];
    // All links on the shortest routes to the host. Among these, `usual` leads over the link whose
    // address is the destination.
    let hops = distances(topology, to.node, None);
    let equal = closer(topology, node, &hops);
    let usual = if node == far {
        Some(to.link)
    } else {
        let hops = distances(topology, far, Some(to.node));
        closer(topology, node, &hops).first().or(equal.first()).copied()
    };
    Next { usual, equal }
}

/// Number of links from each node to `goal`, only through routers and not over `avoid`.
fn distances(topology: &Topology, goal: usize, avoid: Option<usize>) -> Vec<Option<usize>> {
    let mut hops = vec![None; topology.nodes.len()];
    let mut queue = VecDeque::from([goal]);
    if let Some(place) = hops.get_mut(goal) {
        *place = Some(0);
    }
    while let Some(at) = queue.pop_front() {
        let passes = at == goal || topology.nodes.get(at).is_some_and(|node| !node.is_host);
        let so_far = hops.get(at).copied().flatten().unwrap_or(0);
        // A host can be reached over a link but does not forward.
        if !passes || (at == goal && avoid.is_some() && is_host(topology, at)) {
            continue;
        }
        for link in topology.links.iter().filter(|link| link.ends.contains(&at)) {
            let other = if link.ends[0] == at { link.ends[1] } else { link.ends[0] };
            if Some(other) == avoid {
                continue;
            }
            if let Some(place @ None) = hops.get_mut(other) {
                *place = Some(so_far + 1);
                queue.push_back(other);
            }
        }
    }
    hops
}

fn is_host(topology: &Topology, node: usize) -> bool {
    topology.nodes.get(node).is_some_and(|node| node.is_host)
}

/// The links of a node that lead to a neighbour closer to the goal.
fn closer(topology: &Topology, node: usize, hops: &[Option<usize>]) -> Vec<usize> {
    let at = |node: usize| hops.get(node).copied().flatten();
    let Some(here) = at(node) else { return Vec::new() };
    let links = topology.links.iter().enumerate().filter(|(_, link)| link.ends.contains(&node));
    links
        .filter(|(_, link)| {
            let other = if link.ends[0] == node { link.ends[1] } else { link.ends[0] };
            at(other).is_some_and(|hops| hops + 1 == here)
        })
        .map(|(index, _)| index)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::super::topology::tests::read;
    use super::*;

    fn network(hosts: &[&str], routers: &[&str], links: &[[&str; 2]]) -> Topology {
        let mut text = String::new();
        for host in hosts {
            text.push_str(&format!("[[host]]\nname = \"{host}\"\n"));
        }
        for router in routers {
            text.push_str(&format!("[[router]]\nname = \"{router}\"\nbalance = \"packet\"\n"));
        }
        for ends in links {
            text.push_str(&format!("[[link]]\nbetween = {ends:?}\n"));
        }
        read(&text).unwrap()
    }

    fn to(routes: &Routes, address: &str) -> usize {
        routes.find(address.parse().unwrap()).unwrap()
    }

    #[test]
    fn the_address_decides_which_of_two_paths_is_taken() {
        let links = [["a", "r"], ["r", "b"], ["a", "q"], ["q", "b"]];
        let routes = Routes::new(&network(&["a", "b"], &["r", "q"], &links));
        assert_eq!(routes.usual(0, to(&routes, "10.0.1.2")), Some(0));
        assert_eq!(routes.usual(0, to(&routes, "10.0.3.2")), Some(2));
        assert_eq!(routes.usual(1, to(&routes, "10.0.0.1")), Some(1));
        assert_eq!(routes.usual(1, to(&routes, "fd00:0:0:2::1")), Some(3));
        assert_eq!(routes.find("10.9.9.9".parse().unwrap()), None);
        // Routers have no address.
        assert_eq!(routes.find("10.0.0.2".parse().unwrap()), None);
    }

    #[test]
    fn hosts_do_not_forward() {
        let routes = Routes::new(&network(&["a", "b", "c"], &[], &[["a", "b"], ["b", "c"]]));
        assert_eq!(routes.usual(0, to(&routes, "10.0.1.2")), None);
        assert_eq!(routes.usual(0, to(&routes, "10.0.0.2")), Some(0));
    }

    #[test]
    fn a_router_spreads_packets_over_parallel_links() {
        let links = [["a", "r"], ["r", "b"], ["r", "b"]];
        let mut routes = Routes::new(&network(&["a", "b"], &["r"], &links));
        let goal = to(&routes, "10.0.1.2");
        let facts = Facts::default();
        let taken = [0; 4].map(|_| routes.choose(2, goal, None, &facts));
        assert_eq!(taken, [Some(1), Some(2), Some(1), Some(2)]);
        routes.balances = vec![None, None, Some(Balance::Flow)];
        let taken = [0; 4].map(|_| routes.choose(2, goal, None, &facts));
        assert!(taken.iter().all(|link| *link == taken[0]));
        routes.balances = vec![None; 3];
        assert_eq!(routes.choose(2, goal, None, &facts), Some(1));
    }
}
