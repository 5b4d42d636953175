//! Makes behaviour frequent for simulations that the protocol allows but that hardly ever occurs. Only
//! compiled with the feature `invariants`.

use super::Association;

impl Association {
    /// Whether something rare should happen here: once in
    /// [`EndpointConfig::buggify`](crate::EndpointConfig) times `rarity` calls.
    #[cfg(feature = "invariants")]
    pub(super) fn buggify(&mut self, rarity: u64) -> bool {
        let one_in = u64::from(self.surroundings.buggify);
        one_in > 0 && self.rng.below(one_in * rarity) == 0
    }

    /// Always false outside of simulations.
    #[cfg(not(feature = "invariants"))]
    #[allow(clippy::unused_self)]
    pub(super) const fn buggify(&self, _rarity: u64) -> bool {
        false
    }
}
