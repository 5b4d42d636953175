//! Settings of scenarios that only the simulator supports.

use anabranch_lab::setup::{Drawn, Flow, Over, Setup, Tcp, Transfer, When};

/// Options of `[tcp]` that a kernel does not have.
const NOT_OF_KERNELS: [&str; 2] = ["rto_initial", "limited_transmit"];

/// Refuses a setup that cannot be emulated.
pub(super) fn check(setup: &Setup) -> Result<(), String> {
    let refused = |what: &str| Err(format!("{what}: this takes run.on = \"simulator\""));
    if let Some(cross) = setup.cross.first() {
        return refused(&format!("cross.{} is simulated traffic", cross.name));
    }
    if setup.route_cache.is_some() {
        return refused("routes that must be discovered are simulated");
    }
    let drawn =
        |flow: &Flow| matches!(flow, Flow::Bursts { drawn, .. } if *drawn != Drawn::Nothing);
    if let Some(transfer) = setup.transfers.iter().find(|transfer| drawn(&transfer.flow)) {
        return refused(&format!("traffic.{}.drawn is for simulations", transfer.name));
    }
    if !setup.measure_from.is_zero() {
        return refused("measure.from is a time of simulations");
    }
    if let Some(event) = setup.events.iter().find(|event| matches!(event.when, When::AfterChunk(_)))
    {
        return refused(&format!(
            "event.{} waits for a chunk; real sockets do not tell",
            event.name
        ));
    }
    let mut not_of_kernels = NOT_OF_KERNELS.into_iter().chain(Tcp::OF_SIMULATIONS);
    if let Some(key) = not_of_kernels.find(|key| setup.tcp.is_given(key)) {
        return refused(&format!("tcp.{key} cannot be changed in a kernel"));
    }
    if let Some(path) = setup.network.paths.iter().find(|path| path.ways.len() > 1) {
        return refused(&format!("path '{}' has several ways", path.name));
    }
    let in_messages = |transfer: &&Transfer| {
        transfer.over == Over::Tcp
            && (transfer.repeat.0 > 1 || !matches!(transfer.flow, Flow::Bulk { .. }))
    };
    if let Some(transfer) = setup.transfers.iter().find(in_messages) {
        return refused(&format!("traffic.{}: messages and repetitions over TCP", transfer.name));
    }
    let forward = |transfer: &Transfer| transfer.over == Over::Tcp && !transfer.back;
    if setup.analysis && !(setup.network.links.len() == 1 && setup.transfers.iter().all(forward)) {
        return Err("measure.analysis takes one link, and transfers over TCP, forward".into());
    }
    if setup.tcp.is_given("ack_delay") && !setup.tcp.config.ack_delay.is_zero() {
        return refused(
            "of the kernel's delayed acknowledgements, tcp.ack_delay can only be \"0 s\"",
        );
    }
    Ok(())
}
