//! The status page of the gateway in a browser.
#![cfg(unix)]

mod common;

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};

use common::Server;
use common::browser::Browser;
use serde_json::{Value, json};

/// Waits until CONDITION holds on the page, and describes what is visible then. A page that never gets there, such as one
/// whose script is blocked, fails the test after a minute.
const WHEN: &str = "new Promise((resolve, reject) => {
  let looks = 0;
  const text = node => node.textContent;
  const look = () => {
    const cards = [...document.querySelectorAll('#uplinks section')];
    const states = cards.map(card => text(card.querySelector('.state')));
    if (!(CONDITION) && ++looks > 3000) { reject(new Error(document.body.textContent)); return; }
    if (!(CONDITION)) { setTimeout(look, 20); return; }
    const switches = [...document.querySelectorAll('button')];
    resolve(JSON.stringify({
      far: text(document.getElementById('far')), states,
      names: cards.map(card => text(card.querySelector('h3'))),
      switches: switches.map(button => [button.getAttribute('role'), button.getAttribute('aria-checked')]),
      named: switches.every(button => text(document.getElementById(button.getAttribute('aria-labelledby')))),
      large: switches.every(button => button.getBoundingClientRect().height >= 44),
      round_trip: text(cards[0].querySelectorAll('dd')[2]),
      sum: text(document.getElementById('sum')),
      hosts: [...document.querySelectorAll('#hosts th')].map(text),
      wide: document.documentElement.scrollWidth <= document.documentElement.clientWidth,
      columns: new Set(cards.map(card => card.getBoundingClientRect().x)).size,
      ground: getComputedStyle(document.body).backgroundColor,
      focus: document.activeElement === switches[1] && switches[1].matches(':focus-visible'),
    }));
  };
  look();
})";

fn when(browser: &mut Browser, condition: &str) -> Value {
    browser.look(&WHEN.replace("CONDITION", condition))
}

const BOTH: &str = "states.length === 2 && states.every(state => state === 'carries data')";

fn press(browser: &mut Browser, key: &str, code: u32, text: &str) {
    for kind in ["keyDown", "keyUp"] {
        let text = if kind == "keyDown" { text } else { "" };
        let pressed = json!({
            "type": kind, "key": key, "code": key, "windowsVirtualKeyCode": code, "text": text,
        });
        browser.ask("Input.dispatchKeyEvent", &pressed);
    }
}

/// Both sides with two uplinks; the URL of the status page.
fn gateway(keys: &tempfile::TempDir) -> (Server, Server, String) {
    let path = |name: &str| keys.path().join(name).to_str().unwrap().to_owned();
    let (far_key, near_key) = (path("far.key"), path("near.key"));
    let arguments = ["--listen", "127.0.0.1:0", "--key", &far_key];
    let far = Server::start_command(&["gateway", "far"], &arguments, keys.path());
    let line = far.listening["invitation"].as_str().unwrap().to_owned();
    let arguments =
        ["--listen", "127.0.0.1:0", "--key", &near_key, "--uplink", "127.0.0.2,127.0.0.3"];
    let mut near = Server::start_command(&["gateway", "near", &line], &arguments, keys.path());
    assert_eq!(near.line()["event"], "connected");
    let status = near.listening["status"].as_str().unwrap().to_owned();
    (far, near, status)
}

/// A page of another origin that tries to read the status; its address.
fn other_origin(status: &str) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let page = format!(
        "<!doctype html><title>other</title><script>
        const json = {:?};
        const tries = [
          fetch(json).then(answer => answer.text()),
          fetch(json.replace('.json', '/uplink') + '&number=0&on=false', {{ method: 'POST' }}).then(answer => answer.text()),
          new Promise((resolve, reject) => {{
            const script = document.createElement('script');
            script.onload = resolve; script.onerror = () => reject(new Error('blocked')); script.src = json;
            document.documentElement.append(script);
          }}),
        ];
        Promise.allSettled(tries).then(ended => {{ window.ended = ended.map(each => each.status); }});
        </script>",
        status.replace("/status?", "/status.json?")
    );
    std::thread::spawn(move || {
        while let Ok((mut tcp, _)) = listener.accept() {
            let _ = tcp.read(&mut [0; 4096]);
            let length = page.len();
            let head =
                "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nConnection: close\r\nContent-Length";
            let _ = write!(tcp, "{head}: {length}\r\n\r\n{page}");
        }
    });
    format!("http://{address}/")
}

#[test]
fn the_status_page_shows_and_switches_uplinks() {
    let Some(mut browser) = Browser::start() else { return common::skip("chromium") };
    let keys = tempfile::tempdir().unwrap();
    let (far, near, status) = gateway(&keys);
    browser.open(&status);
    let desk = when(&mut browser, BOTH);
    assert!(desk["far"].as_str().unwrap().starts_with("Connected"), "{desk}");
    assert_eq!(desk["names"], json!(["127.0.0.2", "127.0.0.3"]), "{desk}");
    assert_eq!(desk["switches"], json!([["switch", "true"], ["switch", "true"]]), "{desk}");
    for what in ["named", "large", "wide"] {
        assert_eq!(desk[what], true, "{what}: {desk}");
    }
    assert_eq!(desk["columns"], 2, "{desk}");
    assert!(desk["round_trip"].as_str().unwrap().ends_with(" ms"), "{desk}");

    // The keyboard alone: to the second switch, and off.
    for _ in 0..2 {
        press(&mut browser, "Tab", 9, "");
    }
    press(&mut browser, " ", 32, " ");
    let off = when(&mut browser, "states[1] === 'switched off'");
    assert_eq!(off["switches"][1], json!(["switch", "false"]), "{off}");
    assert_eq!((&off["states"][0], &off["focus"]), (&json!("carries data"), &json!(true)), "{off}");

    // At the width of a phone, in dark mode; and on again.
    let phone = json!({"width": 360, "height": 740, "deviceScaleFactor": 2, "mobile": true});
    browser.ask("Emulation.setDeviceMetricsOverride", &phone);
    let dark = json!({"features": [{"name": "prefers-color-scheme", "value": "dark"}]});
    browser.ask("Emulation.setEmulatedMedia", &dark);
    browser.open(&status);
    let small = when(&mut browser, "states[1] === 'switched off'");
    assert_eq!((&small["wide"], &small["columns"]), (&json!(true), &json!(1)), "{small}");
    assert_eq!(small["large"], true, "{small}");
    assert_ne!(small["ground"], desk["ground"], "{small}");
    for _ in 0..2 {
        press(&mut browser, "Tab", 9, "");
    }
    press(&mut browser, "Enter", 13, "\r");
    when(&mut browser, BOTH);
    assert_eq!(browser.errors, Vec::<String>::new());

    // Even with the token, a page of another origin reads and switches nothing.
    browser.open(&other_origin(&status));
    let waits = "new Promise(resolve => { const look = () =>
        window.ended ? resolve(JSON.stringify(window.ended)) : setTimeout(look, 20); look(); })";
    assert_eq!(browser.look(waits), json!(["rejected", "rejected", "rejected"]));
    browser.open(&status);
    when(&mut browser, BOTH);
    drop(browser);
    assert_eq!(near.interrupt(), Some(0));
    assert_eq!(far.interrupt(), Some(0));
}

#[test]
fn the_far_side_has_metrics_of_the_gateway() {
    let metrics = format!("127.0.0.1:{}", anabranch_ports::free_tcp_port());
    let keys = tempfile::tempdir().unwrap();
    let key = keys.path().join("far.key");
    let arguments =
        ["--listen", "127.0.0.1:0", "--key", key.to_str().unwrap(), "--metrics", &metrics];
    let far = Server::start_command(&["gateway", "far"], &arguments, keys.path());
    let mut tcp = TcpStream::connect(&metrics).unwrap();
    write!(tcp, "GET /metrics HTTP/1.1\r\nHost: {metrics}\r\n\r\n").unwrap();
    let mut text = String::new();
    tcp.read_to_string(&mut text).unwrap();
    for line in ["anabranch_gateway_open 0", "anabranch_gateway_target_bytes_sent_total 0"] {
        assert!(text.lines().any(|found| found == line), "{line} is not in {text}");
    }
    assert!(text.contains("anabranch_associations{"), "{text}");
    assert_eq!(far.interrupt(), Some(0));
}
