//! Payload protocol identifiers.

use core::fmt;

/// Payload protocol identifier: the kind of user data in a DATA chunk.
///
/// SCTP carries it unchanged; IANA registers the values (RFC 9260 section 15.5). Stored here in
/// host order, sent in network order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ppid(pub u32);

macro_rules! ppids {
    ($($name:ident = $value:literal, $text:literal;)*) => {
        impl Ppid {
            $(#[doc = concat!($text, " (", stringify!($value), ").")]
            pub const $name: Ppid = Ppid($value);)*

            /// The protocol's short name, for known identifiers.
            #[must_use]
            pub const fn name(self) -> Option<&'static str> {
                match self.0 {
                    $($value => Some($text),)*
                    _ => None,
                }
            }
        }
    };
}

ppids! {
    UNSPECIFIED = 0, "unspecified";
    IUA = 1, "IUA";
    M2UA = 2, "M2UA";
    M3UA = 3, "M3UA";
    SUA = 4, "SUA";
    M2PA = 5, "M2PA";
    V5UA = 6, "V5UA";
    H248 = 7, "H.248";
    S1AP = 18, "S1AP";
    RUA = 19, "RUA";
    HNBAP = 20, "HNBAP";
    SBC_AP = 24, "SBc-AP";
    NBAP = 25, "NBAP";
    X2AP = 27, "X2AP";
    LCS_AP = 29, "LCS-AP";
    M2AP = 43, "M2AP";
    M3AP = 44, "M3AP";
    DIAMETER = 46, "Diameter";
    DIAMETER_DTLS = 47, "Diameter over DTLS";
    WEBRTC_DCEP = 50, "WebRTC DCEP";
    WEBRTC_STRING = 51, "WebRTC string";
    WEBRTC_BINARY_PARTIAL = 52, "WebRTC binary partial";
    WEBRTC_BINARY = 53, "WebRTC binary";
    WEBRTC_STRING_PARTIAL = 54, "WebRTC string partial";
    WEBRTC_STRING_EMPTY = 56, "WebRTC string empty";
    WEBRTC_BINARY_EMPTY = 57, "WebRTC binary empty";
    NGAP = 60, "NGAP";
    XNAP = 61, "XnAP";
    F1AP = 62, "F1AP";
    E1AP = 64, "E1AP";
}

impl fmt::Display for Ppid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl From<u32> for Ppid {
    fn from(value: u32) -> Self {
        Self(value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_values_have_names() {
        assert_eq!(Ppid::NGAP, Ppid(60));
        assert_eq!(Ppid::NGAP.name(), Some("NGAP"));
        assert_eq!(Ppid(4_000_000_000).name(), None);
        assert_eq!(Ppid::from(46), Ppid::DIAMETER);
        assert_eq!(Ppid::DIAMETER.to_string(), "46");
    }
}
