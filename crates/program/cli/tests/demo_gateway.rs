//! The third page of the demonstration: a real gateway over two links, and buttons that cut them.

mod common;

use common::browser::{Browser, Demo};
use serde_json::{Value, json};

/// Waits until CONDITION holds, and describes what is visible then. A page that never gets there fails the test after two
/// minutes.
const WHEN: &str = "new Promise((resolve, reject) => {
  const text = id => document.getElementById(id)?.textContent;
  const amount = id => parseFloat(text(id)) || 0;
  let looks = 0;
  const look = () => {
    const state = document.body?.dataset.state;
    const complete = document.querySelector('.state')?.textContent ?? '';
    if (!(CONDITION)) {
      if (++looks > 6000) reject(new Error(document.body.textContent)); else setTimeout(look, 20);
      return;
    }
    resolve(JSON.stringify({
      state, complete, summary: text('summary'), pause: parseFloat(text('pause')),
      carried: [amount('carried1'), amount('carried2')],
      buttons: [...document.querySelectorAll('button.path')].map(button => [button.textContent, button.disabled]),
      whole: document.querySelector('progress').value === document.querySelector('progress').max,
      drawn: [...document.querySelectorAll('.chart path')].map(path => path.getBBox().width > 0),
      cuts: document.querySelectorAll('.chart .cut').length,
      wide: document.documentElement.scrollWidth <= document.documentElement.clientWidth,
      named: [...document.querySelectorAll('button, input, select')].every(field =>
        field.matches('button') ? field.textContent : field.labels.length),
      command: text('command'), status: document.getElementById('status').href,
    }));
  };
  look();
})";

fn when(browser: &mut Browser, condition: &str) -> Value {
    browser.look(&WHEN.replace("CONDITION", condition))
}

#[test]
fn a_button_cuts_a_link_and_the_download_goes_on() {
    let Some(mut browser) = Browser::start() else { return common::skip("chromium") };
    let here = tempfile::tempdir().unwrap();
    let demo = Demo::start(here.path());
    browser.open(&format!("{}gateway.html", demo.address));
    let ready = when(&mut browser, "state === 'ready'");
    assert_eq!(ready["buttons"], json!([["Cut link 1", true], ["Cut link 2", true]]));
    assert_eq!((&ready["named"], &ready["wide"]), (&json!(true), &json!(true)), "{ready}");
    browser.evaluate(
        "(() => {
          const { elements } = document.getElementById('settings');
          Object.assign(elements.size, { value: 8 });
          document.getElementById('start').click();
          return '';
        })()",
    );
    when(&mut browser, "amount('carried1') > 1 && amount('carried2') > 0.5");
    browser.evaluate("document.querySelector('button.path').click(), ''");
    let cut = when(&mut browser, "text('summary') === 'Link 1 is cut.'");
    assert_eq!(cut["buttons"], json!([["Repair link 1", false], ["Cut link 2", false]]), "{cut}");
    // Another page, or this one again, shows the same download.
    browser.open(&format!("{}gateway.html", demo.address));
    let done = when(&mut browser, "state === 'done'");
    assert!(done["complete"].as_str().unwrap().starts_with("Complete after"), "{done}");
    assert!(done["pause"].as_f64().unwrap() < 3.0, "{done}");
    // The other link has carried the rest.
    let carried = |link: usize| done["carried"][link].as_f64().unwrap();
    assert!(carried(0) < 6.0 && carried(0) + carried(1) > 8.0, "{done}");
    assert_eq!((&done["drawn"], &done["cuts"]), (&json!([true, true]), &json!(1)), "{done}");
    assert_eq!(done["whole"], true, "{done}");

    // Its proxy and its status page are real.
    let command = done["command"].as_str().unwrap();
    assert!(command.starts_with("curl --proxy http://127.0.0.1:"), "{command}");
    let word = |at: usize| command.split(' ').nth(at).unwrap().to_owned();
    let fetched = std::process::Command::new("curl")
        .args(["--silent", "--proxy", &word(2), &word(3), "--range", "0-0", "--head"])
        .output();
    if let Ok(fetched) = fetched {
        let head = String::from_utf8_lossy(&fetched.stdout);
        assert!(head.contains("Content-Length: 8000000"), "{head}");
    }
    let pages = json!({"width": 390, "height": 800, "deviceScaleFactor": 2, "mobile": true});
    browser.ask("Emulation.setDeviceMetricsOverride", &pages);
    browser.open(&format!("{}gateway.html", demo.address));
    let phone = when(&mut browser, "state === 'done'");
    assert_eq!(phone["wide"], true, "{phone}");
    browser.open(done["status"].as_str().unwrap());
    let uplinks = browser.evaluate(
        "new Promise(resolve => {
          const look = () => {
            const names = [...document.querySelectorAll('#uplinks h3')].map(name => name.textContent);
            if (names.length === 2) resolve(names.join(' ')); else setTimeout(look, 20);
          };
          look();
        })",
    );
    assert!(uplinks.starts_with("127.0.0."), "{uplinks}");
    assert_eq!(browser.errors, Vec::<String>::new());

    // Pages of other origins start nothing.
    browser.open(&demo.address);
    let refused = browser.evaluate(
        "Promise.all([
          fetch('gateway-start', { method: 'POST' }), fetch('gateway-start'),
          fetch('gateway-set?path=3&up=true', { method: 'POST', headers: { 'x-anabranch-demo': '1' } }),
        ]).then(answers => answers.map(answer => answer.status).join(' '))",
    );
    assert_eq!(refused, "403 405 400");
    drop(browser);
    demo.end();
}
