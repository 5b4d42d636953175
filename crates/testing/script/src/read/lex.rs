//! Splits text into tokens.

use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;

use crate::failure::{Failure, Place};

/// The smallest parts of a script.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Token {
    Word(String),
    /// Digits as written, with `0x` if they are hexadecimal.
    Number(String),
    Address(IpAddr),
    Text(String),
    /// `...`
    Gap,
    Sign(char),
    /// `--name=value`
    Option(String, String),
    /// A command in back quotes.
    Command(String),
}

impl fmt::Display for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Word(word) => write!(f, "'{word}'"),
            Self::Number(digits) => f.write_str(digits),
            Self::Address(address) => address.fmt(f),
            Self::Text(text) => write!(f, "{text:?}"),
            Self::Gap => f.write_str("'...'"),
            Self::Sign(sign) => write!(f, "'{sign}'"),
            Self::Option(name, _) => write!(f, "the option --{name}"),
            Self::Command(_) => f.write_str("a command"),
        }
    }
}

struct Lexer<'a> {
    text: &'a str,
    at: usize,
    line: usize,
    line_start: usize,
    file: Arc<str>,
    /// For each open `#ifdef`, whether its lines are used.
    conditions: Vec<bool>,
}

/// All tokens with their places.
pub(crate) fn tokens(file: &Arc<str>, text: &str) -> Result<Vec<(Token, Place)>, Failure> {
    let mut lexer = Lexer {
        text,
        at: 0,
        line: 1,
        line_start: 0,
        file: Arc::clone(file),
        conditions: Vec::new(),
    };
    let mut tokens = Vec::new();
    while let Some((token, place)) = lexer.next()? {
        if !lexer.conditions.contains(&false) {
            tokens.push((token, place));
        }
    }
    Ok(tokens)
}

const SIGNS: &str = "+-*~<>@()[]{}:;,=|/!";

impl Lexer<'_> {
    fn rest(&self) -> &str {
        self.text.get(self.at..).unwrap_or_default()
    }

    fn first(&self) -> Option<char> {
        self.rest().chars().next()
    }

    fn place(&self) -> Place {
        let before = self.text.get(self.line_start..self.at).unwrap_or_default();
        Place { file: Arc::clone(&self.file), line: self.line, column: before.chars().count() + 1 }
    }

    fn skip(&mut self, bytes: usize) {
        let skipped = self.text.get(self.at..self.at + bytes).unwrap_or_default();
        self.line += skipped.matches('\n').count();
        if let Some(last) = skipped.rfind('\n') {
            self.line_start = self.at + last + 1;
        }
        self.at += bytes;
    }

    /// Consumes characters as long as they `belong`.
    fn run(&mut self, belongs: impl Fn(char) -> bool) -> String {
        let rest = self.rest();
        let length = rest.find(|c| !belongs(c)).unwrap_or(rest.len());
        let run = rest.get(..length).unwrap_or_default().to_owned();
        self.skip(length);
        run
    }

    /// Consumes the text up to and including `end`.
    fn until(&mut self, end: &str, what: &str) -> Result<String, Failure> {
        let place = self.place();
        let Some(length) = self.rest().find(end) else {
            return Err(Failure::script(&place, format!("{what} does not end")));
        };
        let inner = self.rest().get(..length).unwrap_or_default().to_owned();
        self.skip(length + end.len());
        Ok(inner)
    }

    fn next(&mut self) -> Result<Option<(Token, Place)>, Failure> {
        loop {
            let rest = self.rest();
            let Some(c) = self.first() else { return Ok(None) };
            if c.is_whitespace() {
                self.skip(c.len_utf8());
            } else if rest.starts_with("//") {
                self.run(|c| c != '\n');
            } else if rest.starts_with("/*") {
                self.skip(2);
                self.until("*/", "a comment")?;
            } else if c == '#' {
                self.directive()?;
            } else {
                let place = self.place();
                let token = self.token(c, &place)?;
                return Ok(Some((token, place)));
            }
        }
    }

    /// `#ifdef` and related directives: no name is ever defined. Other lines with `#` are comments.
    fn directive(&mut self) -> Result<(), Failure> {
        let place = self.place();
        let line = self.run(|c| c != '\n');
        let misplaced = || Failure::script(&place, "no #ifdef belongs to this");
        match line.split_whitespace().next() {
            Some("#ifdef") => self.conditions.push(false),
            Some("#ifndef") => self.conditions.push(true),
            Some("#else") => {
                let last = self.conditions.last_mut().ok_or_else(misplaced)?;
                *last = !*last;
            }
            Some("#endif") => {
                self.conditions.pop().ok_or_else(misplaced)?;
            }
            _ => {}
        }
        Ok(())
    }

    fn token(&mut self, c: char, place: &Place) -> Result<Token, Failure> {
        if self.rest().starts_with("...") {
            self.skip(3);
            return Ok(Token::Gap);
        }
        if let Some(option) = self.rest().strip_prefix("--")
            && option.starts_with(|c: char| c.is_ascii_alphabetic())
        {
            self.skip(2);
            let option = self.run(|c| !c.is_whitespace());
            let (name, value) = option.split_once('=').unwrap_or((&option, ""));
            return Ok(Token::Option(name.to_owned(), value.to_owned()));
        }
        if let Some(address) = self.address() {
            return Ok(Token::Address(address));
        }
        let digit = |c: Option<char>| c.is_some_and(|c| c.is_ascii_digit());
        if c.is_ascii_digit() || (c == '.' && digit(self.rest().chars().nth(1))) {
            return Ok(Token::Number(self.digits()));
        }
        if c.is_alphabetic() || c == '_' {
            let mut word = self.run(|c| c.is_alphanumeric() || c == '_');
            // Names with a hyphen, such as I-DATA.
            let mut behind = self.rest().chars();
            if behind.next() == Some('-') && behind.next().is_some_and(char::is_uppercase) {
                self.skip(1);
                word.push('-');
                word.push_str(&self.run(|c| c.is_alphanumeric() || c == '_' || c == '-'));
            }
            return Ok(Token::Word(word));
        }
        match c {
            '"' => {
                self.skip(1);
                Ok(Token::Text(self.until("\"", "a text")?))
            }
            '`' => {
                self.skip(1);
                Ok(Token::Command(self.until("`", "a command")?))
            }
            _ if SIGNS.contains(c) => {
                self.skip(c.len_utf8());
                Ok(Token::Sign(c))
            }
            _ => Err(Failure::script(place, format!("'{}' means nothing here", c.escape_debug()))),
        }
    }

    fn digits(&mut self) -> String {
        if self.rest().starts_with("0x") {
            self.skip(2);
            return format!("0x{}", self.run(|c| c.is_ascii_hexdigit()));
        }
        let mut digits = self.run(|c| c.is_ascii_digit());
        let mut behind = self.rest().chars();
        if behind.next() == Some('.') && behind.next().is_some_and(|c| c.is_ascii_digit()) {
            self.skip(1);
            digits.push('.');
            digits.push_str(&self.run(|c| c.is_ascii_digit()));
        }
        digits
    }

    fn address(&mut self) -> Option<IpAddr> {
        let rest = self.rest();
        let length = rest
            .find(|c: char| !(c.is_ascii_hexdigit() || c == ':' || c == '.'))
            .unwrap_or(rest.len());
        let run = rest.get(..length)?;
        let colons = run.matches(':').count();
        let likely = run.contains("::") || colons == 7 || (colons == 0 && run.contains('.'));
        let address = run.parse().ok().filter(|_| likely)?;
        self.skip(length);
        Some(address)
    }
}
