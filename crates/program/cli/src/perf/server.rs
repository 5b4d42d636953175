//! The server of `perf`.

use std::sync::Arc;
use std::time::Duration;

use anabranch::{Association, EndpointConfig};
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::time::{MissedTickBehavior, timeout};

use super::cpu;
use super::lines::Lines;
use super::meter::{Counts, Meter};
use super::protocol::{CONTROL, Control, Mode, Plan};
use super::traffic::Exchange;
use crate::failure::Failure;
use crate::sealed::ServerSealOptions;
use crate::service::{Served, ServiceOptions};

/// How often ended associations are removed if no intervals are reported.
const UNTOLD: Duration = Duration::from_secs(10);

/// Answers clients until the user stops it, and reports all of them together at intervals.
pub(crate) async fn run(
    options: &ServiceOptions,
    seal: &ServerSealOptions,
    interval: Option<Duration>,
    most_size: usize,
) -> Result<(), Failure> {
    let meter = Arc::new(Meter::new().map_err(Failure::failed)?);
    let (json, paths) = (options.json, options.paths);
    let ticking = tokio::spawn({
        let meter = Arc::clone(&meter);
        async move {
            let mut ticks = tokio::time::interval(interval.unwrap_or(UNTOLD));
            // After a suspension, report one long interval instead of many empty ones.
            ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
            let mut lines = Lines::new(json, paths, true, true);
            ticks.tick().await;
            loop {
                ticks.tick().await;
                let seen = meter.interval();
                if interval.is_some() && seen.associations > 0 && lines.tell(&seen).is_err() {
                    return;
                }
            }
        }
    });
    let limit = options.sctp.memory_limit.unwrap_or(EndpointConfig::default().memory_limit);
    let room = Arc::new(Room::new(most_size, limit / 8));
    let serve = move |association| serve(association, Arc::clone(&meter), Arc::clone(&room));
    let result = options.run("perf", seal.sealed.then_some(seal), serve).await;
    ticking.abort();
    result
}

/// The memory that the long messages of all clients may use together, while they are reassembled to
/// be echoed, or wait to be sent.
#[derive(Debug)]
struct Room {
    /// Maximum length of a message.
    most: usize,
    /// Units that are free.
    left: Semaphore,
}

/// Bytes of a unit.
const UNIT: usize = 1024;

/// Messages up to this length are not counted.
const SHORT: usize = 64 * UNIT;

/// How long a client waits for room.
const BUSY: Duration = Duration::from_secs(10);

impl Room {
    fn new(most: usize, all: usize) -> Self {
        let units = (all.max(most) / UNIT).clamp(1, Semaphore::MAX_PERMITS);
        Self { most, left: Semaphore::new(units) }
    }

    /// Reserves room for messages of `size` bytes, one at a time.
    async fn take(&self, size: usize) -> Result<Option<SemaphorePermit<'_>>, String> {
        if size > self.most {
            return Err(format!("this server allows messages of at most {} bytes", self.most));
        }
        if size <= SHORT {
            return Ok(None);
        }
        let units = u32::try_from(size / UNIT).unwrap_or(u32::MAX);
        match timeout(BUSY, self.left.acquire_many(units)).await {
            Ok(room) => Ok(room.ok()),
            Err(_) => Err("the server is busy with long messages: use shorter ones".to_owned()),
        }
    }
}

async fn serve(association: Association, meter: Arc<Meter>, room: Arc<Room>) -> Served {
    let counts = Arc::new(Counts::new());
    meter.add(&association, &counts);
    let error = measure(&association, &counts, &room).await.err();
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

/// Serves a client's request, until the client shuts the association down.
async fn measure(association: &Association, counts: &Counts, room: &Room) -> Result<(), String> {
    let cpu = cpu::seconds();
    let Some((mode, plan)) = request(association).await? else {
        return Ok(());
    };
    let sends_back = mode == Mode::Ping;
    let _room = match sends_back || mode.receives() {
        true => room.take(plan.size).await?,
        false => None,
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
    if sends_back {
        return exchange.echo(plan.size).await;
    }
    exchange.run().await?;
    match association.recv().await {
        Ok(None) => Ok(()),
        Ok(Some(_)) => Err("data came after the end".to_owned()),
        Err(error) => Err(error.to_string()),
    }
}

/// Receives the client's request; `None` if it leaves immediately.
async fn request(association: &Association) -> Result<Option<(Mode, Plan)>, String> {
    let message = association.recv().await.map_err(|error| error.to_string())?;
    let Some(message) = message else {
        return Ok(None);
    };
    if message.ppid != CONTROL {
        return Err("the client does not speak perf: use 'anabranch discard' or 'echo'".to_owned());
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

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn long_messages_of_all_clients_have_a_bound() {
        let room = Room::new(16 << 20, 128 << 20);
        let mut taken = Vec::new();
        for _ in 0..8 {
            taken.push(room.take(16 << 20).await.unwrap());
        }
        assert!(room.take(16 << 20).await.unwrap_err().contains("busy"));
        assert!(room.take(SHORT).await.unwrap().is_none(), "short ones do not wait");
        taken.pop();
        assert!(room.take(16 << 20).await.unwrap().is_some());
        assert!(room.take((16 << 20) + 1).await.unwrap_err().contains("16777216"));
    }
}
