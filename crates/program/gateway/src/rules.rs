//! Which targets the far side connects to.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::ops::RangeInclusive;
use std::str::FromStr;

use crate::public::{is_own, is_public};
use crate::target::{Host, Target};

/// One rule: names or addresses, and ports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    what: What,
    ports: RangeInclusive<u16>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum What {
    Everything,
    /// A name as the client wrote it.
    Name(String),
    /// All names below this one, and the name itself.
    Domain(String),
    Network(IpAddr, u32),
}

/// Why a text is not a rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NoRule(String);

impl fmt::Display for NoRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "'{}' is not a rule: write HOST, *.DOMAIN, ADDRESS, NETWORK/BITS or *, and :PORT or :FIRST-LAST after it \
             if it is about ports, as in *.example.com:443, 10.0.0.0/8 or [fd00::]/8:80",
            self.0
        )
    }
}

impl std::error::Error for NoRule {}

impl FromStr for Rule {
    type Err = NoRule;

    fn from_str(text: &str) -> Result<Self, NoRule> {
        let parsed = || {
            let colon = text.rfind(':').filter(|at| !text[*at..].contains(']'));
            let (what, ports) = match colon.filter(|_| !is_bare_v6(text)) {
                Some(at) => (&text[..at], ports(&text[at + 1..])?),
                None => (text, 0..=u16::MAX),
            };
            Some(Self { what: self::what(what)?, ports })
        };
        parsed().ok_or_else(|| NoRule(text.to_owned()))
    }
}

/// Whether this is an IPv6 address or network without brackets and port.
fn is_bare_v6(text: &str) -> bool {
    let address = text.split('/').next().unwrap_or(text);
    address.contains(':') && address.parse::<IpAddr>().is_ok()
}

fn ports(text: &str) -> Option<RangeInclusive<u16>> {
    let number = |text: &str| text.parse::<u16>().ok().filter(|_| !text.starts_with('+'));
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    let (first, last) = (number(first)?, number(last)?);
    (0 < first && first <= last).then_some(first..=last)
}

fn what(text: &str) -> Option<What> {
    if matches!(text, "" | "*") {
        return Some(What::Everything);
    }
    if let Some(domain) = text.strip_prefix("*.") {
        return match Host::parse(domain)? {
            Host::Name(name) => Some(What::Domain(name)),
            Host::Address(_) => None,
        };
    }
    let (address, length) = match text.split_once('/') {
        Some((address, length)) => (address, Some(length.parse::<u32>().ok()?)),
        None => (text, None),
    };
    match (Host::parse(address)?, length) {
        (Host::Name(name), None) => Some(What::Name(name)),
        (Host::Name(_), Some(_)) => None,
        (Host::Address(ip), length) => {
            let longest = if ip.is_ipv4() { 32 } else { 128 };
            let length = length.unwrap_or(longest);
            // The network must not have bits beyond its length: probably its address is wrong.
            (length <= longest && masked(ip, length) == ip).then_some(What::Network(ip, length))
        }
    }
}

/// The first `length` bits of an address.
fn masked(ip: IpAddr, length: u32) -> IpAddr {
    match ip {
        IpAddr::V4(ip) => {
            let mask = u32::MAX.checked_shl(32 - length.min(32)).unwrap_or(0);
            IpAddr::from((ip.to_bits() & mask).to_be_bytes())
        }
        IpAddr::V6(ip) => {
            let mask = u128::MAX.checked_shl(128 - length.min(128)).unwrap_or(0);
            IpAddr::from((ip.to_bits() & mask).to_be_bytes())
        }
    }
}

impl Rule {
    fn covers(&self, target: &Target, address: Option<IpAddr>) -> bool {
        let host = match (&self.what, &target.host) {
            (What::Everything, _) => true,
            (What::Name(name), Host::Name(asked)) => name == asked,
            (What::Domain(domain), Host::Name(asked)) => {
                let before = asked.strip_suffix(&domain[..]);
                before.is_some_and(|before| before.is_empty() || before.ends_with('.'))
            }
            (What::Name(_) | What::Domain(_), Host::Address(_)) => false,
            (What::Network(network, length), _) => address.is_some_and(|address| {
                network.is_ipv4() == address.is_ipv4() && masked(address, *length) == *network
            }),
        };
        host && self.ports.contains(&target.port)
    }
}

/// Which targets may be connected to. A denying rule goes before an allowing one. Without a rule about it, a target
/// is allowed if its address is public and does not belong to this host.
#[derive(Clone, Debug, Default)]
pub struct Rules {
    /// What is refused.
    pub deny: Vec<Rule>,
    /// What is allowed, even if its address is not public.
    pub allow: Vec<Rule>,
    /// Nothing else is allowed.
    pub only_allowed: bool,
}

impl Rules {
    /// Whether a target may be resolved: no rule denies its name or port.
    pub(crate) fn may_resolve(&self, target: &Target) -> bool {
        !self.deny.iter().any(|rule| rule.covers(target, None))
    }

    /// Whether this address of a target may be connected to.
    pub fn may_connect(&self, target: &Target, address: SocketAddr) -> bool {
        let ip = address.ip().to_canonical();
        let covered = |rules: &[Rule]| rules.iter().any(|rule| rule.covers(target, Some(ip)));
        if covered(&self.deny) {
            return false;
        }
        covered(&self.allow) || (!self.only_allowed && is_public(ip) && !is_own(ip))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn rules(deny: &[&str], allow: &[&str]) -> Rules {
        let of = |texts: &[&str]| texts.iter().map(|text| text.parse().unwrap()).collect();
        Rules { deny: of(deny), allow: of(allow), only_allowed: false }
    }

    fn allows(rules: &Rules, target: &str, address: &str) -> bool {
        let target = Target::parse(target, None).unwrap();
        let address = SocketAddr::new(address.parse().unwrap(), target.port);
        rules.may_resolve(&target) && rules.may_connect(&target, address)
    }

    #[test]
    fn only_public_addresses_by_default() {
        let none = Rules::default();
        assert!(allows(&none, "example.com:80", "1.1.1.1"));
        for private in ["127.0.0.1", "::1", "::ffff:10.0.0.1", "fe80::1", "169.254.169.254"] {
            // A public name may resolve to it.
            assert!(!allows(&none, "example.com:80", private));
        }
    }

    #[test]
    fn allowing_opens_more() {
        let some = rules(&[], &["10.0.0.0/8:80", "intranet.example", "[fd00::]/8:1-100", "::1"]);
        assert!(allows(&some, "10.1.2.3:80", "10.1.2.3"));
        assert!(!allows(&some, "10.1.2.3:81", "10.1.2.3"));
        assert!(allows(&some, "intranet.example:22", "192.168.0.1"));
        assert!(!allows(&some, "www.intranet.example:22", "192.168.0.1"));
        assert!(allows(&some, "a:100", "fd12::1") && !allows(&some, "a:101", "fd12::1"));
        assert!(allows(&some, "a:9", "::1") && !allows(&some, "a:9", "::2"));
        assert!(allows(&some, "example.com:443", "1.1.1.1"));
        let only = Rules { only_allowed: true, ..some };
        assert!(!allows(&only, "example.com:443", "1.1.1.1"));
        assert!(allows(&only, "x.example:80", "10.0.0.1"));
    }

    #[test]
    fn denying_goes_first() {
        let some = rules(&["*.example.com:443", ":25", "1.1.1.0/24"], &["*"]);
        for refused in ["example.com:443", "a.b.example.com:443", "example.org:25", "1.1.1.1:80"] {
            assert!(!allows(&some, refused, "1.1.1.1"), "{refused}");
        }
        assert!(allows(&some, "example.com:80", "1.1.2.1"));
        assert!(allows(&some, "anexample.com:443", "127.0.0.1"));
    }

    #[test]
    fn mistakes_are_named() {
        for wrong in [
            "10.0.0.1/8",
            "10.0.0.0/33",
            "a/8",
            "*.1.2.3.4",
            "a:0",
            "a:9-8",
            "a:x",
            "a b",
            "[::1",
            "a:+1",
            "fd00::/129",
            "**",
        ] {
            let error = wrong.parse::<Rule>().unwrap_err().to_string();
            assert!(error.starts_with(&format!("'{wrong}' is not a rule")), "{error}");
        }
        assert!("0.0.0.0/0".parse::<Rule>().is_ok() && "[::]/0:80".parse::<Rule>().is_ok());
        assert_eq!("*".parse::<Rule>(), "".parse());
        assert_eq!("fd00::/8".parse::<Rule>(), "[fd00::]/8".parse());
    }

    proptest! {
        #[test]
        fn no_text_is_fatal(text in "[0-9a-f:.*/\\[\\]-]{0,12}") {
            let _ = text.parse::<Rule>();
        }
    }
}
