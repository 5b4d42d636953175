//! A browser, and the pages of the demonstration.

use std::io::{BufRead, BufReader, Read, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use serde_json::{Value, json};

use super::{anabranch, interrupt};

/// A browser, controlled through pipes with the DevTools protocol.
pub(crate) struct Browser {
    child: Child,
    commands: ChildStdin,
    answers: BufReader<ChildStdout>,
    last: u64,
    session: Option<String>,
    /// Number of pages loaded so far.
    loads: u64,
    /// Errors in the page, as its console reports them.
    pub(crate) errors: Vec<String>,
    _profile: tempfile::TempDir,
}

impl Browser {
    /// Starts Chromium; `None` if there is none.
    pub(crate) fn start() -> Option<Self> {
        let works = |name: &&str| Command::new(name).arg("--version").output().is_ok();
        let program = ["chromium", "chromium-browser", "google-chrome"].into_iter().find(works)?;
        let profile = tempfile::tempdir().unwrap();
        // It reads from descriptor 3 and writes to 4. It does not sandbox root, the usual user in
        // containers; the page is our own.
        let line = format!(
            "exec {program} --headless --no-sandbox --disable-gpu --disable-dev-shm-usage \
             --remote-debugging-pipe --no-first-run --window-size=1280,900 \
             --user-data-dir='{}' 3<&0 4>&1 </dev/null >/dev/null 2>&1",
            profile.path().display()
        );
        let mut child = Command::new("sh")
            .args(["-c", &line])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let commands = child.stdin.take().unwrap();
        let answers = BufReader::new(child.stdout.take().unwrap());
        let (last, session, loads, errors) = (0, None, 0, Vec::new());
        let mut browser =
            Self { child, commands, answers, last, session, loads, errors, _profile: profile };
        let page = browser.ask("Target.createTarget", &json!({"url": "about:blank"}));
        let target = json!({"targetId": page["targetId"], "flatten": true});
        let attached = browser.ask("Target.attachToTarget", &target);
        browser.session = attached["sessionId"].as_str().map(str::to_owned);
        for domain in ["Runtime.enable", "Log.enable", "Page.enable"] {
            browser.ask(domain, &json!({}));
        }
        Some(browser)
    }

    /// Executes a command and returns its result.
    pub(crate) fn ask(&mut self, method: &str, parameters: &Value) -> Value {
        self.last += 1;
        let mut command = json!({"id": self.last, "method": method, "params": parameters});
        if let Some(session) = &self.session {
            command["sessionId"] = session.as_str().into();
        }
        self.commands.write_all(format!("{command}\0").as_bytes()).unwrap();
        loop {
            let message = self.message();
            if message["id"] == self.last {
                assert!(message["error"].is_null(), "{method}: {message}");
                return message["result"].clone();
            }
        }
    }

    /// The next message of the browser.
    fn message(&mut self) -> Value {
        let mut text = Vec::new();
        self.answers.read_until(0, &mut text).unwrap();
        let text = text.strip_suffix(&[0]).expect("the browser ended");
        let message: Value = serde_json::from_slice(text).unwrap();
        let is_error = match message["method"].as_str() {
            Some("Runtime.exceptionThrown") => true,
            Some("Runtime.consoleAPICalled") => message["params"]["type"] == "error",
            Some("Log.entryAdded") => message["params"]["entry"]["level"] == "error",
            _ => false,
        };
        if is_error {
            self.errors.push(message.to_string());
        }
        self.loads += u64::from(message["method"] == "Page.loadEventFired");
        message
    }

    /// Opens a page, and waits until it is loaded.
    pub(crate) fn open(&mut self, address: &str) {
        let before = self.loads;
        self.ask("Page.navigate", &json!({"url": address}));
        while self.loads == before {
            self.message();
        }
    }

    pub(crate) fn evaluate(&mut self, script: &str) -> String {
        let parameters = json!({"expression": script, "awaitPromise": true, "returnByValue": true});
        let result = self.ask("Runtime.evaluate", &parameters);
        let value = result["result"]["value"].as_str();
        value.unwrap_or_else(|| panic!("{result}")).to_owned()
    }

    pub(crate) fn look(&mut self, script: &str) -> Value {
        serde_json::from_str(&self.evaluate(script)).unwrap()
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        let _ = self.commands.write_all(b"{\"id\":0,\"method\":\"Browser.close\"}\0");
        let _ = self.answers.read_to_end(&mut Vec::new());
        let _ = self.child.wait();
    }
}

/// `anabranch demo`, serving its pages.
pub(crate) struct Demo {
    child: Child,
    /// The address of the first page.
    pub(crate) address: String,
}

impl Demo {
    pub(crate) fn start(directory: &Path) -> Self {
        let mut server = anabranch(&["demo", "--listen", "127.0.0.1:0"], directory);
        let mut child = server.stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let address = line.split(' ').find(|word| word.starts_with("http://")).unwrap();
        Self { child, address: address.to_owned() }
    }

    /// Ends it as Ctrl-C does.
    pub(crate) fn end(mut self) {
        interrupt(&self.child);
        self.child.wait().unwrap();
    }
}
