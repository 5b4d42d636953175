//! `anabranch pattern show`.

use std::fs::File;
use std::io::{BufReader, Read as _};
use std::path::PathBuf;

use anabranch_impair::pattern::{Drawing, draw_svg, draw_text};
use clap::Args;

use super::run;
use crate::failure::Failure;
use crate::output::{filled, print, width};

/// Draw patterns, as text or as a picture
///
/// Also draws a log of the emulator, as a picture: how long packets were on each link, and which were lost or late.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  anabranch pattern show radio.pattern
  anabranch pattern show radio.pattern --from 1000 --count 64
  anabranch pattern show radio.pattern --svg radio.svg
  anabranch pattern show fates.log --svg run.svg")]
pub(crate) struct Show {
    /// A file of either format, or a log
    file: PathBuf,
    /// First packet (from 1) or millisecond (from 0) to draw
    #[arg(long, value_name = "NUMBER", default_value_t = 0)]
    from: u64,
    /// How many of them to draw [default: all]
    #[arg(long, value_name = "NUMBER", value_parser = super::new::number)]
    count: Option<u64>,
    /// Write a picture
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
}

impl Show {
    pub(crate) fn run(self) -> Result<(), Failure> {
        if self.is_log() {
            return self.draw_log();
        }
        let patterns = super::read(&self.file)?;
        let columns = width().unwrap_or(80).clamp(24, 200) - 16;
        // Packets count from 1, positions in a pattern from 0.
        let packets = patterns
            .list()
            .iter()
            .any(|pattern| pattern.basis == anabranch_impair::pattern::Basis::Packet);
        let from = if packets { self.from.saturating_sub(1) } else { self.from };
        let drawing = Drawing { from, count: self.count, columns };
        match self.svg {
            Some(path) => super::save(&path, draw_svg(&patterns, &drawing).as_bytes()),
            None => {
                // The width of a drawing is fixed; its title may be longer.
                let text = draw_text(&patterns, &drawing);
                let lines = text.lines().map(|line| match line.starts_with(' ') {
                    true => format!("{line}\n"),
                    false => filled(line),
                });
                print(&lines.collect::<String>())
            }
        }
    }

    fn is_log(&self) -> bool {
        let mut head = [0; run::HEAD.len()];
        File::open(&self.file).is_ok_and(|mut file| file.read_exact(&mut head).is_ok())
            && head == run::HEAD
    }

    fn draw_log(&self) -> Result<(), Failure> {
        let Some(out) = &self.svg else {
            return Err(Failure::usage("a log is drawn as a picture: --svg FILE"));
        };
        let drawn = run::draw(|| Ok(BufReader::new(File::open(&self.file)?)));
        let name = self.file.display();
        let svg = drawn
            .map_err(|error| Failure::failed(format!("the log {name} cannot be read: {error}")))?;
        super::save(out, svg.as_bytes())
    }
}
