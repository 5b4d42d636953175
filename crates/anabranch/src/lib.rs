//! SCTP in user space for Rust programs: multihomed, multistreamed, over UDP or raw IP
#![forbid(unsafe_code)]
