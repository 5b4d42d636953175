//! The effects of patterns on a link and its packets, and the records of packets' fates.

use super::{Cause, Facts, Held, Job, Link, Packet, Record, Verdict};

impl<T: Packet> Link<T> {
    /// Starts to record every packet for [`take_records`](Self::take_records).
    pub fn record(&mut self) {
        self.recorder.get_or_insert_default();
    }

    /// The fates of packets since the last call, in the order in which they became known. A packet
    /// that is delivered is recorded when it is polled.
    pub fn take_records(&mut self) -> impl Iterator<Item = Record> {
        self.recorder.as_mut().map(|recorder| recorder.take()).into_iter().flatten()
    }

    /// Ends the records of packets that are still in the link with [`Fate::Underway`](crate::Fate).
    pub fn give_up_records(&mut self) {
        if let Some(recorder) = &mut self.recorder {
            recorder.give_up();
        }
    }

    /// Commands that triggers have requested since the last call.
    pub fn take_commands(&mut self) -> Vec<String> {
        self.director.as_mut().map(|director| director.commands()).unwrap_or_default()
    }

    /// Evaluates the patterns for an offered packet.
    pub(super) fn judge(&mut self, packet: &T, number: u64, size: usize) -> Verdict {
        if self.director.is_none() && self.recorder.is_none() {
            return Verdict::default();
        }
        let wanted = self.recorder.is_some() || self.config.patterns.need_facts();
        let facts: Option<Facts> = if wanted { packet.facts() } else { None };
        if let Some(recorder) = &mut self.recorder {
            recorder.enter(number, self.now, size, facts.as_ref());
        }
        let Some(director) = &mut self.director else { return Verdict::default() };
        let verdict = director.judge(self.now, size, facts.as_ref());
        if let (Some(recorder), Some(place)) = (&mut self.recorder, verdict.place) {
            recorder.place(number, place);
        }
        if let (Some(recorder), Some(marks)) = (&mut self.recorder, &verdict.marks) {
            recorder.mark(number, marks);
        }
        if verdict.cut {
            self.drop_all();
        }
        // The first packet may have started a pattern of rates, or switched to one.
        if self.config.patterns.has_rates() {
            self.sync_rate(self.now);
        }
        verdict
    }

    pub(super) fn lose(&mut self, number: u64, cause: Cause) {
        if let Some(recorder) = &mut self.recorder {
            recorder.lose(number, cause);
        }
    }

    pub(super) fn note_spoiled(&mut self, number: u64, corrupted: bool, copies: u64) {
        if let Some(recorder) = &mut self.recorder {
            recorder.spoil(number, corrupted, copies);
        }
    }

    /// Records that everything in the link is about to be lost.
    pub(super) fn note_dropped(&mut self) {
        if let Some(recorder) = &mut self.recorder {
            let held = self.held.iter().map(|held| held.number);
            let on_wire = self.wire.numbers_after(self.now);
            for number in self.transmitter.numbers().chain(held).chain(on_wire) {
                recorder.lose(number, Cause::Down);
            }
        }
    }

    /// When patterns cause the next change: a trigger, another rate while something is being sent,
    /// or the end of a wait.
    pub(super) fn next_directed(&self) -> Option<u64> {
        let director = self.director.as_ref()?;
        let rate = self.rate_until.filter(|_| self.transmitter.is_busy());
        let held = self.held.iter().map(|held| held.until).min();
        [director.next_trigger(), rate, held].into_iter().flatten().min()
    }

    /// Applies the changes that patterns cause at `at`.
    pub(super) fn direct(&mut self, at: u64) {
        self.now = self.now.max(at);
        if self.director.as_mut().is_some_and(|director| director.fire(at)) {
            self.drop_all();
        }
        self.sync_rate(at);
        while let Some(index) = self.held.iter().position(|held| held.until <= at) {
            let held = self.held.remove(index);
            self.spoil_and_launch(at, held.number, held.packet, held.delay);
        }
    }

    /// Sets the rate that applies at `now`.
    pub(super) fn sync_rate(&mut self, now: u64) {
        let (rate, until) = match &mut self.director {
            Some(director) => director.rate(now),
            None => (None, None),
        };
        // A time that is not later would be requested again and again.
        self.rate_until = until.filter(|until| *until > now);
        let rate = rate.or(self.config.rate);
        if rate != self.rate {
            self.transmitter.change_rate(now, self.rate, rate);
            self.rate = rate;
        }
    }

    /// Handles a sent packet that has marks, or one sent while others wait to be passed.
    pub(super) fn depart_marked(&mut self, at: u64, job: Job<T>) {
        let marks = job.marks.as_deref().cloned().unwrap_or_default();
        if let Some(place) = marks.place {
            self.release(at, place.pattern, place.index.saturating_sub(1));
        }
        if let Some(mut packet) = job.packet {
            if let (Some(list), Some(director)) = (marks.bits, &self.director) {
                let mut flipped = false;
                for bit in director.bits(list) {
                    flipped |= packet.flip(*bit);
                }
                self.stats.corrupted += u64::from(flipped);
                self.note_spoiled(job.number, flipped, 0);
            }
            let copies: Vec<T> = (0..marks.copies).map_while(|_| packet.duplicate()).collect();
            match (marks.place, &self.director) {
                (Some(place), Some(director)) if place.by > 0 => {
                    let until = at.saturating_add(director.wait(place.pattern));
                    self.held.push(Held {
                        pattern: place.pattern,
                        release: place.index.saturating_add(place.by),
                        until,
                        number: job.number,
                        packet,
                        delay: marks.delay,
                    });
                }
                _ => self.spoil_and_launch(at, job.number, packet, marks.delay),
            }
            // Copies continue immediately, even those of a packet that waits.
            self.stats.duplicated += copies.len() as u64;
            self.note_spoiled(job.number, false, copies.len() as u64);
            for copy in copies {
                self.launch(at, job.number, copy, marks.delay);
            }
        }
        if let Some(place) = marks.place {
            self.release(at, place.pattern, place.index);
        }
        self.release_at_rest(at);
    }

    /// If nothing is left to send, releases the packets that wait: the packets that should pass
    /// them have done so, or never will.
    pub(super) fn release_at_rest(&mut self, at: u64) {
        if self.transmitter.is_busy() || self.held.is_empty() {
            return;
        }
        let patterns: Vec<usize> = self.held.iter().map(|held| held.pattern).collect();
        for pattern in patterns {
            let counted = self.director.as_ref().map_or(0, |d| d.counted(pattern));
            self.release(at, pattern, counted);
        }
    }

    /// Releases the packets that waited for this packet of a pattern or an earlier one, in that
    /// order.
    fn release(&mut self, at: u64, pattern: usize, index: u64) {
        loop {
            let due = self
                .held
                .iter()
                .enumerate()
                .filter(|(_, held)| held.pattern == pattern && held.release <= index);
            let next = due.min_by_key(|(_, held)| (held.release, held.number)).map(|(n, _)| n);
            let Some(next) = next else { return };
            let held = self.held.remove(next);
            self.spoil_and_launch(at, held.number, held.packet, held.delay);
        }
    }
}
