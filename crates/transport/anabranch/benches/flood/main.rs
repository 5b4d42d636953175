//! The goodput of associations, and the waiting time of new ones, during floods of packets that
//! any host can send.
//!
//! `cargo bench -p anabranch --features seal --bench flood [-- [--quick] [--associations 1,128,1000,10000]
//! [--shards 1,2] [--json FILE]]`
//!
//! Both ends run on one thread, the flooder on another: with fewer than two idle cores the figures
//! per second of CPU time are more meaningful.

#[cfg(target_os = "linux")]
#[path = "../../tests/common/mod.rs"]
mod common;
#[cfg(target_os = "linux")]
mod connect;
#[cfg(target_os = "linux")]
#[path = "../../tests/common/flooder.rs"]
mod flooder;
#[cfg(target_os = "linux")]
mod goodput;
#[cfg(target_os = "linux")]
mod options;
#[cfg(all(target_os = "linux", feature = "seal"))]
mod sealed;

fn main() {
    #[cfg(target_os = "linux")]
    {
        let options = options::parse();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let mut lines = runtime.block_on(goodput::table(&options));
        #[cfg(feature = "seal")]
        lines.extend(runtime.block_on(sealed::table(&options)));
        lines.push(runtime.block_on(connect::newcomers(options.quick)));
        if let Some(file) = &options.json {
            std::fs::write(file, lines.concat()).unwrap();
        }
    }
    #[cfg(not(target_os = "linux"))]
    println!("Floods are measured on Linux, the only system where they are kept apart.");
}
