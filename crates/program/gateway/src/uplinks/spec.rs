//! An uplink as a command line names it: `wlan0`, `wwan0:backup`, `eth1:limit=2GB/d`.

use std::fmt;
use std::str::FromStr;

use anabranch::seal::Uplink;

use crate::limit::{Limit, NoLimit};

/// Most bytes that an interface's name has on Linux.
const LONGEST_NAME: usize = 15;

/// An uplink, and when it is to be used.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct UplinkSpec {
    /// The uplink.
    pub uplink: Uplink,
    /// It is used only while no other works.
    pub backup: bool,
    /// It is not used after it has carried this much.
    pub limit: Option<Limit>,
}

/// Why a text is no uplink.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NoUplink(String);

impl fmt::Display for NoUplink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for NoUplink {}

impl From<NoLimit> for NoUplink {
    fn from(error: NoLimit) -> Self {
        Self(error.to_string())
    }
}

impl UplinkSpec {
    /// An uplink that is used without conditions.
    pub fn always(uplink: Uplink) -> Self {
        Self { uplink, backup: false, limit: None }
    }

    /// It is used under conditions.
    pub fn is_conditional(&self) -> bool {
        self.backup || self.limit.is_some()
    }
}

impl FromStr for UplinkSpec {
    type Err = NoUplink;

    fn from_str(text: &str) -> Result<Self, NoUplink> {
        if let Ok(address) = text.parse() {
            return Ok(Self::always(Uplink::address(address)));
        }
        let (name, options) = match text.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
            Some((address, rest)) => (address, rest),
            None => text.split_at(text.find(':').unwrap_or(text.len())),
        };
        let mut spec = Self::always(uplink(name, text.starts_with('['))?);
        if !options.is_empty() && !options.starts_with(':') {
            return Err(NoUplink(format!("'{options}' after ']' must begin with ':'")));
        }
        for option in options.split(':').skip(1) {
            match option.split_once('=') {
                None if option == "backup" && !spec.backup => spec.backup = true,
                Some(("limit", limit)) if spec.limit.is_none() => spec.limit = Some(limit.parse()?),
                _ if matches!(option.split('=').next(), Some("backup" | "limit")) => {
                    let form = "give each of :backup and :limit=SIZE/PERIOD once";
                    return Err(NoUplink(format!("'{option}' is wrong here: {form}")));
                }
                _ => {
                    let form = "after an uplink there may be :backup and :limit=SIZE/PERIOD; an IPv6 address needs brackets then";
                    return Err(NoUplink(format!("'{option}' is unknown: {form}")));
                }
            }
        }
        Ok(spec)
    }
}

fn uplink(name: &str, in_brackets: bool) -> Result<Uplink, NoUplink> {
    if let Ok(address) = name.parse() {
        return Ok(Uplink::address(address));
    }
    let is_name = |c: char| c.is_ascii_graphic() && c != '/';
    let fits = (1..=LONGEST_NAME).contains(&name.len()) && name.chars().all(is_name);
    if in_brackets || !fits {
        return Err(NoUplink(format!(
            "'{}' is neither an interface nor a local address: 'ip address' lists both",
            name.escape_debug()
        )));
    }
    Ok(Uplink::interface(name))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn parse(text: &str) -> Result<UplinkSpec, String> {
        text.parse().map_err(|error: NoUplink| error.to_string())
    }

    #[test]
    fn uplinks_with_conditions() {
        let plain = |uplink| Ok(UplinkSpec::always(uplink));
        assert_eq!(parse("wlan0"), plain(Uplink::interface("wlan0")));
        assert_eq!(parse("192.0.2.1"), plain(Uplink::address([192, 0, 2, 1].into())));
        let v6 = Uplink::address("2001:db8::1".parse().unwrap());
        assert_eq!(parse("2001:db8::1"), plain(v6.clone()));
        assert_eq!(parse("[2001:db8::1]"), plain(v6.clone()));
        let backup = parse("[2001:db8::1]:backup").unwrap();
        assert_eq!((backup.uplink, backup.backup), (v6, true));
        let both = parse("wwan0:limit=2GB/d:backup").unwrap();
        assert!(both.backup);
        assert_eq!(both.limit, Some("2GB/d".parse().unwrap()));
        assert_eq!(
            parse("e:limit=1MiB/30d").unwrap().limit.map(|limit| limit.bytes),
            Some(1 << 20)
        );
    }

    #[test]
    fn mistakes_say_what_to_do() {
        for (text, part) in [
            ("", "'ip address' lists both"),
            (":backup", "'ip address' lists both"),
            ("a-name-that-is-too-long", "'ip address' lists both"),
            ("[wlan0]", "'ip address' lists both"),
            ("a/b", "'ip address' lists both"),
            ("wlan0:", "'' is unknown"),
            ("wlan0:bakup", ":backup and :limit=SIZE/PERIOD"),
            ("wlan0:backup:backup", "once"),
            ("wlan0:backup=1", "once"),
            ("wlan0:limit", "once"),
            ("[::1]backup", "must begin with ':'"),
            ("2001:db8::1:backup", "needs brackets"),
            ("wlan0:limit=2GB", "limit=2GB/d"),
        ] {
            let error = parse(text).unwrap_err();
            assert!(error.contains(part) && !error.ends_with('.'), "{text}: {error}");
        }
    }

    proptest! {
        #[test]
        fn anything_is_parsed_or_refused(text in "\\PC{0,30}|[a-z0-9]{1,4}:[a-z=/:0-9]{0,20}") {
            let _ = parse(&text);
        }
    }
}
