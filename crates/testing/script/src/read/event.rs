//! Events and their times.

use std::time::Duration;

use super::Reader;
use super::call::Call;
use super::lex::Token;
use super::packet::{Icmp, PacketSpec};
use crate::failure::{Failure, Place};

/// An action or expectation in a script.
#[derive(Clone, Debug)]
pub(crate) struct Event {
    pub(crate) place: Place,
    /// Its first line as written.
    pub(crate) text: String,
    pub(crate) when: When,
    pub(crate) action: Action,
}

/// The time of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum When {
    /// This long after the start of the script.
    At(Duration),
    /// In this interval after the start of the script.
    Between(Duration, Duration),
    /// This long after the previous event.
    After(Duration),
    /// In this interval after the previous event.
    AfterBetween(Duration, Duration),
    /// At any time.
    Any,
}

/// The event.
#[derive(Clone, Debug)]
pub(crate) enum Action {
    /// A packet reaches the engine.
    Inject(PacketSpec),
    /// The engine sends a packet.
    Expect(PacketSpec),
    /// An ICMP message reaches the engine.
    Icmp(Icmp),
    /// A call.
    Call(Call),
    /// Expects that nothing is sent until then.
    Quiet,
    /// A command for the host.
    Command(String),
}

impl Reader {
    pub(super) fn event(&mut self) -> Result<Event, Failure> {
        let place = self.place();
        let text = self.lines.get(place.line - 1).map(|line| line.trim().to_owned());
        let when = self.when()?;
        let (action, waits) = self.action()?;
        let range = matches!(when, When::Any | When::Between(..) | When::AfterBetween(..));
        if range && !waits {
            return Err(Failure::script(&place, "only packets sent can come in a range of time"));
        }
        Ok(Event { place, text: text.unwrap_or_default(), when, action })
    }

    fn when(&mut self) -> Result<When, Failure> {
        if self.eat('*') {
            return Ok(When::Any);
        }
        let relative = self.eat('+');
        let first = self.time()?;
        if self.eat('~') {
            let place = self.place();
            if self.eat('+') != relative {
                return Err(Failure::script(&place, "both ends of a range are relative, or none"));
            }
            let second = self.time()?;
            if second < first {
                return Err(Failure::script(&place, "the range ends before it begins"));
            }
            let range = if relative { When::AfterBetween } else { When::Between };
            return Ok(range(first, second));
        }
        Ok(if relative { When::After(first) } else { When::At(first) })
    }

    /// The action, and whether it waits for something.
    fn action(&mut self) -> Result<(Action, bool), Failure> {
        match self.peek() {
            Some(Token::Sign('<')) => {
                self.at += 1;
                if let Some(icmp) = self.icmp()? {
                    return Ok((Action::Icmp(icmp), false));
                }
                let packet = self.packet()?;
                if packet.route == super::Route::Any {
                    let message = "a packet that comes in comes on one path";
                    return Err(Failure::script(&packet.place, message));
                }
                Ok((Action::Inject(packet), false))
            }
            Some(Token::Sign('>')) => {
                self.at += 1;
                Ok((Action::Expect(self.packet()?), true))
            }
            Some(Token::Command(command)) => {
                let command = command.clone();
                self.at += 1;
                Ok((Action::Command(command), false))
            }
            Some(Token::Word(word)) if word == "quiet" => {
                self.at += 1;
                Ok((Action::Quiet, false))
            }
            Some(Token::Word(_) | Token::Gap) => Ok((Action::Call(self.call()?), false)),
            _ => Err(self.unexpected("a packet ('<' or '>') or a call")),
        }
    }
}
