//! Reports in a real browser.

mod common;

use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

const SCENARIO: &str = r#"
title = "A scenario whose title is long enough to need two lines on the screen of a phone"
source = "https://example.org/a/path/that/is/longer/than/a/phone/is/wide/and/has/no/blank.html"
[run]
seeds = 3
[network]
shape = "dumbbells"
core_rate = "10 Mb/s"
core_delay = "25 ms"
edge_rate = "100 Mb/s"
edge_delay = "10 ms"
queue = "2 BDP"
[path.primary]
[path.alternate]
[association]
profile = "rfc9260"
[traffic.file]
size = "100 kB"
message = "1452 B"
[axis.loss]
label = "loss on the primary path"
set = "path.primary.loss"
values = ["0 %", "5 %"]
[axis.policy.variants]
FrSameRtoAlt = { association.retransmission = "fr-same-rto-alt" }
AllRtxSame = { association.retransmission = "all-rtx-same" }
AllRtxAlt = { association.retransmission = "all-rtx-alt" }
[figure]
x = "loss"
series = "policy"
y = "goodput_kbit_s"
[[claim]]
id = "slower"
kind = "value"
text = "losses take time"
formula = "transfer_time_s[loss=5 %] - transfer_time_s[loss=0 %]"
unit = "s"
at_least = -100
source = "common sense"
"#;

/// Examines a page in a frame narrower than any window can be, and writes the findings into the
/// document: windows have a minimum width, frames have none.
const LOOK: &str = r#"<!doctype html><meta charset="utf-8"><body>
<iframe style="border:0;width:WIDTHpx;height:900px" srcdoc="PAGE"></iframe>
<script>
addEventListener('load', () => {
  const page = document.querySelector('iframe').contentDocument;
  const all = name => [...page.querySelectorAll(name)];
  const box = element => element.getBoundingClientRect();
  const found = {
    width: page.documentElement.clientWidth,
    content: page.documentElement.scrollWidth,
    charts: all('svg').map(svg => [box(svg).left, box(svg).right]),
    curves: all('svg path[stroke-width="2"]').length,
    intervals: all('svg .interval').length,
    letters: Math.min(...all('svg').filter(svg => box(svg).width > 0).flatMap(svg => {
      const scale = box(svg).width / svg.viewBox.baseVal.width;
      const texts = [...svg.querySelectorAll('text')];
      return texts.map(text => scale * parseFloat(getComputedStyle(text).fontSize));
    })),
    largest: Math.max(...all('svg').filter(svg => box(svg).width > 0).flatMap(svg => {
      const scale = box(svg).width / svg.viewBox.baseVal.width;
      return [...svg.querySelectorAll('text')].map(text => scale * parseFloat(getComputedStyle(text).fontSize));
    })),
    covered: all('svg').filter(svg => box(svg).width > 0).flatMap(svg =>
      [...svg.querySelectorAll('text.label')].flatMap(label =>
        [...svg.querySelectorAll('text.tick')].filter(tick => {
          const [a, b] = [box(label), box(tick)];
          return a.left < b.right && b.left < a.right && a.top < b.bottom && b.top < a.bottom;
        }).map(tick => label.textContent + ' over ' + tick.textContent))),
    data: all('a[download]').map(link => decodeURIComponent(link.href.split(',').slice(1).join(','))),
    verdict: all('[data-of=verdict]').map(cell => [box(cell).right, cell.textContent]),
  };
  document.body.textContent = 'FOUND' + JSON.stringify(found) + 'FOUND';
});
</script>"#;

/// The findings of a browser in a page that is `width` pixels wide.
fn look(browser: &str, dir: &Path, page: &str, width: u32) -> Value {
    let escaped = page.replace('&', "&amp;").replace('"', "&quot;");
    let file = dir.join("look.html");
    fs::write(&file, LOOK.replace("WIDTH", &width.to_string()).replace("PAGE", &escaped)).unwrap();
    let output = Command::new(browser)
        // The browser does not sandbox root, the usual user in containers; the page is our own.
        .args(["--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"])
        // Scroll bars of phones take no room.
        .arg("--hide-scrollbars")
        .arg(format!("--user-data-dir={}", dir.join("profile").display()))
        .args(["--window-size=1400,900", "--virtual-time-budget=10000", "--dump-dom"])
        .arg(format!("file://{}", file.display()))
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    let found = text.split("FOUND").nth(1).unwrap_or_else(|| panic!("{output:?}"));
    serde_json::from_str(found).unwrap()
}

#[test]
fn a_report_is_readable_on_a_phone_and_on_a_desk() {
    let works = |name: &&str| Command::new(name).arg("--version").output().is_ok();
    let Some(browser) = ["chromium", "chromium-browser", "google-chrome"].into_iter().find(works)
    else {
        return common::skip("chromium");
    };
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("my.toml"), SCENARIO).unwrap();
    let report = Command::new(env!("CARGO_BIN_EXE_anabranch"))
        .current_dir(dir.path())
        .args(["lab", "report", "my.toml", "--html", "report.html"])
        .output()
        .unwrap();
    assert!(report.status.success(), "{report:?}");
    let page = fs::read_to_string(dir.path().join("report.html")).unwrap();
    for width in [390, 1280] {
        let found = look(browser, dir.path(), &page, width);
        assert_eq!(found["width"], width);
        assert!(found["content"].as_u64() <= Some(u64::from(width)), "{found}");
        // Only the first metric of a figure is unfolded.
        let shown: Vec<_> = found["charts"]
            .as_array()
            .unwrap()
            .iter()
            .map(|sides| (sides[0].as_f64().unwrap(), sides[1].as_f64().unwrap()))
            .filter(|(left, right)| right > left)
            .collect();
        assert_eq!(shown.len(), 1, "{found}");
        let (left, right) = shown[0];
        assert!(left >= 0.0 && right <= f64::from(width) && right - left > 300.0, "{found}");
        assert_eq!((&found["curves"], &found["intervals"]), (&3.into(), &6.into()), "{found}");
        assert!(found["letters"].as_f64() > Some(10.5), "{found}");
        assert!(found["largest"].as_f64() < Some(20.0), "{found}");
        assert_eq!(found["covered"], Value::Array(Vec::new()), "{found}");
        // The numbers can be downloaded: those of the curves, and those of the runs.
        let data: Vec<&str> =
            found["data"].as_array().unwrap().iter().filter_map(Value::as_str).collect();
        let lines: Vec<usize> = data.iter().map(|text| text.lines().count()).collect();
        assert_eq!(lines, [1 + 6, 1 + 6 * 3], "{found}");
        assert!(data[1].starts_with("loss (%),policy,run,seed,goodput_kbit_s"), "{found}");
        assert_eq!(found["verdict"][0][1], "holds");
        assert!(found["verdict"][0][0].as_f64() <= Some(f64::from(width)), "{found}");
    }
}
