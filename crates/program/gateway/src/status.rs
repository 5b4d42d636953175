//! How a request for a connection ended, and how each protocol says so.

use std::fmt;

/// The result of a request for a connection to a target.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Status {
    /// The connection is established.
    Connected,
    /// The request cannot be understood.
    Malformed,
    /// The request is understood, but not supported.
    Unsupported,
    /// The rules of the far side do not allow this target.
    Forbidden,
    /// The name of the target has no address.
    UnknownHost,
    /// The target refused the connection.
    Refused,
    /// There is no route to the target's network.
    NetworkUnreachable,
    /// The target's network says that there is no such host.
    HostUnreachable,
    /// The target did not answer in time.
    TimedOut,
    /// Too many connections are open.
    Busy,
    /// The connection failed for another reason.
    Failed,
    /// There is no association between the two sides at the moment. Never sent between them.
    Lost,
}

/// The names of a status in the protocols.
struct Row {
    status: Status,
    /// Between near and far.
    number: u8,
    /// RFC 1928 section 6.
    socks5: u8,
    /// RFC 9209 sections 2.3 and 2.4: the status code, and the type of the error.
    http: u16,
    proxy_status: &'static str,
    text: &'static str,
}

const fn row(
    status: Status,
    number: u8,
    socks5: u8,
    http: u16,
    proxy_status: &'static str,
    text: &'static str,
) -> Row {
    Row { status, number, socks5, http, proxy_status, text }
}

/// One row for each status.
const TABLE: [Row; 12] = [
    row(Status::Connected, 0, 0, 200, "", "connected"),
    row(Status::Malformed, 1, 1, 400, "http_request_error", "the request is malformed"),
    row(Status::Unsupported, 2, 7, 501, "http_request_error", "this is not supported"),
    row(
        Status::Forbidden,
        3,
        2,
        403,
        "destination_ip_prohibited",
        "the far side does not allow it",
    ),
    row(Status::UnknownHost, 4, 4, 502, "dns_error", "the name has no address"),
    row(Status::Refused, 5, 5, 502, "connection_refused", "the connection was refused"),
    row(
        Status::NetworkUnreachable,
        6,
        3,
        502,
        "destination_ip_unroutable",
        "there is no route to its network",
    ),
    row(Status::HostUnreachable, 7, 4, 502, "destination_unavailable", "the host is unreachable"),
    row(Status::TimedOut, 8, 6, 504, "connection_timeout", "no answer in time"),
    row(Status::Busy, 9, 1, 503, "connection_limit_reached", "too many connections are open"),
    row(Status::Failed, 10, 1, 502, "proxy_internal_error", "the connection failed"),
    row(Status::Lost, 255, 3, 503, "proxy_internal_error", "the far side cannot be reached"),
];

impl Status {
    fn row(self) -> &'static Row {
        let row = TABLE.iter().find(|row| row.status == self);
        // A test checks that every status has a row.
        row.unwrap_or(&TABLE[10])
    }

    /// The number that means this status between near and far.
    pub(crate) fn number(self) -> u8 {
        self.row().number
    }

    /// The status with this number. Unknown numbers are failures, because a later version may have more.
    pub(crate) fn of_number(number: u8) -> Self {
        let row = TABLE.iter().find(|row| row.number == number);
        row.map_or(Self::Failed, |row| row.status)
    }

    /// The value of the field REP in a reply of SOCKS5 (RFC 1928 section 6).
    pub(crate) fn socks5(self) -> u8 {
        self.row().socks5
    }

    /// The status code of HTTP.
    pub(crate) fn http(self) -> http::StatusCode {
        http::StatusCode::from_u16(self.row().http).unwrap_or(http::StatusCode::BAD_GATEWAY)
    }

    /// The type of the error in the header field Proxy-Status (RFC 9209 section 2.3).
    pub(crate) fn proxy_status(self) -> &'static str {
        self.row().proxy_status
    }

    /// A short word for logs and metrics.
    pub fn name(self) -> &'static str {
        match self {
            Self::Connected => "connected",
            Self::Malformed => "malformed",
            Self::Unsupported => "unsupported",
            Self::Forbidden => "forbidden",
            Self::UnknownHost => "unknown-host",
            Self::Refused => "refused",
            Self::NetworkUnreachable => "network-unreachable",
            Self::HostUnreachable => "host-unreachable",
            Self::TimedOut => "timed-out",
            Self::Busy => "busy",
            Self::Failed => "failed",
            Self::Lost => "lost",
        }
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.row().text)
    }
}

/// The reason why there is no connection: a status, and details for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The kind of reason.
    pub status: Status,
    /// What exactly happened; may be empty.
    pub detail: String,
}

impl Refusal {
    pub(crate) fn new(status: Status, detail: impl fmt::Display) -> Self {
        Self { status, detail: detail.to_string() }
    }
}

impl From<Status> for Refusal {
    fn from(status: Status) -> Self {
        Self { status, detail: String::new() }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.detail[..] {
            "" => self.status.fmt(f),
            detail => f.write_str(detail),
        }
    }
}

impl std::error::Error for Refusal {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_status_has_one_row() {
        for (index, row) in TABLE.iter().enumerate() {
            assert_eq!(Status::of_number(row.number), row.status);
            assert_eq!(row.status.number(), row.number);
            assert!(TABLE[..index].iter().all(|other| other.status != row.status));
            assert_eq!(row.status.http().as_u16(), row.http);
            assert!(row.socks5 <= 8);
        }
        assert_eq!(Status::of_number(99), Status::Failed);
        assert_eq!(Refusal::from(Status::Busy).to_string(), "too many connections are open");
        assert_eq!(Refusal::new(Status::Busy, "full").to_string(), "full");
    }
}
