//! Two endpoints under arbitrary operations, packets and faults.

mod forge;
mod network;
mod observe;
mod operation;
mod world;

use arbitrary::{Arbitrary, Unstructured};

use self::operation::{Operation, Setup};
use self::world::World;

/// Maximum number of operations in a run, so that an input is small and understandable.
const MAX_OPERATIONS: usize = 400;

/// Executes the operations encoded in `bytes` and checks the invariants after each. Finally lets
/// the network work without faults: unless a packet was forged with a correct tag, all messages
/// sent must arrive or be returned.
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
