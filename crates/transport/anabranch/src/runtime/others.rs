//! Additional descriptors on the address of a socket, for packets without an association.

use std::cell::RefCell;
#[cfg(target_os = "linux")]
use std::io;

/// A descriptor for each class of such packets, once they are needed.
#[derive(Debug)]
pub(super) struct Others<D> {
    descriptors: RefCell<Option<[D; 2]>>,
    #[cfg(target_os = "linux")]
    handle: Option<tokio::runtime::Handle>,
    /// The system does not support them; do not try again.
    #[cfg(target_os = "linux")]
    refused: std::cell::Cell<bool>,
}

impl<D> Default for Others<D> {
    fn default() -> Self {
        Self {
            descriptors: RefCell::new(None),
            #[cfg(target_os = "linux")]
            handle: tokio::runtime::Handle::try_current().ok(),
            #[cfg(target_os = "linux")]
            refused: std::cell::Cell::new(false),
        }
    }
}

impl<D> Others<D> {
    /// Calls `look` with the descriptors, or returns `absent` if there are none.
    pub(super) fn with<T>(&self, absent: T, look: impl FnOnce(&[D; 2]) -> T) -> T {
        self.descriptors.borrow().as_ref().map_or(absent, look)
    }

    /// Opens the descriptors if necessary, and calls `divide` to distribute packets among them.
    /// Returns whether that succeeded.
    #[cfg(target_os = "linux")]
    pub(super) fn keep(
        &self,
        open: impl Fn() -> io::Result<D>,
        divide: impl FnOnce(&[D; 2]) -> io::Result<()>,
    ) -> bool {
        if self.refused.get() {
            return false;
        }
        let mut slot = self.descriptors.borrow_mut();
        let open = || {
            let _context = self.handle.as_ref().map(tokio::runtime::Handle::enter);
            io::Result::Ok([open()?, open()?])
        };
        let opened = match slot.take() {
            Some(descriptors) => Ok(descriptors),
            None => open(),
        };
        let divided = opened.and_then(|descriptors: [D; 2]| {
            divide(&descriptors)?;
            Ok(descriptors)
        });
        match divided {
            Ok(descriptors) => {
                *slot = Some(descriptors);
                true
            }
            Err(error) => {
                tracing::debug!(%error, "packets of strangers are not kept apart");
                self.refused.set(true);
                false
            }
        }
    }
}
