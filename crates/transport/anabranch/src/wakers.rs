//! Sets of wakers.

use std::task::Waker;

/// Identifies a registration in a [`WakerSet`] or in a queue of tasks; the waiting future keeps it.
pub(crate) type Key = u64;

/// Futures that wait for the same event and are all woken when it happens.
#[derive(Debug, Default)]
pub(crate) struct WakerSet {
    entries: Vec<(Key, Waker)>,
    next_key: Key,
}

impl WakerSet {
    /// Registers a waker, or renews the registration `key`.
    pub(crate) fn register(&mut self, key: &mut Option<Key>, waker: &Waker) {
        let known = key.and_then(|key| self.entries.iter_mut().find(|entry| entry.0 == key));
        match known {
            Some((_, old)) => old.clone_from(waker),
            None => {
                let new = self.next_key;
                self.next_key += 1;
                *key = Some(new);
                self.entries.push((new, waker.clone()));
            }
        }
    }

    /// Ends a registration.
    pub(crate) fn remove(&mut self, key: Key) {
        self.entries.retain(|entry| entry.0 != key);
    }

    /// Takes all wakers.
    pub(crate) fn drain(&mut self) -> impl Iterator<Item = Waker> {
        self.entries.drain(..).map(|(_, waker)| waker)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::task::Wake;

    use super::*;

    #[derive(Default)]
    struct Count(AtomicUsize);

    impl Wake for Count {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn waker() -> (Waker, Arc<Count>) {
        let count = Arc::<Count>::default();
        (Waker::from(count.clone()), count)
    }

    #[test]
    fn a_set_wakes_everyone_once() {
        let mut set = WakerSet::default();
        let (a, a_count) = waker();
        let (b, b_count) = waker();
        let (mut a_key, mut b_key) = (None, None);
        set.register(&mut a_key, &a);
        set.register(&mut a_key, &a);
        set.register(&mut b_key, &b);
        set.remove(b_key.unwrap());
        set.drain().for_each(Waker::wake);
        assert_eq!(a_count.0.load(Ordering::Relaxed), 1);
        assert_eq!(b_count.0.load(Ordering::Relaxed), 0);
        assert_eq!(set.drain().count(), 0);
        // A future whose key is from before the drain registers again.
        set.register(&mut a_key, &a);
        assert_eq!(set.drain().count(), 1);
    }
}
