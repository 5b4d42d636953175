//! Names of hosts for the programs in a network: a private `/etc/hosts` in the emulator's mount namespace.

use std::fmt::Write as _;

use nix::errno::Errno;
use nix::mount::{MntFlags, MsFlags, mount, umount2};

use super::topology::Topology;

const HOSTS: &str = "/etc/hosts";
/// A folder that every system has. A file system is mounted there for a moment.
const FOLDER: &str = "/sys";

/// Publishes the names of hosts to programs. Must be called inside the namespaces, before any program is started.
pub(super) fn publish(topology: &Topology) -> Result<(), String> {
    let own = std::fs::read_to_string(HOSTS).map_err(|error| format!("{HOSTS}: {error}"))?;
    let text = lines(topology) + &own;
    let none = None::<&str>;
    let said = |error: Errno| format!("{HOSTS} cannot be replaced: {}", error.desc());
    // The mounts must not be visible outside.
    mount(none, "/", none, MsFlags::MS_REC | MsFlags::MS_PRIVATE, none).map_err(
        |error| match error {
            // Mounting the directory on itself here could be visible outside.
            Errno::EINVAL => {
                "in a chroot, the directory must be a mount point: 'mount --bind DIR DIR' \
                          before 'chroot DIR' makes it one"
                    .to_owned()
            }
            _ => said(error),
        },
    )?;
    // Use a file in memory, which disappears with the namespace and leaves nothing on disk.
    mount(Some("tmpfs"), FOLDER, Some("tmpfs"), MsFlags::empty(), none).map_err(said)?;
    let file = format!("{FOLDER}/hosts");
    let written = std::fs::write(&file, text).map_err(|error| format!("{file}: {error}"));
    let bound = written.and_then(|()| {
        mount(Some(file.as_str()), HOSTS, none, MsFlags::MS_BIND, none).map_err(said)
    });
    let uncovered = umount2(FOLDER, MntFlags::MNT_DETACH).map_err(said);
    bound.and(uncovered)
}

/// A line for each address, with two names: the host, and the host with the link's name appended. Names for IPv6
/// addresses begin with `ip6-`, like the `ip6-localhost` of many systems: otherwise programs would try IPv6 first, even
/// if no server listens there.
fn lines(topology: &Topology) -> String {
    let mut text = String::new();
    for link in &topology.links {
        for (end, &node) in link.ends.iter().enumerate() {
            let node = topology.nodes.get(node).filter(|node| node.is_host && is_name(&node.name));
            let Some(node) = node else { continue };
            for address in link.addresses(end) {
                let name = match address.is_ipv4() {
                    true => node.name.clone(),
                    false => format!("ip6-{}", node.name),
                };
                let _ = writeln!(text, "{address} {name} {name}.{}", link.name);
            }
        }
    }
    text
}

/// Whether programs accept it as a host name.
fn is_name(text: &str) -> bool {
    text != "localhost" && text.bytes().all(|b| b.is_ascii_alphanumeric() || b"-._".contains(&b))
}

#[cfg(test)]
mod tests {
    use super::super::topology::tests::read;
    use super::*;

    #[test]
    fn each_address_has_the_name_of_its_host() {
        let text = "[[host]]\nname = \"a\"\n[[host]]\nname = \"two words\"\n[[router]]\nname = \"r\"\n\
            [[link]]\nname = \"one\"\nbetween = [\"a\", \"r\"]\n[[link]]\nbetween = [\"r\", \"two words\"]\n\
            [[link]]\nname = \"up\"\nbetween = [\"two words\", \"a\"]\n";
        assert_eq!(
            lines(&read(text).unwrap()),
            "10.0.0.1 a a.one\nfd00::1 ip6-a ip6-a.one\n10.0.2.2 a a.up\nfd00:0:0:2::2 ip6-a ip6-a.up\n"
        );
    }
}
