//! Programs that `anabranch run` runs.

use std::io::{BufRead as _, BufReader, Read as _};
use std::process::{Child, ChildStdout, Command, Stdio};

/// A server in Python that prints its port, and echoes the messages of one peer.
pub(crate) const SERVER: &str = "
import socket
s = socket.socket(socket.AF_INET, socket.SOCK_STREAM, 132)
s.bind(('127.0.0.1', 0)); s.listen(1); print(s.getsockname()[1], flush=True)
p, _ = s.accept()
while m := p.recv(10000): p.send(m)
";

/// Starts a program, and waits for the first line that it writes.
pub(crate) fn start(mut command: Command) -> (Child, BufReader<ChildStdout>, String) {
    let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
    let mut out = BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    out.read_line(&mut line).unwrap();
    (child, out, line.trim().to_owned())
}

/// A program that has written its first line; it is killed with this.
pub(crate) struct Started {
    pub(crate) child: Child,
    out: BufReader<ChildStdout>,
    pub(crate) line: String,
}

impl Started {
    pub(crate) fn new(command: Command) -> Self {
        let (child, out, line) = start(command);
        Self { child, out, line }
    }

    /// What it writes until its end.
    pub(crate) fn rest(&mut self) -> String {
        let mut said = String::new();
        self.out.read_to_string(&mut said).unwrap();
        said
    }

    /// Waits for its end, which must be a success. Returns what it has written after the first line.
    pub(crate) fn finish(mut self) -> String {
        let said = self.rest();
        assert!(self.child.wait().unwrap().success(), "{said}");
        said
    }

    pub(crate) fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

impl Drop for Started {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

pub(crate) fn free_udp_port() -> String {
    anabranch_ports::free_udp_port().to_string()
}
