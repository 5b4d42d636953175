//! The demonstration: its numbers, and its page in a real browser.

mod common;

use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use common::{anabranch, interrupt, run};
use serde_json::{Value, json};

/// Waits for the end of the page's replay, and describes what is visible then.
const DONE: &str = "new Promise(resolve => {
  const look = () => {
    const data = document.body?.dataset ?? {};
    if (data.state !== 'done' && data.state !== 'failed') { setTimeout(look, 20); return; }
    // Pictures are decoded asynchronously, whenever the machine has time for it.
    const pictures = [...document.querySelectorAll('#panes img')].map(image => image.decode().catch(() => {}));
    Promise.all(pictures).then(() => tell(data));
  };
  const tell = data => {
    const panes = [...document.querySelectorAll('#panes section')];
    resolve(JSON.stringify({
      state: data.state,
      summary: document.getElementById('summary').textContent,
      panes: panes.map(pane => [pane.dataset.carriage, Number(pane.dataset.whole)]),
      times: panes.map(pane => [...pane.querySelectorAll('td')].map(cell => cell.textContent)),
      drawn: [...document.querySelectorAll('#panes img')].filter(image => image.complete && image.naturalWidth > 100).length,
      named: [...document.querySelectorAll('#panes img')].every(image => image.alt.endsWith('100 % has come')),
      wide: document.documentElement.scrollWidth <= document.documentElement.clientWidth,
      link: document.getElementById('link').href,
    }));
  };
  look();
})";

/// Moves a slider like a user, which starts a new run.
const SLIDE: &str = "(() => {
  const slider = document.querySelector('[name=loss]');
  slider.value = 0;
  slider.dispatchEvent(new Event('input', { bubbles: true }));
  slider.dispatchEvent(new Event('change', { bubbles: true }));
  return document.body.dataset.state;
})()";

/// The shares of the pictures on both sides at a moment.
const MOMENT: &str = "(() => {
  const time = document.getElementById('time');
  time.value = AT;
  time.dispatchEvent(new Event('input', { bubbles: true }));
  return JSON.stringify([...document.querySelectorAll('#panes section')].map(pane =>
    [...pane.querySelectorAll('img')].map(image => Number(image.dataset.share ?? 0))));
})()";

/// A browser, controlled through pipes with the DevTools protocol.
struct Browser {
    child: Child,
    commands: ChildStdin,
    answers: BufReader<ChildStdout>,
    last: u64,
    session: Option<String>,
    /// Number of pages loaded so far.
    loads: u64,
    /// Errors in the page, as its console reports them.
    errors: Vec<String>,
    _profile: tempfile::TempDir,
}

impl Browser {
    fn start(program: &str) -> Self {
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
        browser
    }

    /// Executes a command and returns its result.
    fn ask(&mut self, method: &str, parameters: &Value) -> Value {
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
    fn open(&mut self, address: &str) {
        let before = self.loads;
        self.ask("Page.navigate", &json!({"url": address}));
        while self.loads == before {
            self.message();
        }
    }

    fn evaluate(&mut self, script: &str) -> String {
        let parameters = json!({"expression": script, "awaitPromise": true, "returnByValue": true});
        let result = self.ask("Runtime.evaluate", &parameters);
        let value = result["result"]["value"].as_str();
        value.unwrap_or_else(|| panic!("{result}")).to_owned()
    }

    fn look(&mut self, script: &str) -> Value {
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

#[test]
fn a_quarter_of_all_pictures_comes_much_sooner_over_streams() {
    let here = tempfile::tempdir().unwrap();
    let arguments = ["demo", "--headless", "--loss", "0,4.3", "--seeds", "20", "--json", "-"];
    let done = run(&arguments, here.path());
    let report = done.json();
    let rows = report["rows"].as_array().unwrap();
    assert_eq!(rows.len(), 8);
    for loss in [0.0, 4.3] {
        let of = |carriage: &str, key: &str| {
            let this = |row: &&Value| {
                row["carriage"] == carriage
                    && (row["loss_percent"].as_f64().unwrap() - loss).abs() < 1e-9
            };
            rows.iter().find(this).unwrap()[key].as_f64().unwrap()
        };
        for streams in ["sctp", "http3"] {
            let ratio = of(streams, "p25_s") / of("tcp1", "p25_s");
            assert!(ratio <= 0.6, "{streams}, {loss} %: {ratio}");
        }
        // The link limits the time, whatever the transport.
        assert!(of("sctp", "page_s") >= of("sctp", "bytes") * 8.0 / 56e3 + 2.0 * 1.08);
        assert!(of("sctp", "page_s") <= 1.05 * of("tcp1", "page_s"));
    }
    // Values that QUIC does not report are not made up.
    let is_told = |row: &Value| (row["carriage"] != "http3") == row["timeouts"].is_number();
    assert!(rows.iter().all(is_told), "{report}");
    // The same bytes with every transport.
    let bytes: Vec<_> = rows
        .iter()
        .flat_map(|row| row["runs"].as_array().unwrap())
        .map(|run| run["bytes"].as_u64().unwrap())
        .collect();
    assert_eq!(bytes.len(), 8 * 20);
    assert!(bytes.iter().all(|count| *count == bytes[0] && *count > 90_000), "{bytes:?}");
    // The same packets again, with any number of threads.
    let one = run(&[&arguments[..], &["--jobs", "1"]].concat(), here.path());
    assert_eq!(one.stdout, done.stdout);
    // A way that is first is named first; without losses a page takes the same time with each seed.
    let of_page = |row: &&Value| row["page_s"].as_f64().unwrap();
    let lossless = rows.iter().filter(|row| row["loss_percent"] == 0.0);
    let first = lossless.min_by(|one, other| of_page(one).total_cmp(&of_page(other))).unwrap();
    let names = [("sctp", "SCTP"), ("tcp1", "One"), ("tcp6", "6 TCP"), ("http3", "HTTP/3")];
    let (_, name) = names.iter().find(|(key, _)| first["carriage"] == *key).unwrap();
    let text = run(&["demo", "--headless", "--loss", "0", "--seeds", "1"], here.path()).stdout;
    let said = text.lines().find(|line| line.starts_with("The whole page is there after"));
    let winner = said.unwrap().split(';').next().unwrap();
    assert!(winner.contains(&format!("s with {name}")), "{text}");
}

#[test]
fn the_page_replays_in_a_browser_what_was_computed() {
    let works = |name: &&str| Command::new(name).arg("--version").output().is_ok();
    let Some(program) = ["chromium", "chromium-browser", "google-chrome"].into_iter().find(works)
    else {
        return common::skip("chromium");
    };
    let here = tempfile::tempdir().unwrap();
    let mut server = anabranch(&["demo", "--listen", "127.0.0.1:0"], here.path());
    let mut server = server.stdout(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(server.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let address = line.split(' ').find(|word| word.starts_with("http://")).unwrap();

    let mut browser = Browser::start(program);
    browser.open(&format!("{address}?loss=4.3&speed=20"));
    let lossy = browser.look(DONE);
    assert_eq!(lossy["state"], "done", "{lossy}");
    assert_eq!(lossy["panes"], json!([["sctp", 10], ["tcp1", 10], ["http3", 10]]), "{lossy}");
    assert_eq!((&lossy["drawn"], &lossy["named"]), (&json!(30), &json!(true)), "{lossy}");
    assert!(lossy["summary"].as_str().unwrap().contains("A quarter of every picture"), "{lossy}");

    // When the sequential side has almost nothing, the other one has a part of every picture.
    let quarter: f64 =
        lossy["times"][0][0].as_str().unwrap().trim_end_matches(" s").parse().unwrap();
    let shares = browser.look(&MOMENT.replace("AT", &format!("{}", quarter + 0.1)));
    let least = |pane: usize| {
        let shares = shares[pane].as_array().unwrap().iter();
        shares.map(|share| share.as_u64().unwrap()).min().unwrap()
    };
    assert!(least(0) >= 24 && least(1) == 0, "{shares}");

    browser.evaluate(SLIDE);
    let lossless = browser.look(DONE);
    assert_eq!(lossless["panes"], lossy["panes"]);
    assert_ne!(lossless["times"], lossy["times"]);
    assert!(lossless["link"].as_str().unwrap().contains("loss=0&"), "{lossless}");

    // At the width of a phone.
    let phone = json!({"width": 390, "height": 800, "deviceScaleFactor": 2, "mobile": true});
    browser.ask("Emulation.setDeviceMetricsOverride", &phone);
    // The link gives the same result again.
    browser.open(lossless["link"].as_str().unwrap());
    let again = browser.look(DONE);
    assert_eq!((&again["times"], &again["wide"]), (&lossless["times"], &json!(true)), "{again}");
    assert_eq!(browser.errors, Vec::<String>::new());
    drop(browser);
    interrupt(&server);
    server.wait().unwrap();
}
