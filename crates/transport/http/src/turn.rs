//! Polls the ready streams of a connection a few at a time.
//!
//! The output of streams is sent when their task yields to the sending task. If all of them were polled before
//! that, the peer would be idle meanwhile, and then send all its requests together again.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::task::{Context, Poll};

use futures_util::stream::{FuturesUnordered, Stream};

/// Number of streams polled before the task yields.
const STREAMS: usize = 16;

/// Counts the streams polled in the current turn of a connection's task.
#[derive(Debug, Default)]
pub(crate) struct Turn(AtomicUsize);

impl Turn {
    /// Wraps a stream's future so that it is polled in a later turn if this one is used up.
    pub(crate) fn share<F: Future>(&self, future: F) -> impl Future<Output = F::Output> {
        // An `async fn` would store it twice.
        let mut future = Box::pin(future);
        poll_fn(move |cx| {
            // All of them belong to one task, so they are never polled concurrently.
            let had = self.0.load(Relaxed);
            if had == STREAMS {
                // `FuturesUnordered` yields when it is woken a second time.
                cx.waker().wake_by_ref();
                return Poll::Pending;
            }
            self.0.store(had + 1, Relaxed);
            future.as_mut().poll(cx)
        })
    }

    /// Starts a turn. Returns the output of the next stream that ends.
    pub(crate) fn poll_next<F: Future>(
        &self,
        cx: &mut Context<'_>,
        streams: &mut FuturesUnordered<F>,
    ) -> Poll<Option<F::Output>> {
        self.0.store(0, Relaxed);
        pin!(streams).poll_next(cx)
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::task::Waker;

    use super::*;

    #[test]
    fn a_task_gives_way_between_its_streams() {
        let (turn, polled) = (Turn::default(), Cell::new(0));
        let mut streams = FuturesUnordered::new();
        for _ in 0..3 * STREAMS + 1 {
            let mut rest = 2;
            let polled = &polled;
            streams.push(turn.share(poll_fn(move |cx| {
                polled.set(polled.get() + 1);
                rest -= 1;
                match rest {
                    0 => Poll::Ready(()),
                    // There is more to do in the next turn.
                    _ => {
                        cx.waker().wake_by_ref();
                        Poll::Pending
                    }
                }
            })));
        }
        let mut cx = Context::from_waker(Waker::noop());
        let (mut ended, mut turns, mut most) = (0, 0, 0);
        while ended < 3 * STREAMS + 1 {
            let before = polled.get();
            match turn.poll_next(&mut cx, &mut streams) {
                Poll::Ready(Some(())) => ended += 1,
                Poll::Ready(None) => break,
                Poll::Pending => {}
            }
            turns += 1;
            most = most.max(polled.get() - before);
            assert!(turns < 1000);
        }
        assert_eq!(polled.get(), 2 * (3 * STREAMS + 1));
        assert!(most <= STREAMS, "{most} streams in one turn");
    }

    #[test]
    fn every_stream_has_its_turn() {
        let (turn, first, last) = (Turn::default(), Cell::new(0), Cell::new(0));
        let mut streams = FuturesUnordered::new();
        // Streams that are always ready must not starve others.
        for at in 0..10 * STREAMS {
            let place = if at == 0 { &first } else { &last };
            streams.push(turn.share(poll_fn(move |cx| {
                place.set(place.get() + 1);
                cx.waker().wake_by_ref();
                Poll::<()>::Pending
            })));
        }
        let mut cx = Context::from_waker(Waker::noop());
        for _ in 0..1000 {
            assert!(turn.poll_next(&mut cx, &mut streams).is_pending());
        }
        let mean = last.get() / (10 * STREAMS - 1);
        assert!(first.get() * 2 > mean && first.get() < 2 * mean, "{} and {mean}", first.get());
    }
}
