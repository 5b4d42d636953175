//! Makes rare behaviour frequent for simulations: what the protocol allows but hardly ever happens. Only
//! compiled with the feature `invariants`.

use super::Association;

impl Association {
    /// Whether something rare should happen here: one time in
    /// [`EndpointConfig::buggify`](crate::EndpointConfig) times `rarity`.
    #[cfg(feature = "invariants")]
    pub(super) fn buggify(&mut self, rarity: u64) -> bool {
        let one_in = u64::from(self.surroundings.buggify);
        one_in > 0 && self.rng.below(one_in * rarity) == 0
    }

    /// Never outside of simulations.
    #[cfg(not(feature = "invariants"))]
    #[allow(clippy::unused_self)]
    pub(super) const fn buggify(&self, _rarity: u64) -> bool {
        false
    }
}
