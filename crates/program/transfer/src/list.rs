//! What a sender offers.

use serde::{Deserialize, Serialize};

use crate::digest::Hasher;

/// Most files in a list.
pub(crate) const MOST_FILES: usize = 100_000;

/// Most bytes of a list as it is sent.
pub(crate) const MOST_BYTES: usize = 64 << 20;

/// A file.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub struct Entry {
    /// Its name as the sender has it, with '/' after each directory. Use [`local_path`](crate::local_path) before
    /// anything else.
    pub path: String,
    /// Its length in bytes.
    pub size: u64,
    /// When it was changed last, in nanoseconds since 1970; tells versions apart.
    pub modified: u64,
}

impl Entry {
    /// Tells this version of the file from other files and other versions.
    pub(crate) fn id(&self) -> String {
        let mut hasher = Hasher::default();
        hasher.add(&self.size.to_be_bytes());
        hasher.add(&self.modified.to_be_bytes());
        hasher.add(self.path.as_bytes());
        hasher.digest().to_string().chars().take(16).collect()
    }
}

/// The files of an offer.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
pub struct List {
    /// In the order in which they are sent.
    pub files: Vec<Entry>,
}

impl List {
    /// The sum of their lengths in bytes.
    pub fn bytes(&self) -> u64 {
        self.files.iter().fold(0, |sum, file| sum.saturating_add(file.size))
    }

    /// Parses what a sender has sent. The error is a sentence.
    pub(crate) fn parse(bytes: &[u8]) -> Result<Self, String> {
        let list: Self = serde_json::from_slice(bytes)
            .map_err(|error| format!("the sender's list of files is malformed: {error}"))?;
        match list.files.len() {
            0 => Err("the sender offers no files".to_owned()),
            count if count > MOST_FILES => {
                Err(format!("the sender offers {count} files, more than {MOST_FILES}"))
            }
            _ => Ok(list),
        }
    }
}
