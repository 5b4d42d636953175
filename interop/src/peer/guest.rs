//! The Linux kernel as a peer: a guest of User-Mode Linux behind TAP devices.

use std::net::SocketAddr;
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::process::{Child, Command};

use super::{Handle, PATIENCE, Peer, process};
use crate::lane::{Family, Transport};
use crate::net;

/// UDP port of SCTP over UDP in the guest.
pub(crate) const UDP_PORT: u16 = 9899;

/// TCP port of the shell for commands.
const SHELL_PORT: u16 = 2323;

/// A running guest.
#[derive(Clone)]
pub(crate) struct Guest {
    _child: Arc<Child>,
}

impl Guest {
    /// Boots a guest and waits until it accepts commands. `program` is the kernel, the root image and a
    /// library for the kernel's process.
    pub(crate) async fn boot(program: &str, transport: Transport) -> Result<Self, String> {
        let mut words = program.split(' ');
        let (Some(kernel), Some(root), Some(library)) = (words.next(), words.next(), words.next())
        else {
            return Err("no kernel, root image and library".into());
        };
        let mut command = Command::new(kernel);
        command.env("LD_PRELOAD", library);
        command.args(["mem=192M", "con=null", "con0=null,fd:1", "quiet", "panic=-1"]);
        command.args(["uml_dir=/run/uml/", "umid=guest", "peer.encap=0"]);
        command.arg(format!("initrd={root}"));
        let udp = if transport == Transport::Udp { UDP_PORT } else { 0 };
        command.arg(format!("peer.udp={udp}"));
        for link in 0..net::LINKS {
            let both = [Family::V4, Family::V6].map(|f| net::with_prefix(net::far(f, link)));
            command.arg(format!("vec{link}:transport=tap,ifname=a{link},depth=128,gro=1"));
            command.arg(format!("peer.addresses.{link}={}", both.join(",")));
        }
        let mut child = command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .kill_on_drop(true)
            .spawn()
            .map_err(|e| format!("{kernel}: {e}"))?;
        let output = child.stdout.take().ok_or("no console")?;
        let mut console = process::lines(output);
        let booted = async {
            let mut said = Vec::new();
            while let Some(line) = console.recv().await {
                if line.starts_with("guest ready") {
                    return Ok(());
                }
                said.push(line);
            }
            Err(format!("the guest does not boot: {said:?}"))
        };
        tokio::time::timeout(3 * PATIENCE, booted)
            .await
            .unwrap_or_else(|_| Err("the guest does not boot".into()))?;
        // Drain the console, so its pipe does not fill.
        tokio::spawn(async move { while console.recv().await.is_some() {} });
        Ok(Self { _child: Arc::new(child) })
    }

    async fn connect() -> Result<TcpStream, String> {
        let address = SocketAddr::new(net::far(Family::V4, net::STEADY), SHELL_PORT);
        let attempts = async {
            loop {
                if let Ok(stream) = TcpStream::connect(address).await {
                    return stream;
                }
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        };
        let connected = tokio::time::timeout(PATIENCE, attempts).await;
        connected.map_err(|_| "the guest takes no commands".into())
    }

    /// Runs a command in the guest and returns what it prints.
    pub(crate) async fn shell(&self, command: &str) -> Result<String, String> {
        let mut stream = Self::connect().await?;
        let run = async {
            stream.write_all(format!("{command}\nexit\n").as_bytes()).await?;
            let mut text = String::new();
            stream.read_to_string(&mut text).await?;
            Ok::<String, std::io::Error>(text)
        };
        let done = tokio::time::timeout(PATIENCE, run).await;
        done.map_err(|_| format!("the guest does not finish '{command}'"))?
            .map_err(|e| format!("guest: {e}"))
    }

    /// Starts the peer program in the guest.
    pub(super) async fn start(&self, arguments: &[String]) -> Result<Peer, String> {
        self.begin(&format!("exec peer {} 2>&1", arguments.join(" "))).await
    }

    /// Starts a program in the guest. At its end the guest prints `status` and the exit status.
    pub(crate) async fn run(&self, words: &str) -> Result<Peer, String> {
        self.begin(&format!("{words} 2>&1; echo status $?; exit")).await
    }

    async fn begin(&self, command: &str) -> Result<Peer, String> {
        let stream = Self::connect().await?;
        let (output, mut input) = stream.into_split();
        let line = format!("echo pid $$; {command}\n");
        input.write_all(line.as_bytes()).await.map_err(|e| format!("guest: {e}"))?;
        // The shell's input must stay open as long as the program runs.
        input.forget();
        let handle = Handle::Guest { guest: self.clone(), pid: String::new() };
        let mut peer = Peer { lines: process::lines(output), handle };
        let pid = peer.line("pid").await?;
        peer.handle = Handle::Guest { guest: self.clone(), pid };
        Ok(peer)
    }
}
