//! Runs scripts: one engine, virtual time, and a peer that follows the script.

mod addresses;
mod authentication;
mod options;
mod packets;
mod settings;
mod sockets;
mod user;
mod world;

use std::time::Duration;

use anabranch_proto::Instant;

use self::options::Options;
use self::sockets::Answer;
use self::world::World;
use crate::failure::{Failure, FailureKind};
use crate::read::{Action, Call, Event, Script, When};

/// The totals of a passed script.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Passed {
    /// Number of incoming and outgoing packets.
    pub packets: usize,
    /// Virtual time that passed.
    pub time: Duration,
}

/// Start time of scripts; late enough to allow earlier times.
const BEGIN: Instant = Instant::from_nanos(1_000_000_000_000);

/// How long to wait for a packet that may come at any time.
const PATIENCE: Duration = Duration::from_secs(1_000);

impl Script {
    /// Runs the script.
    ///
    /// # Errors
    /// Returns the first difference from the script, with the packets around it.
    pub fn run(&self) -> Result<Passed, Failure> {
        self.run_leniently(false)
    }

    /// Runs the script. If `lenient`, packets after the end of the script are ignored, as in
    /// packetdrill.
    ///
    /// # Errors
    /// Returns the first difference from the script, with the packets around it.
    pub fn run_leniently(&self, lenient: bool) -> Result<Passed, Failure> {
        let options = Options::of(self)?;
        let mut run = Run { world: World::new(options), base: BEGIN, pending: None, lenient };
        for event in &self.events {
            run.event(event).map_err(|failure| run.explain(failure, event))?;
        }
        if let Some(pending) = &run.pending {
            let message = format!("{} has not returned", pending.call.name);
            return Err(Failure::behaviour(&pending.call.place, message));
        }
        if !lenient && let Some(sent) = run.world.sent.front() {
            let message = "a packet was sent that the script does not expect";
            let mut failure = Failure::behaviour(&self.end, message);
            failure.details = vec![format!("came:     {}", run.world.show_sent(sent))];
            return Err(run.with_history(failure));
        }
        let time = run.world.now.saturating_since(BEGIN);
        Ok(Passed { packets: run.world.history.len(), time })
    }
}

/// A blocking call.
#[derive(Debug)]
struct Pending {
    call: Call,
    until: Instant,
}

struct Run {
    world: World,
    /// The origin of relative times.
    base: Instant,
    pending: Option<Pending>,
    lenient: bool,
}

impl Run {
    fn event(&mut self, event: &Event) -> Result<(), Failure> {
        if let Action::Expect(spec) = &event.action {
            return self.expect(event, spec);
        }
        let at = match event.when {
            When::At(time) | When::Between(time, _) => BEGIN + time,
            When::After(time) | When::AfterBetween(time, _) => self.base + time,
            When::Any => self.world.now,
        };
        self.advance(event, at)?;
        self.base = self.world.now;
        match &event.action {
            Action::Inject(spec) => self.world.inject(spec)?,
            Action::Icmp(icmp) => self.world.icmp(icmp)?,
            Action::Call(call) => self.call(event, call)?,
            Action::Quiet => self.quiet(event, at)?,
            Action::Expect(_) | Action::Command(_) => {}
        }
        self.retry()
    }

    /// Advances the time to `at`.
    fn advance(&mut self, event: &Event, at: Instant) -> Result<(), Failure> {
        let late = self.world.now.saturating_since(at);
        if late > self.world.options.tolerance && matches!(event.when, When::At(_)) {
            return Err(Failure::behaviour(&event.place, format!("it is {late:?} later already")));
        }
        while let Some(due) = self.world.endpoint.next_deadline().filter(|due| *due <= at) {
            self.world.pass_to(due);
            self.retry()?;
        }
        self.world.pass_to(at);
        let tolerance = self.world.options.tolerance;
        match self.world.sent.front() {
            Some(sent) if sent.at + tolerance < at && !self.lenient => {
                let mut failure = Failure::behaviour(
                    &event.place,
                    "before this a packet was sent that the script does not expect",
                );
                failure.details = vec![format!("came:     {}", self.world.show_sent(sent))];
                Err(failure)
            }
            _ => Ok(()),
        }
    }

    fn quiet(&mut self, event: &Event, at: Instant) -> Result<(), Failure> {
        self.advance(event, at)?;
        let Some(sent) = self.world.sent.front() else { return Ok(()) };
        let mut failure = Failure::behaviour(&event.place, "a packet was sent before this");
        failure.details = vec![format!("came:     {}", self.world.show_sent(sent))];
        Err(failure)
    }

    fn expect(&mut self, event: &Event, spec: &crate::read::PacketSpec) -> Result<(), Failure> {
        let tolerance = self.world.options.tolerance;
        let base = self.base;
        let (low, high) = match event.when {
            When::At(time) => (BEGIN + time - tolerance, BEGIN + time + tolerance),
            When::Between(low, high) => (BEGIN + low, BEGIN + high),
            When::After(time) => (base + time - tolerance, base + time + tolerance),
            When::AfterBetween(low, high) => (base + low, base + high),
            When::Any => (Instant::ZERO, self.world.now + PATIENCE),
        };
        while self.world.sent.is_empty() {
            let due = self.world.endpoint.next_deadline().filter(|due| *due <= high);
            let Some(due) = due else {
                self.world.pass_to(high);
                let message = "no such packet was sent in time";
                return Err(Failure::behaviour(&event.place, message));
            };
            self.world.pass_to(due);
            self.retry()?;
        }
        let Some(sent) = self.world.sent.pop_front() else { return Ok(()) };
        let difference = self.world.expect(spec, &sent).err();
        let wrong_time = if sent.at < low {
            Some(format!("the packet came {:?} too early", low.saturating_since(sent.at)))
        } else if sent.at > high {
            Some(format!("the packet came {:?} too late", sent.at.saturating_since(high)))
        } else {
            None
        };
        if let Some(message) = difference.or(wrong_time) {
            let mut failure = Failure::behaviour(&event.place, message);
            failure.details = vec![format!("came:     {}", self.world.show_sent(&sent))];
            return Err(failure);
        }
        self.base = match event.when {
            When::At(time) => BEGIN + time,
            When::After(time) => base + time,
            When::Between(..) | When::AfterBetween(..) | When::Any => sent.at,
        };
        Ok(())
    }

    fn call(&mut self, event: &Event, call: &Call) -> Result<(), Failure> {
        match self.world.call(call)? {
            Answer::Now(result) => self.world.check(call, &result),
            Answer::Later => {
                if let Some(pending) = &self.pending {
                    let message = format!("{} has not returned yet", pending.call.name);
                    return Err(Failure::behaviour(&event.place, message));
                }
                let until = match call.end {
                    // The end has the same origin as the start.
                    Some(end) if matches!(event.when, When::After(_)) => self.base + end,
                    Some(end) => BEGIN + end,
                    None => return self.block(call),
                };
                self.pending = Some(Pending { call: call.clone(), until });
                Ok(())
            }
        }
    }

    /// Waits for a call to return.
    fn block(&mut self, call: &Call) -> Result<(), Failure> {
        let limit = self.world.now + PATIENCE;
        while let Some(due) = self.world.endpoint.next_deadline().filter(|due| *due <= limit) {
            self.world.pass_to(due);
            if let Answer::Now(result) = self.world.call(call)? {
                self.base = self.world.now;
                return self.world.check(call, &result);
            }
        }
        Err(Failure::behaviour(&call.place, format!("{} never returns", call.name)))
    }

    /// Checks whether the blocking call can return now.
    fn retry(&mut self) -> Result<(), Failure> {
        let Some(pending) = &self.pending else { return Ok(()) };
        if let Answer::Now(result) = self.world.call(&pending.call)? {
            let call = pending.call.clone();
            self.pending = None;
            return self.world.check(&call, &result);
        }
        if self.world.now > pending.until + self.world.options.tolerance {
            let message = format!("{} has not returned in time", pending.call.name);
            return Err(Failure::behaviour(&pending.call.place, message));
        }
        Ok(())
    }

    fn explain(&self, mut failure: Failure, event: &Event) -> Failure {
        if failure.kind == FailureKind::Script {
            return failure;
        }
        failure.details.insert(0, format!("expected: {}", event.text));
        self.with_history(failure)
    }

    /// Adds the packets around a failure.
    fn with_history(&self, mut failure: Failure) -> Failure {
        failure.details.push("packets before and after it:".to_owned());
        let history = &self.world.history;
        let from = history.len().saturating_sub(12);
        failure.details.extend(history.iter().skip(from).map(|seen| self.world.show(seen)));
        failure
    }
}
