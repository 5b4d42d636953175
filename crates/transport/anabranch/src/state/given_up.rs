//! The messages that an association had given up when it ended.

use anabranch_proto::{Association, GivenUpBy, GivenUpMessages};

const POLICIES: [GivenUpBy; 3] =
    [GivenUpBy::Lifetime, GivenUpBy::Retransmissions, GivenUpBy::Priority];

/// Counts by policy and stream, except those that are 0.
#[derive(Debug)]
pub(crate) struct GivenUp(Vec<(GivenUpBy, u16, GivenUpMessages)>);

impl GivenUp {
    pub(super) fn of(association: &Association) -> Self {
        let nothing = GivenUpMessages::default();
        let used = POLICIES.into_iter().filter(|by| association.given_up(*by, None) != nothing);
        let counts = used.flat_map(|by| {
            let streams = 0..association.outbound_streams();
            streams.map(move |stream| (by, stream, association.given_up(by, Some(stream))))
        });
        Self(counts.filter(|(.., count)| *count != nothing).collect())
    }

    /// The messages that were given up by a policy, on one stream or on all.
    pub(crate) fn count(&self, by: GivenUpBy, stream: Option<u16>) -> GivenUpMessages {
        let mut sum = GivenUpMessages::default();
        for (policy, of, count) in &self.0 {
            if *policy == by && stream.is_none_or(|stream| stream == *of) {
                sum.unsent = sum.unsent.wrapping_add(count.unsent);
                sum.sent = sum.sent.wrapping_add(count.sent);
            }
        }
        sum
    }
}
