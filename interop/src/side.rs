//! Our side: endpoints, and functions that send and check messages.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anabranch::{
    Association, AssociationConfig, ConnectOptions, Encapsulation, Endpoint, EndpointConfig,
    Listener, OutOfTheBlue, OutgoingMessage, Ppid,
};

use anabranch::impair::file::ImpairmentFile;
use anabranch::runtime::{ImpairedRuntime, TokioRuntime};

use crate::lane::{CAPTURES, Lane, Transport};
use crate::net;
use crate::peer::{Mode, Start};
use crate::plan::{Expected, Planned};

/// Our end of one case.
pub(crate) struct Side {
    pub(crate) endpoint: Endpoint,
    /// The impairment of its packets, if any.
    pub(crate) impaired: Option<Arc<ImpairedRuntime>>,
    config: AssociationConfig,
    links: Vec<u8>,
    lane: Lane,
    slot: u16,
}

/// Timers that are short enough for a test. The peers use the same.
pub(crate) const RTO_MIN: Duration = Duration::from_millis(200);
pub(crate) const HEARTBEAT: Duration = Duration::from_millis(1000);

/// An impairment that delays packets in both directions and drops some.
pub(crate) fn losses() -> Result<ImpairmentFile, String> {
    let text = "[[path]]\ndelay_ms = 10\nloss_percent = 1\n";
    text.parse().map_err(|e| format!("impairment: {e}"))
}

/// An impairment that marks ECN-capable packets and drops others, once a few packets wait.
pub(crate) fn marks() -> Result<ImpairmentFile, String> {
    let text = "[[path]]\ndelay_ms = 10\nrate = \"20 Mb/s\"\nqueue = \"50 packets\"\ndiscipline = \"red\"\n\
                red = { min = \"1 packets\", max = \"40 packets\", max_drop = \"20 %\", weight = \"50 %\", \
                ecn = true }\n";
    text.parse().map_err(|e| format!("impairment: {e}"))
}

/// An impairment that delays packets and drops sent packets with data by a pattern of losses.
pub(crate) fn pattern(losses: &str) -> Result<ImpairmentFile, String> {
    let text = "[[path]]\ndirection = \"send\"\ndelay_ms = 10\npattern = \"losses\"\n\
                [[path]]\ndirection = \"receive\"\ndelay_ms = 10\n";
    let pattern = format!(
        "anabranch pattern 1\n\npattern loss per packet\nfilter chunk data\nvalues\n  {losses}\n"
    );
    ImpairmentFile::read(text, &mut |_| Ok(pattern.clone().into_bytes()))
        .map_err(|e| format!("impairment: {e}"))
}

/// The options of our associations.
pub(crate) fn config() -> AssociationConfig {
    let mut config = AssociationConfig::default();
    config.timers.rto_initial = Duration::from_millis(500);
    config.timers.rto_min = RTO_MIN;
    config.timers.rto_max = Duration::from_secs(3);
    config.timers.heartbeat_interval = Some(HEARTBEAT);
    config
}

/// Settings in which cases differ.
pub(crate) struct Setting<'a> {
    pub(crate) links: &'a [u8],
    /// Both sides are bound to all addresses of their hosts, of both IP versions, and not only to those of the links.
    pub(crate) wildcard: bool,
    /// The mode of the peer's program.
    pub(crate) mode: Mode,
    /// Size of the peer's socket buffers, in bytes.
    pub(crate) buffer: usize,
    /// Outgoing streams of the peer, if it can choose.
    pub(crate) streams: Option<u16>,
    /// The secret with which the peer authenticates, if it can.
    pub(crate) secret: Option<&'static str>,
    pub(crate) config: AssociationConfig,
    /// Impairment of the packets, if any.
    pub(crate) impairment: Option<&'a ImpairmentFile>,
}

impl Default for Setting<'_> {
    fn default() -> Self {
        let (mode, config) = (Mode::Echo, config());
        let (streams, secret, impairment) = (None, None, None);
        let (links, wildcard) = (&[0][..], false);
        Self { links, wildcard, mode, buffer: 4 << 20, streams, secret, config, impairment }
    }
}

impl Setting<'_> {
    /// How the peer is started for this.
    pub(crate) fn start<'a>(&'a self, lane: &'a Lane, slot: u16, listens: bool) -> Start<'a> {
        let (path_max_retrans, rto_max) =
            (self.config.paths.path_max_retrans, self.config.timers.rto_max);
        let Setting { links, wildcard, mode, buffer, streams, secret, .. } = *self;
        let interleaves = self.config.sending.interleaving;
        Start {
            lane,
            slot,
            listens,
            links,
            wildcard,
            mode,
            buffer,
            streams,
            interleaves,
            secret,
            path_max_retrans,
            rto_max,
        }
    }
}

impl Side {
    /// An endpoint on the links of a setting.
    pub(crate) fn new(lane: &Lane, slot: u16, setting: &Setting<'_>) -> Result<Self, String> {
        let links = if setting.wildcard { &[][..] } else { setting.links };
        let addresses = links.iter().map(|&link| net::near(lane.family, link));
        let mut config = EndpointConfig::default();
        if lane.transport == Transport::Native {
            config.encapsulation = Encapsulation::Ip;
            // The case that idles in parallel with the others has its own endpoint.
            config.out_of_the_blue = OutOfTheBlue::Silent;
        }
        let mut builder = Endpoint::builder()
            .local_addresses(addresses)
            .udp_port(lane.our_udp_port(slot))
            .config(config);
        if let Some(directory) = std::env::var_os(CAPTURES) {
            let (peer, transport) = (lane.kind.name(), lane.transport.name());
            let file = format!("{peer}-{transport}-{}-{slot}.pcapng", lane.family.name());
            builder = builder.capture(Path::new(&directory).join(file));
        }
        let mut impaired = None;
        if let Some(file) = setting.impairment.cloned() {
            let inner = TokioRuntime::current().ok_or("no runtime")?;
            let runtime = ImpairedRuntime::new(Arc::new(inner), file, u64::from(slot));
            let runtime = impaired.insert(Arc::new(runtime));
            builder = builder.runtime(runtime.clone());
        }
        let endpoint = builder.bind().map_err(|e| e.to_string())?;
        let (links, config) = (setting.links.to_vec(), setting.config.clone());
        Ok(Self { endpoint, impaired, config, links, lane: lane.clone(), slot })
    }

    /// Waits for the peer's associations.
    pub(crate) fn listen(&self) -> Result<Listener, String> {
        let port = self.lane.sctp_port(self.slot);
        self.endpoint.listen(port, self.config.clone()).map_err(|e| e.to_string())
    }

    /// Connects to the peer.
    pub(crate) async fn connect(&self) -> Result<Association, String> {
        let port = self.lane.sctp_port(self.slot);
        let remote = |link: &u8| SocketAddr::new(net::far(self.lane.family, *link), port);
        let remotes: Vec<SocketAddr> = self.links.iter().map(remote).collect();
        let mut options = ConnectOptions::from(self.config.clone());
        options.local_port = Some(port);
        options.linger = Duration::ZERO;
        if self.lane.transport == Transport::Udp {
            options.remote_udp_port = self.lane.peer_udp_port(self.slot);
        }
        self.endpoint.connect(remotes, options).await.map_err(|e| e.to_string())
    }
}

/// Sends all messages and waits until the peer has returned all of them.
pub(crate) async fn echo(
    lane: &Lane,
    association: &Association,
    plan: &[Planned],
) -> Result<(), String> {
    exchange(association, plan, Expected::new(lane.kind.returns_ppid()), plan).await
}

/// Sends one plan and waits for another.
pub(crate) async fn exchange(
    association: &Association,
    plan: &[Planned],
    mut expected: Expected,
    wanted: &[Planned],
) -> Result<(), String> {
    expected.add(wanted);
    let send = async {
        for planned in plan {
            association.send(planned.outgoing()).await.map_err(|e| format!("send: {e}"))?;
        }
        Ok::<(), String>(())
    };
    let (sent, received) = tokio::join!(send, receive(association, &mut expected));
    sent?;
    received
}

/// Receives until nothing is missing.
pub(crate) async fn receive(
    association: &Association,
    expected: &mut Expected,
) -> Result<(), String> {
    while expected.missing() > 0 {
        let missing = expected.missing();
        match association.recv().await {
            Ok(Some(message)) => expected.take(message)?,
            Ok(None) => return Err(format!("shut down with {missing} messages missing")),
            Err(error) => return Err(format!("{error}, with {missing} messages missing")),
        }
    }
    Ok(())
}

/// Sends a command to the peer's program.
pub(crate) async fn command(association: &Association, text: &str) -> Result<(), String> {
    let text = format!("#!interop {text}");
    association.send(OutgoingMessage::new(0, Ppid(0), text)).await.map_err(|e| e.to_string())
}

/// Ends an association gracefully.
pub(crate) async fn close(association: &Association) -> Result<(), String> {
    association.close().await.map_err(|e| format!("close: {e}"))
}
