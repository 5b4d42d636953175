//! Analysis of TCP and SCTP captures.
//!
//! A capture is read packet by packet in constant memory. Each data segment or chunk that is not the next one is
//! classified: sent again, reordered, a copy made by the network, or unknown. [`track`] has the rules.
//!
//! ```
//! use anabranch_analyze::Analysis;
//!
//! let mut analysis = Analysis::new();
//! let nothing: &[u8] = &[];
//! assert!(analysis.read(nothing).is_err());
//! assert_eq!(analysis.finish().packets, 0);
//! ```
#![forbid(unsafe_code)]

mod analysis;
mod association;
mod bytes;
mod decode;
mod distribution;
mod flow;
mod flows;
mod fragments;
mod html;
mod packets;
mod reader;
mod reason;
mod report;
mod signal;
mod tcp;
pub mod track;

pub use analysis::{Analysis, Event, Protocol, Report};
pub use distribution::Distribution;
pub use flow::FlowReport;
pub use html::html;
pub use packets::{IpPacket, packets};
pub use reader::{ReadError, Stopped};
pub use reason::Reason;
pub use report::{csv_head, csv_left_out, csv_row, text};
pub use signal::Signal;
