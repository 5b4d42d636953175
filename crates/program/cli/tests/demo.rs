//! The demonstration: its numbers, and its page in a real browser.

mod common;

use common::browser::{Browser, Demo};
use common::run;
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
      labelled: [...document.querySelectorAll('button, input, select')].every(field =>
        field.matches('button') ? field.textContent : field.labels.length),
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
    let Some(mut browser) = Browser::start() else { return common::skip("chromium") };
    let here = tempfile::tempdir().unwrap();
    let demo = Demo::start(here.path());
    let address = &demo.address;
    browser.open(&format!("{address}?loss=4.3&speed=20"));
    let lossy = browser.look(DONE);
    assert_eq!(lossy["state"], "done", "{lossy}");
    assert_eq!(lossy["panes"], json!([["sctp", 10], ["tcp1", 10], ["http3", 10]]), "{lossy}");
    assert_eq!((&lossy["drawn"], &lossy["named"]), (&json!(30), &json!(true)), "{lossy}");
    assert_eq!(lossy["labelled"], json!(true), "{lossy}");
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
    demo.end();
}
