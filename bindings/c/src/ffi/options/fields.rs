//! Fields of C's structures that are options of the engine and nothing else: what each is called
//! there, and the unit that C has for it. Both directions follow from the table.

use std::mem::offset_of;

use anabranch::AssociationConfig;
use anabranch::config::units;
use anabranch_sockets::{AssocId, Socket};
use libc::c_int;

use crate::abi::{AssocValue, Assocparams, Initmsg, Rtoinfo, Setadaptation, option};
use crate::errno::Errno;

#[derive(Clone, Copy)]
enum Type {
    U16,
    U32,
    /// A negative one is no value.
    Int,
}

#[derive(Clone, Copy)]
enum Unit {
    Number,
    Milliseconds,
    Seconds,
    /// Anything but 0 switches the option on.
    On,
    /// Anything but 0 switches Nagle's algorithm, or any other way of bundling, off.
    NoDelay,
}

/// What 0 says.
#[derive(Clone, Copy, PartialEq)]
enum Zero {
    /// The number 0.
    Value,
    /// Keeps the present value.
    Keeps,
    /// Switch it off.
    Off,
}

/// A field: its option in C, where it stands in the structure, its type, the engine's name, the unit,
/// and what 0 says.
type Field = (c_int, usize, Type, &'static str, Unit, Zero);

const FIELDS: &[Field] = {
    use Type::{Int, U16, U32};
    use Unit::{Milliseconds, NoDelay, Number, On, Seconds};
    use Zero::{Keeps, Value};
    const INITMSG: c_int = option::INITMSG;
    &[
        (option::RTOINFO, offset_of!(Rtoinfo, initial), U32, "rto_initial", Milliseconds, Keeps),
        (option::RTOINFO, offset_of!(Rtoinfo, max), U32, "rto_max", Milliseconds, Keeps),
        (option::RTOINFO, offset_of!(Rtoinfo, min), U32, "rto_min", Milliseconds, Keeps),
        (
            option::ASSOCINFO,
            offset_of!(Assocparams, asocmaxrxt),
            U16,
            "association_max_retrans",
            Number,
            Keeps,
        ),
        (INITMSG, offset_of!(Initmsg, num_ostreams), U16, "outbound_streams", Number, Keeps),
        (INITMSG, offset_of!(Initmsg, max_instreams), U16, "inbound_streams", Number, Keeps),
        (INITMSG, offset_of!(Initmsg, max_attempts), U16, "max_init_retransmits", Number, Keeps),
        (option::NODELAY, 0, Int, "bundling", NoDelay, Value),
        (option::AUTOCLOSE, 0, Int, "autoclose", Seconds, Zero::Off),
        (option::PARTIAL_DELIVERY_POINT, 0, Int, "partial_delivery_point", Number, Value),
        (
            option::ADAPTATION_LAYER,
            offset_of!(Setadaptation, ind),
            U32,
            "adaptation_indication",
            Number,
            Value,
        ),
        (option::NRSACK_SUPPORTED, offset_of!(AssocValue, value), U32, "nr_sack", On, Value),
    ]
};

fn fields(option: c_int) -> impl Iterator<Item = &'static Field> {
    FIELDS.iter().filter(move |field| field.0 == option)
}

impl Type {
    fn read(self, bytes: &[u8], at: usize) -> Result<u64, Errno> {
        let rest = bytes.get(at..).unwrap_or_default();
        let short = rest.first_chunk().map(|bytes| u16::from_ne_bytes(*bytes));
        let long = rest.first_chunk().map(|bytes| u32::from_ne_bytes(*bytes));
        let number = match self {
            Self::U16 => short.map(u64::from),
            Self::U32 => long.map(u64::from),
            Self::Int => long.filter(|long| *long <= c_int::MAX as u32).map(u64::from),
        };
        number.ok_or(Errno::EINVAL)
    }

    /// Writes the number, or the largest that there is.
    fn write(self, number: u64, bytes: &mut [u8], at: usize) {
        let most = match self {
            Self::U16 => u16::MAX.into(),
            Self::U32 => u32::MAX.into(),
            Self::Int => c_int::MAX as u64,
        };
        let number = number.min(most) as u32;
        let rest = bytes.get_mut(at..).unwrap_or_default();
        match self {
            Self::U16 => {
                if let Some(to) = rest.first_chunk_mut() {
                    *to = (number as u16).to_ne_bytes();
                }
            }
            Self::U32 | Self::Int => {
                if let Some(to) = rest.first_chunk_mut() {
                    *to = number.to_ne_bytes();
                }
            }
        }
    }
}

impl Unit {
    /// The engine's word for a number of C.
    fn text(self, number: u64) -> String {
        match self {
            Self::Number => number.to_string(),
            Self::Milliseconds => format!("{number} ms"),
            Self::Seconds => format!("{number} s"),
            Self::On => if number == 0 { "off" } else { "on" }.to_owned(),
            Self::NoDelay => if number == 0 { "nagle" } else { "none" }.to_owned(),
        }
    }

    /// The number for what the engine says.
    fn number(self, text: &str) -> u64 {
        let time = || units::parse_time(text).unwrap_or_default();
        match self {
            Self::On => u64::from(text == "on"),
            Self::NoDelay => u64::from(text == "none"),
            Self::Number if text == "unlimited" => u64::MAX,
            Self::Number => units::parse_size(text).unwrap_or(0),
            Self::Milliseconds => u64::try_from(time().as_millis()).unwrap_or(u64::MAX),
            Self::Seconds => time().as_secs(),
        }
    }
}

/// What the fields of an option say, by the engine's names.
fn changes(option: c_int, bytes: &[u8]) -> Result<Vec<(&'static str, String)>, Errno> {
    let mut changes = Vec::new();
    let mut scratch = AssociationConfig::default();
    for &(_, at, kind, name, unit, zero) in fields(option) {
        let text = match (kind.read(bytes, at)?, zero) {
            (0, Zero::Keeps) => continue,
            (0, Zero::Off) => "off".to_owned(),
            (number, _) => unit.text(number),
        };
        // Bounds of an option alone; those that depend on others are looked at with all of them.
        scratch.set(name, &text).map_err(|_| Errno::EINVAL)?;
        changes.push((name, text));
    }
    Ok(changes)
}

fn apply(config: &mut AssociationConfig, changes: &[(&str, String)]) {
    for (name, text) in changes {
        let done = config.set(name, text);
        debug_assert!(done.is_ok(), "{name} took {text} before");
    }
}

/// Sets what the fields of an option say, of these associations.
pub(super) fn set(socket: &Socket, id: AssocId, option: c_int, bytes: &[u8]) -> Result<(), Errno> {
    let changes = changes(option, bytes)?;
    Ok(socket.configure(id, |config| apply(config, &changes))?)
}

/// A configuration with what the fields of an option say.
pub(super) fn with(
    mut config: AssociationConfig,
    option: c_int,
    bytes: &[u8],
) -> Result<AssociationConfig, Errno> {
    apply(&mut config, &changes(option, bytes)?);
    config.validate().map_err(|_| Errno::EINVAL)?;
    Ok(config)
}

/// Writes the fields of an option into its structure.
pub(super) fn fill(config: &AssociationConfig, option: c_int, mut bytes: Vec<u8>) -> Vec<u8> {
    for &(_, at, kind, name, unit, _) in fields(option) {
        let text = config.get(name).unwrap_or_default();
        kind.write(unit.number(&text), &mut bytes, at);
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Numbers of C come back from the engine's options as they went there.
    #[test]
    fn every_field_is_an_option_both_ways() {
        for &(option, at, kind, name, unit, zero) in FIELDS {
            let mut config = AssociationConfig::default();
            for number in [1_u64, 0, 1] {
                if (number, zero) == (0, Zero::Keeps) {
                    continue;
                }
                let text = match (number, zero) {
                    (0, Zero::Off) => "off".to_owned(),
                    _ => unit.text(number),
                };
                config.set(name, &text).unwrap_or_else(|error| panic!("{error}"));
                let bytes = fill(&config, option, vec![0xff; 32]);
                assert_eq!(kind.read(&bytes, at), Ok(number), "{name}");
            }
        }
    }

    #[test]
    fn numbers_that_do_not_fit_are_the_largest_that_do() {
        let mut config = AssociationConfig::default();
        config.set("partial_delivery_point", "unlimited").unwrap();
        let bytes = fill(&config, option::PARTIAL_DELIVERY_POINT, vec![0; 4]);
        assert_eq!(bytes, c_int::MAX.to_ne_bytes());
        config.set("association_max_retrans", "100000").unwrap();
        let bytes = fill(&config, option::ASSOCINFO, vec![0; 20]);
        assert_eq!(bytes[4..8], [0xff, 0xff, 0, 0]);
        assert_eq!(Type::Int.read(&(-1_i32).to_ne_bytes(), 0), Err(Errno::EINVAL));
        assert_eq!(Type::U32.read(&[1, 2, 3], 0), Err(Errno::EINVAL));
    }
}
