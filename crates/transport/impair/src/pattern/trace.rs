//! Imports measurements from other programs as patterns.

use super::{Kind, PatternError, Runs, RunsBuilder};

/// Bits that one line of a trace allows to send.
const OPPORTUNITY_BITS: u64 = 1500 * 8;
/// Maximum length of a trace in milliseconds: a week.
const MOST_MS: u64 = 7 * 86_400_000;

/// Converts a mahimahi trace to a rate per millisecond. Each line is the time, in milliseconds from
/// the start of the trace, of an opportunity to send 1500 bytes. The last line is also the length
/// of the trace, after which mahimahi starts again.
///
/// # Errors
/// Fails if a line is not a number or less than the previous one, or if the file is empty.
pub fn mahimahi(text: &str) -> Result<Runs, PatternError> {
    let mut builder = RunsBuilder::default();
    let mut at_hand: Option<(u64, u64)> = None;
    for (index, line) in text.lines().enumerate() {
        let line = line.split('#').next().unwrap_or_default().trim();
        if line.is_empty() {
            continue;
        }
        let wrong = |reason: String| PatternError::new(reason).at_line(index + 1);
        let ms: u64 = line.parse().ok().filter(|ms| *ms <= MOST_MS).ok_or_else(|| {
            wrong(format!("'{line}' is not a number of milliseconds up to a week"))
        })?;
        // An opportunity at 0 also belongs to the first millisecond.
        let ms = ms.max(1);
        match &mut at_hand {
            Some((last, count)) if *last == ms => *count += 1,
            Some((last, _)) if *last > ms => {
                return Err(wrong(format!("{ms} comes after {last}: times do not go back")));
            }
            _ => {
                put(&mut builder, at_hand)?;
                at_hand = Some((ms, 1));
            }
        }
    }
    put(&mut builder, at_hand)?;
    if builder.is_empty() {
        return Err(PatternError::new("the trace is too short: it has no opportunity to send"));
    }
    Ok(builder.finish())
}

/// Adds the opportunities of a millisecond. An opportunity at time t belongs to the millisecond
/// that ends there, so that the packet has been sent by then.
fn put(builder: &mut RunsBuilder, at: Option<(u64, u64)>) -> Result<(), PatternError> {
    let Some((ms, count)) = at else { return Ok(()) };
    let rate = count.saturating_mul(OPPORTUNITY_BITS * 1000).min(crate::MAX_RATE) + 1;
    // The value 1 is a rate of zero.
    builder.push(1, (ms - 1).saturating_sub(builder.len()))?;
    builder.push(rate, 1)
}

/// Reads one column of a table whose cells are separated by commas, semicolons or tabs. Each row is
/// a packet or a millisecond. The first row may be a heading. `column` counts from 1.
///
/// # Errors
/// Fails if a row does not have the column or the value is invalid for the kind.
pub fn csv(
    kind: Kind,
    text: &str,
    column: usize,
    bits: &mut Vec<Vec<i64>>,
) -> Result<Runs, PatternError> {
    let mut builder = RunsBuilder::default();
    let mut first = true;
    for (index, line) in text.lines().enumerate() {
        if line.trim().is_empty() {
            continue;
        }
        let wrong = |reason: String| PatternError::new(reason).at_line(index + 1);
        let cell = line
            .split([',', ';', '\t'])
            .nth(column.saturating_sub(1))
            .ok_or_else(|| wrong(format!("there is no column {column}")))?;
        let cell = cell.trim().trim_matches('"').replace(' ', "");
        let read = match (kind, cell.as_str()) {
            // Tables often use 0 and 1.
            (Kind::Loss, "0" | "1") => Ok(u64::from(cell == "1")),
            _ => kind.read(if cell.is_empty() { "." } else { &cell }, bits),
        };
        match read {
            Ok(value) => builder.push(value, 1)?,
            Err(_) if first => {}
            Err(reason) => return Err(wrong(reason)),
        }
        first = false;
    }
    if builder.is_empty() {
        return Err(PatternError::new("the table is too short: it has no value"));
    }
    Ok(builder.finish())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trace_is_a_rate_per_millisecond() {
        let runs = mahimahi("0\n1\n4\n5\n5\n").unwrap();
        let expected = [(24_000_001, 1), (1, 2), (12_000_001, 1), (24_000_001, 1)];
        assert_eq!(runs.iter().collect::<Vec<_>>(), expected);
        for (text, place) in [("1\nx\n", "line 2"), ("5\n4\n", "line 2"), ("", "too short")] {
            let error = mahimahi(text).unwrap_err().to_string();
            assert!(error.contains(place), "{error}");
        }
    }

    #[test]
    fn a_column_of_a_table_is_a_pattern() {
        let mut bits = Vec::new();
        let runs = csv(Kind::Delay, "n,delay\n1,20 ms\n2,20ms\n3,\n", 2, &mut bits).unwrap();
        assert_eq!(runs.iter().collect::<Vec<_>>(), [(20_000_001, 2), (0, 1)]);
        let runs = csv(Kind::Loss, "0\n1\n", 1, &mut bits).unwrap();
        assert_eq!(runs.iter().collect::<Vec<_>>(), [(0, 1), (1, 1)]);
        let error = csv(Kind::Delay, "delay\n20ms\nx\n", 1, &mut bits).unwrap_err();
        assert!(error.to_string().starts_with("line 3: 'x'"), "{error}");
        assert!(csv(Kind::Loss, "a,b\n", 3, &mut bits).is_err());
        assert!(csv(Kind::Loss, "a,b\n", 1, &mut bits).is_err());
    }
}
