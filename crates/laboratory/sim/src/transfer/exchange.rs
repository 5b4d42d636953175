//! Requests and answers: the receiver answers each message, and the sender waits for the answer.

use std::collections::VecDeque;

use anabranch_proto::{AssociationId, Instant, OutgoingMessage, Ppid};
use bytes::Bytes;

use super::{TransferApplication, Workload};
use crate::application::Context;

/// The state of an exchange.
#[derive(Debug, Default)]
pub(super) struct Exchange {
    /// Requests that were answered.
    answered: u64,
    /// When the next request is due.
    next: Option<Instant>,
    /// Streams and numbers of requests that have not been answered.
    pub(super) asked: VecDeque<(u16, u32)>,
}

impl Exchange {
    /// When request `number` is due: in the far future while it waits for an answer.
    pub(super) fn due(&self, number: u64, connected: Instant) -> Instant {
        match number {
            0 => connected,
            number if number > self.answered => Instant::FAR_FUTURE,
            _ => self.next.unwrap_or(connected),
        }
    }
}

impl TransferApplication {
    /// Answers requests as far as the receiver's send buffer has room.
    pub(super) fn answer(&mut self, context: &mut Context<'_>, id: AssociationId) {
        let Workload::Requests { answer, .. } = self.spec.workload else { return };
        let now = context.now();
        let Some(mut association) = context.association(self.spec.to, id) else { return };
        while let Some((stream, number)) = self.exchange.asked.front().copied() {
            let payload = Bytes::from(vec![0; answer]);
            let mut message = OutgoingMessage::new(stream, Ppid(number), payload);
            message.unordered = self.spec.unordered;
            // Answers without room are sent later; an association that ends reports it itself.
            if association.send(now, message).is_err() {
                return;
            }
            self.exchange.asked.pop_front();
        }
    }

    /// Reads the answers that have arrived at the sender, and schedules the next request.
    pub(super) fn read_answers(&mut self, context: &mut Context<'_>, id: AssociationId) {
        let Workload::Requests { pause, .. } = self.spec.workload else { return };
        let now = context.now();
        let mut answers = Vec::new();
        {
            let Some(mut association) = context.association(self.spec.from, id) else { return };
            while let Some(message) = association.receive() {
                association.release(message.charge());
                self.result.bytes += message.payload.len() as u64;
                answers.extend(message.end.then_some(message.ppid.0));
            }
        }
        for number in answers {
            self.exchange.answered += 1;
            self.exchange.next = Some(now + pause);
            self.delivered(now, number);
        }
        self.fill(context);
    }
}
