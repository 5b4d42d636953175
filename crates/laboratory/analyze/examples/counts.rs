//! Prints the totals of captures: `cargo run --release --example counts -- FILE...`.

use std::error::Error;
use std::fs::File;

use anabranch_analyze::{Analysis, Stopped, text};

fn main() -> Result<(), Box<dyn Error>> {
    let mut analysis = Analysis::new();
    for path in std::env::args().skip(1) {
        if let Stopped::Damaged(at, reason) = analysis.read(File::open(&path)?)? {
            eprintln!("{path}, byte {at}: {reason}");
        }
    }
    print!("{}", text(&analysis.finish()));
    Ok(())
}
