//! Addresses that join and leave an association that is up (RFC 5061).

use std::cell::{Cell, RefCell};
use std::net::IpAddr;
use std::time::Duration;

use anabranch::{
    AddressChange, Association, Events, Features, Notification, PathState, ReconfigurationResult,
};

use super::meeting::{Meeting, OTHER_ROLE};
use super::paths;
use crate::lane::Lane;
use crate::net;
use crate::peer::Kind;
use crate::plan::{self, Expected};
use crate::side::{self, Setting};

/// How long a change may take. Several packets of it may be lost.
const PATIENCE: Duration = Duration::from_secs(20);

/// Messages of a round.
const ROUND: usize = 4;

/// The longest message: a peer on a busy machine must keep up with losses.
const LONGEST: usize = 2000;

/// The time between rounds.
const PAUSE: Duration = Duration::from_millis(40);

/// Rounds of messages that show that data goes on.
const ROUNDS: u32 = 20;

/// An association whose addresses change while messages go both ways.
struct Moving<'a> {
    lane: &'a Lane,
    meeting: &'a mut Meeting,
    events: Events,
    /// Rounds of messages that have come back.
    rounds: &'a Cell<u32>,
}

/// Both roles over two links, with losses. `wildcard`: both sides are bound to all addresses that they have, and follow
/// them if they can.
async fn roles(
    lane: &Lane,
    slot: u16,
    wildcard: bool,
    act: impl AsyncFn(&mut Moving<'_>) -> Result<(), String>,
) -> Result<(), String> {
    let losses = side::losses()?;
    for (ours, slot) in [(true, slot), (false, slot + OTHER_ROLE)] {
        let mut setting = Setting { links: &[0, 1], wildcard, ..Setting::default() };
        setting.impairment = Some(&losses);
        setting.config.authentication.authentication = true;
        setting.config.addresses.address_reconfiguration = true;
        setting.config.addresses.roam = wildcard;
        setting.config.paths.path_max_retrans = 1;
        let mut meeting = Meeting::begun(lane, slot, setting, ours).await?;
        let association = meeting.association.clone();
        if !association.statistics().features.has(Features::ADDRESS_RECONFIGURATION) {
            return Err("changes of addresses were not agreed".to_owned());
        }
        for link in [0, 1] {
            paths::state(lane, &association, link, PathState::Active).await?;
        }
        let (rounds, done) = (Cell::new(0), Cell::new(false));
        let events = association.events();
        let mut moving = Moving { lane, meeting: &mut meeting, events, rounds: &rounds };
        let changes = async {
            act(&mut moving).await?;
            moving.progress().await?;
            done.set(true);
            Ok(())
        };
        tokio::try_join!(traffic(lane, &association, &rounds, &done), changes)?;
        meeting.part().await?;
    }
    Ok(())
}

/// Sends a few messages again and again until it is told to stop, and waits until all are back. It does not wait for one
/// round before it sends the next one: a Linux host forgets the timer of what was in flight to an address that is removed,
/// and sends it again only because what it sends later is acknowledged.
async fn traffic(
    lane: &Lane,
    association: &Association,
    rounds: &Cell<u32>,
    done: &Cell<bool>,
) -> Result<(), String> {
    let lengths = plan::mixed_lengths().map(|length| length.min(LONGEST)).take(20_000);
    let plan = plan::messages(lengths, 47, |i| (i % 4) as u16);
    let expected = RefCell::new(Expected::new(lane.kind.returns_ppid()));
    let over = Cell::new(false);
    let send = async {
        for some in plan.chunks(ROUND) {
            if done.get() {
                over.set(true);
                return Ok(());
            }
            expected.borrow_mut().add(some);
            for planned in some {
                association.send(planned.outgoing()).await.map_err(|e| format!("send: {e}"))?;
            }
            tokio::time::sleep(PAUSE).await;
        }
        Err("the plan is too short".to_owned())
    };
    let receive = async {
        let mut received = 0;
        while !over.get() || expected.borrow().missing() > 0 {
            // What was sent last may be back before this side is done.
            let Ok(next) = tokio::time::timeout(PAUSE, association.recv()).await else { continue };
            let message = next.map_err(|error| error.to_string())?;
            expected.borrow_mut().take(message.ok_or("the peer shut down")?)?;
            received += 1;
            rounds.set(received / ROUND as u32);
        }
        Ok::<(), String>(())
    };
    tokio::try_join!(send, receive).map(drop)
}

impl Moving<'_> {
    fn near(&self, link: u8) -> IpAddr {
        net::near(self.lane.family, link)
    }

    fn far(&self, link: u8) -> IpAddr {
        net::far(self.lane.family, link)
    }

    /// Waits until data went both ways several times.
    async fn progress(&self) -> Result<(), String> {
        let wanted = self.rounds.get() + ROUNDS;
        let wait = async {
            while self.rounds.get() < wanted {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        let ended = tokio::time::timeout(PATIENCE, wait).await;
        ended.map_err(|_| "data does not go on".to_owned())
    }

    /// This side changes one of its addresses. Both sides must say so.
    async fn ours(&mut self, change: AddressChange, link: u8) -> Result<(), String> {
        let (local, association) = (self.near(link), &self.meeting.association);
        let begun = match change {
            AddressChange::Added => association.add_address(local),
            AddressChange::Removed => association.remove_address(local),
            _ => association.prefer_address(local),
        };
        begun.map_err(|error| format!("{local} is not {change}: {error}"))?;
        self.ours_is(change, link).await
    }

    /// Waits until both sides have said that an address of this side has changed.
    async fn ours_is(&mut self, change: AddressChange, link: u8) -> Result<(), String> {
        let local = self.near(link);
        self.event(&format!("{local} {change} here"), |event| match event {
            Notification::AddressChanged { change: what, address, result } => {
                let right = (*what, *address) == (change, local);
                right.then_some(*result == ReconfigurationResult::Performed)
            }
            _ => None,
        })
        .await?;
        self.meeting.peer.line(&format!("address {change} {local}")).await.map(drop)
    }

    /// The peer changes one of its addresses because it was told to.
    async fn theirs(&mut self, change: AddressChange, link: u8) -> Result<(), String> {
        let word = match change {
            AddressChange::Added => "bind",
            AddressChange::Removed => "unbind",
            _ => "prefer",
        };
        side::command(&self.meeting.association, &format!("{word} {}", self.far(link))).await?;
        self.theirs_is(change, link).await
    }

    /// Waits until an address of the peer has changed.
    async fn theirs_is(&mut self, change: AddressChange, link: u8) -> Result<(), String> {
        let far = self.far(link);
        self.event(&format!("{far} {change} there"), |event| match event {
            Notification::PeerAddressChanged { change: what, remote } => {
                ((*what, *remote) == (change, far)).then_some(true)
            }
            _ => None,
        })
        .await
    }

    /// Waits for an event, of which `is` says whether it is good.
    async fn event(
        &mut self,
        what: &str,
        is: impl Fn(&Notification) -> Option<bool>,
    ) -> Result<(), String> {
        let wait = async {
            while let Some(event) = self.events.next().await {
                match is(&event) {
                    Some(true) => return Ok(()),
                    Some(false) => return Err(format!("the peer refuses: {event}")),
                    None => {}
                }
            }
            Err("the association ended".to_owned())
        };
        let ended = tokio::time::timeout(PATIENCE, wait).await;
        ended.unwrap_or_else(|_| Err(format!("there is no event '{what}'")))
    }

    /// Bytes of data that have arrived over a link.
    fn arrived(&self, link: u8) -> u64 {
        let local = self.near(link);
        let statistics = self.meeting.association.statistics();
        let over = statistics.paths.iter().filter(|path| path.local == local);
        over.map(|path| path.data_bytes_received).sum()
    }

    /// Bytes of data that were sent over a link.
    fn sent(&self, link: u8) -> u64 {
        let remote = self.far(link);
        let statistics = self.meeting.association.statistics();
        let over = statistics.paths.iter().filter(|path| path.remote == remote);
        over.map(|path| path.data_bytes_sent).sum()
    }

    /// This side asks for its data on a link, and gets it there.
    async fn draw_to(&mut self, link: u8) -> Result<(), String> {
        let before = self.arrived(link);
        self.ours(AddressChange::Preferred, link).await?;
        self.progress().await?;
        match self.arrived(link) > before {
            true => Ok(()),
            false => Err(format!("the peer sends nothing to {}", self.near(link))),
        }
    }

    /// The peer asks for its data on a link, and this side sends it there.
    async fn follow_to(&mut self, link: u8) -> Result<(), String> {
        let before = self.sent(link);
        self.theirs(AddressChange::Preferred, link).await?;
        self.progress().await?;
        match self.sent(link) > before {
            true => Ok(()),
            false => Err(format!("nothing was sent to {}", self.far(link))),
        }
    }

    async fn active(&self, link: u8) -> Result<(), String> {
        paths::state(self.lane, &self.meeting.association, link, PathState::Active).await
    }
}

/// An address of each side goes and comes back, and then carries data.
pub(super) async fn add(lane: &Lane, slot: u16) -> Result<(), String> {
    roles(lane, slot, false, async |moving| {
        moving.theirs(AddressChange::Removed, 1).await?;
        // The peer can add it again only once it has our answer.
        moving.progress().await?;
        moving.theirs(AddressChange::Added, 1).await?;
        moving.active(1).await?;
        moving.ours(AddressChange::Removed, 1).await?;
        moving.ours(AddressChange::Added, 1).await?;
        moving.active(1).await?;
        moving.draw_to(1).await?;
        moving.follow_to(1).await?;
        if lane.kind == Kind::Usrsctp {
            return Ok(());
        }
        lane.set_cut(0, true).await?;
        moving.progress().await?;
        lane.set_cut(0, false).await
    })
    .await
}

/// The address of each side that carries data goes, and its link with it, if the peer can remove such an address.
pub(super) async fn delete(lane: &Lane, slot: u16) -> Result<(), String> {
    roles(lane, slot, false, async |moving| {
        moving.ours(AddressChange::Removed, 0).await?;
        lane.set_cut(0, true).await?;
        moving.progress().await?;
        lane.set_cut(0, false).await?;
        moving.ours(AddressChange::Added, 0).await?;
        moving.active(0).await?;
        if lane.kind == Kind::Usrsctp {
            return Ok(());
        }
        moving.theirs(AddressChange::Removed, 1).await?;
        lane.set_cut(1, true).await?;
        moving.progress().await?;
        lane.set_cut(1, false).await
    })
    .await
}

/// Each side asks for the other link, and gets its data there.
pub(super) async fn primary(lane: &Lane, slot: u16) -> Result<(), String> {
    roles(lane, slot, false, async |moving| {
        for link in [1, 0] {
            moving.draw_to(link).await?;
        }
        for link in [1, 0] {
            moving.follow_to(link).await?;
        }
        Ok(())
    })
    .await
}

/// Addresses of the hosts go and come back, and nobody tells the association.
pub(super) async fn roam(lane: &Lane, slot: u16) -> Result<(), String> {
    roles(lane, slot, true, async |moving| {
        for link in [0, 1] {
            lane.set_near(link, false).await?;
            moving.ours_is(AddressChange::Removed, link).await?;
            moving.progress().await?;
            lane.set_near(link, true).await?;
            moving.ours_is(AddressChange::Added, link).await?;
            moving.active(link).await?;
        }
        if lane.kind != Kind::Linux {
            return Ok(());
        }
        for link in [0, 1] {
            lane.set_far(link, false).await?;
            moving.theirs_is(AddressChange::Removed, link).await?;
            moving.progress().await?;
            lane.set_far(link, true).await?;
            moving.theirs_is(AddressChange::Added, link).await?;
            moving.active(link).await?;
        }
        Ok(())
    })
    .await
}
