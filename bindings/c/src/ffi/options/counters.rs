//! ANABRANCH_COUNTER: a counter or measurement of the engine, by name.

use anabranch_sockets::{AssocId, Socket};

use super::paths::remote;
use super::{Row, option, parse, text};
use crate::abi::{self, NamedCounter};
use crate::errno::Errno;

pub(super) const ROWS: &[Row] = &[(option::COUNTER, super::read_only, get)];

/// The counter of an association, or if there is an address, of the path to it. NaN: not measured yet.
fn get(socket: &Socket, given: &[u8]) -> Result<Vec<u8>, Errno> {
    let mut counter: NamedCounter = parse(given)?;
    let (id, remote) = (AssocId(counter.assoc_id), remote(&counter.address.0)?);
    let value = socket.counter(id, remote, text(&counter.name)?)?;
    counter.value = value.map_or(f64::NAN, |number| number.as_f64());
    Ok(abi::to_bytes(&counter))
}

#[cfg(test)]
mod tests {
    use anabranch::{PathStatistics, Statistics};

    use super::*;

    #[test]
    fn every_name_fits_into_the_structure() {
        let room = NamedCounter::default().name.len();
        let associations = Statistics::counters().map(|row| row.json_name());
        for name in associations.chain(PathStatistics::counters().map(|row| row.json_name())) {
            assert!(name.len() < room, "{name}");
        }
    }
}
