//! Parses scripts.

mod call;
mod event;
mod lex;
mod node;
mod packet;

use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anabranch_units::{MOST_TEXT, read_text};
pub(crate) use call::{Argument, Call};
pub(crate) use event::{Action, Event, When};
use lex::Token;
pub(crate) use packet::{Body, End, Icmp, PacketSpec, Route};

use crate::failure::{Failure, Place};

/// A parsed script.
#[derive(Clone, Debug)]
pub struct Script {
    pub(crate) options: Vec<ScriptOption>,
    pub(crate) events: Vec<Event>,
    pub(crate) end: Place,
}

/// `--name=value`.
#[derive(Clone, Debug)]
pub(crate) struct ScriptOption {
    pub(crate) place: Place,
    pub(crate) name: String,
    pub(crate) value: String,
}

/// Maximum depth of included scripts; deeper scripts probably include each other forever.
const MAX_DEPTH: usize = 8;

impl Script {
    /// Parses a script; `name` is its name in failures. A script without a file cannot include
    /// others.
    ///
    /// # Errors
    /// Returns the first mistake, with its place.
    pub fn parse(name: &str, text: &str) -> Result<Self, Failure> {
        Self::read(name, text, None)
    }

    /// Loads a script from a file.
    ///
    /// # Errors
    /// Fails if the file cannot be read or has a mistake.
    pub fn load(path: &Path) -> Result<Self, Failure> {
        let name = path.display().to_string();
        let text = read_text(path, MOST_TEXT).map_err(|error| {
            let place = Place { file: name.as_str().into(), line: 1, column: 1 };
            Failure::script(&place, format!("the script cannot be read: {error}"))
        })?;
        Self::read(&name, &text, path.parent())
    }

    fn read(name: &str, text: &str, folder: Option<&Path>) -> Result<Self, Failure> {
        let end = Place { file: name.into(), line: text.lines().count().max(1), column: 1 };
        let mut script = Self { options: Vec::new(), events: Vec::new(), end };
        let mut reader = Reader::new(name, text)?;
        reader.script(&mut script, folder, 0)?;
        Ok(script)
    }
}

/// The tokens of one file, and the current position.
pub(crate) struct Reader {
    tokens: Vec<(Token, Place)>,
    at: usize,
    lines: Vec<String>,
    end: Place,
}

impl Reader {
    fn new(name: &str, text: &str) -> Result<Self, Failure> {
        let file: Arc<str> = name.into();
        let lines: Vec<String> = text.lines().map(str::to_owned).collect();
        let end = Place { file: Arc::clone(&file), line: lines.len().max(1), column: 1 };
        Ok(Self { tokens: lex::tokens(&file, text)?, at: 0, lines, end })
    }

    fn script(
        &mut self,
        script: &mut Script,
        folder: Option<&Path>,
        depth: usize,
    ) -> Result<(), Failure> {
        while let Some((token, place)) = self.tokens.get(self.at).cloned() {
            match token {
                Token::Option(name, value) => {
                    self.at += 1;
                    script.options.push(ScriptOption { place, name, value });
                }
                Token::Command(command) => {
                    self.at += 1;
                    script.options.append(&mut sysctls(&place, &command));
                }
                Token::Word(word) if word == "include" => {
                    self.at += 1;
                    let name = self.text("the name of a file")?;
                    self.include(script, folder, &name, &place, depth)?;
                }
                _ => {
                    let event = self.event()?;
                    if let Action::Command(command) = &event.action {
                        script.options.append(&mut sysctls(&event.place, command));
                    } else {
                        script.events.push(event);
                    }
                }
            }
        }
        Ok(())
    }

    fn include(
        &self,
        script: &mut Script,
        folder: Option<&Path>,
        name: &str,
        place: &Place,
        depth: usize,
    ) -> Result<(), Failure> {
        let folder = folder.ok_or_else(|| {
            Failure::script(place, "only scripts that are files can include others")
        })?;
        if depth >= MAX_DEPTH {
            return Err(Failure::script(place, "scripts include one another too deeply"));
        }
        let path: PathBuf = folder.join(name);
        let text = read_text(&path, MOST_TEXT).map_err(|error| {
            Failure::script(place, format!("{} cannot be read: {error}", path.display()))
        })?;
        let mut reader = Self::new(&path.display().to_string(), &text)?;
        reader.script(script, path.parent(), depth + 1)
    }

    fn peek(&self) -> Option<&Token> {
        self.tokens.get(self.at).map(|(token, _)| token)
    }

    fn peek_behind(&self, skipped: usize) -> Option<&Token> {
        self.tokens.get(self.at + skipped).map(|(token, _)| token)
    }

    fn place(&self) -> Place {
        self.tokens.get(self.at).map_or_else(|| self.end.clone(), |(_, place)| place.clone())
    }

    /// Consumes a sign if it is the next token.
    fn eat(&mut self, sign: char) -> bool {
        let found = self.peek() == Some(&Token::Sign(sign));
        self.at += usize::from(found);
        found
    }

    /// Consumes `...` if it is the next token.
    fn eat_gap(&mut self) -> bool {
        let found = self.peek() == Some(&Token::Gap);
        self.at += usize::from(found);
        found
    }

    fn sign(&mut self, sign: char) -> Result<(), Failure> {
        if self.eat(sign) { Ok(()) } else { Err(self.unexpected(&format!("'{sign}'"))) }
    }

    fn word(&mut self, what: &str) -> Result<String, Failure> {
        match self.peek() {
            Some(Token::Word(word)) => {
                let word = word.clone();
                self.at += 1;
                Ok(word)
            }
            _ => Err(self.unexpected(what)),
        }
    }

    fn text(&mut self, what: &str) -> Result<String, Failure> {
        match self.peek() {
            Some(Token::Text(text)) => {
                let text = text.clone();
                self.at += 1;
                Ok(text)
            }
            _ => Err(self.unexpected(what)),
        }
    }

    /// A number, decimal or hexadecimal, of at most `limit`.
    fn number(&mut self, what: &str, limit: u64) -> Result<u64, Failure> {
        let Some(Token::Number(digits)) = self.peek() else {
            return Err(self.unexpected(what));
        };
        let parsed = match digits.strip_prefix("0x") {
            Some(hex) => u64::from_str_radix(hex, 16).ok(),
            None => digits.parse().ok(),
        };
        match parsed {
            Some(number) if number <= limit => {
                self.at += 1;
                Ok(number)
            }
            _ => {
                let message = format!("{digits} is not a number from 0 to {limit}");
                Err(Failure::script(&self.place(), message))
            }
        }
    }

    fn address(&mut self) -> Option<IpAddr> {
        match self.peek() {
            Some(Token::Address(address)) => {
                let address = *address;
                self.at += 1;
                Some(address)
            }
            _ => None,
        }
    }

    /// A time in seconds.
    fn time(&mut self) -> Result<Duration, Failure> {
        let Some(Token::Number(digits)) = self.peek() else {
            return Err(self.unexpected("a time in seconds"));
        };
        let time = digits.parse::<f64>().ok().and_then(|s| Duration::try_from_secs_f64(s).ok());
        // Virtual time is cheap, but not unlimited.
        let Some(time) = time.filter(|time| *time <= Duration::from_secs(100_000_000)) else {
            let message = format!("{digits} is not a time in seconds");
            return Err(Failure::script(&self.place(), message));
        };
        self.at += 1;
        Ok(time)
    }

    /// Reports that `expected` is missing and what is there instead.
    fn unexpected(&self, expected: &str) -> Failure {
        let found = match self.peek() {
            None => "the end of the file".to_owned(),
            Some(token) => token.to_string(),
        };
        Failure::script(&self.place(), format!("expected {expected}, found {found}"))
    }
}

/// Extracts the settings from a command: public suites set options of the host with `sysctl`.
fn sysctls(place: &Place, command: &str) -> Vec<ScriptOption> {
    let words = command.split([' ', '\t', '\n', ';']);
    let settings = words.filter_map(|word| word.split_once('='));
    let of_sctp = settings.filter(|(name, _)| name.contains(".sctp."));
    let option = |(name, value): (&str, &str)| ScriptOption {
        place: place.clone(),
        name: "sysctl".to_owned(),
        value: format!("{}={value}", name.rsplit('.').next().unwrap_or(name)),
    };
    of_sctp.map(option).collect()
}
