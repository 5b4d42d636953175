//! SCTP packets, chunks, parameters and error causes to and from bytes
#![forbid(unsafe_code)]
