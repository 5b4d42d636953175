//! The text format of patterns.

use std::fmt::Write as _;
use std::time::Duration;

use anabranch_units::{nanos, parse_time, write_time};

use super::{
    Action, Basis, DEFAULT_WAIT, End, Filter, Kind, Pattern, PatternError, Patterns, RunsBuilder,
    Start, Trigger,
};

/// The first line of a file.
const HEAD: &str = "anabranch pattern 1";
/// Maximum number of patterns in one file.
const MOST_PATTERNS: usize = 256;
/// Maximum number of triggers in one pattern.
const MOST_TRIGGERS: usize = 65_536;
/// Maximum width of a line of values.
const COLUMNS: usize = 92;

/// A pattern that is being read.
struct Draft {
    line: usize,
    pattern: Pattern,
    builder: RunsBuilder,
    in_values: bool,
    /// The keys that have occurred.
    keys: Vec<String>,
}

pub(super) fn read(text: &str) -> Result<Patterns, PatternError> {
    let mut lines = text.lines().enumerate().map(|(index, line)| (index + 1, strip(line)));
    let wrong = |line: usize, reason: String| PatternError::new(reason).at_line(line);
    match lines.by_ref().find(|(_, line)| !line.is_empty()) {
        Some((_, HEAD)) => {}
        Some((line, _)) => {
            return Err(wrong(line, format!("a pattern begins with the line '{HEAD}'")));
        }
        None => return Err(wrong(1, "the file is empty".into())),
    }
    let mut drafts: Vec<Draft> = Vec::new();
    for (number, line) in lines.filter(|(_, line)| !line.is_empty()) {
        let at = |error: PatternError| error.at_line(number);
        if let Some(rest) = line.strip_prefix("pattern ") {
            if drafts.len() == MOST_PATTERNS {
                return Err(wrong(number, format!("there are more than {MOST_PATTERNS} patterns")));
            }
            drafts.push(Draft::begin(number, rest).map_err(at)?);
            continue;
        }
        let Some(draft) = drafts.last_mut() else {
            let reason = "a pattern begins with a line such as 'pattern loss per packet'";
            return Err(wrong(number, reason.into()));
        };
        draft.take(line).map_err(at)?;
    }
    if drafts.is_empty() {
        return Err(wrong(text.lines().count().max(1), "the file has no pattern in it".into()));
    }
    let places: Vec<usize> = drafts.iter().map(|draft| draft.line).collect();
    let list = drafts.into_iter().map(Draft::finish).collect();
    Patterns::new(list).map_err(|error| match error.place() {
        super::Place::Pattern(index) => {
            let line = places.get(index).copied().unwrap_or(1);
            error.at_line(line)
        }
        _ => error,
    })
}

/// Removes the comment of a line. A command may contain the comment sign.
fn strip(line: &str) -> &str {
    let commented = if line.split_whitespace().nth(1) == Some("run")
        || line.split_whitespace().nth(2) == Some("run")
    {
        line
    } else {
        line.split('#').next().unwrap_or_default()
    };
    if line.trim_start().starts_with('#') { "" } else { commented.trim() }
}

impl Draft {
    fn begin(line: usize, rest: &str) -> Result<Self, PatternError> {
        let words: Vec<_> = rest.split_whitespace().collect();
        let (kind, basis) = match words[..] {
            [kind, "per", "packet"] => (kind, Basis::Packet),
            [kind, "per", "ms"] => (kind, Basis::Millisecond),
            _ => {
                let reason = "the form is 'pattern KIND per packet' or 'pattern KIND per ms'";
                return Err(PatternError::new(reason));
            }
        };
        let Some(kind) = Kind::parse(kind) else {
            let names = Kind::ALL.map(Kind::name).join(", ");
            return Err(PatternError::new(format!("'{kind}' is not a kind of pattern: {names}")));
        };
        let pattern = Pattern::new(kind, basis);
        Ok(Self {
            line,
            pattern,
            builder: RunsBuilder::default(),
            in_values: false,
            keys: Vec::new(),
        })
    }

    fn take(&mut self, line: &str) -> Result<(), PatternError> {
        if self.in_values {
            return match self.pattern.kind {
                Kind::Trigger => self.trigger(line),
                _ => self.values(line),
            };
        }
        let (key, rest) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
        let rest = rest.trim();
        if self.keys.iter().any(|known| known == key) {
            return Err(PatternError::new(format!("'{key}' is there twice")));
        }
        self.keys.push(key.to_owned());
        match key {
            "values" if rest.is_empty() => self.in_values = true,
            "name" if !rest.is_empty() => self.pattern.name = Some(rest.to_owned()),
            "filter" => self.pattern.filter = Filter::parse(rest).map_err(PatternError::new)?,
            "start" => self.pattern.start = start(rest)?,
            "end" => {
                self.pattern.end = match rest {
                    "stop" => End::Stop,
                    "hold" => End::Hold,
                    "repeat" => End::Repeat,
                    _ => return Err(PatternError::new("end is stop, hold or repeat")),
                };
            }
            "overtake" if self.pattern.kind == Kind::Delay => {
                self.pattern.overtake = match rest {
                    "yes" => true,
                    "no" => false,
                    _ => return Err(PatternError::new("overtake is yes or no")),
                };
            }
            "wait" if self.pattern.kind == Kind::Displace => {
                let wait = parse_time(rest).filter(|wait| *wait <= crate::MAX_SPAN);
                let reason = "wait is a time up to a day, as in 100 ms";
                self.pattern.wait = wait.map(nanos).ok_or_else(|| PatternError::new(reason))?;
            }
            "overtake" | "wait" => {
                let reason = format!("a {} pattern has no '{key}'", self.pattern.kind.name());
                return Err(PatternError::new(reason));
            }
            _ => {
                let reason = format!(
                    "'{line}' is not known: name, filter, start, end, overtake, wait, or values alone"
                );
                return Err(PatternError::new(reason));
            }
        }
        Ok(())
    }

    fn values(&mut self, line: &str) -> Result<(), PatternError> {
        for word in line.split_whitespace() {
            let (count, value) = match word.split_once('*') {
                Some((count, value)) => match count.parse::<u64>() {
                    Ok(count @ 1..) => (count, value),
                    _ => {
                        let reason = format!("'{count}' in '{word}' is not a count from 1");
                        return Err(PatternError::new(reason));
                    }
                },
                None => (1, word),
            };
            // Losses may be written without spaces: `...x..x`.
            let close = self.pattern.kind == Kind::Loss && count == 1 && value.len() > 1;
            if close && value.bytes().all(|byte| byte == b'.' || byte == b'x') {
                for byte in value.bytes() {
                    self.builder.push(u64::from(byte == b'x'), 1)?;
                }
                continue;
            }
            let value = self.pattern.kind.read(value, &mut self.pattern.bits);
            let value = value.map_err(PatternError::new)?;
            self.pattern
                .kind
                .check(value, self.pattern.basis, self.pattern.bits.len())
                .map_err(PatternError::new)?;
            self.builder.push(value, count)?;
        }
        Ok(())
    }

    fn trigger(&mut self, line: &str) -> Result<(), PatternError> {
        let (at, action) = match self.pattern.basis {
            Basis::Packet => {
                let (at, action) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
                (at.parse().ok().filter(|number: &u64| *number > 0), action)
            }
            Basis::Millisecond => {
                // A space may separate the unit from the number.
                let (at, action) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
                match parse_time(at) {
                    Some(at) => (Some(nanos(at)), action),
                    None => {
                        let (unit, action) =
                            action.trim().split_once(char::is_whitespace).unwrap_or(("", ""));
                        (parse_time(&format!("{at} {unit}")).map(nanos), action)
                    }
                }
            }
        };
        let Some(at) = at else {
            let reason = match self.pattern.basis {
                Basis::Packet => "the form is 'NUMBER ACTION', numbers counting from 1",
                Basis::Millisecond => "the form is 'TIME ACTION', as in '2.5s cut'",
            };
            return Err(PatternError::new(format!("'{line}': {reason}")));
        };
        if self.pattern.triggers.last().is_some_and(|last| last.at > at) {
            return Err(PatternError::new(format!("'{line}' stands after what comes later")));
        }
        if self.pattern.triggers.len() == MOST_TRIGGERS {
            return Err(PatternError::new(format!("there are more than {MOST_TRIGGERS} triggers")));
        }
        let action = Action::parse(action.trim()).map_err(PatternError::new)?;
        self.pattern.triggers.push(Trigger { at, action });
        Ok(())
    }

    fn finish(mut self) -> Pattern {
        self.pattern.values = self.builder.finish();
        self.pattern
    }
}

fn start(text: &str) -> Result<Start, PatternError> {
    let words: Vec<_> = text.split_whitespace().collect();
    match words[..] {
        ["first"] => Ok(Start::First),
        ["switch"] => Ok(Start::Switch),
        ["packet", number] => match number.parse() {
            Ok(number @ 1..) => Ok(Start::Packet(number)),
            _ => {
                Err(PatternError::new(format!("'{number}' is not the number of a packet, from 1")))
            }
        },
        ["at", ..] => match parse_time(text.trim_start_matches("at").trim()) {
            Some(time) => Ok(Start::At(nanos(time))),
            None => Err(PatternError::new(format!("'{text}' has no time, as in 'at 2.5s'"))),
        },
        _ => Err(PatternError::new("start is first, packet NUMBER, at TIME or switch")),
    }
}

pub(super) fn write(patterns: &Patterns) -> String {
    if patterns.is_empty() {
        return String::new();
    }
    let mut text = format!("{HEAD}\n");
    for pattern in patterns.list() {
        write_pattern(&mut text, pattern);
    }
    text
}

fn time(nanos: u64) -> String {
    write_time(Duration::from_nanos(nanos)).replace(' ', "")
}

fn write_pattern(text: &mut String, pattern: &Pattern) {
    let basis = match pattern.basis {
        Basis::Packet => "packet",
        Basis::Millisecond => "ms",
    };
    let mut line = |line: String| {
        text.push_str(&line);
        text.push('\n');
    };
    line(String::new());
    line(format!("pattern {} per {basis}", pattern.kind.name()));
    if let Some(name) = &pattern.name {
        line(format!("name {name}"));
    }
    if !pattern.filter.is_any() {
        line(format!("filter {}", pattern.filter));
    }
    match pattern.start {
        Start::First => {}
        Start::Packet(number) => line(format!("start packet {number}")),
        Start::At(at) => line(format!("start at {}", time(at))),
        Start::Switch => line("start switch".into()),
    }
    match pattern.end {
        End::Stop => {}
        End::Hold => line("end hold".into()),
        End::Repeat => line("end repeat".into()),
    }
    if pattern.overtake {
        line("overtake yes".into());
    }
    if pattern.wait != DEFAULT_WAIT {
        line(format!("wait {}", time(pattern.wait)));
    }
    line("values".into());
    for trigger in &pattern.triggers {
        let at = match pattern.basis {
            Basis::Packet => trigger.at.to_string(),
            Basis::Millisecond => time(trigger.at),
        };
        line(format!("  {at} {}", trigger.action.write()));
    }
    write_values(text, pattern);
}

fn write_values(text: &mut String, pattern: &Pattern) {
    let mut width = 0;
    for (value, count) in pattern.values.iter() {
        let value = pattern.kind.write(value, &pattern.bits);
        let word = match count {
            1 => value,
            // Repeating the letter is shorter than a count.
            2 | 3 if value.len() == 1 && pattern.kind == Kind::Loss => {
                value.repeat(usize::try_from(count).unwrap_or(1))
            }
            count => format!("{count}*{value}"),
        };
        if width > 0 && width + 1 + word.len() > COLUMNS {
            text.push('\n');
            width = 0;
        }
        // Writing to a string never fails.
        let _ = write!(text, "{}{word}", if width == 0 { "  " } else { " " });
        width += word.len() + 1 + usize::from(width == 0);
    }
    if width > 0 {
        text.push('\n');
    }
}
