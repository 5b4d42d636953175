//! Event logs of whole associations.

mod common;

use std::path::{Path, PathBuf};

use anabranch::{
    Association, AssociationConfig, BindError, Endpoint, EventLog, OutgoingMessage, Ppid,
};
use common::{PORT, loopback, remotes, soon, towards};

fn scratch(name: &str) -> PathBuf {
    std::env::temp_dir().join(format!("anabranch-{name}-{}.qlog", std::process::id()))
}

/// The names of the events in a file, which is removed, and its text.
fn events(path: &Path) -> (Vec<String>, String) {
    let text = std::fs::read_to_string(path).unwrap();
    std::fs::remove_file(path).unwrap();
    let name = |line: &str| {
        let (_, rest) = line.split_once("\"name\":\"")?;
        Some(rest.split('"').next()?.to_owned())
    };
    (text.lines().skip(1).filter_map(name).collect(), text)
}

/// An association from an endpoint with a log, which has sent a message.
async fn connect(server: &Endpoint, log: EventLog) -> (Endpoint, Association, Association) {
    let listener = server.listen(PORT, AssociationConfig::default()).unwrap();
    let addresses = [loopback(1), loopback(2)];
    let client = Endpoint::builder().local_addresses(addresses).event_log(log).bind().unwrap();
    let options = towards(server, AssociationConfig::default());
    let near = client.connect(remotes(server), options).await.unwrap();
    let far = listener.accept().await.unwrap();
    near.send(OutgoingMessage::new(1, Ppid(46), vec![7; 100_000])).await.unwrap();
    assert_eq!(far.recv().await.unwrap().unwrap().payload.len(), 100_000);
    (client, near, far)
}

#[tokio::test]
async fn an_association_that_ends_has_its_end_in_the_log() {
    soon(async {
        let path = scratch("ends");
        let server = common::endpoint(&[loopback(1), loopback(2)]);
        let log = EventLog::new(&path).title("ends");
        let (client, near, _far) = connect(&server, log).await;
        near.close().await.unwrap();
        client.close().await;
        let (names, text) = events(&path);
        let count = |what: &str| names.iter().filter(|name| *name == what).count();
        assert_eq!(names[0], "connectivity:association_started");
        assert_eq!(count("connectivity:association_closed"), 1);
        assert_eq!(names.last().unwrap(), "anabranch:log_ended");
        assert!(text.contains("\"reason\":\"shut down gracefully\""), "{text}");
        assert!(count("transport:packet_sent") > 70 && count("transport:packet_received") > 10);
        assert!(count("recovery:metrics_updated") > 10);
        for state in ["COOKIE-WAIT", "COOKIE-ECHOED", "ESTABLISHED", "SHUTDOWN-SENT", "CLOSED"] {
            assert!(text.contains(&format!("\"new\":\"{state}\"")), "{state}: {text}");
        }
    })
    .await;
}

#[tokio::test]
async fn one_that_is_dropped_with_its_endpoint_leaves_a_whole_log() {
    soon(async {
        let path = scratch("dropped");
        let server = common::endpoint(&[loopback(1)]);
        let (client, near, far) = connect(&server, (&path).into()).await;
        far.abort(b"enough");
        // The peer's ABORT is the last event.
        assert!(near.recv().await.is_err());
        drop(near);
        client.close().await;
        let (names, text) = events(&path);
        assert!(text.contains("\"reason\":\"aborted by the peer"), "{text}");
        assert_eq!(names.last().unwrap(), "anabranch:log_ended");
    })
    .await;
}

#[tokio::test]
async fn a_file_that_cannot_be_made_is_told() {
    let refused = Endpoint::builder()
        .local_addresses([loopback(1)])
        .event_log("/nowhere/at/all.qlog")
        .bind()
        .unwrap_err();
    assert!(matches!(&refused, BindError::EventLog { .. }), "{refused}");
    let sentence = refused.to_string();
    assert!(
        sentence.starts_with("cannot create the event log /nowhere/at/all.qlog: "),
        "{sentence}"
    );
}
