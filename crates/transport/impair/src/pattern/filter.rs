//! Filters, which select the packets that a pattern counts.

use std::fmt;
use std::net::IpAddr;

use super::Facts;

/// A condition on packets. The default matches any packet.
///
/// Example: `tcp and dport 80 and payload > 0 or not size < 100`. Terms are joined by `and`, which
/// binds more tightly than `or`; each may be preceded by `not`. `docs/patterns.md` lists the terms.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Filter {
    /// Alternatives, one of which must hold with all of its terms. An empty list matches any
    /// packet.
    alternatives: Vec<Vec<Term>>,
    text: String,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Term {
    negated: bool,
    test: Test,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Test {
    Size(Comparison, u64),
    Payload(Comparison, u64),
    Protocol(Vec<u8>),
    Address(Side, IpAddr, u8),
    Port(Side, u16, u16),
    Flags(u8),
    Chunk(u8),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Side {
    Source,
    Destination,
    Either,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Comparison {
    Less,
    AtMost,
    Equal,
    AtLeast,
    More,
}

const FLAGS: [&str; 8] = ["fin", "syn", "rst", "psh", "ack", "urg", "ece", "cwr"];
const CHUNKS: [(&str, u8); 18] = [
    ("data", 0),
    ("init", 1),
    ("init-ack", 2),
    ("sack", 3),
    ("heartbeat", 4),
    ("heartbeat-ack", 5),
    ("abort", 6),
    ("shutdown", 7),
    ("shutdown-ack", 8),
    ("error", 9),
    ("cookie-echo", 10),
    ("cookie-ack", 11),
    ("ecne", 12),
    ("cwr", 13),
    ("shutdown-complete", 14),
    ("auth", 15),
    ("nr-sack", 16),
    ("i-data", 64),
];

impl Filter {
    /// Parses a condition; an empty text matches any packet.
    ///
    /// # Errors
    /// Returns a description of the invalid term.
    pub fn parse(text: &str) -> Result<Self, String> {
        let words: Vec<&str> = text.split_whitespace().collect();
        if words.is_empty() || words == ["any"] {
            return Ok(Self::default());
        }
        let mut alternatives = Vec::new();
        for alternative in words.split(|word| *word == "or") {
            let terms: Result<Vec<_>, _> =
                alternative.split(|word| *word == "and").map(Term::parse).collect();
            alternatives.push(terms?);
        }
        Ok(Self { alternatives, text: words.join(" ") })
    }

    /// Whether it matches every packet.
    pub fn is_any(&self) -> bool {
        self.alternatives.is_empty()
    }

    /// Whether it tests more than the size.
    pub(crate) fn needs_facts(&self) -> bool {
        self.alternatives.iter().flatten().any(|term| !matches!(term.test, Test::Size(..)))
    }

    /// Whether it matches a packet of this size with these facts.
    pub fn chooses(&self, size: usize, facts: Option<&Facts>) -> bool {
        let holds = |term: &Term| term.negated != term.test.holds(size, facts);
        self.is_any() || self.alternatives.iter().any(|terms| terms.iter().all(holds))
    }
}

impl fmt::Display for Filter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.is_any() { "any" } else { &self.text })
    }
}

impl Term {
    fn parse(words: &[&str]) -> Result<Self, String> {
        let (negated, words) = match words {
            ["not", rest @ ..] => (true, rest),
            words => (false, words),
        };
        let wrong = || match words {
            [] => "a filter term is missing".to_owned(),
            words => format!("'{}' is not a filter term", words.join(" ")),
        };
        let test = match words {
            [name] if Facts::protocol_named(name).is_some() => {
                Test::Protocol(Facts::protocol_named(name).unwrap_or_default().to_vec())
            }
            ["proto", number] => Test::Protocol(vec![number.parse().map_err(|_| wrong())?]),
            [side @ ("src" | "dst" | "host"), address] => {
                let (address, prefix) = prefix(address).ok_or_else(wrong)?;
                Test::Address(Side::parse(side), address, prefix)
            }
            [side @ ("sport" | "dport" | "port"), ports] => {
                let (first, last) = ports.split_once('-').unwrap_or((ports, ports));
                let number = |text: &str| text.parse::<u16>().map_err(|_| wrong());
                Test::Port(Side::parse(side), number(first)?, number(last)?)
            }
            [what @ ("size" | "payload"), comparison, bytes] => {
                let comparison = Comparison::parse(comparison).ok_or_else(wrong)?;
                let bytes = bytes.parse().map_err(|_| wrong())?;
                match *what {
                    "size" => Test::Size(comparison, bytes),
                    _ => Test::Payload(comparison, bytes),
                }
            }
            ["flags", names] => {
                let bit = |name: &str| FLAGS.iter().position(|flag| *flag == name);
                let bits: Option<Vec<usize>> = names.split('+').map(bit).collect();
                let bits = bits.ok_or_else(wrong)?;
                Test::Flags(bits.into_iter().fold(0, |mask, bit| mask | 1 << bit))
            }
            ["chunk", name] => {
                let named = CHUNKS.iter().find(|(known, _)| known == name).map(|(_, kind)| *kind);
                Test::Chunk(named.or_else(|| name.parse().ok()).ok_or_else(wrong)?)
            }
            _ => return Err(wrong()),
        };
        Ok(Self { negated, test })
    }
}

impl Side {
    fn parse(word: &str) -> Self {
        match word {
            "src" | "sport" => Self::Source,
            "dst" | "dport" => Self::Destination,
            _ => Self::Either,
        }
    }

    /// Tests a condition on the selected value, or on either of the two.
    fn any<V: Copy>(self, source: V, destination: V, holds: impl Fn(V) -> bool) -> bool {
        match self {
            Self::Source => holds(source),
            Self::Destination => holds(destination),
            Self::Either => holds(source) || holds(destination),
        }
    }
}

impl Comparison {
    fn parse(word: &str) -> Option<Self> {
        Some(match word {
            "<" => Self::Less,
            "<=" => Self::AtMost,
            "=" => Self::Equal,
            ">=" => Self::AtLeast,
            ">" => Self::More,
            _ => return None,
        })
    }

    fn holds(self, number: u64, than: u64) -> bool {
        match self {
            Self::Less => number < than,
            Self::AtMost => number <= than,
            Self::Equal => number == than,
            Self::AtLeast => number >= than,
            Self::More => number > than,
        }
    }
}

impl Test {
    fn holds(&self, size: usize, facts: Option<&Facts>) -> bool {
        if let Self::Size(comparison, bytes) = self {
            return comparison.holds(size as u64, *bytes);
        }
        let Some(facts) = facts else { return false };
        match self {
            Self::Size(..) => false,
            Self::Payload(comparison, bytes) => comparison.holds(facts.payload.into(), *bytes),
            Self::Protocol(numbers) => numbers.contains(&facts.protocol),
            Self::Address(side, network, prefix) => {
                side.any(facts.source, facts.destination, |address| {
                    address.is_some_and(|address| is_within(address, *network, *prefix))
                })
            }
            Self::Port(side, first, last) => {
                let ports = (facts.source_port, facts.destination_port);
                side.any(ports.0, ports.1, |port| port != 0 && (*first..=*last).contains(&port))
            }
            Self::Flags(mask) => facts.tcp_flags & mask == *mask,
            Self::Chunk(kind) => facts.has_chunk(*kind),
        }
    }
}

fn prefix(text: &str) -> Option<(IpAddr, u8)> {
    let (address, prefix) = match text.split_once('/') {
        Some((address, prefix)) => (address, Some(prefix.parse().ok()?)),
        None => (text, None),
    };
    let address: IpAddr = address.parse().ok()?;
    let most = if address.is_ipv4() { 32 } else { 128 };
    Some((address, prefix.unwrap_or(most))).filter(|(_, prefix)| *prefix <= most)
}

fn is_within(address: IpAddr, network: IpAddr, prefix: u8) -> bool {
    let differ = |a: u128, b: u128, width: u32| {
        let shift = width - u32::from(prefix);
        (a ^ b).checked_shr(shift).unwrap_or(0) != 0
    };
    match (address, network) {
        (IpAddr::V4(a), IpAddr::V4(b)) => !differ(a.to_bits().into(), b.to_bits().into(), 32),
        (IpAddr::V6(a), IpAddr::V6(b)) => !differ(a.to_bits(), b.to_bits(), 128),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::super::facts::tests::{ipv4, tcp};
    use super::*;

    #[test]
    fn terms_are_asked_of_packets() {
        let syn = ipv4(6, &tcp(2, 0));
        let data = ipv4(6, &tcp(0x18, 900));
        let chosen = |text: &str, packet: &[u8]| {
            let filter = Filter::parse(text).unwrap();
            assert_eq!(Filter::parse(&filter.to_string()).as_ref(), Ok(&filter));
            filter.chooses(packet.len(), Facts::of_ip(packet).as_ref())
        };
        for (text, for_syn, for_data) in [
            ("", true, true),
            ("any", true, true),
            ("tcp", true, true),
            ("udp", false, false),
            ("not udp", true, true),
            ("proto 6 and payload > 0", false, true),
            ("flags syn", true, false),
            ("flags psh+ack", false, true),
            ("size >= 100", false, true),
            ("size < 100 or payload = 900", true, true),
            ("src 10.0.0.0/24 and dst 10.0.0.2", true, true),
            ("host 10.0.0.3", false, false),
            ("src 0.0.0.0/0", true, true),
            ("host fd00::/8", false, false),
            ("sport 4096 and dport 1-1023", true, true),
            ("port 443", false, false),
            ("chunk data", false, false),
            ("sctp and chunk init or icmp or flags fin", false, false),
        ] {
            assert_eq!((chosen(text, &syn), chosen(text, &data)), (for_syn, for_data), "{text}");
        }
        // Without facts only the size can be tested.
        assert!(Filter::parse("size > 1").unwrap().chooses(2, None));
        assert!(!Filter::parse("tcp").unwrap().chooses(2, None));
        assert!(!Filter::parse("size > 1").unwrap().needs_facts());
    }

    #[test]
    fn what_is_no_term_is_named() {
        for text in [
            "tcp and",
            "or tcp",
            "tcp udp",
            "size 5",
            "size > x",
            "src 10.0.0.0/33",
            "dport 99999",
            "flags syn,ack",
            "chunk dat",
            "not",
            "proto 256",
        ] {
            let reason = Filter::parse(text).unwrap_err();
            assert!(reason.contains("filter term"), "{text}: {reason}");
        }
    }
}
