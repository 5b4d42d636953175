//! Maps tags and TSNs: scripts use fixed numbers, the engine draws random ones.

/// Numbers that the engine has drawn for an association.
#[derive(Clone, Debug)]
pub(crate) struct Identity {
    /// The corresponding tag in the script, if there is one.
    pub(crate) script_tag: Option<u64>,
    pub(crate) live_tag: u32,
    pub(crate) script_tsn: u32,
    pub(crate) live_tsn: u32,
    /// The State Cookie of the INIT ACK that announced these numbers.
    pub(crate) cookie: Vec<u8>,
    /// What this side and the peer said of authentication in their INIT or INIT ACK.
    pub(crate) vectors: [Vec<u8>; 2],
}

/// All numbers that the engine has drawn so far.
#[derive(Clone, Debug, Default)]
pub(crate) struct Identities {
    pub(crate) all: Vec<Identity>,
    /// The association for packets without a tag.
    pub(crate) current: usize,
}

impl Identities {
    pub(crate) fn current(&self) -> Option<&Identity> {
        self.all.get(self.current)
    }

    pub(crate) fn of_live_tag(&self, tag: u32) -> Option<usize> {
        self.all.iter().position(|identity| identity.live_tag == tag)
    }

    pub(crate) fn of_script_tag(&self, tag: u64) -> Option<usize> {
        self.all.iter().position(|identity| identity.script_tag == Some(tag))
    }

    /// The live value of a script's tag. It is that of an INIT or INIT ACK seen before; otherwise
    /// it differs from the current live tag as much as in the script, so that scripts can use wrong
    /// tags.
    pub(crate) fn live_tag(&self, tag: u64) -> u32 {
        if let Some(index) = self.of_script_tag(tag) {
            return self.all.get(index).map_or(0, |identity| identity.live_tag);
        }
        let current = self
            .current()
            .map_or((0, 0), |current| (current.live_tag, current.script_tag.unwrap_or(0) as u32));
        match current.0.wrapping_add((tag as u32).wrapping_sub(current.1)) {
            0 => 1,
            tag => tag,
        }
    }

    /// The script's number for a live tag.
    pub(crate) fn script_tag(&self, tag: u32) -> u64 {
        let known = self.of_live_tag(tag).and_then(|index| self.all.get(index));
        known.and_then(|identity| identity.script_tag).unwrap_or(u64::from(tag))
    }

    pub(crate) fn live_tsn(&self, identity: usize, tsn: u64) -> u32 {
        self.all.get(identity).map_or(tsn as u32, |identity| {
            (tsn as u32).wrapping_sub(identity.script_tsn).wrapping_add(identity.live_tsn)
        })
    }

    pub(crate) fn script_tsn(&self, identity: usize, tsn: u32) -> u64 {
        u64::from(self.all.get(identity).map_or(tsn, |identity| {
            tsn.wrapping_sub(identity.live_tsn).wrapping_add(identity.script_tsn)
        }))
    }
}
