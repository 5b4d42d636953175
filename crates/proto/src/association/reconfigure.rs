//! Options that may change while an association is up (RFC 6458 section 8.1).

use std::sync::Arc;

use super::Association;
use crate::config::{AssociationConfig, ConfigError};
use crate::event::PathState;
use crate::time::Instant;

impl AssociationConfig {
    /// These options with those of `other` that an association can change while it is up: the
    /// RTO's, retransmission limits and the thresholds of paths, heartbeats, delay and frequency of acknowledgements, bursts,
    /// Nagle's algorithm, autoclose and the point of partial delivery.
    pub fn adjusted(&self, other: &Self) -> Self {
        Self {
            rto_initial: other.rto_initial,
            rto_min: other.rto_min,
            rto_max: other.rto_max,
            association_max_retrans: other.association_max_retrans,
            path_max_retrans: other.path_max_retrans,
            potentially_failed_max_retrans: other.potentially_failed_max_retrans,
            change_primary_threshold: other.change_primary_threshold,
            max_init_retransmits: other.max_init_retransmits,
            heartbeat_interval: other.heartbeat_interval,
            sack_delay: other.sack_delay,
            sack_frequency: other.sack_frequency,
            burst: other.burst,
            nagle: other.nagle,
            autoclose: other.autoclose,
            partial_delivery_point: other.partial_delivery_point,
            ..self.clone()
        }
    }
}

impl Association {
    /// Takes the options over from `config` that can change now:
    /// [`AssociationConfig::adjusted`] says which. An RTO is brought within its new bounds, a
    /// path waits for its next heartbeat from now, and counters count on.
    ///
    /// # Errors
    /// The first option that is out of range; nothing has changed then.
    pub fn reconfigure(
        &mut self,
        now: Instant,
        config: &AssociationConfig,
    ) -> Result<(), ConfigError> {
        let new = self.config.adjusted(config);
        new.validate()?;
        let other_heartbeats = new.heartbeat_interval != self.config.heartbeat_interval;
        let other_bursts = new.burst != self.config.burst;
        self.config = Arc::new(new);
        self.acknowledger.reconfigure(&self.config);
        self.receiver.reconfigure(&self.config);
        for index in 0..self.paths.len() {
            let path = &mut self.paths[index];
            path.rtt.reconfigure(&self.config);
            if other_bursts {
                path.set_burst(self.config.burst);
            }
            let regular = path.state != PathState::Unconfirmed;
            if other_heartbeats && regular && self.is_established() && self.state.heartbeats() {
                if self.paths[index].is_potentially_failed() {
                    self.probe_potentially_failed(now, index);
                } else {
                    self.schedule_heartbeat(now, index);
                }
            }
        }
        if other_bursts {
            self.begin_burst();
        }
        Ok(())
    }
}
