//! The file that describes a network: hosts, routers and links.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::ops::Range;

use anabranch_impair::LinkConfig;
use anabranch_impair::file::{FileError, ImpairmentFile};
use serde::Deserialize;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::ways::{Way, ways};

/// Maximum number of nodes and of links: each host is a namespace, each end of a link a device.
const MOST: usize = 250;
/// Smallest MTU of a device that carries IPv6 (RFC 8200 section 5), and the usual MTU.
const MTUS: (usize, u16) = (1280, 1500);

/// A network of hosts, routers and links.
#[derive(Debug)]
pub struct Topology {
    /// The seed in the file.
    pub seed: Option<u64>,
    /// Hosts, then routers.
    pub(crate) nodes: Vec<Node>,
    pub(crate) links: Vec<LinkSpec>,
}

/// A host or a router.
#[derive(Debug)]
pub(crate) struct Node {
    pub(crate) name: String,
    /// Hosts have namespaces; routers are part of this program.
    pub(crate) is_host: bool,
    pub(crate) balance: Option<Balance>,
    /// Kernel settings of the host: names and values.
    pub(crate) sysctl: Vec<(String, String)>,
    /// Commands that start there with the network.
    pub(crate) run: Vec<String>,
}

/// How packets are distributed over equally good links.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Balance {
    /// Packet by packet in turn.
    Packet,
    /// All packets of a flow over the same link.
    Flow,
}

/// A link.
#[derive(Debug)]
pub(crate) struct LinkSpec {
    pub(crate) name: String,
    pub(crate) ends: [usize; 2],
    /// From the first end to the second, and back.
    pub(crate) configs: [LinkConfig; 2],
    pub(crate) mtu: u16,
    pub(crate) v4: [Ipv4Addr; 2],
    pub(crate) v6: [Ipv6Addr; 2],
}

impl LinkSpec {
    /// The addresses of an end.
    pub(crate) fn addresses(&self, end: usize) -> [IpAddr; 2] {
        [self.v4[end & 1].into(), self.v6[end & 1].into()]
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawFile {
    seed: Option<u64>,
    #[serde(default)]
    host: Vec<Spanned<RawHost>>,
    #[serde(default)]
    router: Vec<Spanned<RawRouter>>,
    // Read separately, to know the lines of its values.
    #[expect(dead_code, reason = "it is a key that the file may have")]
    link: Option<serde::de::IgnoredAny>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawHost {
    name: Spanned<String>,
    balance: Option<Balance>,
    #[serde(default)]
    sysctl: std::collections::BTreeMap<Spanned<String>, String>,
    #[serde(default)]
    run: Vec<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawRouter {
    name: Spanned<String>,
    balance: Option<Balance>,
}

struct Reader<'a> {
    text: &'a str,
}

impl Reader<'_> {
    fn wrong<V>(&self, span: &Range<usize>, reason: impl Into<String>) -> Result<V, FileError> {
        let line = 1 + self.text.bytes().take(span.start).filter(|byte| *byte == b'\n').count();
        Err(FileError { line, reason: reason.into() })
    }
}

impl Topology {
    /// Reads the text of a file. `load` returns the contents of a pattern file that the text names.
    ///
    /// # Errors
    /// Returns the line of a mistake and what is wrong there.
    pub fn read(
        text: &str,
        load: &mut dyn FnMut(&str) -> Result<Vec<u8>, String>,
    ) -> Result<Self, FileError> {
        let reader = Reader { text };
        let located = |error: toml::de::Error| {
            let span = error.span().unwrap_or(0..0);
            reader.wrong::<()>(&span, error.message()).err()
        };
        let raw: RawFile = match toml::from_str(text) {
            Ok(raw) => raw,
            Err(error) => {
                return Err(located(error).unwrap_or(FileError { line: 1, reason: String::new() }));
            }
        };
        let nodes = nodes(&reader, raw.host, raw.router)?;
        let mut topology = Self { seed: raw.seed, nodes, links: Vec::new() };
        let Ok(table) = DeTable::parse(text) else { return Ok(topology) };
        let links = table.get_ref().iter().find(|(key, _)| key.get_ref() == "link");
        match links.map(|(_, value)| (value.span(), value.get_ref())) {
            Some((_, DeValue::Array(list))) => {
                for entry in list.iter() {
                    topology.add_link(&reader, entry, load)?;
                }
            }
            Some((span, _)) => return reader.wrong(&span, "a link begins with [[link]]"),
            None => return reader.wrong(&(0..0), "there is no [[link]] in the file"),
        }
        for (index, node) in topology.nodes.iter().enumerate() {
            if !topology.links.iter().any(|link| link.ends.contains(&index)) {
                return reader.wrong(&(0..0), format!("no link leads to '{}'", node.name));
            }
        }
        Ok(topology)
    }

    /// All directions of links; the two of a link are adjacent.
    pub fn ways(&self) -> Vec<Way> {
        ways(self)
    }

    fn add_link(
        &mut self,
        reader: &Reader<'_>,
        entry: &Spanned<DeValue<'_>>,
        load: &mut dyn FnMut(&str) -> Result<Vec<u8>, String>,
    ) -> Result<(), FileError> {
        let span = entry.span();
        let DeValue::Table(table) = entry.get_ref() else {
            return reader.wrong(&span, "a link begins with [[link]]");
        };
        let text = |key: &str| table.iter().find(|(name, _)| name.get_ref() == key);
        let name = match text("name").map(|(_, value)| (value.span(), value.get_ref())) {
            Some((_, DeValue::String(name))) => name.to_string(),
            Some((span, _)) => return reader.wrong(&span, "name is a text"),
            None => format!("link{}", self.links.len()),
        };
        if name.is_empty() || name.len() > 12 || !name.bytes().all(|b| b.is_ascii_alphanumeric()) {
            let reason =
                "the name of a link has up to 12 letters and digits: it is a device's, too";
            return reader.wrong(&span, reason);
        }
        if ["lo", "all", "default"].contains(&name.as_str()) {
            let reason = format!("a link cannot be named '{name}': each host has that already");
            return reader.wrong(&span, reason);
        }
        if self.links.iter().any(|link| link.name == name) {
            return reader.wrong(&span, format!("two links are named '{name}'"));
        }
        if self.links.len() == MOST {
            let reason =
                format!("a network has {MOST} links at most, and '{name}' is number {}", MOST + 1);
            return reader.wrong(&span, reason);
        }
        let Some((_, between)) = text("between") else {
            return reader.wrong(&span, "a link is between two nodes: between = [\"A\", \"B\"]");
        };
        let ends = self.ends(reader, between)?;
        let configs = [
            one_way(reader, &span, table, false, load)?,
            one_way(reader, &span, table, true, load)?,
        ];
        let mtu = configs.iter().filter_map(|config| config.mtu).min();
        let mtu = mtu.map_or(MTUS.1, |mtu| u16::try_from(mtu.max(MTUS.0)).unwrap_or(u16::MAX));
        let number = u8::try_from(self.links.len()).unwrap_or(u8::MAX);
        let v4 = [1, 2].map(|end| Ipv4Addr::new(10, 0, number, end));
        let v6 = [1, 2].map(|end| Ipv6Addr::new(0xfd00, 0, 0, number.into(), 0, 0, 0, end));
        self.links.push(LinkSpec { name, ends, configs, mtu, v4, v6 });
        Ok(())
    }

    fn ends(
        &self,
        reader: &Reader<'_>,
        between: &Spanned<DeValue<'_>>,
    ) -> Result<[usize; 2], FileError> {
        let list = match between.get_ref() {
            DeValue::Array(list) => list.iter().collect::<Vec<_>>(),
            _ => Vec::new(),
        };
        let mut found = Vec::new();
        for end in &list {
            let DeValue::String(name) = end.get_ref() else { continue };
            match self.nodes.iter().position(|node| node.name == **name) {
                Some(node) => found.push(node),
                None => {
                    let reason = format!("'{name}' is neither a [[host]] nor a [[router]]");
                    return reader.wrong(&end.span(), reason);
                }
            }
        }
        match found[..] {
            [from, to] if from != to && list.len() == 2 => Ok([from, to]),
            _ => reader.wrong(&between.span(), "between names two different nodes"),
        }
    }
}

/// A link in one direction, read like a path in an impairment file. The rest of the file is blanked
/// out, so that mistakes keep their line numbers.
fn one_way(
    reader: &Reader<'_>,
    span: &Range<usize>,
    table: &DeTable<'_>,
    backward: bool,
    load: &mut dyn FnMut(&str) -> Result<Vec<u8>, String>,
) -> Result<LinkConfig, FileError> {
    let mut text: Vec<u8> =
        reader.text.bytes().map(|byte| if byte == b'\n' { byte } else { b' ' }).collect();
    let mut keep = |range: Range<usize>, bytes: &[u8]| {
        if let Some(place) = text.get_mut(range) {
            place.copy_from_slice(bytes);
        }
    };
    let head = b"[[path]]";
    keep(span.start..span.start + head.len(), head);
    let back = table.iter().find(|(key, _)| key.get_ref() == "back");
    let back = back.and_then(|(_, value)| match value.get_ref() {
        DeValue::Table(back) => Some(back),
        _ => None,
    });
    let own = |key: &str| ["name", "between", "back"].contains(&key);
    let foreign = ["local", "remote", "direction"];
    let overridden =
        |key: &str| backward && back.is_some_and(|b| b.iter().any(|(k, _)| k.get_ref() == key));
    let forward_keys = table.iter().filter(|(key, _)| !own(key.get_ref()));
    let forward_keys = forward_keys.filter(|(key, _)| !overridden(key.get_ref()));
    let back_keys = back.filter(|_| backward).into_iter().flat_map(DeTable::iter);
    for (key, value) in forward_keys.chain(back_keys) {
        if foreign.contains(&key.get_ref().as_ref()) {
            return reader.wrong(&key.span(), format!("a link has no '{}'", key.get_ref()));
        }
        let range = key.span().start..value.span().end;
        if let Some(bytes) = reader.text.as_bytes().get(range.clone()) {
            keep(range, bytes);
        }
    }
    let text = String::from_utf8_lossy(&text);
    let file = ImpairmentFile::read(&text, load)?;
    Ok(file.paths.into_iter().next().map(|path| path.config).unwrap_or_default())
}

fn nodes(
    reader: &Reader<'_>,
    hosts: Vec<Spanned<RawHost>>,
    routers: Vec<Spanned<RawRouter>>,
) -> Result<Vec<Node>, FileError> {
    let mut nodes: Vec<Node> = Vec::new();
    let mut add = |name: Spanned<String>, node: Node| {
        if node.name.is_empty() {
            return reader.wrong(&name.span(), "this host or router has no name");
        }
        if nodes.len() == MOST {
            let reason = format!(
                "a network has {MOST} hosts and routers at most, and '{}' is number {}",
                node.name,
                MOST + 1
            );
            return reader.wrong(&name.span(), reason);
        }
        if nodes.iter().any(|other| other.name == node.name) {
            return reader.wrong(&name.span(), format!("'{}' is there twice", node.name));
        }
        nodes.push(node);
        Ok(())
    };
    for host in hosts {
        let host = host.into_inner();
        let mut sysctl = Vec::new();
        for (key, value) in host.sysctl {
            let plain = key.get_ref().split('.').all(|part| {
                !part.is_empty() && part.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
            });
            if !plain || !key.get_ref().starts_with("net.") {
                let reason = format!("'{}' is not a network setting (net....)", key.get_ref());
                return reader.wrong(&key.span(), reason);
            }
            sysctl.push((key.into_inner(), value));
        }
        let node = Node {
            name: host.name.get_ref().clone(),
            is_host: true,
            balance: host.balance,
            sysctl,
            run: host.run,
        };
        add(host.name, node)?;
    }
    for router in routers {
        let router = router.into_inner();
        let node = Node {
            name: router.name.get_ref().clone(),
            is_host: false,
            balance: router.balance,
            sysctl: Vec::new(),
            run: Vec::new(),
        };
        add(router.name, node)?;
    }
    if !nodes.iter().any(|node| node.is_host) {
        return reader.wrong(&(0..0), "there is no [[host]] in the file");
    }
    Ok(nodes)
}

#[cfg(test)]
pub(super) mod tests {
    use std::time::Duration;

    use super::*;

    pub(crate) fn read(text: &str) -> Result<Topology, FileError> {
        Topology::read(text, &mut |_| Err("it cannot be read".into()))
    }

    #[test]
    fn hosts_and_links_are_read() {
        let text = "seed = 7\n[[host]]\nname = \"a\"\nrun = [\"true\"]\n\
            sysctl = { \"net.ipv4.tcp_sack\" = \"0\" }\n[[host]]\nname = \"b\"\n[[router]]\n\
            name = \"r\"\nbalance = \"packet\"\n[[link]]\nname = \"up\"\nbetween = [\"a\", \"r\"]\n\
            rate = \"5 Mb/s\"\ndelay = \"20 ms\"\n[link.back]\nrate = \"1 Mb/s\"\n[[link]]\n\
            between = [\"r\", \"b\"]\nmtu = \"1400 B\"\n";
        let topology = read(text).unwrap();
        assert_eq!(topology.nodes.len(), 3);
        assert!(topology.nodes[0].is_host && !topology.nodes[2].is_host);
        assert_eq!(topology.nodes[2].balance, Some(Balance::Packet));
        let [up, second] = &topology.links[..] else { panic!("two links") };
        assert_eq!((up.ends, second.ends), ([0, 2], [2, 1]));
        let rates = up.configs.each_ref().map(|config| config.rate);
        assert_eq!(rates, [Some(5_000_000), Some(1_000_000)]);
        assert!(up.configs.iter().all(|config| config.delay == Duration::from_millis(20)));
        assert_eq!((up.mtu, second.mtu, second.name.as_str()), (1500, 1400, "link1"));
        assert_eq!(second.addresses(1)[0].to_string(), "10.0.1.2");
        assert_eq!(second.addresses(1)[1].to_string(), "fd00:0:0:1::2");
    }

    #[test]
    fn mistakes_have_their_lines() {
        let head = "[[host]]\nname = \"a\"\n[[host]]\nname = \"b\"\n";
        let link = "[[link]]\nbetween = [\"a\", \"b\"]\n";
        for (text, line, reason) in [
            (String::new(), 1, "there is no [[host]]"),
            (head.into(), 1, "there is no [[link]]"),
            (format!("{head}{link}[[host]]\nname = \"a\"\n"), 8, "'a' is there twice"),
            (format!("{head}{link}[[host]]\nname = \"c\"\n"), 1, "no link leads to 'c'"),
            (format!("{head}[[link]]\nbetween = [\"a\"]\n"), 6, "two different nodes"),
            (format!("{head}[[link]]\nbetween = [\"a\", \"x\"]\n"), 6, "'x' is neither"),
            (format!("{head}[[link]]\nrate = \"1 Mb/s\"\n"), 5, "between two nodes"),
            (format!("{head}{link}name = \"much-too-long-a-name\"\n"), 5, "up to 12 letters"),
            (format!("{head}{link}name = \"lo\"\n"), 5, "each host has that already"),
            (format!("{head}{link}delay = \"5 parsec\"\n"), 7, "delay"),
            (format!("{head}{link}speed = 5\n"), 7, "unknown field `speed`"),
            (format!("{head}{link}local = \"10.0.0.1\"\n"), 7, "a link has no 'local'"),
            (format!("{head}{link}delay = \"5 ms\"\n[link.back]\nloss = \"200 %\"\n"), 9, "loss"),
            (format!("{head}{link}pattern = \"p\"\n"), 7, "p: it cannot be read"),
            (
                format!("{head}sysctl = {{ \"kernel.x\" = \"1\" }}\n{link}"),
                5,
                "not a network setting",
            ),
            (format!("{head}balance = \"often\"\n{link}"), 5, "unknown variant"),
        ] {
            let error = read(&text).unwrap_err();
            assert_eq!(error.line, line, "{text}: {error}");
            assert!(error.reason.contains(reason), "{text}: {error}");
        }
    }
}
