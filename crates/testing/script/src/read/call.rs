//! Calls and their results.

use std::fmt;
use std::time::Duration;

use super::Reader;
use super::lex::Token;
use super::packet::Route;
use crate::failure::{Failure, Place};

/// `name(argument, ...) = result ERRNO (note)`.
#[derive(Clone, Debug)]
pub(crate) struct Call {
    pub(crate) place: Place,
    /// The latest time at which a blocking call returns, counted from the start.
    pub(crate) end: Option<Duration>,
    pub(crate) name: String,
    pub(crate) arguments: Vec<Argument>,
    pub(crate) result: Argument,
    pub(crate) errno: Option<String>,
}

/// An argument or a result.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Argument {
    /// `...` or `NULL`.
    Any,
    Number(i64),
    Text(String),
    /// A constant, or several joined by `|`.
    Words(Vec<String>),
    /// `[a, b]`
    List(Vec<Argument>),
    /// `{key=value, ...}`
    Structure(Vec<(String, Argument)>),
    /// `@1`
    Path(Route),
}

impl fmt::Display for Argument {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Any => f.write_str("..."),
            Self::Number(number) => number.fmt(f),
            Self::Text(text) => write!(f, "{text:?}"),
            Self::Words(words) => f.write_str(&words.join("|")),
            Self::List(list) => {
                let shown: Vec<_> = list.iter().map(Self::to_string).collect();
                write!(f, "[{}]", shown.join(", "))
            }
            Self::Structure(fields) => {
                let shown: Vec<_> = fields.iter().map(|(k, v)| format!("{k}={v}")).collect();
                write!(f, "{{{}}}", shown.join(", "))
            }
            Self::Path(_) => f.write_str("a path"),
        }
    }
}

impl Reader {
    pub(super) fn call(&mut self) -> Result<Call, Failure> {
        let end = if self.eat_gap() { Some(self.time()?) } else { None };
        let place = self.place();
        let name = self.word("the name of a call")?;
        let arguments = self.arguments()?;
        self.sign('=')?;
        let result = self.argument()?;
        let mut errno = None;
        if let Some(Token::Word(word)) = self.peek()
            && word.starts_with('E')
        {
            errno = Some(word.clone());
            self.at += 1;
        }
        self.note()?;
        Ok(Call { place, end, name, arguments, result, errno })
    }

    /// Skips notes such as `(flags O_RDWR)`.
    fn note(&mut self) -> Result<(), Failure> {
        if !self.eat('(') {
            return Ok(());
        }
        while self.peek().is_some() && !self.eat(')') {
            self.at += 1;
        }
        Ok(())
    }

    fn arguments(&mut self) -> Result<Vec<Argument>, Failure> {
        self.sign('(')?;
        self.until(')')
    }

    fn until(&mut self, end: char) -> Result<Vec<Argument>, Failure> {
        let mut arguments = Vec::new();
        while !self.eat(end) {
            if !arguments.is_empty() {
                self.sign(',')?;
            }
            arguments.push(self.argument()?);
        }
        Ok(arguments)
    }

    fn argument(&mut self) -> Result<Argument, Failure> {
        if self.eat_gap() {
            return Ok(Argument::Any);
        }
        match self.peek() {
            Some(Token::Sign('-')) => {
                self.at += 1;
                Ok(Argument::Number(-(self.number("a number", i64::MAX as u64)? as i64)))
            }
            Some(Token::Number(_)) => {
                Ok(Argument::Number(self.number("a number", i64::MAX as u64)? as i64))
            }
            Some(Token::Text(_)) => Ok(Argument::Text(self.text("a text")?)),
            Some(Token::Sign('[')) => {
                self.at += 1;
                Ok(Argument::List(self.until(']')?))
            }
            Some(Token::Sign('{')) => {
                self.at += 1;
                self.structure()
            }
            Some(Token::Sign('@')) => Ok(Argument::Path(self.route()?)),
            Some(Token::Word(_)) => self.words(),
            _ => Err(self.unexpected("an argument")),
        }
    }

    fn words(&mut self) -> Result<Argument, Failure> {
        let mut words = vec![self.word("a constant")?];
        // Unwrap calls such as htons(80): byte order is irrelevant here.
        if self.peek() == Some(&Token::Sign('(')) {
            let place = self.place();
            let mut arguments = self.arguments()?;
            return match (words.first().map(String::as_str), arguments.pop()) {
                (Some("htons" | "htonl" | "inet_addr"), Some(argument)) => Ok(argument),
                _ => Err(Failure::script(&place, "only htons, htonl and inet_addr are known here")),
            };
        }
        while self.eat('|') {
            words.push(self.word("a constant")?);
        }
        Ok(if words == ["NULL"] { Argument::Any } else { Argument::Words(words) })
    }

    fn structure(&mut self) -> Result<Argument, Failure> {
        let mut fields = Vec::new();
        while !self.eat('}') {
            if !fields.is_empty() {
                self.sign(',')?;
            }
            if self.eat_gap() {
                fields.push(("...".to_owned(), Argument::Any));
                continue;
            }
            let key = self.word("the name of a field")?;
            self.sign('=')?;
            fields.push((key, self.argument()?));
        }
        Ok(Argument::Structure(fields))
    }
}
