//! A second descriptor on the address of a socket, for the packets that are not preferred.

use std::cell::RefCell;
#[cfg(target_os = "linux")]
use std::io;

/// The second descriptor, once it is needed.
#[derive(Debug)]
pub(super) struct Others<D> {
    descriptor: RefCell<Option<D>>,
    #[cfg(target_os = "linux")]
    handle: Option<tokio::runtime::Handle>,
    /// The system does not do it; it is not asked again.
    #[cfg(target_os = "linux")]
    refused: std::cell::Cell<bool>,
}

impl<D> Default for Others<D> {
    fn default() -> Self {
        Self {
            descriptor: RefCell::new(None),
            #[cfg(target_os = "linux")]
            handle: tokio::runtime::Handle::try_current().ok(),
            #[cfg(target_os = "linux")]
            refused: std::cell::Cell::new(false),
        }
    }
}

impl<D> Others<D> {
    /// What `look` sees in the descriptor, or `absent`.
    pub(super) fn with<T>(&self, absent: T, look: impl FnOnce(&D) -> T) -> T {
        self.descriptor.borrow().as_ref().map_or(absent, look)
    }

    /// Opens the descriptor if there is none, and lets `divide` tell the system who gets what.
    /// Returns whether that was possible.
    #[cfg(target_os = "linux")]
    pub(super) fn keep(
        &self,
        open: impl FnOnce() -> io::Result<D>,
        divide: impl FnOnce(&D) -> io::Result<()>,
    ) -> bool {
        if self.refused.get() {
            return false;
        }
        let mut slot = self.descriptor.borrow_mut();
        let open = || {
            let _context = self.handle.as_ref().map(tokio::runtime::Handle::enter);
            open()
        };
        let opened = match slot.take() {
            Some(descriptor) => Ok(descriptor),
            None => open(),
        };
        let divided = opened.and_then(|descriptor| {
            divide(&descriptor)?;
            Ok(descriptor)
        });
        match divided {
            Ok(descriptor) => {
                *slot = Some(descriptor);
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
