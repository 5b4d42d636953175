//! Two classes of streams with a scheduler each, because they may be sent on different paths.
//!
//! What is next depends on the path, so the sender selects a class before it asks for a message. Classes that may use
//! the same path take turns, message by message, or chunk by chunk if messages are interleaved. A message that must be
//! finished first is next, whichever class is selected.

use std::mem::size_of;

use super::{Queued, Scheduler, SchedulerKind, StreamPriority};

/// The streams of a class.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Class {
    /// Those before the first one of the class.
    Usual,
    /// Those from the first one on.
    Own,
}

impl Class {
    fn other(self) -> Self {
        match self {
            Self::Usual => Self::Own,
            Self::Own => Self::Usual,
        }
    }
}

/// What waits in one class.
#[derive(Debug)]
struct Waiting {
    scheduler: Scheduler,
    /// Memory of its messages.
    bytes: usize,
}

impl Waiting {
    fn new(kind: SchedulerKind) -> Self {
        Self { scheduler: Scheduler::new(kind), bytes: 0 }
    }

    fn pop(&mut self) -> Option<Queued> {
        let message = self.scheduler.pop()?;
        self.bytes -= charge(&message);
        Some(message)
    }
}

fn charge(message: &Queued) -> usize {
    message.rest.len() + size_of::<Queued>()
}

#[derive(Debug)]
pub(crate) struct Classes {
    usual: Waiting,
    own: Waiting,
    /// The first stream of the class.
    pub(super) from: u16,
    selected: Class,
}

impl Classes {
    pub(super) fn new(kind: SchedulerKind, from: u16) -> Self {
        let (usual, own) = (Waiting::new(kind), Waiting::new(kind));
        Self { usual, own, from, selected: Class::Usual }
    }

    fn class_of(&self, stream: u16) -> Class {
        if stream >= self.from { Class::Own } else { Class::Usual }
    }

    fn class(&self, class: Class) -> &Waiting {
        match class {
            Class::Usual => &self.usual,
            Class::Own => &self.own,
        }
    }

    fn class_mut(&mut self, class: Class) -> &mut Waiting {
        match class {
            Class::Usual => &mut self.usual,
            Class::Own => &mut self.own,
        }
    }

    fn of_stream(&mut self, stream: u16) -> &mut Waiting {
        self.class_mut(self.class_of(stream))
    }

    /// Memory that the waiting messages of a stream's class take, and those of both classes.
    pub(crate) fn bytes(&self, stream: u16) -> (usize, usize) {
        (self.class(self.class_of(stream)).bytes, self.usual.bytes + self.own.bytes)
    }

    /// The first class whose next message `goes`, beginning with the class whose turn it is. If a message must be
    /// finished first, only its class comes into question.
    pub(crate) fn first(&self, goes: impl Fn(Class, &Queued) -> bool) -> Option<Class> {
        let fits =
            |class: &Class| self.peek_class(*class).is_some_and(|message| goes(*class, message));
        match self.held() {
            Some(held) => Some(held).filter(fits),
            None => [self.selected, self.selected.other()].into_iter().find(fits),
        }
    }

    pub(crate) fn peek_class(&self, class: Class) -> Option<&Queued> {
        self.class(class).scheduler.peek()
    }

    pub(crate) fn select(&mut self, class: Class) {
        self.selected = class;
    }

    /// The class whose message must be finished first.
    fn held(&self) -> Option<Class> {
        let holds = |class: &Class| self.peek_class(*class).is_some_and(|next| next.holds_turn);
        [Class::Usual, Class::Own].into_iter().find(holds)
    }

    fn current(&self) -> Class {
        let waits = |class: Class| self.peek_class(class).is_some();
        self.held().unwrap_or(match waits(self.selected) {
            true => self.selected,
            false => self.selected.other(),
        })
    }

    pub(super) fn push(&mut self, message: Queued, priority: StreamPriority) {
        let waiting = self.of_stream(message.stream);
        waiting.bytes += charge(&message);
        waiting.scheduler.push(message, || priority);
    }

    pub(super) fn peek(&self) -> Option<&Queued> {
        self.peek_class(self.current())
    }

    pub(super) fn peek_mut(&mut self) -> Option<&mut Queued> {
        self.class_mut(self.current()).scheduler.peek_mut()
    }

    pub(super) fn pop(&mut self) -> Option<Queued> {
        let class = self.current();
        let message = self.class_mut(class).pop()?;
        self.selected = class.other();
        Some(message)
    }

    pub(super) fn take_out(
        &mut self,
        which: &mut dyn FnMut(&Queued) -> bool,
        gone: &mut Vec<Queued>,
    ) {
        for waiting in [&mut self.usual, &mut self.own] {
            let before = gone.len();
            waiting.scheduler.take_out(which, gone);
            waiting.bytes -= gone.iter().skip(before).map(charge).sum::<usize>();
        }
    }

    pub(super) fn queued_bytes(&self, stream: u16) -> usize {
        self.class(self.class_of(stream)).scheduler.queued_bytes(stream)
    }

    pub(super) fn divisible_bytes(&self, stream: u16) -> usize {
        self.class(self.class_of(stream)).scheduler.divisible_bytes(stream)
    }

    pub(super) fn has_others(&self) -> bool {
        let both = [Class::Usual, Class::Own].map(|class| self.peek_class(class).is_some());
        both == [true, true] || self.usual.scheduler.has_others() || self.own.scheduler.has_others()
    }

    pub(super) fn on_cut(&mut self, stream: u16, length: usize) {
        self.of_stream(stream).scheduler.on_cut(stream, length);
    }

    /// Records that `length` bytes of a stream's message were discarded.
    pub(crate) fn on_discarded(&mut self, stream: u16, length: usize) {
        self.of_stream(stream).bytes -= length;
    }

    pub(super) fn on_sent(&mut self, length: usize) {
        let waiting = self.class_mut(self.current());
        waiting.bytes -= length;
        waiting.scheduler.on_sent(length);
    }

    pub(super) fn end_turn(&mut self, length: usize, least: usize) {
        let class = self.current();
        self.class_mut(class).scheduler.end_turn(length, least);
        self.selected = class.other();
    }

    pub(super) fn end_packet(&mut self, stream: u16) {
        self.of_stream(stream).scheduler.end_packet(stream);
    }

    pub(super) fn begun_mut(&mut self, stream: u16) -> Option<&mut Queued> {
        self.of_stream(stream).scheduler.begun_mut(stream)
    }

    pub(super) fn shrink(&mut self) {
        self.usual.scheduler.shrink();
        self.own.scheduler.shrink();
    }
}
