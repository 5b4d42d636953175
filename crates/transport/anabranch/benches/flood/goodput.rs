//! Goodput of any number of associations, with and without floods.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anabranch::{
    Association, AssociationConfig, ConnectOptions, Endpoint, ListenOptions, Listener,
    OutgoingMessage, Ppid,
};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use crate::common::{PORT, V4, endpoint, pattern, remotes, towards};
use crate::flooder::{FLOODS, Flooder};
use crate::options::Options;

/// Size of a message in bytes, and number of messages in flight.
const MESSAGE: usize = 16_384;
const ON_THEIR_WAY: usize = 128;

/// CPU time of this thread, in seconds.
fn cpu() -> f64 {
    let clock = nix::time::ClockId::CLOCK_THREAD_CPUTIME_ID;
    let now = nix::time::clock_gettime(clock).unwrap();
    now.tv_sec() as f64 + now.tv_nsec() as f64 / 1e9
}

/// Two endpoints of this process.
pub(crate) struct Ends {
    pub(crate) server: Endpoint,
    pub(crate) client: Endpoint,
    pub(crate) listener: Listener,
    pub(crate) remotes: Vec<SocketAddr>,
    pub(crate) options: ConnectOptions,
}

impl Ends {
    fn plain(shards: usize) -> Self {
        let builder = Endpoint::builder().local_addresses([V4]).shards(shards);
        let (server, client) = (builder.bind().unwrap(), endpoint(&[V4]));
        let listener = server.listen(PORT, listening()).unwrap();
        let (remotes, options) = (remotes(&server), towards(&server, AssociationConfig::default()));
        Self { server, client, listener, remotes, options }
    }
}

/// Options of a listener that takes many associations at once.
pub(crate) fn listening() -> ListenOptions {
    let mut options = ListenOptions::from(AssociationConfig::default());
    options.backlog = 1024;
    options
}

/// Associations between two endpoints that carry as much as they can.
pub(crate) struct Load {
    pub(crate) server: Endpoint,
    _client: Endpoint,
    peer_port: u16,
    received: Arc<AtomicU64>,
    _tasks: JoinSet<()>,
}

impl Load {
    /// With `associations` associations, towards the server or from it.
    pub(crate) async fn new(ends: Ends, associations: usize, to_server: bool) -> Self {
        let Ends { server, client, listener, remotes, options } = ends;
        let (mut from, mut to) = (Vec::new(), Vec::new());
        let mut peer_port = 0;
        for _ in 0..associations {
            let connecting = client.connect(remotes.clone(), options.clone());
            let (near, far) = tokio::join!(connecting, listener.accept());
            let (near, far) = (near.unwrap(), far.unwrap());
            peer_port = near.ports().0;
            let (sending, receiving) = if to_server { (near, far) } else { (far, near) };
            from.push(sending);
            to.push(receiving);
        }
        let (room, received) = (Arc::new(Semaphore::new(ON_THEIR_WAY)), Arc::default());
        let mut tasks = JoinSet::new();
        for association in to {
            tasks.spawn(receive(association, room.clone(), Arc::clone(&received)));
        }
        tasks.spawn(send(from, room));
        // All have sent, and the windows are open.
        tokio::time::sleep(Duration::from_millis(200 + associations as u64 / 10)).await;
        Self { server, _client: client, peer_port, received, _tasks: tasks }
    }

    /// MB/s, and MB per second of CPU time.
    async fn goodput(&self, time: Duration) -> [f64; 2] {
        let (begun, cpu_before) = (Instant::now(), cpu());
        let before = self.received.load(Ordering::Relaxed);
        tokio::time::sleep(time).await;
        let megabytes = (self.received.load(Ordering::Relaxed) - before) as f64 / 1e6;
        [megabytes / begun.elapsed().as_secs_f64(), megabytes / (cpu() - cpu_before)]
    }
}

/// Sends a message on each association in rotation, as long as there is room.
async fn send(associations: Vec<Association>, room: Arc<Semaphore>) {
    let data = bytes::Bytes::from(pattern(MESSAGE, 7));
    for association in associations.iter().cycle() {
        let Ok(permit) = room.acquire().await else { return };
        permit.forget();
        let message = OutgoingMessage::new(0, Ppid(0), data.clone());
        association.send(message).await.unwrap();
    }
}

async fn receive(association: Association, room: Arc<Semaphore>, received: Arc<AtomicU64>) {
    while let Ok(Some(message)) = association.recv().await {
        received.fetch_add(message.payload.len() as u64, Ordering::Relaxed);
        room.add_permits(1);
    }
}

/// What is measured.
pub(crate) struct Case {
    pub(crate) associations: usize,
    pub(crate) shards: usize,
    pub(crate) to_server: bool,
    pub(crate) flood: String,
}

impl Case {
    /// Measures one flood, and prints a line. Returns it as JSON.
    pub(crate) async fn measure(
        &self,
        load: &Load,
        time: Duration,
        flooder: impl FnOnce((IpAddr, u16)) -> Flooder,
    ) -> String {
        let before = load.goodput(time / 2).await;
        let flooder = flooder((V4, load.server.udp_port()));
        // The beginning counts, too.
        let flooded = load.goodput(time).await;
        let rate = flooder.sent.load(Ordering::Relaxed) as f64 / time.as_secs_f64();
        drop(flooder);
        tokio::time::sleep(Duration::from_millis(100)).await;
        let after = load.goodput(time / 2).await;
        // The other load of the machine varies.
        let alone = [0, 1].map(|i| (before[i] + after[i]) / 2.0);
        let share = [0, 1].map(|i| flooded[i] / alone[i]);
        let Self { associations, shards, to_server, flood } = self;
        let whom = if *to_server { "receiver" } else { "sender" };
        print!("{associations:>6} {shards:>2} {flood:<16}{whom:<9}{rate:>9.0}");
        for i in [0, 1] {
            print!(" |{:>8.1}{:>8.1}{:>6.2}", alone[i], flooded[i], share[i]);
        }
        println!();
        format!(
            "{{\"name\":\"flood_goodput_{flood}\",\"associations\":{associations},\
             \"shards\":{shards},\"towards\":\"{whom}\",\"packets_per_second\":{rate:.0},\
             \"megabytes_per_second\":[{:.1},{:.1}],\"share\":{:.3},\
             \"megabytes_per_cpu_second\":[{:.1},{:.1}],\"share_per_cpu\":{:.3}}}\n",
            alone[0], flooded[0], share[0], alone[1], flooded[1], share[1],
        )
    }
}

/// How long a flood is measured.
pub(crate) fn time(options: &Options) -> Duration {
    Duration::from_millis(if options.quick { 600 } else { 1500 })
}

/// Measures every flood, and prints a table. Returns it as JSON, one object per line.
pub(crate) async fn table(options: &Options) -> Vec<String> {
    let mut lines = Vec::new();
    println!(
        "associations, shards, flood, towards, packets/s | MB/s alone, flooded, share | per CPU s"
    );
    for &associations in &options.associations {
        for &shards in &options.shards {
            for to_server in [true, false] {
                let load = Load::new(Ends::plain(shards), associations, to_server).await;
                for flood in FLOODS {
                    let name = format!("{flood:?}").to_lowercase();
                    let case = Case { associations, shards, to_server, flood: name };
                    let port = load.peer_port;
                    let flooder = |to| Flooder::towards(flood, to, port, None);
                    lines.push(case.measure(&load, time(options), flooder).await);
                }
            }
        }
    }
    lines
}
