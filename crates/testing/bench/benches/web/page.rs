//! The cost of loading a page in virtual time.

use anabranch_bench::suite::Trouble;
use anabranch_bench::suite::single::{Bench, Sample};
use anabranch_web::{Carriage, Load, Site};
use rustix::time::{ClockId, clock_gettime};

const OBJECTS: usize = 10;
const SIZE: usize = 10_000;

pub(crate) fn cpu(bench: &Bench<'_>) -> Result<Sample, Trouble> {
    let loads = bench.many(200);
    let value = each(Carriage::Sctp { streams: 10 }, loads)?;
    let tcp = each(Carriage::Tcp { connections: 1, pipelined: true }, loads)?;
    Ok(Sample { value, notes: vec![("over one TCP connection", tcp)] })
}

/// CPU milliseconds per load: the mean of `loads` loads with different seeds.
fn each(carriage: Carriage, loads: u64) -> Result<f64, Trouble> {
    let mut load = Load::new(Site::uniform(OBJECTS, SIZE, 1000), carriage);
    let begun = now();
    for seed in 0..loads {
        load.seed = seed;
        let loaded = load.run().map_err(Trouble::failed)?;
        let whole = loaded.page.objects.iter().filter(|object| object.bytes() == SIZE as u64);
        if whole.count() != OBJECTS {
            return Err(Trouble::Failed("a page did not arrive completely".into()));
        }
    }
    Ok((now() - begun) * 1e3 / loads as f64)
}

/// CPU seconds of this process.
fn now() -> f64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 * 1e-9
}
