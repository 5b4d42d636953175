//! The page around charts and reports, with a light and a dark style.

use super::{Chart, escape};

/// Colours of curves on light and dark paper. They are distinguishable for colour-blind people, and
/// their lightness alternates.
#[derive(Clone, Copy, Debug)]
struct Colors;

impl Colors {
    const LIGHT: [&str; 8] =
        ["#0060a8", "#c24e00", "#00805c", "#a8327a", "#7a5c00", "#3a8fc4", "#8a3a28", "#4d4d4d"];
    const DARK: [&str; 8] =
        ["#5db2f0", "#f08c3c", "#35c79a", "#e07fb8", "#e0c04a", "#9ccbe8", "#e39a84", "#bcbcbc"];

    fn variables(colors: [&str; 8]) -> String {
        colors.iter().enumerate().map(|(index, color)| format!("--c{index}:{color};")).collect()
    }
}

const STYLE: &str = "
*{box-sizing:border-box}
body{margin:0 auto;padding:1rem;max-width:76rem;background:var(--paper);color:var(--ink);
font:16px/1.5 system-ui,sans-serif}
h1{font-size:1.5rem}h2{font-size:1.2rem;margin-top:2.5rem;border-top:1px solid var(--grid);padding-top:1rem}
a{color:var(--c0)}
nav ul{padding-left:1.2rem}
.charts{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(100%,21rem),1fr));gap:1rem}
figure{margin:0;min-width:0;max-width:30rem}.large{max-width:none}figcaption{font-size:.9rem;color:var(--muted)}
svg{width:100%;height:auto;display:block}
.large{overflow-x:auto}.large svg{min-width:56rem}
svg text{font:13px system-ui,sans-serif;fill:var(--ink)}
svg text.tick{font-size:12.5px;fill:var(--muted)}
svg .grid{stroke:var(--grid);stroke-width:1}
svg .axis{stroke:var(--muted);stroke-width:1}
svg .interval{fill:none;stroke-width:1.1}
summary{cursor:pointer;font-size:.95rem;margin:.5rem 0}
pre{overflow-x:auto;background:var(--soft);padding:.4rem .6rem;font-size:.85rem}
.wide{overflow-x:auto}
table{border-collapse:collapse;font-size:.9rem;width:100%}
th,td{text-align:left;vertical-align:top;padding:.3rem .6rem;border-bottom:1px solid var(--grid)}
td:first-child{min-width:14rem}
small,.source{color:var(--muted)}
.holds{color:var(--good)}.differs{color:var(--bad);font-weight:600}.open,.fitted{color:var(--muted)}
.reason{background:var(--soft)}
h2,p,figcaption,td,li,summary{overflow-wrap:anywhere}
@media (max-width:44rem){
table,tbody,tr,td{display:block}
tr:has(th){display:none}
tr{border-bottom:1px solid var(--grid);padding:.5rem 0}
td{border:0;padding:.1rem 0;min-width:0}
td:empty{display:none}
td[data-of]::before{content:attr(data-of) ': ';color:var(--muted);font-weight:400}
.reason{padding:.4rem .6rem}
}
";

/// Other colours on light and dark paper.
const LIGHT: &str = "--paper:#fff;--ink:#1c1c1c;--muted:#5c5c5c;--grid:#dcdcdc;--soft:#f4f4f4;\
                     --good:#006b3c;--bad:#b3261e;";
const DARK: &str = "--paper:#15171a;--ink:#e8e8e8;--muted:#a6a6a6;--grid:#3a3d42;--soft:#202327;\
                    --good:#6fd39a;--bad:#ff8a80;";

/// A chart as a separate file on white paper.
pub fn picture(chart: &Chart) -> String {
    let lines = STYLE.lines().filter(|line| line.starts_with("svg "));
    let style: String = lines.map(|line| line.trim_start_matches("svg ")).collect();
    chart.svg().replacen("<svg", "<svg xmlns=\"http://www.w3.org/2000/svg\"", 1).replacen(
        '>',
        &format!(
            "><style>:root{{{LIGHT}{}}}{style}</style>\
             <rect width=\"100%\" height=\"100%\" fill=\"var(--paper)\"/>",
            Colors::variables(Colors::LIGHT),
        ),
        1,
    )
}

/// A complete page with a title and an HTML body.
pub fn page(title: &str, body: &str) -> String {
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <title>{}</title>\n<style>\n\
         :root{{color-scheme:light dark;{LIGHT}{}}}\n\
         @media (prefers-color-scheme:dark){{:root{{{DARK}{}}}}}{STYLE}</style>\n\
         </head>\n<body>\n{body}</body>\n</html>\n",
        escape(title),
        Colors::variables(Colors::LIGHT),
        Colors::variables(Colors::DARK),
    )
}
