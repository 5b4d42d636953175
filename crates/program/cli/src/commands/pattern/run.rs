//! Draws a run of the emulator from its log: the fate of each packet.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::io::{self, BufRead};

use anabranch_units::next_line;

const WIDTH: f64 = 720.0;
const HEIGHT: f64 = 110.0;
const LEFT: f64 = 20.0;
/// Number of columns: one for each unit of the width.
const COLUMNS: usize = 720;
/// Maximum number of late packets drawn individually; further ones are only counted.
const MOST_LATE: usize = 2000;

/// Maximum number of directions: a network has at most 250 links.
const MOST_WAYS: usize = 500;
/// Maximum length of a line in bytes.
const MOST: u64 = 1 << 16;

/// The beginning of a log in the form that can be drawn.
pub(super) const HEAD: &[u8] = b"# anabranch fates ";

/// A line about a packet.
struct Line<'a> {
    way: &'a str,
    entered: u64,
    left: Option<u64>,
    lost: bool,
    late: bool,
}

impl<'a> Line<'a> {
    fn read(line: &'a str) -> Option<Self> {
        let words: Vec<&str> = line.split(' ').collect();
        let [way, _, _, _, entered, left, _, fate, _, effects, _] = words[..] else { return None };
        let left = match left {
            "-" => None,
            time => Some(time.parse().ok()?),
        };
        Some(Self {
            way,
            entered: entered.parse().ok()?,
            left,
            lost: fate == "lost",
            late: effects.split(',').any(|effect| effect == "late"),
        })
    }
}

/// One direction of a link.
#[derive(Default)]
struct Way {
    name: String,
    title: String,
    packets: u64,
    lost: u64,
    late: u64,
    /// Longest time on the link, in nanoseconds.
    most: u64,
    columns: Vec<Column>,
    /// Packets that were overtaken: when each entered the link, and how long it stayed.
    overtaken: Vec<(u64, u64)>,
}

#[derive(Clone, Copy, Default)]
struct Column {
    packets: u64,
    lost: u64,
    /// Shortest and longest time on the link.
    times: Option<(u64, u64)>,
}

/// Draws a log; `open` opens it at its beginning and is called twice.
pub(super) fn draw<R: BufRead>(open: impl Fn() -> io::Result<R>) -> io::Result<String> {
    let mut last = 1;
    each(open()?, |_, line| last = last.max(line.map_or(0, |line| line.entered)))?;
    let mut ways = Ways::default();
    each(open()?, |text, line| match line {
        Some(line) => ways.take(&line, last),
        // `# sat> is sat: client to server`
        None => {
            let said = text.strip_prefix("# ").and_then(|text| text.split_once(" is "));
            let said = said.filter(|(way, _)| way.ends_with(['<', '>']));
            if let Some((way, title)) =
                said.and_then(|(way, title)| Some((ways.named(way)?, title)))
            {
                way.title = title.to_owned();
            }
        }
    })?;
    if ways.are_too_many {
        return Err(damaged(format!("it names more than {MOST_WAYS} ways")));
    }
    let block = HEIGHT + 62.0;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {:.0} {:.0}\" font-family=\"sans-serif\" \
         font-size=\"12\">\n<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n",
        WIDTH + 2.0 * LEFT,
        block * ways.list.len() as f64 + 10.0
    );
    for (index, way) in ways.list.iter().enumerate() {
        way.draw(&mut svg, last, 10.0 + block * index as f64);
    }
    svg.push_str("</svg>\n");
    Ok(svg)
}

/// Calls `take` with each line, and with its parsed form if it is about a packet.
fn each(mut log: impl BufRead, mut take: impl FnMut(&str, Option<Line<'_>>)) -> io::Result<()> {
    for number in 1.. {
        let of_line = |reason: String| damaged(format!("line {number}: {reason}"));
        let Some(text) = next_line(&mut log, MOST).map_err(|error| of_line(error.to_string()))?
        else {
            break;
        };
        let line = Line::read(&text);
        if line.is_none() && !text.starts_with('#') {
            return Err(of_line(
                "a packet has eleven words, with its times in nanoseconds".to_owned(),
            ));
        }
        take(&text, line);
    }
    Ok(())
}

fn damaged(reason: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, reason)
}

/// All directions of links, in the order in which the log names them.
#[derive(Default)]
struct Ways {
    list: Vec<Way>,
    by_name: HashMap<String, usize>,
    are_too_many: bool,
}

impl Ways {
    fn take(&mut self, line: &Line<'_>, last: u64) {
        if let Some(way) = self.named(line.way) {
            way.take(line, last);
        }
    }

    /// The direction with this name; `None` if there are more than a network can have.
    fn named(&mut self, name: &str) -> Option<&mut Way> {
        let next = self.list.len();
        let index = match self.by_name.get(name) {
            Some(index) => *index,
            None if next == MOST_WAYS => {
                self.are_too_many = true;
                return None;
            }
            None => {
                self.by_name.insert(name.to_owned(), next);
                self.list.push(Way { name: name.to_owned(), ..Way::default() });
                next
            }
        };
        self.list.get_mut(index)
    }
}

impl Way {
    fn take(&mut self, line: &Line<'_>, last: u64) {
        self.columns.resize(COLUMNS, Column::default());
        let at = u128::from(line.entered) * COLUMNS as u128 / (u128::from(last) + 1);
        let Some(column) = self.columns.get_mut(at as usize) else { return };
        self.packets += 1;
        self.lost += u64::from(line.lost);
        self.late += u64::from(line.late);
        column.packets += 1;
        column.lost += u64::from(line.lost);
        let Some(time) = line.left.map(|left| left.saturating_sub(line.entered)) else { return };
        self.most = self.most.max(time);
        let (least, most) = column.times.unwrap_or((time, time));
        column.times = Some((least.min(time), most.max(time)));
        if line.late && self.overtaken.len() < MOST_LATE {
            self.overtaken.push((line.entered, time));
        }
    }

    fn draw(&self, svg: &mut String, last: u64, top: f64) {
        let (roof, base) = (top + 22.0, top + 22.0 + HEIGHT);
        let title = format!(
            "{} {}: {} packets, {} lost, {} late",
            self.name, self.title, self.packets, self.lost, self.late
        );
        let title = title.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
        let _ = writeln!(svg, "<text x=\"{LEFT}\" y=\"{:.1}\">{title}</text>", top + 14.0);
        let _ = writeln!(
            svg,
            "<rect x=\"{LEFT}\" y=\"{roof:.1}\" width=\"{WIDTH}\" height=\"{HEIGHT}\" fill=\"#f4f4f0\"/>"
        );
        // Leave some room above the longest time.
        let height = |time: u64| time as f64 / self.most.max(1) as f64 * HEIGHT * 0.85;
        for (index, column) in self.columns.iter().enumerate() {
            let x = LEFT + index as f64 * WIDTH / COLUMNS as f64;
            if let Some((least, most)) = column.times {
                let (y, tall) = (base - height(most), (height(most) - height(least)).max(1.5));
                let _ = writeln!(
                    svg,
                    "<rect x=\"{x:.1}\" y=\"{:.1}\" width=\"1\" height=\"{tall:.1}\" fill=\"#2b6ca3\"/>",
                    y.min(base - tall)
                );
            }
            if column.lost > 0 {
                let tall = HEIGHT * (column.lost as f64 / column.packets as f64).max(0.1);
                let _ = writeln!(
                    svg,
                    "<rect x=\"{x:.1}\" y=\"{roof:.1}\" width=\"1.5\" height=\"{tall:.1}\" fill=\"#b3402e\"/>"
                );
            }
        }
        for (entered, time) in &self.overtaken {
            let x = LEFT + WIDTH * (*entered as f64 / last as f64);
            let y = base - height(*time);
            let _ = writeln!(svg, "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"2\" fill=\"#e09020\"/>");
        }
        let scale = format!(
            "time on the link, up to {:.1} ms; red: lost, of each column; orange: late",
            self.most as f64 / 1e6
        );
        let end = format!("{:.2} s", last as f64 / 1e9);
        for (x, anchor, label) in [
            (LEFT, "start", "0 s"),
            (LEFT + WIDTH, "end", end.as_str()),
            (LEFT + WIDTH / 2.0, "middle", scale.as_str()),
        ] {
            let _ = writeln!(
                svg,
                "<text x=\"{x:.1}\" y=\"{:.1}\" text-anchor=\"{anchor}\">{label}</text>",
                base + 16.0
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOG: &str = "# anabranch fates 1\n# seed 7\n# sat> is sat: a to b\n# sat< is sat: b to a\n\
        # way packet flow index in_ns out_ns size fate by effects place\n\
        sat> 1 udp,10.0.0.1:1,10.0.0.2:2 1 1000000 21000000 60 passed link - -\n\
        sat> 2 udp,10.0.0.1:1,10.0.0.2:2 2 2000000 - 60 lost model - -\n\
        sat> 3 udp,10.0.0.1:1,10.0.0.2:2 3 3000000 43000000 60 passed link displaced=1,late -\n\
        # end\n";

    #[test]
    fn each_way_has_its_packets() {
        let svg = draw(|| Ok(LOG.as_bytes())).unwrap();
        assert!(svg.contains("sat&gt; sat: a to b: 3 packets, 1 lost, 1 late"), "{svg}");
        assert!(svg.contains("sat&lt; sat: b to a: 0 packets"), "{svg}");
        assert!(svg.contains("up to 40.0 ms"), "{svg}");
        assert_eq!(svg.matches("#b3402e").count(), 1);
        assert_eq!(svg.matches("<circle").count(), 1);
        assert_eq!(svg.matches("#2b6ca3").count(), 2);
        assert!(svg.starts_with("<svg") && svg.ends_with("</svg>\n"));
    }

    #[test]
    fn damaged_lines_are_named() {
        let said = |log: &str| draw(|| Ok(log.as_bytes())).unwrap_err().to_string();
        assert!(said("# anabranch fates 1\nx\n").starts_with("line 2: "));
        assert!(said("sat> 1 - 1 x - 1 lost - - -\n").starts_with("line 1: "));
        assert!(said("sat> 1 - 1 1 x 1 passed - - -\n").starts_with("line 1: "));
        assert!(said("#\nsat> 1 - 1 1 - 1 lost - - -").contains("cut off"));
        assert!(draw(|| Ok(&b"\xff\n"[..])).is_err());
        let many = |ways: usize| -> String {
            (0..ways).map(|way| format!("w{way}> 1 - 1 1 - 1 lost - - -\n")).collect()
        };
        let enough = many(MOST_WAYS);
        assert!(draw(|| Ok(enough.as_bytes())).is_ok());
        assert!(said(&many(MOST_WAYS + 1)).contains("more than 500 ways"));
    }
}
