//! Claims that no run of a document's scenarios shows, but a test does; and the recommendations of
//! the decision tree.

use std::fmt::Write as _;
use std::path::Path;
use std::time::Duration;

use anabranch_chart::escape;

use super::Section;
use crate::advise::{Conditions, Routing, advise};
use crate::elsewhere;

/// The list of the document that a section belongs to, if there is one.
pub(super) fn shown(body: &mut String, section: &Section) -> std::fmt::Result {
    let directory = section.scenario.file.parent().unwrap_or(Path::new(""));
    let claims = match elsewhere::read(directory) {
        Ok(claims) if claims.is_empty() => return Ok(()),
        Ok(claims) => claims,
        Err(reason) => return writeln!(body, "<p class=\"differs\">{}</p>", escape(&reason)),
    };
    let document = escape(section.scenario.document());
    writeln!(
        body,
        "<section id=\"{document}-tests\"><h2>{document}: what tests show</h2>\
         <p>Time lines, equations and trees need no runs: each is a test of the project.</p>\
         <div class=\"wide\"><table><tr><th>claim</th><th>test</th></tr>"
    )?;
    for claim in &claims {
        writeln!(
            body,
            "<tr><td>{}<br><small>{}; {}</small></td><td data-of=\"test\"><code>{}</code> in {}</td></tr>",
            escape(&claim.text),
            escape(&claim.id),
            escape(&claim.source),
            escape(&claim.test),
            escape(&claim.file),
        )?;
    }
    writeln!(body, "</table></div>")?;
    if claims.iter().any(|claim| claim.file.ends_with("advise.rs")) {
        advice(body)?;
    }
    writeln!(body, "</section>")
}

/// The tree's recommendations for conditions that lead to each of its leaves.
fn advice(body: &mut String) -> std::fmt::Result {
    let reactive = |cache, discovery| {
        let time = |ms: u64| Some(Duration::from_millis(ms));
        Some(Routing::Reactive { cache: time(cache), discovery: time(discovery) })
    };
    let loss = Some(0.05);
    let conditions = [
        ("1 % loss", Some(0.01), None, None),
        ("5 % loss, an alternate RTT of 12 times the primary's", loss, Some(12.0), None),
        ("5 % loss, an alternate RTT of 5 times the primary's", loss, Some(5.0), None),
        ("5 % loss, equal delays, routing not known", loss, Some(1.0), None),
        ("5 % loss, equal delays, proactive routing", loss, Some(1.0), Some(Routing::Proactive)),
        ("reactive routing, cache 10 s, discovery 1 s", loss, Some(1.0), reactive(10_000, 1000)),
        ("reactive routing, cache 10 s, discovery 0.1 s", loss, Some(1.0), reactive(10_000, 100)),
        ("reactive routing, cache 1 s, discovery 0.1 s", loss, Some(1.0), reactive(1000, 100)),
        ("reactive routing, cache 1 s, discovery 1 s", loss, Some(1.0), reactive(1000, 1000)),
    ];
    writeln!(
        body,
        "<h3>The decision tree (<code>anabranch advise</code>)</h3><div class=\"wide\"><table>\
         <tr><th>conditions</th><th>choice</th><th>why</th></tr>"
    )?;
    for (name, loss, rtt_ratio, routing) in conditions {
        let advice = advise(&Conditions { loss, rtt_ratio, routing });
        let choice = match advice.choice {
            Some(choice) => {
                format!("{:?}, PMR {}", choice.retransmission, choice.path_max_retrans)
            }
            None => "no recommendation".to_owned(),
        };
        writeln!(
            body,
            "<tr><td>{}</td><td data-of=\"choice\">{}</td><td data-of=\"why\">{}</td></tr>",
            escape(name),
            escape(&choice),
            escape(&advice.path.join("; "))
        )?;
    }
    writeln!(body, "</table></div>")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tree_is_walked() {
        let mut body = String::new();
        advice(&mut body).unwrap();
        assert!(
            body.contains("FrSameRtoAlt, PMR 0") && body.contains("AllRtxSame, PMR 1"),
            "{body}"
        );
        assert!(body.contains("no recommendation") && body.matches("<tr>").count() == 10);
    }
}
