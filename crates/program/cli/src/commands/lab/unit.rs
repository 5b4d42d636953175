//! `anabranch lab unit`.

use std::io::{BufRead as _, Read as _};

use anabranch_lab::runner::{MOST_ORDER, Order};
use anabranch_lab::scenario::{Library, Scenario};
use anabranch_lab::simulation::Simulation;
use clap::Args;

use crate::built;
use crate::failure::Failure;
use crate::output;

/// Carry out units of work from standard input, and write the results to standard output
///
/// Each line is a unit from 'anabranch lab plan', or from a program. Its result is one line, in the same order, which
/// 'anabranch lab merge' takes. A unit of another version of this program or another scenario is refused with exit
/// code 1.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  anabranch lab plan caro/2.5 --seeds 1 | anabranch lab unit >results.jsonl
  anabranch lab plan caro/2.5 | parallel --pipe -N1 anabranch lab unit >results.jsonl")]
pub(crate) struct Unit {}

impl Unit {
    pub(super) fn run(self, library: &Library) -> Result<(), Failure> {
        let unreadable = |error| Failure::failed(format!("standard input: {error}"));
        let mut input = std::io::stdin().lock();
        let mut line = String::new();
        let mut last: Option<(Order, Scenario)> = None;
        loop {
            line.clear();
            let most = MOST_ORDER as u64 + 1;
            if input.by_ref().take(most).read_line(&mut line).map_err(unreadable)? == 0 {
                break;
            }
            if line.len() > MOST_ORDER {
                let reason = format!("a unit of work is at most {MOST_ORDER} bytes long");
                return Err(Failure::failed(reason));
            }
            if line.trim().is_empty() {
                continue;
            }
            let order = Order::read(&line).map_err(Failure::failed)?;
            // Most units on one input are of one scenario.
            let scenario = match last.take() {
                Some((like, scenario)) if like.is_like(&order) => scenario,
                _ => order.scenario(built::ENGINE, library).map_err(Failure::failed)?,
            };
            let record = order.carry_out(&scenario, &Simulation).map_err(Failure::failed)?;
            output::print_data(&(record.line().map_err(Failure::failed)? + "\n"))?;
            last = Some((order, scenario));
        }
        match last {
            Some(_) => Ok(()),
            None => Err(Failure::failed(
                "there is no unit of work on standard input: 'anabranch lab plan' writes them",
            )),
        }
    }
}
