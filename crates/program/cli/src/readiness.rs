//! Tells the service manager that this process is ready, or stops (sd_notify of systemd).

use std::ffi::OsStr;
use std::io;
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::net::{SocketAddr, UnixDatagram};

/// Sends a state such as `READY=1` to the socket that NOTIFY_SOCKET names, if it is set.
pub(crate) fn tell(state: &str) {
    let Some(name) = std::env::var_os("NOTIFY_SOCKET") else { return };
    if let Err(error) = send(&name, state) {
        tracing::warn!(socket = %name.display(), %error, "the service manager is not told: {state}");
    }
}

fn send(name: &OsStr, state: &str) -> io::Result<()> {
    // '@' stands for the null byte of an abstract name.
    let address = match name.as_bytes().strip_prefix(b"@") {
        Some(name) => SocketAddr::from_abstract_name(name)?,
        None => SocketAddr::from_pathname(name)?,
    };
    UnixDatagram::unbound()?.send_to_addr(state.as_bytes(), &address)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_kinds_of_names_are_told() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("notify");
        let name = format!("anabranch/test/{}", std::process::id());
        let given = [path.clone().into_os_string(), format!("@{name}").into()];
        let addresses = [
            SocketAddr::from_pathname(&path).unwrap(),
            SocketAddr::from_abstract_name(name).unwrap(),
        ];
        for (given, address) in given.iter().zip(addresses) {
            let socket = UnixDatagram::bind_addr(&address).unwrap();
            send(given, "READY=1").unwrap();
            let mut state = [0; 20];
            let length = socket.recv(&mut state).unwrap();
            assert_eq!(&state[..length], b"READY=1");
        }
        assert!(send(OsStr::new("/nowhere/socket"), "READY=1").is_err());
    }
}
