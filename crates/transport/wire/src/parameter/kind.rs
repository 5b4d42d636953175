//! Parameter types by name.

/// Heartbeat Info (RFC 9260 section 3.3.5).
pub const HEARTBEAT_INFO: u16 = 1;
/// IPv4 Address (RFC 9260 section 3.3.2.1.1).
pub const IPV4_ADDRESS: u16 = 5;
/// IPv6 Address (RFC 9260 section 3.3.2.1.2).
pub const IPV6_ADDRESS: u16 = 6;
/// State Cookie (RFC 9260 section 3.3.3.1.1).
pub const STATE_COOKIE: u16 = 7;
/// Unrecognized Parameter (RFC 9260 section 3.3.3.1.2).
pub const UNRECOGNIZED_PARAMETER: u16 = 8;
/// Cookie Preservative (RFC 9260 section 3.3.2.1.3).
pub const COOKIE_PRESERVATIVE: u16 = 9;
/// Host Name Address, deprecated (RFC 9260 section 3.3.2.1.4).
pub const HOST_NAME_ADDRESS: u16 = 11;
/// Supported Address Types (RFC 9260 section 3.3.2.1.5).
pub const SUPPORTED_ADDRESS_TYPES: u16 = 12;
/// Outgoing SSN Reset Request (RFC 6525 section 4.1).
pub const OUTGOING_RESET_REQUEST: u16 = 13;
/// Incoming SSN Reset Request (RFC 6525 section 4.2).
pub const INCOMING_RESET_REQUEST: u16 = 14;
/// SSN/TSN Reset Request (RFC 6525 section 4.3).
pub const TSN_RESET_REQUEST: u16 = 15;
/// Re-configuration Response (RFC 6525 section 4.4).
pub const RECONFIG_RESPONSE: u16 = 16;
/// Add Outgoing Streams Request (RFC 6525 section 4.5).
pub const ADD_OUTGOING_STREAMS: u16 = 17;
/// Add Incoming Streams Request (RFC 6525 section 4.6).
pub const ADD_INCOMING_STREAMS: u16 = 18;
/// ECN Capable, reserved (RFC 9260 section 3.3.2).
pub const ECN_CAPABLE: u16 = 0x8000;
/// Zero Checksum Acceptable (RFC 9653).
pub const ZERO_CHECKSUM_ACCEPTABLE: u16 = 0x8001;
/// Random (RFC 4895 section 3.1).
// req: rfc4895 3.1 "This value MUST be set to 0x8002"
pub const RANDOM: u16 = 0x8002;
/// Chunk List (RFC 4895 section 3.2).
// req: rfc4895 3.2 "This value MUST be set to 0x8003"
pub const CHUNK_LIST: u16 = 0x8003;
/// Requested HMAC Algorithm (RFC 4895 section 3.3).
// req: rfc4895 3.3 "This value MUST be set to 0x8004"
pub const REQUESTED_HMAC_ALGORITHM: u16 = 0x8004;
/// Padding (RFC 4820 section 4).
pub const PADDING: u16 = 0x8005;
/// Supported Extensions (RFC 5061 section 4.2.7).
pub const SUPPORTED_EXTENSIONS: u16 = 0x8008;
/// Forward TSN Supported (RFC 3758 section 3.1).
pub const FORWARD_TSN_SUPPORTED: u16 = 0xc000;
/// Add IP Address (RFC 5061 section 4.2.1).
pub const ADD_IP_ADDRESS: u16 = 0xc001;
/// Delete IP Address (RFC 5061 section 4.2.2).
pub const DELETE_IP_ADDRESS: u16 = 0xc002;
/// Error Cause Indication (RFC 5061 section 4.2.3).
pub const ERROR_CAUSE_INDICATION: u16 = 0xc003;
/// Set Primary IP Address (RFC 5061 section 4.2.4).
pub const SET_PRIMARY_ADDRESS: u16 = 0xc004;
/// Success Indication (RFC 5061 section 4.2.5).
pub const SUCCESS_INDICATION: u16 = 0xc005;
/// Adaptation Layer Indication (RFC 5061 section 4.2.6).
pub const ADAPTATION_LAYER_INDICATION: u16 = 0xc006;
