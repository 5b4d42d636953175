//! Options that may change while an association is up (RFC 6458 section 8.1).

use std::sync::Arc;

use super::Association;
use crate::config::{AssociationConfig, ConfigError};
use crate::event::PathState;
use crate::time::Instant;

impl Association {
    /// Adopts those options of `config` that can change now; [`AssociationConfig::adjusted`] decides
    /// which. An RTO is brought within its new bounds, each path waits for its next heartbeat from now,
    /// and counters keep counting.
    ///
    /// # Errors
    /// The first option that is out of range, or `copies_up_to` if it cannot go on or off now; then nothing has
    /// changed.
    pub fn reconfigure(
        &mut self,
        now: Instant,
        config: &AssociationConfig,
    ) -> Result<(), ConfigError> {
        let new = self.config.adjusted(config);
        new.validate()?;
        // Packets in flight keep their numbers, by which losses are detected.
        if new.judges_by_path() != self.config.judges_by_path() {
            let expected = "on or off throughout, unless several paths carry data at the same time";
            return Err(ConfigError::new("copies_up_to", expected));
        }
        let other_heartbeats =
            new.timers.heartbeat_interval != self.config.timers.heartbeat_interval;
        let other_keys = new.keys != self.config.keys;
        self.config = Arc::new(new);
        if other_keys {
            self.keys_changed();
        }
        self.sender.reconfigure(&self.config);
        self.acknowledger.reconfigure(&self.config.acknowledging);
        self.receiver.reconfigure(&self.config.receiving);
        for id in self.paths.ids_now() {
            let path = &mut self.paths[id];
            path.rtt.reconfigure(&self.config.timers);
            let regular = path.state != PathState::Unconfirmed;
            if other_heartbeats && regular && self.is_established() && self.state.heartbeats() {
                if self.paths[id].is_potentially_failed() {
                    self.probe_potentially_failed(now, id);
                } else {
                    self.schedule_heartbeat(now, id);
                }
            }
        }
        Ok(())
    }
}
