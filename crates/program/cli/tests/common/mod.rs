//! Runs the program.

#![allow(dead_code, reason = "each test file uses a part of it")]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Output, Stdio};
use std::sync::Arc;

use sha2::{Digest, Sha256};
use tempfile::TempDir;

pub(crate) mod browser;
pub(crate) mod programs;

/// A command line as a list of arguments, to run in this directory.
pub(crate) fn anabranch(arguments: &[&str], directory: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_anabranch"));
    command.args(arguments).current_dir(directory).env_remove("ANABRANCH_LOG");
    command
}

/// Skips a test because something is missing, or fails with ANABRANCH_REQUIRE_ALL=1.
pub(crate) fn skip(missing: &str) {
    let required = std::env::var("ANABRANCH_REQUIRE_ALL").is_ok_and(|all| all == "1");
    assert!(!required, "missing: {missing}");
    eprintln!("skipped, because missing: {missing}");
}

/// The result of a command line.
pub(crate) struct Ended {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl From<Output> for Ended {
    fn from(output: Output) -> Self {
        Self {
            code: output.status.code(),
            stdout: String::from_utf8(output.stdout).unwrap(),
            stderr: String::from_utf8(output.stderr).unwrap(),
        }
    }
}

/// Runs a command line to its end.
pub(crate) fn run(arguments: &[&str], directory: &Path) -> Ended {
    anabranch(arguments, directory).output().unwrap().into()
}

impl Ended {
    /// Asserts that it failed with this exit code and one sentence that contains `part`.
    pub(crate) fn failed_with(&self, code: i32, part: &str) {
        assert_eq!(self.code, Some(code), "{}", self.stderr);
        assert!(self.stderr.contains(part), "'{part}' is not in: {}", self.stderr);
        assert!(self.stderr.starts_with("anabranch: "), "{}", self.stderr);
        assert_eq!(self.stderr.trim_end().lines().count(), 1, "{}", self.stderr);
    }

    /// Asserts that it succeeded, and reads what it printed as JSON.
    pub(crate) fn json(&self) -> serde_json::Value {
        assert_eq!(self.code, Some(0), "{}", self.stderr);
        serde_json::from_str(&self.stdout).unwrap()
    }
}

/// A server that runs until the test ends.
pub(crate) struct Server {
    child: Child,
    lines: BufReader<ChildStdout>,
    /// Where it listens, as it reports itself.
    pub(crate) listening: serde_json::Value,
}

impl Server {
    /// Starts `anabranch serve` with these arguments and waits until it listens.
    pub(crate) fn start(arguments: &[&str], directory: &Path) -> Self {
        Self::start_command(&["serve", "."], arguments, directory)
    }

    /// Starts this command of `anabranch` with these arguments and waits until it listens.
    pub(crate) fn start_command(command: &[&str], arguments: &[&str], directory: &Path) -> Self {
        let all = [command, arguments, &["--json"]].concat();
        Self::of(anabranch(&all, directory))
    }

    /// Starts a command that reports in JSON where it listens, and waits until it does.
    pub(crate) fn of(mut command: Command) -> Self {
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        lines.read_line(&mut line).unwrap();
        if line.is_empty() {
            let mut stderr = String::new();
            child.stderr.take().unwrap().read_to_string(&mut stderr).unwrap();
            panic!("the server does not start: {stderr}");
        }
        let listening = serde_json::from_str(&line).unwrap();
        Self { child, lines, listening }
    }

    /// The port it listens on.
    pub(crate) fn port(&self) -> String {
        let listen = self.listening["listen"].as_str().unwrap();
        listen.rsplit_once(':').unwrap().1.to_owned()
    }

    /// The UDP port that carries its SCTP.
    pub(crate) fn udp_port(&self) -> String {
        self.listening["udp_port"].as_u64().unwrap().to_string()
    }

    /// The next event that it reports, except for answered requests.
    pub(crate) fn event(&mut self) -> serde_json::Value {
        loop {
            let line = self.line();
            if line["event"] != "request" {
                return line;
            }
        }
    }

    /// The next line that it prints.
    pub(crate) fn line(&mut self) -> serde_json::Value {
        let mut line = String::new();
        self.lines.read_line(&mut line).unwrap();
        serde_json::from_str(&line).unwrap()
    }

    /// Waits until it ends by itself, and returns its exit code.
    pub(crate) fn wait(mut self) -> Option<i32> {
        self.child.wait().unwrap().code()
    }

    /// Sends it a signal by name, such as `USR1`.
    pub(crate) fn signal(&self, name: &str) {
        signal(&self.child, name);
    }

    /// Stops it like Ctrl-C, and returns its exit code.
    pub(crate) fn interrupt(mut self) -> Option<i32> {
        interrupt(&self.child);
        self.child.wait().unwrap().code()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Acts like Ctrl-C.
pub(crate) fn interrupt(child: &Child) {
    signal(child, "INT");
}

fn signal(child: &Child, name: &str) {
    let arguments = ["-s", name, &child.id().to_string()];
    assert!(Command::new("kill").args(arguments).status().unwrap().success());
}

/// A directory with files of many sizes, and one for copies.
pub(crate) struct Site {
    root: TempDir,
    pub(crate) names: Vec<String>,
}

impl Site {
    pub(crate) fn new(sizes: &[usize]) -> Self {
        let root = tempfile::tempdir().unwrap();
        std::fs::create_dir(root.path().join("site")).unwrap();
        std::fs::create_dir(root.path().join("copy")).unwrap();
        let mut names = Vec::new();
        for (index, &size) in sizes.iter().enumerate() {
            let name = format!("file {index}.bin");
            std::fs::write(root.path().join("site").join(&name), content(index as u64, size))
                .unwrap();
            names.push(name);
        }
        Self { root, names }
    }

    pub(crate) fn path(&self) -> PathBuf {
        self.root.path().join("site")
    }

    pub(crate) fn copy(&self) -> PathBuf {
        self.root.path().join("copy")
    }

    /// The URLs of all files.
    pub(crate) fn urls(&self, base: &str) -> Vec<String> {
        self.names.iter().map(|name| format!("{base}/{}", name.replace(' ', "%20"))).collect()
    }

    /// Runs `anabranch get` for all files in the directory for copies.
    pub(crate) fn get(&self, base: &str, options: &[&str]) -> Ended {
        let urls = self.urls(base);
        let mut arguments = vec!["get"];
        arguments.extend(urls.iter().map(String::as_str));
        arguments.extend_from_slice(options);
        run(&arguments, &self.copy())
    }

    /// Asserts that the copies exist and nothing else, and that their hashes are equal.
    pub(crate) fn assert_copied(&self) {
        for name in &self.names {
            assert_eq!(hash(&self.path().join(name)), hash(&self.copy().join(name)), "{name}");
        }
        self.assert_copies(self.names.len());
    }

    /// Asserts that `count` files are in the directory for copies.
    pub(crate) fn assert_copies(&self, count: usize) {
        let entries = std::fs::read_dir(self.copy()).unwrap();
        let found: Vec<_> = entries.map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(found.len(), count, "{found:?}");
    }
}

fn hash(path: &Path) -> Vec<u8> {
    Sha256::digest(std::fs::read(path).unwrap()).to_vec()
}

/// Bytes that do not repeat, different for each seed (the generator 'splitmix64').
pub(crate) fn content(seed: u64, size: usize) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x1234_5678_9abc_def1);
    let mut bytes = Vec::with_capacity(size + 8);
    while bytes.len() < size {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut word = state;
        word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        bytes.extend_from_slice(&(word ^ (word >> 31)).to_le_bytes());
    }
    bytes.truncate(size);
    bytes
}

/// A server that answers each request with `answer`, which also gets the number of the connection, and then ends the
/// connection. Returns its address.
pub(crate) fn scripted(
    answer: impl Fn(&str, usize, &mut TcpStream) + Send + Sync + 'static,
) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let answer = Arc::new(answer);
    std::thread::spawn(move || {
        for (number, stream) in listener.incoming().enumerate() {
            let (answer, mut stream) = (Arc::clone(&answer), stream.unwrap());
            std::thread::spawn(move || {
                let mut request = Vec::new();
                let mut bytes = [0; 4096];
                while !request.ends_with(b"\r\n\r\n") {
                    match stream.read(&mut bytes) {
                        Ok(count) if count > 0 => request.extend_from_slice(&bytes[..count]),
                        _ => return,
                    }
                }
                let request = String::from_utf8(request).unwrap().to_ascii_lowercase();
                answer(&request, number, &mut stream);
            });
        }
    });
    address
}

/// Writes without caring whether the peer reads everything.
pub(crate) fn send(stream: &mut TcpStream, parts: &[&[u8]]) {
    for part in parts {
        let _ = stream.write_all(part);
    }
}

pub(crate) fn names(directory: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(directory).unwrap();
    let mut names: Vec<_> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}
