//! What the peer's program prints about messages and streams.

use std::collections::BTreeMap;

use anabranch::Association;

use crate::peer::Peer;
use crate::plan::{self, Planned};
use crate::side;

/// What the peer has printed since it was told to report.
#[derive(Default)]
pub(super) struct Reported {
    /// The stream of each message, in the order of arrival.
    pub(super) arrived: Vec<u16>,
    /// Streams of this side that were reset.
    pub(super) reset: Vec<u16>,
    /// Of each change, the streams on which the peer sends, and those on which it receives.
    pub(super) streams: Vec<(u16, u16)>,
}

/// Tells the peer to report, and waits until it does: messages on other streams may overtake the command.
pub(super) async fn begin(association: &Association, peer: &mut Peer) -> Result<(), String> {
    side::command(association, "report").await?;
    peer.line("reporting").await.map(drop)
}

/// Reads until the peer has received all messages of a plan, each once and whole, and in order on even streams.
/// `until`: what else is awaited.
pub(super) async fn read(
    peer: &mut Peer,
    plan: &[Planned],
    until: impl Fn(&Reported) -> bool,
) -> Result<Reported, String> {
    let mut expected = BTreeMap::<u16, Vec<String>>::new();
    for message in plan {
        let hash = plan::hash(std::slice::from_ref(message));
        expected.entry(message.stream).or_default().push(format!("{} {hash}", message.data.len()));
    }
    let mut all = Reported::default();
    while all.arrived.len() < plan.len() || !until(&all) {
        let missing = plan.len() - all.arrived.len();
        let line =
            peer.next().await.map_err(|e| format!("{e}, with {missing} messages missing"))?;
        if let Some((stream, what)) = field(&line, "message ").and_then(|rest| rest.split_once(' '))
        {
            let stream = parse(stream)?;
            let waiting = expected.entry(stream).or_default();
            let at = waiting.iter().position(|waiting| waiting == what);
            let Some(at) = at.filter(|at| *at == 0 || stream % 2 == 1) else {
                return Err(format!("the peer received an unexpected message: {line}"));
            };
            waiting.remove(at);
            all.arrived.push(stream);
        } else if let Some(stream) = field(&line, "reset incoming ") {
            all.reset.push(parse(stream)?);
        } else if line.starts_with("reset failed") {
            return Err("a reset failed at the peer".to_owned());
        } else if let Some((out, rest)) =
            field(&line, "streams out=").and_then(|s| s.split_once(' '))
        {
            let inbound = field(rest, "in=").and_then(|rest| rest.split(' ').next());
            all.streams.push((parse(out)?, parse(inbound.unwrap_or_default())?));
        }
    }
    Ok(all)
}

fn field<'a>(line: &'a str, name: &str) -> Option<&'a str> {
    line.strip_prefix(name)
}

fn parse(text: &str) -> Result<u16, String> {
    text.trim().parse().map_err(|_| format!("the peer prints '{text}' where a number belongs"))
}
