//! What is left of an association's goodput during floods of packets that anybody can send.
//!
//! `cargo bench -p anabranch --bench flood`; on a busy machine the figures for a second of CPU time
//! say more.

#[cfg(target_os = "linux")]
#[path = "../../tests/common/mod.rs"]
mod common;
#[cfg(target_os = "linux")]
#[path = "../../tests/common/flooder.rs"]
mod flooder;
#[cfg(target_os = "linux")]
mod measure;

fn main() {
    #[cfg(target_os = "linux")]
    measure::run();
    #[cfg(not(target_os = "linux"))]
    println!("Floods are measured on Linux, the only system where they are kept apart.");
}
