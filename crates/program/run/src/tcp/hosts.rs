//! Lists of hosts: addresses, networks and names.

use std::fmt;
use std::net::{IpAddr, ToSocketAddrs as _};
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::{Arc, Mutex};
use std::time::SystemTime;

use crate::lock::lock;

/// A list of hosts: addresses (`192.0.2.1`), networks (`192.0.2.0/24`), names, which are looked up once, and files
/// (`@FILE`) with one of these on each line. A file is read again when it changes.
#[derive(Clone, Debug, Default)]
pub struct HostList {
    networks: Vec<Network>,
    files: Vec<Arc<Mutex<File>>>,
}

/// An item of a list of hosts that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WrongHost(String);

impl fmt::Display for WrongHost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for WrongHost {}

/// Addresses with a common prefix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Network {
    address: IpAddr,
    bits: u8,
}

#[derive(Debug)]
struct File {
    path: PathBuf,
    changed: Option<SystemTime>,
    networks: Vec<Network>,
}

impl HostList {
    /// Whether the list has this address.
    #[must_use]
    pub fn has(&self, address: IpAddr) -> bool {
        self.networks.iter().any(|network| network.has(address))
            || self.files.iter().any(|file| lock(file).has(address))
    }
}

impl FromStr for HostList {
    type Err = WrongHost;

    /// Reads a list with commas. Looks names up, which may take time.
    fn from_str(text: &str) -> Result<Self, WrongHost> {
        let mut list = Self::default();
        for item in text.split(',').map(str::trim) {
            match item.strip_prefix('@') {
                Some(path) => list.files.push(Arc::new(Mutex::new(File::open(path.into())?))),
                None => list.networks.extend(networks(item)?),
            }
        }
        Ok(list)
    }
}

impl File {
    fn open(path: PathBuf) -> Result<Self, WrongHost> {
        let changed = std::fs::metadata(&path).and_then(|known| known.modified()).ok();
        let networks = read(&path)?;
        Ok(Self { path, changed, networks })
    }

    fn has(&mut self, address: IpAddr) -> bool {
        let changed = std::fs::metadata(&self.path).and_then(|known| known.modified()).ok();
        // A file that cannot be read now, or has a mistake, leaves the list as it was.
        if changed.is_some()
            && changed != self.changed
            && let Ok(networks) = read(&self.path)
        {
            (self.changed, self.networks) = (changed, networks);
        }
        self.networks.iter().any(|network| network.has(address))
    }
}

/// The hosts in a file. `#` begins a comment.
fn read(path: &PathBuf) -> Result<Vec<Network>, WrongHost> {
    let text = std::fs::read_to_string(path)
        .map_err(|error| WrongHost(format!("'{}' cannot be read: {error}", path.display())))?;
    let lines = text.lines().map(|line| line.split('#').next().unwrap_or_default().trim());
    let mut found = Vec::new();
    for line in lines.filter(|line| !line.is_empty()) {
        found.extend(networks(line)?);
    }
    Ok(found)
}

/// The addresses that one item stands for.
fn networks(item: &str) -> Result<Vec<Network>, WrongHost> {
    let wrong = || WrongHost(format!("'{item}' is no address, network or name of a host"));
    if let Some((address, bits)) = item.split_once('/') {
        let (Ok(address), Ok(bits)) = (address.parse(), bits.parse()) else { return Err(wrong()) };
        let network = Network { address, bits };
        return if bits <= network.width() { Ok(vec![network]) } else { Err(wrong()) };
    }
    if let Ok(address) = item.trim_matches(['[', ']']).parse() {
        let network = Network { address, bits: 0 };
        return Ok(vec![Network { bits: network.width(), ..network }]);
    }
    if item.is_empty() {
        return Err(wrong());
    }
    let found = (item, 0).to_socket_addrs();
    let found = found.map_err(|error| WrongHost(format!("the host '{item}': {error}")))?;
    Ok(found
        .map(|found| {
            let network = Network { address: found.ip(), bits: 0 };
            Network { bits: network.width(), ..network }
        })
        .collect())
}

impl Network {
    fn width(self) -> u8 {
        if self.address.is_ipv4() { 32 } else { 128 }
    }

    fn has(self, address: IpAddr) -> bool {
        let bits = |address: IpAddr| match address {
            IpAddr::V4(v4) => u128::from(v4.to_bits()) << 96,
            IpAddr::V6(v6) => v6.to_bits(),
        };
        self.address.is_ipv4() == address.is_ipv4()
            && (bits(self.address) ^ bits(address)).leading_zeros() >= u32::from(self.bits)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn has(list: &str, address: &str) -> bool {
        list.parse::<HostList>().unwrap().has(address.parse().unwrap())
    }

    #[test]
    fn addresses_networks_and_names() {
        assert!(has("192.0.2.1", "192.0.2.1") && !has("192.0.2.1", "192.0.2.2"));
        assert!(has("192.0.2.0/24", "192.0.2.255") && !has("192.0.2.0/24", "192.0.3.0"));
        assert!(has("0.0.0.0/0", "8.8.8.8") && !has("0.0.0.0/0", "2001:db8::1"));
        assert!(has("2001:db8::/32,[::1]", "2001:db8:1::1") && has("10.0.0.1, ::1", "::1"));
        assert!(has("localhost", "127.0.0.1"));
    }

    #[test]
    fn a_mistake_is_named() {
        for wrong in ["192.0.2.0/33", "", "10.0.0.1,,", "2001:db8::/200", "x/8"] {
            let error = wrong.parse::<HostList>().unwrap_err().to_string();
            assert!(error.contains("is no address"), "{error}");
        }
        let error = "@/no/such/file".parse::<HostList>().unwrap_err().to_string();
        assert!(error.contains("'/no/such/file' cannot be read"), "{error}");
    }

    #[test]
    fn a_file_may_change() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(&file, "# these\n10.0.0.1\n\n10.1.0.0/16 # and those\n").unwrap();
        let list: HostList = format!("@{}", file.path().display()).parse().unwrap();
        let has = |address: &str| list.has(address.parse().unwrap());
        assert!(has("10.0.0.1") && has("10.1.7.7") && !has("10.2.0.1"));
        let later = |seconds| SystemTime::now() + std::time::Duration::from_secs(seconds);
        let change = |text, seconds| {
            std::fs::write(&file, text).unwrap();
            file.as_file().set_modified(later(seconds)).unwrap();
        };
        change("10.2.0.1\n", 10);
        assert!(!has("10.0.0.1") && has("10.2.0.1"));
        change("10.0.0.1/99\n", 20);
        assert!(has("10.2.0.1"), "a mistake changes nothing");
    }
}
