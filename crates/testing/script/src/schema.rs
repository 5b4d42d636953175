//! The names that scripts may use, and the fields of each chunk, parameter or cause.

use anabranch_wire::{cause_code, kind, parameter_kind};

/// The meaning of a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Class {
    /// A chunk of this type.
    Chunk(u8),
    /// A parameter of this type.
    Parameter(u16),
    /// A cause with this code.
    Cause(u16),
    /// Any chunk; its type is a field.
    AnyChunk,
    /// Any parameter.
    AnyParameter,
    /// Any cause.
    AnyCause,
}

/// A number in a chunk, in big-endian order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Number {
    /// A TSN that the chunk's sender has used.
    TsnOfSender,
    /// A TSN that the chunk's receiver has used.
    TsnOfReceiver,
    /// Any other number, which may be missing.
    Count,
}

/// One name.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Schema {
    pub(crate) name: &'static str,
    pub(crate) class: Class,
    /// Its fields other than `flgs` (of chunks) and `len`, without those in `layout`.
    fields: &'static [&'static str],
    /// For a chunk that consists only of numbers: the numbers, in order. Such a chunk needs no code in `codec`.
    pub(crate) layout: Option<&'static [(&'static str, Number)]>,
    /// Whether it can contain parameters or causes.
    pub(crate) nested: bool,
}

const fn entry(
    name: &'static str,
    class: Class,
    fields: &'static [&'static str],
    nested: bool,
) -> Schema {
    Schema { name, class, fields, layout: None, nested }
}

const fn chunk(
    name: &'static str,
    kind: u8,
    fields: &'static [&'static str],
    nested: bool,
) -> Schema {
    entry(name, Class::Chunk(kind), fields, nested)
}

/// A chunk that consists only of numbers.
const fn numbers(
    name: &'static str,
    kind: u8,
    layout: &'static [(&'static str, Number)],
) -> Schema {
    Schema { name, class: Class::Chunk(kind), fields: &[], layout: Some(layout), nested: false }
}

impl Schema {
    /// Whether scripts may write `key=`.
    pub(crate) fn has_field(&self, key: &str) -> bool {
        let in_layout =
            self.layout.is_some_and(|layout| layout.iter().any(|(name, _)| *name == key));
        in_layout || self.fields.contains(&key)
    }
}

const fn parameter(name: &'static str, kind: u16, fields: &'static [&'static str]) -> Schema {
    entry(name, Class::Parameter(kind), fields, false)
}

/// A request about an address, or the answer to one.
const fn change(name: &'static str, kind: u16) -> Schema {
    entry(name, Class::Parameter(kind), &["corr_id"], true)
}

const fn cause(name: &'static str, code: u16, fields: &'static [&'static str]) -> Schema {
    entry(name, Class::Cause(code), fields, false)
}

const INIT_FIELDS: &[&str] = &["tag", "a_rwnd", "os", "is", "tsn"];

/// All names. `PAD` is both a chunk and a parameter.
pub(crate) const NAMES: &[Schema] = &[
    entry("CHUNK", Class::AnyChunk, &["type", "val"], false),
    entry("PARAMETER", Class::AnyParameter, &["type", "val"], false),
    entry("CAUSE", Class::AnyCause, &["code", "info"], false),
    chunk("DATA", kind::DATA, &["tsn", "sid", "ssn", "ppid", "val"], false),
    chunk("INIT", kind::INIT, INIT_FIELDS, true),
    chunk("INIT_ACK", kind::INIT_ACK, INIT_FIELDS, true),
    chunk("SACK", kind::SACK, &["cum_tsn", "a_rwnd", "gaps", "dups"], false),
    chunk("NR_SACK", kind::NR_SACK, &["cum_tsn", "a_rwnd", "gaps", "nr_gaps", "dups"], false),
    chunk("HEARTBEAT", kind::HEARTBEAT, &[], true),
    chunk("HEARTBEAT_ACK", kind::HEARTBEAT_ACK, &[], true),
    chunk("ABORT", kind::ABORT, &[], true),
    numbers("SHUTDOWN", kind::SHUTDOWN, &[("cum_tsn", Number::TsnOfReceiver)]),
    numbers("SHUTDOWN_ACK", kind::SHUTDOWN_ACK, &[]),
    chunk("ERROR", kind::ERROR, &[], true),
    chunk("COOKIE_ECHO", kind::COOKIE_ECHO, &["val"], false),
    numbers("COOKIE_ACK", kind::COOKIE_ACK, &[]),
    numbers("ECNE", kind::ECNE, &[("tsn", Number::TsnOfReceiver), ("packets", Number::Count)]),
    numbers("CWR", kind::CWR, &[("tsn", Number::TsnOfSender)]),
    numbers("SHUTDOWN_COMPLETE", kind::SHUTDOWN_COMPLETE, &[]),
    chunk("FORWARD_TSN", kind::FORWARD_TSN, &["cum_tsn", "ids"], false),
    chunk("I_DATA", kind::I_DATA, &["tsn", "sid", "res", "mid", "ppid", "fsn", "val"], false),
    chunk("I_FORWARD_TSN", kind::I_FORWARD_TSN, &["cum_tsn", "ids"], false),
    chunk("PAD", kind::PAD, &["val"], false),
    chunk("RECONFIG", kind::RE_CONFIG, &[], true),
    chunk("AUTH", kind::AUTH, &["shkey_id", "hmac_id", "hmac"], false),
    chunk("ASCONF", kind::ASCONF, &["serial"], true),
    chunk("ASCONF_ACK", kind::ASCONF_ACK, &["serial"], true),
    parameter("RANDOM", parameter_kind::RANDOM, &["val"]),
    parameter("CHUNKS", parameter_kind::CHUNK_LIST, &["types"]),
    parameter("HMAC_ALGO", parameter_kind::REQUESTED_HMAC_ALGORITHM, &["hmac_ids"]),
    change("ADD_IP_ADDRESS", parameter_kind::ADD_IP_ADDRESS),
    change("DELETE_IP_ADDRESS", parameter_kind::DELETE_IP_ADDRESS),
    change("SET_PRIMARY_ADDRESS", parameter_kind::SET_PRIMARY_ADDRESS),
    change("SUCCESS_INDICATION", parameter_kind::SUCCESS_INDICATION),
    change("ERROR_CAUSE_INDICATION", parameter_kind::ERROR_CAUSE_INDICATION),
    parameter(
        "OUTGOING_SSN_RESET",
        parameter_kind::OUTGOING_RESET_REQUEST,
        &["req_sn", "resp_sn", "last_tsn", "sids"],
    ),
    parameter("INCOMING_SSN_RESET", parameter_kind::INCOMING_RESET_REQUEST, &["req_sn", "sids"]),
    parameter("SSN_TSN_RESET", parameter_kind::TSN_RESET_REQUEST, &["req_sn"]),
    parameter(
        "RECONFIG_RESPONSE",
        parameter_kind::RECONFIG_RESPONSE,
        &["resp_sn", "result", "sender_next_tsn", "receiver_next_tsn"],
    ),
    parameter(
        "ADD_OUTGOING_STREAMS",
        parameter_kind::ADD_OUTGOING_STREAMS,
        &["req_sn", "number_of_new_streams"],
    ),
    parameter(
        "ADD_INCOMING_STREAMS",
        parameter_kind::ADD_INCOMING_STREAMS,
        &["req_sn", "number_of_new_streams"],
    ),
    parameter("HEARTBEAT_INFORMATION", parameter_kind::HEARTBEAT_INFO, &["val"]),
    parameter("IPV4_ADDRESS", parameter_kind::IPV4_ADDRESS, &["addr"]),
    parameter("IPV6_ADDRESS", parameter_kind::IPV6_ADDRESS, &["addr"]),
    parameter("STATE_COOKIE", parameter_kind::STATE_COOKIE, &["val"]),
    parameter("UNRECOGNIZED_PARAMETER", parameter_kind::UNRECOGNIZED_PARAMETER, &["params"]),
    parameter("COOKIE_PRESERVATIVE", parameter_kind::COOKIE_PRESERVATIVE, &["incr"]),
    parameter("HOSTNAME_ADDRESS", parameter_kind::HOST_NAME_ADDRESS, &["addr"]),
    parameter("SUPPORTED_ADDRESS_TYPES", parameter_kind::SUPPORTED_ADDRESS_TYPES, &["types"]),
    parameter("ECN_CAPABLE", parameter_kind::ECN_CAPABLE, &[]),
    parameter("FORWARD_TSN_SUPPORTED", parameter_kind::FORWARD_TSN_SUPPORTED, &[]),
    parameter("SUPPORTED_EXTENSIONS", parameter_kind::SUPPORTED_EXTENSIONS, &["types"]),
    parameter(
        "ADAPTATION_INDICATION",
        parameter_kind::ADAPTATION_LAYER_INDICATION,
        &["adaptation_code_point"],
    ),
    cause("INVALID_STREAM_IDENTIFIER", cause_code::INVALID_STREAM_IDENTIFIER, &["sid"]),
    cause("MISSING_MANDATORY_PARAMETER", cause_code::MISSING_MANDATORY_PARAMETER, &["types"]),
    cause("STALE_COOKIE_ERROR", cause_code::STALE_COOKIE, &["staleness"]),
    cause("OUT_OF_RESOURCE", cause_code::OUT_OF_RESOURCE, &[]),
    cause("UNRESOLVABLE_ADDRESS", cause_code::UNRESOLVABLE_ADDRESS, &["param"]),
    cause("UNRECOGNIZED_CHUNK_TYPE", cause_code::UNRECOGNIZED_CHUNK_TYPE, &["chk"]),
    cause("INVALID_MANDATORY_PARAMETER", cause_code::INVALID_MANDATORY_PARAMETER, &[]),
    cause("UNRECOGNIZED_PARAMETERS", cause_code::UNRECOGNIZED_PARAMETERS, &["params"]),
    cause("NO_USER_DATA", cause_code::NO_USER_DATA, &["tsn"]),
    cause("COOKIE_RECEIVED_WHILE_SHUTDOWN", cause_code::COOKIE_RECEIVED_WHILE_SHUTTING_DOWN, &[]),
    cause("RESTART_WITH_NEW_ADDRESSES", cause_code::RESTART_WITH_NEW_ADDRESSES, &["params"]),
    cause("USER_INITIATED_ABORT", cause_code::USER_INITIATED_ABORT, &["info"]),
    cause("PROTOCOL_VIOLATION", cause_code::PROTOCOL_VIOLATION, &["info"]),
    cause(
        "RESTART_WITH_NEW_ENCAPSULATION_PORT",
        cause_code::RESTART_WITH_NEW_ENCAPSULATION_PORT,
        &["current", "new"],
    ),
    cause("DELETE_LAST_ADDRESS", cause_code::DELETE_LAST_ADDRESS, &["param"]),
    cause("RESOURCE_SHORTAGE", cause_code::RESOURCE_SHORTAGE, &["param"]),
    cause("DELETE_SOURCE_ADDRESS", cause_code::DELETE_SOURCE_ADDRESS, &["param"]),
    cause("ILLEGAL_ASCONF_ACK", cause_code::ILLEGAL_ASCONF_ACK, &[]),
    cause("NO_AUTHORIZATION", cause_code::NO_AUTHORIZATION, &["param"]),
    cause("UNSUPPORTED_HMAC_IDENTIFIER", cause_code::UNSUPPORTED_HMAC_IDENTIFIER, &["hmac_id"]),
];

/// The entry for a name.
pub(crate) fn find(name: &str) -> Option<&'static Schema> {
    NAMES.iter().find(|schema| schema.name == name)
}

/// The name of a chunk type, parameter type or cause code.
pub(crate) fn name_of(class: Class) -> Option<&'static str> {
    NAMES.iter().find(|schema| schema.class == class).map(|schema| schema.name)
}

/// The layout of a chunk that consists only of numbers.
pub(crate) fn layout_of(kind: u8) -> Option<&'static [(&'static str, Number)]> {
    NAMES.iter().find(|schema| schema.class == Class::Chunk(kind)).and_then(|schema| schema.layout)
}

/// The chunk type with this name in scripts or specifications; `-` and `_` are equivalent.
pub(crate) fn chunk_type(name: &str) -> Option<u8> {
    let plain = |name: &str| name.replace(['-', ' '], "_");
    let is_it = |kind: &u8| kind::name(*kind).is_some_and(|known| plain(known) == plain(name));
    kind::ALL.iter().copied().find(is_it)
}

/// Converts flag letters to bits; `None` if the chunk does not have one of the letters.
pub(crate) fn flags(chunk: &str, letters: &str) -> Option<u64> {
    letters.chars().try_fold(0, |flags, letter| {
        let known = flag_table(chunk).iter().find(|(name, _)| *name == letter);
        known.map(|(_, bit)| flags | bit)
    })
}

/// Converts flags to letters, or to a number if a bit has no letter.
pub(crate) fn flag_letters(chunk: &str, flags: u64) -> String {
    let table = flag_table(chunk);
    let known: u64 = table.iter().map(|(_, bit)| bit).sum();
    if table.is_empty() || flags & !known != 0 {
        return format!("0x{flags:02x}");
    }
    table.iter().filter(|(_, bit)| flags & bit != 0).map(|(letter, _)| *letter).collect()
}

fn flag_table(chunk: &str) -> &'static [(char, u64)] {
    match chunk {
        "DATA" | "I_DATA" => &[('I', 8), ('U', 4), ('B', 2), ('E', 1)],
        "ABORT" | "SHUTDOWN_COMPLETE" => &[('T', 1)],
        _ => &[],
    }
}
