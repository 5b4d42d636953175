//! The SCTP protocol engine of anabranch, without I/O
#![forbid(unsafe_code)]
