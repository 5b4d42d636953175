//! The peer's answers to requests of this side (RFC 5061 section 5.1), and what follows from them.

use std::collections::VecDeque;
use std::net::IpAddr;

use anabranch_wire::{Cause, Parameter, Parameters, cause_code};
use bytes::Bytes;

use super::Change;
use crate::association::{Association, Control};
use crate::event::{CloseReason, PathState};
use crate::features::Features;
use crate::marks::mark;
use crate::path::Path;
use crate::per_path::{MAX_PATHS, PathId};
use crate::policy::failover::Input;
use crate::reconfiguration::ReconfigurationResult;
use crate::roaming::AddressChange;
use crate::time::Instant;

impl Association {
    /// Takes an ASCONF-ACK, for the end of its packet.
    pub(in crate::association) fn on_asconf_ack(&mut self, serial: u32, parameters: Bytes) {
        if self.state.acknowledges() {
            self.readdressing().answer = Some((serial, parameters));
        }
    }

    /// Processes the ASCONF-ACK of a packet, which arrived on `path`, after everything else in it.
    // req: rfc5061 5.1 "sent arrives, the sender MUST stop the T-4 RTO timer, and clear"
    pub(in crate::association) fn settle_changes(&mut self, now: Instant, path: PathId) {
        let Some(state) = &mut self.readdressing else { return };
        if let Some(unwanted) = state.unwanted.take() {
            self.retain_paths(|path| path.id != unwanted);
            self.choose_after_removal();
        }
        let Some(state) = &mut self.readdressing else { return };
        let Some((serial, parameters)) = state.answer.take() else { return };
        // req: rfc5061 5.3 "is outstanding, the endpoint MUST ABORT the association"
        let ahead = serial.wrapping_sub(state.requests.next()) < 1 << 31;
        if ahead && state.requests.is_free() {
            mark!(IllegalAddressAnswer);
            let mut cause = Vec::new();
            Cause::IllegalAsconfAck.encode(&mut cause);
            let reason = CloseReason::ProtocolViolation("an answer without an ASCONF");
            return self.abort_with(path, cause, reason);
        }
        let Some((_, taken)) = state.requests.on_answer(serial) else { return };
        state.earlier.clear();
        let (asked, adds_source) = (std::mem::take(&mut state.asked), state.adds_source);
        let rtt = state.first_sent.map(|at| now.saturating_since(at));
        self.watch.error_count = 0;
        // The peer answers to where the request came from.
        let carries = |id: &PathId| self.paths.get(*id).is_some_and(Path::may_carry);
        if let Some(works) = taken.filter(|id| *id == path).filter(carries) {
            self.path_works(now, works);
        }
        let parameters = Parameters::new(&parameters);
        for what in not_understood(&asked, parameters) {
            self.refuse(what);
        }
        if adds_source && refuses(parameters, asked.len()) && self.ask_without_source(&asked) {
            return self.advance_readdressing(now);
        }
        let results = results(&asked, parameters, adds_source);
        for (change, result) in asked.into_iter().zip(results) {
            let came = (Some(path) == taken).then_some((path, rtt));
            self.end_change(now, change, result, came);
            if self.is_closed() {
                return;
            }
        }
        // Nothing comes or goes now, so what is still silent was removed with others.
        if self.paths.iter().any(|path| !path.silent) {
            self.retain_paths(|path| !path.silent);
            self.choose_after_removal();
        }
        self.advance_readdressing(now);
    }

    /// Makes requests again without the one that adds their source, which the peer refused. usrsctp and FreeBSD do that for an
    /// address that they have. Returns whether the peer does: it has verified that address, or answers what comes from it.
    fn ask_without_source(&mut self, asked: &[Change]) -> bool {
        let Some(source) = self.readdressing().source else { return false };
        let knows = self.paths.iter().any(|path| path.local == source && path.may_carry());
        if knows {
            let state = self.readdressing();
            state.known = Some(source);
            asked.iter().rev().for_each(|change| state.wishes.push_front(*change));
        }
        knows
    }

    /// Does what the peer has answered. `came`: the answer took the path of the request, with this round-trip time.
    pub(super) fn end_change(
        &mut self,
        now: Instant,
        change: Change,
        result: ReconfigurationResult,
        came: Option<(PathId, Option<std::time::Duration>)>,
    ) {
        let Change { what, address } = change;
        let done = result == ReconfigurationResult::Performed;
        let mut own: Vec<IpAddr> = self.surroundings.locals.to_vec();
        own.retain(|local| *local != address);
        match (what, done) {
            (AddressChange::Added, true) => {
                own.push(address);
                // The peer may have got more addresses meanwhile.
                let beyond = self.readdressing().beyond.clone();
                self.add_silent_paths(now, address, &beyond);
                self.open_paths(now, address, came);
            }
            (AddressChange::Added, false) => {
                if self.paths.iter().all(|path| path.local == address) {
                    self.close(CloseReason::Unreachable);
                } else {
                    self.retain_paths(|path| path.local != address);
                }
            }
            (AddressChange::Removed, true) => self.drop_address(address),
            (AddressChange::Removed, false) => {
                // Addresses that the peer adds later get paths from it, too.
                own = self.surroundings.locals.to_vec();
                self.keep_address(address);
            }
            (AddressChange::Preferred, _) => own = self.surroundings.locals.to_vec(),
        }
        self.surroundings.locals = own.into();
        self.tell_change(change, result);
    }

    /// Uses the paths of an address again that the peer did not forget.
    fn keep_address(&mut self, local: IpAddr) {
        for id in self.paths.ids_now() {
            let path = &mut self.paths[id];
            if path.local == local && std::mem::take(&mut path.silent) && path.is_active() {
                self.fail_over(Input::Responds(id));
            }
        }
        self.choose_concurrent_paths();
    }

    /// Drops the paths of an address that the peer has forgotten. Those of its addresses that had no other path are kept
    /// in mind for the next address of this side.
    // req: rfc5061 5.3 "address valid for a period of time, it MUST NOT hold it valid"
    fn drop_address(&mut self, local: IpAddr) {
        let before: Vec<IpAddr> = self.remotes().collect();
        self.retain_paths(|path| path.local != local);
        self.choose_after_removal();
        let left: Vec<IpAddr> = self.remotes().collect();
        let beyond = &mut self.readdressing().beyond;
        for remote in before {
            if !left.contains(&remote) && !beyond.contains(&remote) && beyond.len() < MAX_PATHS {
                beyond.push(remote);
            }
        }
    }

    /// Uses the paths of an address that the peer knows now. One that has carried the request and the answer works; the
    /// others are verified.
    // req: rfc5061 5.3 "MAY begin using the added IP address as a source address for any"
    fn open_paths(
        &mut self,
        now: Instant,
        local: IpAddr,
        came: Option<(PathId, Option<std::time::Duration>)>,
    ) {
        for id in self.paths.ids_now() {
            let path = &mut self.paths[id];
            if path.local != local || !std::mem::take(&mut path.silent) {
                continue;
            }
            path.error_count = 0;
            if let Some((_, value)) = self.take_heard(id) {
                self.queue(id, Control::HeartbeatAck(value));
            }
            let path = &mut self.paths[id];
            let Some((_, rtt)) = came.filter(|(path, _)| *path == id) else {
                path.heartbeat.schedule(Some(now));
                continue;
            };
            path.proven = true;
            if let Some(rtt) = rtt {
                path.rtt.on_measurement(rtt);
            }
            self.set_path_state(now, id, PathState::Active);
            self.fail_over(Input::Responds(id));
            self.schedule_heartbeat(now, id);
        }
    }

    /// Keeps a HEARTBEAT that arrived on a silent path, to answer it when the path is opened.
    pub(in crate::association) fn note_heard(&mut self, path: PathId, value: Bytes) {
        self.readdressing().heard = Some((path, value));
    }

    fn take_heard(&mut self, path: PathId) -> Option<(PathId, Bytes)> {
        let state = self.readdressing.as_mut()?;
        state.heard.take_if(|(heard, _)| *heard == path)
    }

    /// The peer says that it does not know the chunk ASCONF, although it was agreed on.
    // req: rfc5061 5.1 "the ASCONF MUST NOT send any further ASCONF Chunks and MUST stop"
    // req: rfc5061 5.1.1 "sender MUST NOT send subsequent ASCONF Chunks to the peer"
    // req: rfc5061 4.1.1 "indicates to the sender that it MUST not send any"
    pub(in crate::association) fn on_asconf_refused(&mut self, now: Instant) {
        if !self.features.has(Features::ADDRESS_RECONFIGURATION) {
            return;
        }
        let Some(state) = &mut self.readdressing else { return };
        state.requests.on_answer(state.requests.next().wrapping_sub(1));
        state.earlier.clear();
        let asked = std::mem::take(&mut state.asked);
        self.refuse(AddressChange::Added);
        self.refuse(AddressChange::Preferred);
        for change in asked {
            self.end_change(now, change, ReconfigurationResult::Denied, None);
        }
    }

    /// Gives up changes of a kind that the peer does not understand.
    // req: rfc5061 5.3 "understood, the endpoint MUST consider the operation failed and"
    // req: rfc5061 5.3 "MUST NOT attempt to send any subsequent Add or Delete requests"
    // req: rfc5061 5.3 "attempt to send any subsequent Set Primary IP Address requests"
    fn refuse(&mut self, what: AddressChange) {
        let state = self.readdressing();
        match what {
            AddressChange::Added | AddressChange::Removed => state.refuses_moves = true,
            AddressChange::Preferred => state.refuses_preferences = true,
        }
        let wishes = std::mem::take(&mut state.wishes);
        let (refused, left) = wishes.into_iter().partition(|wish| state.refuses(wish.what));
        state.wishes = left;
        let refused: VecDeque<Change> = refused;
        for change in refused {
            self.tell_change(change, ReconfigurationResult::Denied);
        }
    }
}

/// The kinds of requests that the peer did not understand.
fn not_understood(asked: &[Change], answer: Parameters<'_>) -> Vec<AddressChange> {
    let responses = answer.iter().map_while(Result::ok);
    let unknown = responses.filter_map(|response| match response.decode() {
        Ok(Parameter::ErrorCauseIndication { correlation, causes }) => {
            let cause = causes.iter().next()?.ok()?;
            (cause.kind == cause_code::UNRECOGNIZED_PARAMETERS).then_some(correlation)
        }
        _ => None,
    });
    unknown.filter_map(|correlation| Some(asked.get(correlation as usize)?.what)).collect()
}

/// Whether the peer has refused the request with this correlation identifier.
fn refuses(answer: Parameters<'_>, request: usize) -> bool {
    answer.iter().map_while(Result::ok).any(|response| {
        matches!(response.decode(), Ok(Parameter::ErrorCauseIndication { correlation, .. }) if correlation as usize == request)
    })
}

/// The results of requests. Before the first error, those without a response succeeded; after it, they failed. So did all
/// if the address that the chunk also added was refused.
// req: rfc5061 5.1 "The endpoint MUST process all of the TLVs within the ASCONF-"
fn results(
    asked: &[Change],
    answer: Parameters<'_>,
    adds_source: bool,
) -> Vec<ReconfigurationResult> {
    let mut succeeded = Vec::new();
    let mut failed = Vec::new();
    for response in answer.iter().map_while(Result::ok) {
        match response.decode() {
            Ok(Parameter::SuccessIndication(correlation)) => succeeded.push(correlation),
            Ok(Parameter::ErrorCauseIndication { correlation, causes }) => {
                let code = causes.iter().next().and_then(Result::ok).map(|cause| cause.kind);
                failed.push((correlation, code));
            }
            _ => {}
        }
    }
    let of_source = |correlation: u32| adds_source && correlation as usize == asked.len();
    let first = failed.iter().map(|(correlation, _)| match of_source(*correlation) {
        true => 0,
        false => *correlation,
    });
    let first = first.min();
    (0..)
        .zip(asked)
        .map(|(correlation, change)| {
            if let Some((_, code)) = failed.iter().find(|(of, _)| *of == correlation) {
                let removed = change.what == AddressChange::Removed;
                return match code {
                    // The peer does not have the address.
                    Some(cause_code::UNRESOLVABLE_ADDRESS) if removed => {
                        ReconfigurationResult::Performed
                    }
                    Some(cause_code::RESOURCE_SHORTAGE | cause_code::NO_AUTHORIZATION) => {
                        ReconfigurationResult::Denied
                    }
                    _ => ReconfigurationResult::Failed,
                };
            }
            let before = first.is_none_or(|first| correlation < first);
            match before || succeeded.contains(&correlation) {
                true => ReconfigurationResult::Performed,
                false => ReconfigurationResult::Failed,
            }
        })
        .collect()
}
