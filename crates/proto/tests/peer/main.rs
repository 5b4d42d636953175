//! One endpoint against a peer that is made of packets: what it answers to each, and what it
//! sends when nothing comes.

mod closing;
mod data;
mod forged;
mod paths;
mod setup;
mod victim;
