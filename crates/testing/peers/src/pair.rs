//! Two engines and the network between them, in virtual time.

use std::collections::VecDeque;
use std::fmt;

use fastrand::Rng;

use crate::MILLISECOND;
use crate::engine::{Engine, Packets};

/// The network between the two ends: unlimited rate, one delay, uniform loss.
#[derive(Clone, Debug)]
pub struct Network {
    /// Round-trip time, in nanoseconds.
    pub round_trip: u64,
    /// Share of the packets lost in either direction after both ends are established.
    pub loss: f64,
    /// Determines which packets are lost.
    pub seed: u64,
    /// Maximum number of packets arriving at one instant that are handled before the engine is
    /// asked for packets to send, like the result of one receive call. With 1, engines acknowledge
    /// exactly as the RFC counts; more lets an engine save acknowledgements.
    pub burst: usize,
}

impl Default for Network {
    /// A round trip of 1 ms without loss, with every packet separate.
    fn default() -> Self {
        Network { round_trip: MILLISECOND, loss: 0.0, seed: 1, burst: 1 }
    }
}

/// The traffic of one end on the network.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PacketCounts {
    /// Packets sent.
    pub sent: u64,
    /// Those of them that were lost.
    pub lost: u64,
    /// Bytes of packets sent.
    pub bytes: u64,
}

/// Neither end has anything to send or to wait for, but the goal was not reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stalled {
    /// Virtual time of the last event.
    pub at: u64,
}

impl fmt::Display for Stalled {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "nothing more happens after {} ns", self.at)
    }
}

impl std::error::Error for Stalled {}

/// The application of one end. It is called whenever its engine may have something for it, with the
/// number of the end (0 is the client), the time and the engine.
pub type Application<'a> = &'a mut dyn FnMut(usize, u64, &mut dyn Engine);

/// Processes packets where they enter the network and where they leave it.
pub type Carriage = Box<dyn FnMut(Packets) -> Packets>;

/// Two engines, the network between them, and a clock.
pub struct Pair {
    ends: [Box<dyn Engine>; 2],
    carriage: Option<Carriage>,
    /// Packets in flight to each end, by arrival time.
    wires: [VecDeque<(u64, Packets)>; 2],
    counts: [PacketCounts; 2],
    network: Network,
    random: Rng,
    lossy: bool,
    now: u64,
}

impl Pair {
    /// A client and a server that are not connected yet.
    pub fn new(client: Box<dyn Engine>, server: Box<dyn Engine>, network: Network) -> Self {
        Pair {
            ends: [client, server],
            carriage: None,
            wires: [VecDeque::new(), VecDeque::new()],
            counts: [PacketCounts::default(); 2],
            random: Rng::with_seed(network.seed),
            network,
            lossy: false,
            now: 0,
        }
    }

    /// The virtual time in nanoseconds.
    pub fn now(&self) -> u64 {
        self.now
    }

    /// One end; 0 is the client.
    pub fn end(&mut self, end: usize) -> &mut dyn Engine {
        self.ends[end & 1].as_mut()
    }

    /// The traffic of one end; 0 is the client.
    pub fn counts(&self, end: usize) -> PacketCounts {
        self.counts[end & 1]
    }

    /// Executes the handshake, without loss.
    pub fn connect(&mut self) -> Result<(), Stalled> {
        self.ends[0].connect(self.now);
        self.run_until(&mut |_, _, _| {}, &mut |pair| {
            pair.ends.iter().all(|end| end.established())
        })?;
        self.lossy = self.network.loss > 0.0;
        Ok(())
    }

    /// Passes packets through `carriage` from now on when they enter and when they leave the
    /// network. Without it the receiver gets the same memory that the sender filled.
    pub fn set_carriage(&mut self, carriage: Carriage) {
        self.carriage = Some(carriage);
    }

    /// Stops losing packets, so that a run can end.
    pub fn stop_loss(&mut self) {
        self.lossy = false;
    }

    /// Runs until `done`. Fails if there are no more events before that.
    pub fn run_until(
        &mut self,
        application: Application<'_>,
        done: &mut dyn FnMut(&mut Pair) -> bool,
    ) -> Result<(), Stalled> {
        self.wake(application);
        while !done(self) {
            if !self.step(application) {
                return Err(Stalled { at: self.now });
            }
        }
        Ok(())
    }

    /// Calls both applications and sends the resulting packets.
    pub fn wake(&mut self, application: Application<'_>) {
        for end in 0..2 {
            application(end, self.now, self.ends[end].as_mut());
            self.transmit(end);
        }
    }

    /// Processes the next event. Returns `false` if there is none.
    pub fn step(&mut self, application: Application<'_>) -> bool {
        let Some(next) = self.next_event() else {
            return false;
        };
        self.now = self.now.max(next);
        for end in 0..2 {
            self.deliver(end, application);
            // A timer that was already due runs once per step, so that a timer which its engine
            // never clears cannot stop the clock.
            if self.ends[end].deadline().is_some_and(|at| at <= self.now) {
                self.ends[end].timeout(self.now);
                application(end, self.now, self.ends[end].as_mut());
                self.transmit(end);
            }
        }
        true
    }

    /// When the next packet arrives or the next timer expires.
    pub fn next_event(&mut self) -> Option<u64> {
        let arrival = |wire: &VecDeque<(u64, Packets)>| wire.front().map(|&(at, _)| at);
        let arrivals = self.wires.iter().filter_map(arrival).min();
        let timers = self.ends.iter_mut().filter_map(|end| end.deadline()).min();
        arrivals.into_iter().chain(timers).min()
    }

    fn deliver(&mut self, end: usize, application: Application<'_>) {
        loop {
            let mut taken = 0;
            while taken < self.network.burst
                && let Some((at, _)) = self.wires[end].front()
                && *at <= self.now
                && let Some((_, packets)) = self.wires[end].pop_front()
            {
                let room = self.network.burst - taken;
                let count = packets.count();
                if count > room {
                    let rest = packets.range(room, count);
                    self.wires[end].push_front((self.now, rest));
                }
                let packets = carried(&mut self.carriage, packets.range(0, room));
                self.ends[end].handle(self.now, packets);
                taken += count.min(room);
            }
            if taken == 0 {
                return;
            }
            application(end, self.now, self.ends[end].as_mut());
            self.transmit(end);
        }
    }

    fn transmit(&mut self, end: usize) {
        let arrival = self.now + self.network.round_trip / 2;
        let wire = &mut self.wires[end ^ 1];
        let counts = &mut self.counts[end];
        let (random, lossy, loss) = (&mut self.random, self.lossy, self.network.loss);
        let carriage = &mut self.carriage;
        self.ends[end].transmit(self.now, &mut |packets| {
            let packets = carried(carriage, packets);
            let count = packets.count();
            counts.sent += count as u64;
            counts.bytes += packets.data.len() as u64;
            if !lossy {
                wire.push_back((arrival, packets));
                return;
            }
            // Packets between two lost ones stay one batch.
            let mut from = 0;
            for number in 0..count {
                if random.f64() < loss {
                    counts.lost += 1;
                    if from < number {
                        wire.push_back((arrival, packets.range(from, number)));
                    }
                    from = number + 1;
                }
            }
            if from == 0 {
                wire.push_back((arrival, packets));
            } else if from < count {
                wire.push_back((arrival, packets.range(from, count)));
            }
        });
    }
}

fn carried(carriage: &mut Option<Carriage>, packets: Packets) -> Packets {
    match carriage {
        Some(carriage) => carriage(packets),
        None => packets,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transfer::{self, Load};
    use crate::{Config, Kind, Role, SECOND};

    fn pair(network: Network) -> Pair {
        let config = Config::default();
        let client = Kind::RtcSctp.build(&config, Role::Client);
        let server = Kind::RtcSctp.build(&config, Role::Server);
        Pair::new(client, server, network)
    }

    fn lossy(seed: u64) -> Network {
        Network { loss: 0.02, seed, ..Network::default() }
    }

    fn run(seed: u64) -> (PacketCounts, PacketCounts, transfer::Delivered) {
        let mut pair = pair(lossy(seed));
        pair.connect().expect("handshake");
        let delivered = transfer::time(&mut pair, &Load::messages_of(1000), 5 * SECOND);
        let delivered = delivered.expect("transfer");
        (pair.counts(0), pair.counts(1), delivered)
    }

    #[test]
    fn the_same_seed_gives_the_same_run_and_another_seed_another() {
        assert_eq!(run(3), run(3));
        assert_ne!(run(3), run(4));
    }

    #[test]
    fn about_the_asked_share_of_packets_is_lost() {
        let (client, _, _) = run(3);
        let share = client.lost as f64 / client.sent as f64;
        assert!(client.sent > 2000 && (0.01..0.03).contains(&share), "{share}");
    }

    #[test]
    fn the_handshake_takes_two_round_trips() {
        let mut pair = pair(Network { round_trip: 8 * MILLISECOND, ..Network::default() });
        pair.connect().expect("handshake");
        // The server is done after one and a half.
        assert_eq!(pair.now(), 16 * MILLISECOND);
    }

    #[test]
    fn without_anything_to_wait_for_a_run_fails() {
        let mut pair = pair(Network::default());
        let stalled = pair.run_until(&mut |_, _, _| {}, &mut |_| false);
        assert_eq!(stalled, Err(Stalled { at: 0 }));
    }
}
