//! What a worker does.

use std::sync::{Arc, Mutex, PoisonError};

use anabranch_lab::runner::Order;
use anabranch_lab::scenario::Scenario;
use anabranch_lab::simulation::Simulation;
use pyo3::prelude::*;

use crate::{ENGINE, errors, scenario};

/// The scenario of the last order: reading one takes as long as a short run.
static LAST: Mutex<Option<(Order, Arc<Scenario>)>> = Mutex::new(None);

/// Carries out a unit of work, and returns its result: one line.
#[pyfunction]
pub(crate) fn carry_out(py: Python<'_>, order: &str) -> PyResult<String> {
    let order = Order::read(order).map_err(errors::RunError::new_err)?;
    let scenario = open(&order)?;
    let record = py.detach(|| order.carry_out(&scenario, &Simulation));
    let line = record.map_err(|error| errors::run(&error))?.line();
    line.map_err(|error| errors::RunError::new_err(error.to_string()))
}

fn open(order: &Order) -> PyResult<Arc<Scenario>> {
    let mut last = LAST.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some((like, scenario)) = last.as_ref()
        && like.is_like(order)
    {
        return Ok(Arc::clone(scenario));
    }
    let library = scenario::library_of(&order.scenario)?;
    let scenario = order.scenario(ENGINE, &library).map_err(|error| errors::run(&error))?;
    let scenario = Arc::new(scenario);
    *last = Some((order.clone(), Arc::clone(&scenario)));
    Ok(scenario)
}
