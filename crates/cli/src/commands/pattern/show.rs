//! `anabranch pattern show`.

use std::path::PathBuf;

use anabranch_impair::pattern::{Drawing, draw_svg, draw_text};
use clap::Args;

use crate::failure::Failure;
use crate::output::{print, width};

/// Draw patterns, as text or as a picture
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  anabranch pattern show radio.pattern
  anabranch pattern show radio.pattern --from 1000 --count 64
  anabranch pattern show radio.pattern --svg radio.svg")]
pub(crate) struct Show {
    /// A file of either format
    file: PathBuf,
    /// First packet (from 1) or millisecond (from 0) that is drawn
    #[arg(long, value_name = "NUMBER", default_value_t = 0)]
    from: u64,
    /// How many of them; otherwise all
    #[arg(long, value_name = "NUMBER", value_parser = super::new::number)]
    count: Option<u64>,
    /// Write a picture
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
}

impl Show {
    pub(crate) fn run(self) -> Result<(), Failure> {
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
            None => print(&draw_text(&patterns, &drawing)),
        }
    }
}
