//! Both sides on this host.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use anabranch::{Association, AssociationConfig, ConnectOptions, Endpoint, Listener};
use anabranch_transfer::{Event, Failed, Offer, Outcome, Received, Receiver};
use tempfile::TempDir;

const PORT: u16 = 9081;

/// Makes a test fail that would hang.
const HANGS: Duration = Duration::from_secs(60);

struct Pair {
    folders: (TempDir, TempDir),
    listener: Listener,
    sender: Endpoint,
    receiver: Endpoint,
}

impl Pair {
    fn new() -> Self {
        let bind = || Endpoint::builder().local_addresses([[127, 0, 0, 1].into()]).bind().unwrap();
        let (sender, receiver) = (bind(), bind());
        let listener = sender.listen(PORT, AssociationConfig::default()).unwrap();
        let folders = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        Self { folders, listener, sender, receiver }
    }

    /// Makes a file of the sender.
    fn file(&self, name: &str, size: usize) -> PathBuf {
        let path = self.folders.0.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        let content: Vec<u8> = (0..size).map(|at| (at * 7 + at / 251 + name.len()) as u8).collect();
        fs::write(&path, content).unwrap();
        path
    }

    async fn connect(&self) -> (Association, Association) {
        let mut options = ConnectOptions::from(AssociationConfig::default());
        options.remote_udp_port = self.sender.udp_port();
        let connecting = self.receiver.connect(([127, 0, 0, 1], PORT), options);
        let (near, far) = tokio::join!(connecting, self.listener.accept());
        (near.unwrap(), far.unwrap())
    }

    /// One association, on which the receiver fetches.
    async fn transfer(
        &self,
        offer: &Offer,
        receiver: &Receiver,
    ) -> (Result<Vec<Received>, Failed>, Outcome) {
        let (near, far) = self.connect().await;
        let serving = {
            let offer = offer.clone();
            tokio::spawn(async move { offer.serve(&far).await })
        };
        let received = tokio::time::timeout(HANGS, receiver.receive(&near)).await.expect("hangs");
        near.close().await.ok();
        (received, serving.await.unwrap())
    }

    fn received(&self, name: &str) -> PathBuf {
        self.folders.1.path().join(name)
    }

    fn receiver_with(&self, overwrite: bool) -> Receiver {
        Receiver::new(self.folders.1.path().to_owned(), overwrite, Arc::new(|_| {}))
    }
}

fn names(folder: &Path) -> Vec<String> {
    let mut names: Vec<_> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn files_and_directories_arrive() {
    let pair = Pair::new();
    let mut arguments = vec![pair.file("large.bin", 3_000_000), pair.file("empty", 0)];
    for number in 0..40 {
        pair.file(&format!("d/{}/{number}", number % 3), number * 1000);
    }
    arguments.push(pair.folders.0.path().join("d"));
    let offer = Offer::new(&arguments).unwrap();
    let (received, outcome) = pair.transfer(&offer, &pair.receiver_with(false)).await;
    let received = received.unwrap();
    assert_eq!((received.len(), outcome), (42, Outcome::Done));
    for (file, digest) in received.iter().zip(offer.digests()) {
        assert!(file.error.is_none() && file.digest == digest && digest.is_some(), "{file:?}");
        let sent = fs::read(pair.folders.0.path().join(&file.path)).unwrap();
        assert!(fs::read(pair.folders.1.path().join(&file.path)).unwrap() == sent, "{file:?}");
    }
    assert_eq!(names(pair.folders.1.path()), ["d", "empty", "large.bin"], "no parts are left");
    // Once more: everything is there.
    let bytes = offer.bytes_sent();
    let (again, outcome) = pair.transfer(&offer, &pair.receiver_with(false)).await;
    assert!(again.unwrap().iter().all(|file| file.already));
    assert_eq!((offer.bytes_sent(), outcome), (bytes, Outcome::Done));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cut_transfer_goes_on() {
    let pair = Pair::new();
    let offer = Offer::new(&[pair.file("large.bin", 8_000_000)]).unwrap();
    let (near, far) = pair.connect().await;
    let serving = {
        let offer = offer.clone();
        tokio::spawn(async move { offer.serve(&far).await })
    };
    let arrived = Arc::new(AtomicU64::new(0));
    let cut = Arc::new(Mutex::new(Some(near.clone())));
    let events = {
        let arrived = Arc::clone(&arrived);
        Arc::new(move |event| {
            if let Event::Arrived { bytes, .. } = event
                && arrived.fetch_add(bytes, Relaxed) > 2_000_000
                && let Some(near) = cut.lock().unwrap().take()
            {
                near.abort(b"cut");
            }
        })
    };
    let receiver = Receiver::new(pair.folders.1.path().to_owned(), false, events);
    let lost = receiver.receive(&near).await.unwrap_err();
    assert!(matches!(lost, Failed::Lost(_)), "{lost:?}");
    assert!(matches!(serving.await.unwrap(), Outcome::Ended(_)));
    drop(receiver);
    // As another process would: only the disk knows of the first attempt.
    let before = offer.bytes_sent();
    let (received, outcome) = pair.transfer(&offer, &pair.receiver_with(false)).await;
    let file = &received.unwrap()[0];
    assert!(file.resumed >= 1_000_000 && file.error.is_none(), "{file:?}");
    assert_eq!(outcome, Outcome::Done);
    assert_eq!(offer.bytes_sent() - before, 8_000_000 - file.resumed);
    let sent = fs::read(pair.folders.0.path().join("large.bin")).unwrap();
    assert!(fs::read(pair.received("large.bin")).unwrap() == sent);
    assert_eq!(names(pair.folders.1.path()), ["large.bin"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_damaged_part_is_fetched_again() {
    let pair = Pair::new();
    let offer = Offer::new(&[pair.file("f", 100_000)]).unwrap();
    let receiver = pair.receiver_with(false);
    let (near, far) = pair.connect().await;
    drop(far);
    near.abort(b"cut");
    assert!(receiver.receive(&near).await.is_err());
    // The part of an earlier attempt, with other bytes. Its name is found by an interrupted transfer.
    let arrived = Arc::new(Mutex::new(Some(())));
    let (near, far) = pair.connect().await;
    let serving = {
        let offer = offer.clone();
        tokio::spawn(async move { offer.serve(&far).await })
    };
    let abort = near.clone();
    let events = Arc::new(move |event| {
        if let Event::Began { .. } = event
            && arrived.lock().unwrap().take().is_some()
        {
            abort.abort(b"cut");
        }
    });
    let _ = Receiver::new(pair.folders.1.path().to_owned(), false, events).receive(&near).await;
    serving.await.unwrap();
    let part = names(pair.folders.1.path()).into_iter().find(|name| name.ends_with(".part"));
    fs::write(pair.received(&part.unwrap()), vec![1; 50_000]).unwrap();
    let (received, _) = pair.transfer(&offer, &pair.receiver_with(false)).await;
    let file = &received.unwrap()[0];
    assert_eq!((file.resumed, &file.error), (0, &None), "{file:?}");
    let sent = fs::read(pair.folders.0.path().join("f")).unwrap();
    assert!(fs::read(pair.received("f")).unwrap() == sent);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn other_files_are_not_overwritten_unless_asked() {
    let pair = Pair::new();
    let offer = Offer::new(&[pair.file("a", 1000), pair.file("b", 1000)]).unwrap();
    fs::write(pair.received("a"), vec![0; 1000]).unwrap();
    let (received, outcome) = pair.transfer(&offer, &pair.receiver_with(false)).await;
    let received = received.unwrap();
    let error = received[0].error.as_deref().unwrap();
    assert!(error.contains("--overwrite") && received[1].error.is_none(), "{error}");
    assert_eq!(outcome, Outcome::Ended(None), "the sender waits for another attempt");
    assert_eq!(fs::read(pair.received("a")).unwrap(), vec![0; 1000]);
    let (received, outcome) = pair.transfer(&offer, &pair.receiver_with(true)).await;
    let received = received.unwrap();
    assert!(received[0].error.is_none() && received[1].already, "{received:?}");
    assert_eq!(outcome, Outcome::Done);
    let sent = fs::read(pair.folders.0.path().join("a")).unwrap();
    assert!(fs::read(pair.received("a")).unwrap() == sent);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_file_that_changes_is_named_and_others_arrive() {
    let pair = Pair::new();
    let offer = Offer::new(&[pair.file("a", 1000), pair.file("b", 1000)]).unwrap();
    fs::write(pair.folders.0.path().join("a"), "changed").unwrap();
    let (received, outcome) = pair.transfer(&offer, &pair.receiver_with(false)).await;
    let received = received.unwrap();
    let error = received[0].error.as_deref().unwrap();
    assert!(error.contains("has changed"), "{error}");
    assert!(received[1].error.is_none());
    assert_eq!(outcome, Outcome::Ended(None));
    assert!(!pair.received("a").exists() && pair.received("b").exists());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_sender_that_is_gone_is_a_loss() {
    let pair = Pair::new();
    let offer = Offer::new(&[pair.file("large.bin", 8_000_000)]).unwrap();
    let (near, far) = pair.connect().await;
    let abort = far.clone();
    tokio::spawn(async move { offer.serve(&far).await });
    let events = Arc::new(move |event| {
        if matches!(event, Event::Began { .. }) {
            abort.abort(b"cut");
        }
    });
    let receiver = Receiver::new(pair.folders.1.path().to_owned(), false, events);
    let lost = tokio::time::timeout(HANGS, receiver.receive(&near)).await.expect("hangs");
    assert!(matches!(lost, Err(Failed::Lost(_))), "{lost:?}");
}
