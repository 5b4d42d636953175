//! Packets that have arrived at the two hosts and have not been read yet.

use std::collections::VecDeque;
use std::task::{Context, Poll, Waker};

use bytes::Bytes;

use crate::network::Host;

/// The sockets of both hosts for one protocol, at most one each.
#[derive(Debug, Default)]
pub(crate) struct Sockets {
    inboxes: [Inbox; 2],
}

#[derive(Debug, Default)]
struct Inbox {
    is_open: bool,
    packets: VecDeque<Bytes>,
    reader: Option<Waker>,
}

impl Sockets {
    /// Opens the socket of a host. Returns `false` if it is already open.
    pub(crate) fn open(&mut self, host: Host) -> bool {
        !std::mem::replace(&mut self.inboxes[host as usize].is_open, true)
    }

    /// Closes it. The caller must drop the returned contents after releasing the lock.
    #[must_use]
    pub(crate) fn close(&mut self, host: Host) -> impl Sized + use<> {
        std::mem::take(&mut self.inboxes[host as usize])
    }

    /// A packet has arrived at a host.
    pub(crate) fn deliver(&mut self, to: Host, packet: Bytes, woken: &mut Vec<Waker>) {
        let inbox = &mut self.inboxes[to as usize];
        if inbox.is_open {
            inbox.packets.push_back(packet);
            woken.extend(inbox.reader.take());
        }
    }

    /// Takes up to `most` next packets of a host, and returns their number.
    pub(crate) fn poll_receive(
        &mut self,
        cx: &mut Context<'_>,
        host: Host,
        most: usize,
        take: impl FnMut(Bytes),
    ) -> Poll<usize> {
        let inbox = &mut self.inboxes[host as usize];
        let count = inbox.packets.len().min(most);
        inbox.packets.drain(..count).for_each(take);
        if count > 0 {
            return Poll::Ready(count);
        }
        inbox.reader = Some(cx.waker().clone());
        Poll::Pending
    }
}
