//! Counters and measurements of the engine by name.

use std::net::IpAddr;

use anabranch_proto::{Number, PathStatistics, Statistics};

use super::Socket;
use crate::assoc_id::AssocId;
use crate::error::Error;

impl Socket {
    /// A counter or measurement of an association, or of its path to `remote`, by its name in `docs/counters.md`.
    /// Also available after the end. `None` if it is not known yet.
    ///
    /// # Errors
    /// [`Error::NoSuchOption`] if nothing has this name, [`Error::Invalid`] if there is no such path.
    pub fn counter(
        &self,
        id: AssocId,
        remote: Option<IpAddr>,
        name: &str,
    ) -> Result<Option<Number>, Error> {
        let known = self.with(|state| {
            let (_, peer) = state.peer(self.style, id)?;
            peer.statistics().ok_or(Error::NotConnected)
        })?;
        match remote {
            None => {
                let mut rows = Statistics::counters();
                let row = rows.find(|row| row.json_name() == name).ok_or(Error::NoSuchOption)?;
                Ok((row.get)(&known))
            }
            Some(remote) => {
                let mut paths = known.paths.iter();
                let path = paths.find(|path| path.remote == remote).ok_or(Error::Invalid)?;
                let mut rows = PathStatistics::counters();
                let row = rows.find(|row| row.json_name() == name).ok_or(Error::NoSuchOption)?;
                Ok((row.get)(path))
            }
        }
    }
}
