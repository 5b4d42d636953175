//! The server of `perf`.

use std::sync::Arc;
use std::time::Duration;

use anabranch::Association;

use super::cpu;
use super::meter::{Counts, Meter};
use super::protocol::{CONTROL, Control, Mode, Plan};
use super::report::tell_interval;
use super::traffic::Exchange;
use crate::failure::Failure;
use crate::service::{Served, ServiceOptions};

/// Answers clients until the user stops it, and tells of all of them together at intervals.
pub(crate) async fn run(
    options: &ServiceOptions,
    interval: Option<Duration>,
) -> Result<(), Failure> {
    let meter = Arc::new(Meter::new().map_err(Failure::failed)?);
    let json = options.json;
    let ticking = interval.map(|interval| {
        let meter = Arc::clone(&meter);
        tokio::spawn(async move {
            let mut ticks = tokio::time::interval(interval);
            ticks.tick().await;
            loop {
                ticks.tick().await;
                let interval = meter.interval();
                if interval.associations > 0 && tell_interval(&interval, json).is_err() {
                    return;
                }
            }
        })
    });
    let serve = move |association| serve(association, Arc::clone(&meter));
    let result = options.run("perf", serve).await;
    if let Some(ticking) = ticking {
        ticking.abort();
    }
    result
}

async fn serve(association: Association, meter: Arc<Meter>) -> Served {
    let counts = Arc::new(Counts::new());
    meter.add(&association, &counts);
    let error = measure(&association, &counts).await.err();
    if let Some(error) = &error {
        association.abort(error.as_bytes());
    }
    meter.remove(&counts);
    let totals = counts.totals();
    Served {
        messages_received: totals.messages_received,
        bytes_received: totals.bytes_received,
        messages_sent: totals.messages_sent,
        bytes_sent: totals.bytes_sent,
        error,
    }
}

/// Does what a client asks for, until it shuts the association down.
async fn measure(association: &Association, counts: &Counts) -> Result<(), String> {
    let cpu = cpu::seconds();
    let Some((mode, plan)) = request(association).await? else {
        return Ok(());
    };
    counts.start();
    let exchange = Exchange {
        association,
        counts,
        plan: mode.receives().then_some(plan),
        receives: mode.sends(),
        cooperative: true,
        cpu,
    };
    if mode == Mode::Ping {
        return exchange.echo().await;
    }
    exchange.run().await?;
    match association.recv().await {
        Ok(None) => Ok(()),
        Ok(Some(_)) => Err("data came after the end".to_owned()),
        Err(error) => Err(error.to_string()),
    }
}

/// What the client wants; `None` if it leaves at once.
async fn request(association: &Association) -> Result<Option<(Mode, Plan)>, String> {
    let message = association.recv().await.map_err(|error| error.to_string())?;
    let Some(message) = message else {
        return Ok(None);
    };
    if message.ppid != CONTROL {
        return Err("the client speaks no perf: use 'anabranch discard' or 'echo'".to_owned());
    }
    match Control::read(message.payload)? {
        Control::Request { mode, plan, .. } => {
            let there = association.outbound_streams();
            if mode.receives() && plan.streams > there {
                return Err(format!("there are {there} streams, not {}", plan.streams));
            }
            Ok(Some((mode, plan)))
        }
        Control::End { .. } | Control::Report(_) => Err("there was no request".to_owned()),
    }
}
