//! A congestion controller of one's own: the window grows by a packet in each round trip, and an eighth
//! of it goes at a loss.
//!
//! `cargo run --manifest-path examples/own-controller/Cargo.toml`

use anabranch::congestion::{
    Acked, Controller, ControllerChoice, ControllerFactory, Coupled, Loss, NewPath,
};
use anabranch::{AssociationConfig, ConnectOptions, Endpoint, OutgoingMessage, Ppid};

#[derive(Debug)]
struct Gentle {
    window: usize,
    /// Bytes acknowledged since the window grew last.
    credit: usize,
    pmdcs: usize,
}

impl Gentle {
    const INITIAL: usize = 10;
    const LEAST: usize = 2;
}

impl Controller for Gentle {
    fn cwnd(&self) -> usize {
        self.window
    }

    fn on_acked(&mut self, acked: &Acked, _others: &Coupled<'_>) {
        // A window that is not used says nothing about the network.
        if acked.flight_before < self.window || acked.in_fast_recovery {
            return;
        }
        self.credit += acked.bytes;
        if self.credit >= self.window {
            self.credit -= self.window;
            self.window += self.pmdcs;
        }
    }

    fn on_lost(&mut self, loss: Loss, _others: &Coupled<'_>) {
        let kept = match loss {
            Loss::Timeout => 0,
            _ => self.window / 8 * 7,
        };
        self.window = kept.max(Self::LEAST * self.pmdcs);
        self.credit = 0;
    }

    fn on_pmdcs_change(&mut self, pmdcs: usize) {
        self.pmdcs = pmdcs;
        self.window = self.window.max(Self::LEAST * pmdcs);
    }

    fn reinitialize(&mut self) {
        self.window = Self::INITIAL * self.pmdcs;
        self.credit = 0;
    }
}

/// Makes one for each path.
#[derive(Debug)]
struct GentleFactory;

impl ControllerFactory for GentleFactory {
    fn build(&self, path: &NewPath<'_>) -> Box<dyn Controller> {
        let pmdcs = path.pmdcs;
        Box::new(Gentle { window: Gentle::INITIAL * pmdcs, credit: 0, pmdcs })
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let server = Endpoint::builder().local_addresses([[127, 0, 0, 1].into()]).bind()?;
    let listener = server.listen(5000, AssociationConfig::default())?;
    let mut options = ConnectOptions::default();
    options.remote_udp_port = server.udp_port();
    options.config.controller = ControllerChoice::new(GentleFactory);
    let client = Endpoint::builder().bind()?;
    let (near, far) =
        tokio::join!(client.connect(([127, 0, 0, 1], 5000), options), listener.accept());
    let (near, far) = (near?, far.ok_or("nobody came")?);

    let reader = tokio::spawn(async move {
        let mut bytes = 0;
        while let Ok(Some(message)) = far.recv().await {
            bytes += message.payload.len();
        }
        bytes
    });
    let before = near.statistics().paths[0].cwnd;
    for _ in 0..2000 {
        near.send(OutgoingMessage::new(0, Ppid(0), vec![0; 1000])).await?;
    }
    let after = near.statistics().paths[0].cwnd;
    near.close().await?;
    println!("{} bytes arrived; the window grew from {before} to {after} bytes", reader.await?);
    Ok(())
}
