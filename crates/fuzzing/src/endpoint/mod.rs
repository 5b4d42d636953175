//! Two endpoints under arbitrary operations, packets and faults.

mod forge;
mod network;
mod observe;
mod operation;
mod world;

use arbitrary::{Arbitrary, Unstructured};

use self::operation::{Operation, Setup};
use self::world::World;

/// Operations of one run at the most; an input is small, and its meaning stays findable.
const MAX_OPERATIONS: usize = 400;

/// Runs the operations encoded in `bytes`, checks the invariants after each, and finally lets the
/// network work without faults: unless a forged packet with a right tag was among them, all sent
/// messages arrive or are given back.
pub fn endpoint(bytes: &[u8]) {
    let mut input = Unstructured::new(bytes);
    let Ok(setup) = Setup::arbitrary(&mut input) else { return };
    let mut world = World::new(setup);
    for _ in 0..MAX_OPERATIONS {
        if input.is_empty() {
            break;
        }
        let Ok(operation) = Operation::arbitrary(&mut input) else { break };
        world.apply(&operation);
    }
    world.finish();
}
