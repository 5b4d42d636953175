//! Addresses that an endpoint takes up while it is open.

mod common;

use std::net::IpAddr;

use anabranch::{AssociationConfig, BindError, ConnectOptions, Endpoint, Notification};
use common::{PORT, V4, soon};

fn changeable() -> AssociationConfig {
    let mut config = AssociationConfig::default();
    config.authentication.authentication = true;
    config.addresses.address_reconfiguration = true;
    config
}

#[tokio::test]
#[cfg(target_os = "linux")]
async fn an_endpoint_takes_up_an_address_while_it_is_open() {
    soon(async {
        let second: IpAddr = "127.0.0.3".parse().unwrap();
        let server = Endpoint::builder().local_addresses([V4]).bind().unwrap();
        let listener = server.listen(PORT, changeable()).unwrap();
        let client = Endpoint::builder().local_addresses([V4]).bind().unwrap();
        let options = || {
            let mut options = ConnectOptions::from(changeable());
            options.remote_udp_port = server.udp_port();
            options
        };
        let near = client.connect((V4, PORT), options()).await.unwrap();
        let far = listener.accept().await.unwrap();
        server.add_local_address(second).unwrap();
        assert!(matches!(
            server.add_local_address(second),
            Err(BindError::DuplicateAddress(address)) if address == second
        ));
        assert_eq!(server.local_addresses(), [V4, second]);
        // What is up has it when it is told to, and packets arrive there.
        assert_eq!(near.peer_addresses().len(), 1);
        let mut events = near.events();
        far.add_address(second).unwrap();
        while near.peer_addresses().len() < 2 {
            let _: Notification = events.next().await.unwrap();
        }
        // Later ones have it from the start.
        let later = client.connect((second, PORT), options()).await.unwrap();
        assert_eq!(later.peer_addresses().len(), 2);
    })
    .await;
}

#[tokio::test]
async fn an_endpoint_on_all_addresses_takes_no_further_one() {
    let endpoint = Endpoint::builder().bind().unwrap();
    assert!(matches!(endpoint.add_local_address(V4), Err(BindError::Fixed)));
}
