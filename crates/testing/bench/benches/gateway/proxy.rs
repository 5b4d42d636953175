//! The proxies: pairs of processes, with SOCKS5 on one side.

use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::path::Path;
use std::process::Command;

use anabranch_bench::children::Server;
use anabranch_bench::folder::Folder;
use anabranch_bench::suite::Trouble;
use serde_json::Value;

/// Both halves of a proxy, which run until this value is dropped.
#[derive(Debug)]
pub(crate) struct Pair {
    pub(crate) near: Server,
    pub(crate) far: Server,
    /// Where it speaks SOCKS5.
    pub(crate) address: SocketAddr,
    /// Keys and logs.
    _folder: Folder,
}

impl Pair {
    /// The gateway with sealed paths.
    pub(crate) fn gateway(program: &Path) -> Result<Self, Trouble> {
        let folder = Folder::new().map_err(Trouble::failed)?;
        let (log, key) = (folder.file("far.log"), folder.file("far.key"));
        let mut far = Command::new(program);
        far.args(["gateway", "far", "--listen", "127.0.0.1:0", "--allow", "127.0.0.0/8", "--json"]);
        let mut far = Server::start(far.arg("--key").arg(key), &log)?;
        let line = far.until(&log, |said| event(said, "listening", "invitation"))?;
        let (log, key) = (folder.file("near.log"), folder.file("near.key"));
        let mut near = Command::new(program);
        near.args(["gateway", "near", &line, "--listen", "127.0.0.1:0", "--json"]);
        let mut near = Server::start(near.arg("--key").arg(key), &log)?;
        let url = near.until(&log, |said| {
            event(said, "connected", "event")?;
            event(said, "listening", "proxy")
        })?;
        let address = url.trim_start_matches("http://").parse().map_err(Trouble::failed)?;
        Ok(Self { near, far, address, _folder: folder })
    }

    /// Shadowsocks with the same cipher.
    pub(crate) fn shadowsocks() -> Result<Self, Trouble> {
        let folder = Folder::new().map_err(Trouble::failed)?;
        let ports = [(); 2].map(|()| anabranch_ports::free_tcp_port());
        let [remote, local] = ports.map(|port| port.to_string());
        let common = ["-s", "127.0.0.1", "-p", &remote, "-k", "secret", "-m", "aes-256-gcm"];
        let [far, mut near] = ["ss-server", "ss-local"].map(|name| {
            let mut command = Command::new(name);
            command.args(common);
            command
        });
        let starts = |mut command: Command, name: &str, port: u16| {
            let log = folder.file(name);
            let mut server = Server::start(&mut command, &log)?;
            server.until(&log, |_| TcpStream::connect((Ipv4Addr::LOCALHOST, port)).ok())?;
            Ok::<_, Trouble>(server)
        };
        let far = starts(far, "server.log", ports[0])?;
        near.args(["-b", "127.0.0.1", "-l", &local]);
        let near = starts(near, "local.log", ports[1])?;
        Ok(Self { near, far, address: (Ipv4Addr::LOCALHOST, ports[1]).into(), _folder: folder })
    }

    /// Connects to a target through the proxy.
    pub(crate) fn connect(&self, target: SocketAddr) -> Result<TcpStream, Trouble> {
        connect(self.address, target).map_err(Trouble::failed)
    }

    /// The URL of the proxy for curl.
    pub(crate) fn url(&self) -> String {
        format!("socks5h://{}", self.address)
    }
}

/// A value of the first event of this kind in a log.
fn event(said: &str, kind: &str, key: &str) -> Option<String> {
    let mut events = said.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let event = events.find(|event| event.get("event").is_some_and(|is| is == kind))?;
    event.get(key)?.as_str().map(str::to_owned)
}

/// Asks a proxy for a connection (RFC 1928).
fn connect(proxy: SocketAddr, target: SocketAddr) -> std::io::Result<TcpStream> {
    let SocketAddr::V4(target) = target else { return Err(std::io::ErrorKind::Unsupported.into()) };
    let mut stream = TcpStream::connect(proxy)?;
    stream.set_nodelay(true)?;
    stream.write_all(&[5, 1, 0])?;
    let mut method = [0; 2];
    stream.read_exact(&mut method)?;
    let request = [&[5, 1, 0, 1][..], &target.ip().octets(), &target.port().to_be_bytes()].concat();
    stream.write_all(&request)?;
    let mut reply = [0; 10];
    stream.read_exact(&mut reply)?;
    match (method, reply[1]) {
        ([5, 0], 0) => Ok(stream),
        _ => Err(std::io::Error::other(format!("the proxy refuses: {method:?}, {reply:?}"))),
    }
}
