//! Which options ask for the features that are negotiated: one row for each row of the table in
//! `features.rs`.

use super::AssociationConfig;
use crate::features::Features;

/// A feature, and whether it is wanted.
type Row = (Features, fn(&AssociationConfig) -> bool);

const TABLE: [Row; 2] = [
    (Features::NR_SACK, |config| config.acknowledging.nr_sack),
    (Features::TIMESTAMPS, |config| config.recovery.timestamps),
];

impl AssociationConfig {
    /// The features that these options ask for.
    pub(crate) fn features(&self) -> Features {
        let wanted = TABLE.iter().filter(|(_, is_wanted)| is_wanted(self));
        wanted.fold(Features::NONE, |all, (feature, _)| all | *feature)
    }
}

#[cfg(test)]
mod tests {
    use anabranch_wire::kind;

    use super::*;

    #[test]
    fn every_feature_can_be_asked_for() {
        let all = TABLE.iter().fold(Features::NONE, |all, (feature, _)| all | *feature);
        assert_eq!(all, Features::from_bits(u32::MAX));
        assert_eq!(TABLE.len(), all.names().count(), "in one way each");
    }

    #[test]
    fn what_both_want_is_agreed_on() {
        let mut config = AssociationConfig::default();
        config.recovery.timestamps = true;
        config.acknowledging.nr_sack = true;
        let ours = config.features();
        assert_eq!(ours.chunks(), [kind::NR_SACK, kind::TIMESTAMP]);
        let theirs = Features::announced(&[kind::TIMESTAMP, 99]);
        assert_eq!(ours.agreed(theirs), Features::TIMESTAMPS);
        assert_eq!(Features::NONE.agreed(theirs), Features::NONE);
        assert_eq!(Features::from_bits(ours.bits() | 1 << 31), ours);
        assert_eq!(ours.to_string(), "nr-sack,timestamps");
    }
}
