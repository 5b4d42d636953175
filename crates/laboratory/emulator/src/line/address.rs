//! Addresses of the ends of lines.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

/// One end of a line. The text form is `[NAMESPACE]:DEVICE:ADDR/PREFIX`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EndAddress {
    /// Name of an ip-netns namespace; `None` is this program's namespace.
    pub namespace: Option<String>,
    /// Name of the device.
    pub device: String,
    /// Address of the device.
    pub address: IpAddr,
    /// Length of the network prefix in bits.
    pub prefix: u8,
}

/// The two ends of a line. In text they are separated by `=`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LineAddress {
    /// The left end.
    pub left: EndAddress,
    /// The right end.
    pub right: EndAddress,
}

impl FromStr for LineAddress {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (left, right) =
            text.split_once('=').ok_or("a line has two ends with = between them")?;
        Ok(Self { left: left.parse()?, right: right.parse()? })
    }
}

impl FromStr for EndAddress {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let form = "the form of an end is [NAMESPACE]:DEVICE:ADDR/PREFIX";
        let mut parts = text.splitn(3, ':');
        let (Some(namespace), Some(device), Some(address)) =
            (parts.next(), parts.next(), parts.next())
        else {
            return Err(form.to_owned());
        };
        let (address, prefix) = address.split_once('/').ok_or(form)?;
        let address: IpAddr =
            address.parse().map_err(|_| format!("'{address}' is not an IP address"))?;
        let most = if address.is_ipv4() { 32 } else { 128 };
        let prefix = prefix.parse().ok().filter(|prefix| *prefix <= most);
        let prefix = prefix.ok_or_else(|| format!("a prefix is a number up to {most}"))?;
        // The names that the kernel accepts for a device.
        let named = !device.is_empty()
            && device.len() < 16
            && device.bytes().all(|b| b.is_ascii_graphic() && b != b'/');
        if !named {
            return Err(format!("'{device}' is not a valid device name"));
        }
        if namespace.contains('/') {
            return Err(format!("'{namespace}' is not a valid namespace name"));
        }
        let namespace = (!namespace.is_empty()).then(|| namespace.to_owned());
        Ok(Self { namespace, device: device.to_owned(), address, prefix })
    }
}

impl fmt::Display for EndAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let namespace = self.namespace.as_deref().unwrap_or_default();
        write!(f, "{namespace}:{}:{}/{}", self.device, self.address, self.prefix)
    }
}

impl fmt::Display for LineAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}={}", self.left, self.right)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_read() {
        let line: LineAddress = ":a0:10.0.0.1/24=right:b0:fd00::2/64".parse().unwrap();
        assert_eq!(line.left.namespace, None);
        assert_eq!((line.left.device.as_str(), line.left.prefix), ("a0", 24));
        assert_eq!(line.right.namespace.as_deref(), Some("right"));
        assert_eq!(line.right.address, "fd00::2".parse::<IpAddr>().unwrap());
        assert_eq!(line.to_string(), ":a0:10.0.0.1/24=right:b0:fd00::2/64");
    }

    #[test]
    fn mistakes_are_named() {
        for (text, part) in [
            ("a:b:10.0.0.1/24", "two ends"),
            ("a=b", "the form of an end"),
            (":a:10.0.0.1=:b:10.0.0.2/24", "the form of an end"),
            (":a:10.0.0.1/33=:b:10.0.0.2/24", "up to 32"),
            (":a:10.0.0/8=:b:10.0.0.2/24", "'10.0.0' is not an IP address"),
            ("::10.0.0.1/8=:b:10.0.0.2/24", "'' is not a valid device name"),
            (":much-too-long-a-name:10.0.0.1/8=:b:10.0.0.2/24", "is not a valid device name"),
            ("../x:a:10.0.0.1/8=:b:10.0.0.2/24", "not a valid namespace name"),
        ] {
            let error = text.parse::<LineAddress>().unwrap_err();
            assert!(error.contains(part), "{text}: {error}");
        }
    }
}
