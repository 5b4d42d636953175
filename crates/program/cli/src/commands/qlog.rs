//! `anabranch qlog`.

mod text;

use std::fs::File;
use std::io::BufReader;
use std::path::{Path, PathBuf};

use anabranch_qlog_reader::{Converter, Ended, Reader, Stories, html, left_out};
use clap::Args;

use self::text::text;
use crate::failure::{Failure, complain};
use crate::output::print;

/// Read a log of events: windows, round trips, losses and their causes, states of paths
///
/// The commands that send and receive write such a log with --qlog, and 'lab trace' writes one of a
/// simulated run; docs/qlog.md describes its content. A truncated or damaged log is read as far as
/// possible (exit code 1).
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  anabranch get sctp://server/file --qlog run.qlog
  anabranch qlog run.qlog --html run.html
  anabranch qlog run.qlog --to-qvis run.json")]
pub(crate) struct Qlog {
    /// The log
    file: PathBuf,
    /// Only the association with this name in the log
    #[arg(long, value_name = "ID")]
    association: Option<String>,
    /// Write a page with charts of it
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Convert it to the vocabulary of QUIC, for qvis.quictools.info
    #[arg(long, value_name = "FILE")]
    to_qvis: Option<PathBuf>,
}

impl Qlog {
    pub(crate) fn run(self) -> Result<(), Failure> {
        let name = self.file.display().to_string();
        let file = File::open(&self.file)
            .map_err(|error| Failure::failed(format!("{name} cannot be read: {error}")))?;
        let (reader, header) = Reader::new(BufReader::new(file))
            .map_err(|why| Failure::failed(format!("{name}: {why}")))?;
        let mut stories = Stories::default();
        let mut converter = self.to_qvis.as_ref().map(|_| Converter::default());
        let only = self.association.as_deref();
        let ended = reader.read(|event| {
            if only.is_some_and(|id| event.group_id != id && !event.group_id.is_empty()) {
                return;
            }
            stories.take(event);
            if let Some(converter) = &mut converter {
                converter.take(event);
            }
        });
        if let (Some(id), true) = (only, stories.all.is_empty()) {
            return Err(Failure::usage(format!("{name} has no association '{id}'")));
        }
        let early = match ended {
            Ended::Whole => None,
            Ended::Early(why) => Some(format!("{name}: {why}")),
        };
        if let Some(path) = &self.html {
            write(path, &html(&name, &header, &stories, early.as_deref(), text))?;
        }
        if let (Some(path), Some(converter)) = (&self.to_qvis, converter) {
            write(path, &converter.document(&header).to_string())?;
        }
        let texts: Vec<String> = stories.all.iter().map(text).collect();
        match texts.is_empty() {
            true => print("the log has no associations\n")?,
            false => print(&texts.join("\n"))?,
        }
        if let Some(sentence) = left_out(&stories) {
            complain(&format!("{name}: {sentence}"));
        } else if let Some(story) = stories.all.iter().find(|story| story.agrees() == Some(false)) {
            complain(&format!(
                "{name}: association {} counted other losses than the log has",
                story.id
            ));
        }
        early.map_or(Ok(()), |sentence| Err(Failure::failed(sentence)))
    }
}

fn write(path: &Path, text: &str) -> Result<(), Failure> {
    std::fs::write(path, text)
        .map_err(|error| Failure::failed(format!("{} cannot be written: {error}", path.display())))
}
