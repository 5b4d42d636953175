//! HTTP over SCTP streams
#![forbid(unsafe_code)]
