//! Goodput over two paths relative to that of the better path alone, with and without `--slow-paths in-time`; simulated
//! in virtual time.

use anabranch_proto::{AssociationConfig, MultipathMode, SlowPaths};

use crate::network::{Path, Paths, profile};

/// The better path: 40 Mb/s, 10 ms, a queue of 100 packets.
const BEST: Path = Path(40_000, 10, 100);

/// The properties of the second paths.
struct Grid {
    delays: &'static [u64],
    queues: &'static [usize],
    rates: &'static [u64],
    bytes: u64,
}

const WHOLE: Grid = Grid {
    delays: &[10, 40, 100],
    queues: &[5, 20, 100, 300],
    rates: &[20_000, 5_000, 1_000, 250, 64],
    bytes: 40_000_000,
};

const QUICK: Grid = Grid { delays: &[40], queues: &[20], rates: &[5_000], bytes: 4_000_000 };

/// Goodput in kb/s.
fn goodput(paths: &[Path], bytes: u64, config: &AssociationConfig) -> Result<f64, String> {
    let (mut paths, _) = Paths::new(paths)?;
    let transfer = paths.add(bytes, config, |_| {})?;
    let time = paths.complete(transfer)?;
    Ok(bytes as f64 * 8.0 / 1_000.0 / time.as_secs_f64())
}

pub(crate) fn compare(quick: bool) -> Result<(), String> {
    let grid = if quick { QUICK } else { WHOLE };
    println!("Goodput of two paths / of the better one alone (40 Mb/s, 10 ms, 100 packets)");
    println!("{:<28} {:>20} {:>20}", "second path", "default", "bulk");
    println!(
        "{:<28} {:>10}{:>10} {:>10}{:>10}",
        "", "as-others", "in-time", "as-others", "in-time"
    );
    let mut least = [f64::INFINITY; 4];
    for delay in grid.delays {
        for queue in grid.queues {
            for rate in grid.rates {
                let second = Path(*rate, *delay, *queue);
                let name = format!("{rate} kb/s, {delay} ms, {queue} packets");
                let ratios = ratios(second, grid.bytes)?;
                let [a, b, c, d] = ratios;
                println!("{name:<28} {a:>10.2}{b:>10.2} {c:>10.2}{d:>10.2}");
                least.iter_mut().zip(ratios).for_each(|(least, ratio)| *least = least.min(ratio));
            }
        }
    }
    let [a, b, c, d] = least;
    println!("{:<28} {a:>10.2}{b:>10.2} {c:>10.2}{d:>10.2}", "least");
    Ok(())
}

/// The ratios for the profiles `default` and `bulk`, each with `as-others` and `in-time`.
fn ratios(second: Path, bytes: u64) -> Result<[f64; 4], String> {
    let mut ratios = [0.0; 4];
    for (name, ratios) in ["default", "bulk"].iter().zip(ratios.chunks_mut(2)) {
        let config = profile(name)?;
        let alone = goodput(&[BEST], bytes, &config)?;
        let choices = [SlowPaths::AsOthers, SlowPaths::InTime];
        for (choice, ratio) in choices.iter().zip(ratios) {
            let mut config = config.clone().with_multipath(MultipathMode::CmtPf);
            config.multipath.slow_paths = *choice;
            *ratio = goodput(&[BEST, second], bytes, &config)? / alone;
        }
    }
    Ok(ratios)
}
