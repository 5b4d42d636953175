//! Where a packet was seen.

use std::fmt;

/// Where a packet was seen. The same addresses and ports at two places belong to two flows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Place {
    /// Counts files that do not continue the previous one.
    pub(crate) file: u32,
    /// Number of the interface in its file.
    pub(crate) interface: u32,
    /// The device of a Linux cooked capture (version 2).
    pub(crate) device: Option<u32>,
    /// VLANs and virtual networks, the outermost first.
    labels: [Option<Label>; 4],
}

/// Labels that separate several networks on one line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Label {
    /// IEEE 802.1Q.
    Vlan(u16),
    /// VXLAN or Geneve.
    Network(u32),
}

impl Place {
    pub(crate) fn new(file: u32, interface: u32) -> Self {
        Self { file, interface, ..Self::default() }
    }

    /// Adds a network. Networks beyond the maximum are not distinguished.
    pub(crate) fn label(&mut self, label: Label) {
        if let Some(free) = self.labels.iter_mut().find(|place| place.is_none()) {
            *free = Some(label);
        }
    }
}

/// Shows the device and the networks; the interface has a separate column.
impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut gap = "";
        if self.file > 0 {
            write!(f, "file {}", self.file + 1)?;
            gap = " ";
        }
        if let Some(device) = self.device {
            write!(f, "{gap}device {device}")?;
            gap = " ";
        }
        for label in self.labels.iter().flatten() {
            match label {
                Label::Vlan(id) => write!(f, "{gap}vlan {id}")?,
                Label::Network(id) => write!(f, "{gap}vni {id}")?,
            }
            gap = " ";
        }
        Ok(())
    }
}
