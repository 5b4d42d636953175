//! `anabranch lab gain`.

use std::path::PathBuf;

use anabranch_lab::gain::{self, Conditions, Gain as At, Search};
use anabranch_lab::runner::{Results, Runner};
use anabranch_lab::units::{Kind, Quantity, write};
use clap::Args;
use serde_json::{Value, json};

use super::progress::Progress;
use super::session::{self, RunOptions};
use crate::failure::Failure;
use crate::output;

/// Find the loss rates at which NR-SACKs raise the throughput of a path
///
/// The region of gain is the interval of loss rates in which the gain is at least --least. A
/// transfer of unordered messages over one path is simulated with SACKs and with NR-SACKs, first at
/// losses from 0.001 to 65 %, doubling each time, then closer and closer to the edges.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  anabranch lab gain --rate 100Mb/s --delay 45ms --buffer 33kB
  anabranch lab gain --rate 1Gb/s --delay 5ms --buffer 134kB --size 100MB --least 10% --json -")]
pub(crate) struct Gain {
    /// Rate of the path, such as 100Mb/s
    #[arg(long, value_name = "RATE", value_parser = rate)]
    rate: f64,
    /// Delay of the path, one way, such as 45ms
    #[arg(long, value_name = "TIME", value_parser = time)]
    delay: f64,
    /// Send buffer, including the bookkeeping of chunks
    #[arg(long, value_name = "SIZE", value_parser = buffer)]
    buffer: f64,
    /// The smallest gain that counts
    #[arg(long, value_name = "SHARE", default_value = "5%", value_parser = share)]
    least: f64,
    /// Size of the transfer; at most its first hour is measured
    #[arg(long, value_name = "SIZE", default_value = "20MB", value_parser = size)]
    size: f64,
    #[command(flatten)]
    options: RunOptions,
    /// Write JSON to this file, or to standard output if it is '-'
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

fn quantity(text: &str, kind: Kind, least: f64, most: f64) -> Result<f64, String> {
    // Files want a space before the unit, which would need quoting in a shell.
    let unit = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(unit);
    let spaced = format!("{number} {}", unit.trim());
    Quantity::expect(spaced.trim(), kind, least, most)
}

fn rate(text: &str) -> Result<f64, String> {
    quantity(text, Kind::Rate, 1e3, 1e12)
}

fn time(text: &str) -> Result<f64, String> {
    quantity(text, Kind::Time, 0.0, 60e9)
}

fn buffer(text: &str) -> Result<f64, String> {
    quantity(text, Kind::Size, 3000.0, 1e9)
}

fn size(text: &str) -> Result<f64, String> {
    quantity(text, Kind::Size, 1e4, 1e12)
}

fn share(text: &str) -> Result<f64, String> {
    quantity(text, Kind::Share, 0.0, 100.0)
}

impl Gain {
    pub(super) async fn run(self) -> Result<(), Failure> {
        crate::outputs::check(&[("--json", self.json.as_deref())])?;
        let conditions =
            Conditions { rate: self.rate, delay: self.delay, buffer: self.buffer, size: self.size };
        let least = self.least * 100.0;
        let seeds = self.options.seeds.map(|seeds| seeds as usize);
        let search = self
            .options
            .with_runner(move |runner, progress| {
                gain::search(least, |losses| measure(&conditions, losses, seeds, runner, progress))
            })
            .await?;
        if let Some(file) = &self.json {
            session::write_json(file, &report(&conditions, least, &search))?;
            if file.as_os_str() == "-" {
                return Ok(());
            }
        }
        output::print(&output::filled(&text(least, &search)))
    }
}

fn measure(
    conditions: &Conditions,
    losses: &[f64],
    seeds: Option<usize>,
    runner: &Runner<'_>,
    progress: &Progress,
) -> Result<Vec<At>, Failure> {
    let scenario = gain::scenario(conditions, losses)
        .map_err(|problem| Failure::usage(format!("these conditions: {}", problem.reason)))?;
    progress.title(&match losses {
        [one] => format!("loss of {}", percent(*one)),
        several => format!("{} losses", several.len()),
    });
    let mut results: Results = runner.load(&scenario).map_err(session::failed)?;
    if let Some(seeds) = seeds {
        results.points.iter_mut().for_each(|runs| runs.truncate(seeds));
    }
    let done = runner.complete(&scenario, &mut results, seeds);
    progress.finish();
    done.map_err(session::failed)?;
    Ok(gain::gains(&scenario, &results, losses))
}

/// A loss rate in percent, with three digits.
fn percent(loss: f64) -> String {
    let value = loss * 100.0;
    let digits = (2.0 - value.log10().floor()).clamp(0.0, 6.0) as usize;
    format!("{value:.digits$} %")
}

fn text(least: f64, search: &Search) -> String {
    let mut rows = vec![vec!["loss".to_owned(), "gain".to_owned()]];
    for gain in &search.gains {
        let half = gain.percent.half().map_or_else(String::new, |half| format!(" ±{half:.1}"));
        rows.push(vec![percent(gain.loss), format!("{:.1}{half} %", gain.percent.value)]);
    }
    let mut text = output::table(&rows);
    text.push('\n');
    if let Some(region) = &search.region {
        let (or_less, or_more) = (
            if region.open_below { " or less" } else { "" },
            if region.open_above { " or more" } else { "" },
        );
        text.push_str(&format!(
            "NR-SACKs gain at least {least} % at losses from {}{or_less} to {}{or_more}",
            percent(region.from),
            percent(region.to)
        ));
    } else {
        text.push_str(&format!("NR-SACKs gain {least} % at no loss"));
    }
    if let Some(peak) = search.peak() {
        let (value, loss) = (peak.percent.value, percent(peak.loss));
        text.push_str(&format!("; the largest gain is {value:.0} %, at {loss}"));
    }
    text + "\n"
}

fn report(conditions: &Conditions, least: f64, search: &Search) -> Value {
    let gains: Vec<Value> = search
        .gains
        .iter()
        .map(|gain| {
            json!({
                "loss_percent": gain.loss * 100.0,
                "gain_percent": gain.percent.value,
                "ci90": gain.percent.half(),
                "n": gain.percent.n,
            })
        })
        .collect();
    let region = search.region.map(|region| {
        json!({
            "from_percent": region.from * 100.0,
            "to_percent": region.to * 100.0,
            "open_below": region.open_below,
            "open_above": region.open_above,
        })
    });
    json!({
        "rate": write(Kind::Rate, conditions.rate),
        "delay": write(Kind::Time, conditions.delay),
        "buffer": write(Kind::Size, conditions.buffer),
        "size": write(Kind::Size, conditions.size),
        "least_percent": least,
        "region": region,
        "gains": gains,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities_need_no_space() {
        assert_eq!(rate("100Mb/s"), Ok(1e8));
        assert_eq!(time("45 ms"), Ok(45e6));
        assert_eq!(buffer("32KiB"), Ok(32768.0));
        assert_eq!(share("5%"), Ok(0.05));
        for wrong in ["", "Mb/s", "10", "10ms", "-1Mb/s"] {
            assert!(rate(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn losses_have_three_digits() {
        for (loss, text) in [(1e-5, "0.00100 %"), (0.0123, "1.23 %"), (0.65536, "65.5 %")] {
            assert_eq!(percent(loss), text);
        }
    }
}
