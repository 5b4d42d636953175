//! The second page of the demonstration: two paths, and buttons that cut them.

mod common;

use common::browser::{Browser, Demo};
use common::run;
use serde_json::{Value, json};

/// Waits until the page is in the state STATE, and describes what is visible then.
const IN_STATE: &str = "new Promise(resolve => {
  const text = node => node.textContent;
  const look = () => {
    const state = document.body?.dataset.state;
    if (state !== 'STATE' && state !== 'failed') { setTimeout(look, 20); return; }
    const panes = [...document.querySelectorAll('#panes section')];
    resolve(JSON.stringify({
      state,
      summary: text(document.getElementById('summary')),
      panes: Object.fromEntries(panes.map(pane => [pane.dataset.carriage, {
        arrived: pane.querySelector('progress').value, of: pane.querySelector('progress').max,
        stuck: pane.classList.contains('stuck'), state: text(pane.querySelector('.state')),
        cells: [...pane.querySelectorAll('td')].map(text),
      }])),
      buttons: [...document.querySelectorAll('button.path')].map(text),
      drawn: panes.every(pane => pane.querySelector('path.path1').getBBox().width > 0),
      wide: document.documentElement.scrollWidth <= document.documentElement.clientWidth,
      named: [...document.querySelectorAll('button, input, select')].every(field =>
        field.matches('button') ? text(field) : field.labels.length),
      link: document.getElementById('link').href,
      time: Number(document.getElementById('time').value),
    }));
  };
  look();
})";

/// Waits until some of the replay has passed, and returns the middle of the first button.
const FIRST_BUTTON: &str = "new Promise(resolve => {
  const look = () => {
    if (document.body.dataset.state !== 'playing' || document.getElementById('time').value < 0.5) { setTimeout(look, 20); return; }
    const box = document.querySelector('button.path').getBoundingClientRect();
    resolve(JSON.stringify({ x: box.x + box.width / 2, y: box.y + box.height / 2 }));
  };
  look();
})";

/// Waits until a run with events is there, and returns them.
const EVENTS: &str = "new Promise(resolve => {
  const look = () => {
    const events = new URLSearchParams(location.search).get('events');
    if (!events || document.body.dataset.state === 'computing') { setTimeout(look, 20); return; }
    resolve(JSON.stringify(events));
  };
  look();
})";

/// Plays the rest at five times the speed.
const FAST: &str = "(() => {
  const speed = document.getElementById('speed');
  speed.value = 5;
  speed.dispatchEvent(new Event('change', { bubbles: true }));
  return '';
})()";

fn in_state(browser: &mut Browser, state: &str) -> Value {
    browser.look(&IN_STATE.replace("STATE", state))
}

/// Whether the whole file has arrived in a pane.
fn is_whole(page: &Value, way: &str) -> bool {
    let pane = &page["panes"][way];
    pane["arrived"] == pane["of"] && pane["state"].as_str().unwrap().starts_with("Complete")
}

/// Presses a key in the focused element.
fn key(browser: &mut Browser, key: &str, code: u32, text: &str) {
    for kind in ["keyDown", "keyUp"] {
        let text = if kind == "keyDown" { text } else { "" };
        let pressed = json!({
            "type": kind, "key": key, "code": key, "windowsVirtualKeyCode": code, "text": text,
        });
        browser.ask("Input.dispatchKeyEvent", &pressed);
    }
}

#[test]
fn a_button_cuts_a_path_and_sctp_goes_on() {
    let Some(mut browser) = Browser::start() else { return common::skip("chromium") };
    let here = tempfile::tempdir().unwrap();
    let demo = Demo::start(here.path());
    browser.open(&format!("{}cut.html?speed=0.5", demo.address));
    let at = browser.look(FIRST_BUTTON);
    for kind in ["mousePressed", "mouseReleased"] {
        let click =
            json!({"type": kind, "x": at["x"], "y": at["y"], "button": "left", "clickCount": 1});
        browser.ask("Input.dispatchMouseEvent", &click);
    }
    let events = browser.look(EVENTS);
    let cut = events.as_str().unwrap().strip_prefix("cut1-").unwrap().parse::<f64>().unwrap();
    // The replay goes on where it was.
    let going = in_state(&mut browser, "playing");
    assert!(cut >= 0.5 && going["time"].as_f64().unwrap() >= cut, "{cut} {going}");
    assert_eq!(going["buttons"], json!(["Repair path 1", "Cut path 2"]), "{going}");
    browser.evaluate(FAST);
    let done = in_state(&mut browser, "done");
    for (way, goes_on) in [("sctp", true), ("sctp-both", true), ("tcp", false), ("http3", false)] {
        assert_eq!(is_whole(&done, way), goes_on, "{way}: {done}");
        assert_eq!(done["panes"][way]["stuck"], !goes_on, "{way}: {done}");
    }
    assert_eq!((&done["drawn"], &done["wide"]), (&json!(true), &json!(true)), "{done}");
    assert_eq!(done["named"], json!(true), "{done}");
    let summary = done["summary"].as_str().unwrap();
    assert!(summary.contains("One TCP connection stops"), "{summary}");

    // With the keyboard, at the end of the replay: all go on.
    browser.evaluate("document.querySelector('button.path').focus(), ''");
    key(&mut browser, "Enter", 13, "\r");
    browser.evaluate(
        "new Promise(resolve => { const look = () => location.search.includes('repair1') ? resolve('') : setTimeout(look, 20); look(); })",
    );
    let repaired = in_state(&mut browser, "done");
    for way in ["sctp", "sctp-both", "tcp", "http3"] {
        assert!(is_whole(&repaired, way), "{way}: {repaired}");
    }

    // The link gives the same run at the width of a phone, without motion.
    let phone = json!({"width": 390, "height": 800, "deviceScaleFactor": 2, "mobile": true});
    browser.ask("Emulation.setDeviceMetricsOverride", &phone);
    let still = json!({"features": [{"name": "prefers-reduced-motion", "value": "reduce"}]});
    browser.ask("Emulation.setEmulatedMedia", &still);
    browser.open(repaired["link"].as_str().unwrap());
    let again = in_state(&mut browser, "ready");
    assert_eq!(again["panes"], repaired["panes"]);
    assert_eq!((&again["drawn"], &again["wide"]), (&json!(true), &json!(true)), "{again}");
    assert_eq!(again["summary"], repaired["summary"]);

    // The pages link to each other.
    let other = "document.querySelector('nav a').href";
    let first = browser.evaluate(other);
    assert_eq!(first.trim_end_matches('/'), demo.address.trim_end_matches('/'));
    browser.open(&first);
    assert!(browser.evaluate(other).ends_with("/cut.html"));
    assert_eq!(browser.errors, Vec::<String>::new());
    drop(browser);
    demo.end();
}

#[test]
fn the_numbers_of_a_cut_are_printed() {
    let here = tempfile::tempdir().unwrap();
    let arguments = ["demo", "--headless", "--cut", "3"];
    let report = run(&[&arguments[..], &["--json", "-"]].concat(), here.path()).json();
    let row = |carriage: &str| {
        let rows = report["rows"].as_array().unwrap();
        rows.iter().find(|row| row["carriage"] == carriage).unwrap().clone()
    };
    let pause = |carriage: &str| row(carriage)["longest_pause_s"].as_f64().unwrap();
    assert!(row("sctp")["completed_s"].is_number() && pause("sctp") < 1.0, "{report}");
    assert!(row("tcp")["completed_s"].is_null() && pause("tcp") > 60.0, "{report}");
    assert!(row("http3")["failed_s"].is_number(), "{report}");
    let text = run(&arguments, here.path()).stdout;
    assert!(text.contains(report["summary"].as_str().unwrap()), "{text}");
    let wrong = run(&["demo", "--headless", "--cut", "3", "--repair", "2"], here.path());
    wrong.failed_with(2, "--repair 2 must be later than --cut 3");
    let wrong = run(&["demo", "--headless", "--cut", "-1"], here.path());
    assert_eq!(wrong.code, Some(2), "{}", wrong.stderr);
}
