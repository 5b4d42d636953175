//! One endpoint and a peer made of hand-written packets: how the endpoint answers each, and what it
//! sends when nothing arrives.

mod closing;
mod data;
mod forged;
mod paths;
mod setup;
mod victim;
