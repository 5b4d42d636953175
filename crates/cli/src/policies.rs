//! Options that choose between the policies of multihoming.

use anabranch::{
    AssociationConfig, Coupling, DormantBehaviour, InitiationOrder, MultipathMode, PathChoice,
    RetransmissionPolicy, RetransmissionPrecedence,
};
use clap::Args;

/// What to do when packets are lost, paths fail, and addresses may be several hosts'.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Multihoming")]
pub(crate) struct PolicyOptions {
    /// Send new data on all paths at once: cmt, or cmt-pf, in which a path that timed out carries
    /// nothing until a heartbeat is answered. Set it at both ends if both send, and at the
    /// receiver so that it acknowledges less often [default: off]
    #[arg(long, value_name = "MODE")]
    multipath: Option<MultipathMode>,
    /// Which path with room carries the next packet of new data: round-robin, window-in-turn or
    /// lowest-rtt
    /// [default: round-robin]
    #[arg(long, value_name = "CHOICE", requires = "multipath")]
    path_choice: Option<PathChoice>,
    /// How the windows of the paths depend on each other, so that paths through one bottleneck take
    /// the share of one: uncoupled, lia, olia, balia, cmt-rpv1 or cmt-rpv2 [default: uncoupled]
    #[arg(long, value_name = "ALGORITHM", requires = "multipath")]
    coupling: Option<Coupling>,
    /// Let one path take all of the buffers, not its equal share only
    #[arg(long, requires = "multipath")]
    no_buffer_split: bool,
    /// Path of retransmissions: all-rtx-same, all-rtx-alt, fr-same-rto-alt (fast retransmissions on
    /// the same path, others on an alternate one), or by the paths' state rtx-asap, rtx-cwnd,
    /// rtx-ssthresh or rtx-lossrate [default: of the profile; with --multipath rtx-ssthresh]
    #[arg(long, value_name = "POLICY")]
    retransmission: Option<RetransmissionPolicy>,
    /// New data that waits for retransmissions: all-paths, or same-path for data of the path
    /// that the retransmissions wait for [default: all-paths]
    #[arg(long, value_name = "WHICH")]
    retransmission_precedence: Option<RetransmissionPrecedence>,
    /// Send a heartbeat at once on a path that timed out
    #[arg(long)]
    har: bool,
    /// Fast-retransmit a chunk again if its retransmission is lost
    #[arg(long)]
    mfr: bool,
    /// Put timestamps into packets if the peer wants them too (12 bytes each)
    #[arg(long)]
    timestamps: bool,
    /// A path is potentially failed when it has more errors in a row than this, and data takes
    /// another one then (RFC 7829, which recommends 0); PMR and more: never [default: 0, of the
    /// profiles of RFCs never]
    #[arg(long, value_name = "N")]
    pf: Option<u32>,
    /// Send NR-SACKs if the peer wants them too: data that has arrived leaves the send buffer
    /// before what is missing below it has come
    #[arg(long)]
    nr_sack: bool,
    /// With too little memory, drop data again that waits for other data and has been
    /// acknowledged; NR-SACKs then tell only of data that can be delivered
    #[arg(long)]
    renege: bool,
    /// Change-primary threshold: the path in use becomes the primary one when the primary path
    /// has more errors in a row than this [default: never]
    #[arg(long, value_name = "N")]
    cpt: Option<u32>,
    /// Change the primary path only if loss and RTT promise more of the other one
    #[arg(long, requires = "cpt")]
    informed: bool,
    /// Path for data while all have failed: last-dest, primary, hop or fewest-errors
    /// [default: hop]
    #[arg(long, value_name = "WHERE")]
    dormant: Option<DormantBehaviour>,
    /// How several addresses are asked for the association: sequential or parallel
    #[arg(long, value_name = "ORDER")]
    initiation: Option<InitiationOrder>,
}

impl PolicyOptions {
    /// The options that were given, by their names.
    pub(crate) fn given(&self) -> impl Iterator<Item = &'static str> + use<> {
        [
            ("--multipath", self.multipath.is_some()),
            ("--path-choice", self.path_choice.is_some()),
            ("--coupling", self.coupling.is_some()),
            ("--no-buffer-split", self.no_buffer_split),
            ("--retransmission", self.retransmission.is_some()),
            ("--retransmission-precedence", self.retransmission_precedence.is_some()),
            ("--har", self.har),
            ("--mfr", self.mfr),
            ("--timestamps", self.timestamps),
            ("--pf", self.pf.is_some()),
            ("--nr-sack", self.nr_sack),
            ("--renege", self.renege),
            ("--cpt", self.cpt.is_some()),
            ("--informed", self.informed),
            ("--dormant", self.dormant.is_some()),
            ("--initiation", self.initiation.is_some()),
        ]
        .into_iter()
        .filter_map(|(name, given)| given.then_some(name))
    }

    /// Enters what was given into the options of an association.
    pub(crate) fn apply(&self, config: &mut AssociationConfig) {
        fn set<T: Copy>(field: &mut T, given: Option<T>) {
            *field = given.unwrap_or(*field);
        }
        if let Some(mode) = self.multipath {
            *config = config.clone().with_multipath(mode);
        }
        if let Some(multipath) = &mut config.multipath {
            set(&mut multipath.path_choice, self.path_choice);
            set(&mut multipath.coupling, self.coupling);
            multipath.buffer_split &= !self.no_buffer_split;
        }
        set(&mut config.retransmission, self.retransmission);
        set(&mut config.retransmission_precedence, self.retransmission_precedence);
        set(&mut config.dormant, self.dormant);
        set(&mut config.initiation, self.initiation);
        config.heartbeat_after_rto |= self.har;
        config.multiple_fast_retransmit |= self.mfr;
        config.timestamps |= self.timestamps;
        config.nr_sack |= self.nr_sack;
        config.never_renege &= !self.renege;
        config.informed_failover |= self.informed;
        config.potentially_failed_max_retrans = self.pf.or(config.potentially_failed_max_retrans);
        config.change_primary_threshold = self.cpt.or(config.change_primary_threshold);
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Command {
        #[command(flatten)]
        options: PolicyOptions,
    }

    fn parse(line: &str) -> Result<PolicyOptions, String> {
        let words = std::iter::once("test").chain(line.split_whitespace());
        Command::try_parse_from(words).map(|c| c.options).map_err(|error| error.to_string())
    }

    #[test]
    fn what_is_given_is_set_and_the_rest_stays() {
        let options = parse(
            "--retransmission frsame-rtoalt --har --timestamps --pf 0 --cpt 0 \
             --informed --dormant last-dest --initiation parallel --retransmission-precedence same-path \
             --nr-sack --renege",
        )
        .unwrap();
        let mut config = AssociationConfig::rfc2960();
        options.apply(&mut config);
        assert_eq!(config.retransmission, RetransmissionPolicy::FrSameRtoAlt);
        assert_eq!(config.retransmission_precedence, RetransmissionPrecedence::SamePath);
        assert_eq!(config.dormant, DormantBehaviour::LastDest);
        assert_eq!(config.initiation, InitiationOrder::Parallel);
        assert_eq!(config.change_primary_threshold, Some(0));
        assert_eq!(config.potentially_failed_max_retrans, Some(0));
        assert!(config.heartbeat_after_rto && config.timestamps && config.informed_failover);
        assert!(config.nr_sack && !config.never_renege);
        assert!(!config.multiple_fast_retransmit);
        assert_eq!(options.given().count(), 11);
        assert_eq!(config.multipath, None);
        let mut several = AssociationConfig::default();
        let line = "--multipath cmt-pf --path-choice lowest-rtt --coupling olia --no-buffer-split --retransmission rtx-cwnd";
        let options = parse(line).unwrap();
        options.apply(&mut several);
        let multipath = several.multipath.unwrap();
        assert_eq!((multipath.path_choice, multipath.buffer_split), (PathChoice::LowestRtt, false));
        assert_eq!(multipath.coupling, Coupling::Olia);
        assert_eq!(several.retransmission, RetransmissionPolicy::RtxCwnd);
        assert_eq!(several.potentially_failed_max_retrans, Some(0));
        assert_eq!(options.given().count(), 5);
        let mut untouched = AssociationConfig::rfc2960();
        parse("").unwrap().apply(&mut untouched);
        assert_eq!(untouched.retransmission, RetransmissionPolicy::AllRtxAlt);
        assert!(!untouched.nr_sack && untouched.never_renege);
        assert_eq!(parse("").unwrap().given().count(), 0);
    }

    #[test]
    fn what_means_nothing_is_refused() {
        let error = parse("--retransmission sometimes").unwrap_err();
        assert!(error.contains("none of all-rtx-same, all-rtx-alt, fr-same-rto-alt"), "{error}");
        assert!(parse("--informed").is_err());
        assert!(parse("--path-choice round-robin").is_err());
        assert!(parse("--coupling lia").is_err());
        assert!(parse("--multipath on").is_err());
        assert!(parse("--cpt -1").is_err());
    }
}
