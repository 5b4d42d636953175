//! Sealed paths for `serve`, `get`, `put` and `perf`: encrypted, and over all uplinks of the client.

mod admission;
pub(crate) mod ask;
mod client;
pub(crate) mod keys;
pub(crate) mod reach;
mod server;
mod url;
mod users;

use anabranch::AssociationConfig;

pub(crate) use self::admission::Admission;
pub(crate) use self::client::{SealOptions, Servers, uplink};
pub(crate) use self::server::{Identity, SealedServer, ServerSealOptions};
pub(crate) use self::url::{authority, url};
pub(crate) use self::users::Users;
use crate::failure::Failure;
use crate::options::SctpOptions;

/// All uplinks carry data, unless the user chooses. For a single path this changes nothing.
fn use_all_paths(config: &mut AssociationConfig, options: &SctpOptions) -> Result<(), Failure> {
    if !options.policies.given().any(|name| name == "--multipath") {
        config.set("multipath", "cmt-pf").map_err(Failure::usage)?;
    }
    Ok(())
}
