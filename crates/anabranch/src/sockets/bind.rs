//! Opening an endpoint's sockets.

use std::collections::VecDeque;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use anabranch_proto::Encapsulation;

use super::{Answers, Socket, SocketSet};
use crate::endpoint::EndpointStatistics;
use crate::error::BindError;
use crate::runtime::{Binding, Runtime};

/// Attempts to find a UDP port that is free on all local addresses.
const PORT_ATTEMPTS: usize = 16;

impl SocketSet {
    /// Opens one socket for each local address, or for each family if there are none; all have
    /// the same UDP port, unless they carry IP protocol 132.
    pub(crate) fn bind(
        runtime: &dyn Runtime,
        encapsulation: Encapsulation,
        addresses: &[IpAddr],
        port: u16,
    ) -> Result<Self, BindError> {
        for (index, address) in addresses.iter().enumerate() {
            if addresses[..index].contains(address) {
                return Err(BindError::DuplicateAddress(*address));
            }
        }
        // A wildcard socket for a family that the host lacks is no loss.
        let wildcards = [IpAddr::from(Ipv4Addr::UNSPECIFIED), Ipv6Addr::UNSPECIFIED.into()];
        let (bound, all_needed) =
            if addresses.is_empty() { (&wildcards[..], false) } else { (addresses, true) };
        let mut attempt = 0;
        let sockets = loop {
            attempt += 1;
            match bind_all(runtime, encapsulation, bound, port, all_needed) {
                Ok(sockets) => break sockets,
                // The port that was free on the first address is taken on another one.
                Err(BindError::Socket { source, .. })
                    if port == 0
                        && source.kind() == io::ErrorKind::AddrInUse
                        && attempt < PORT_ATTEMPTS => {}
                Err(error) => return Err(error),
            }
        };
        // All have the same one.
        let udp_port = sockets.first().map_or(0, |socket| socket.io.local_address().port());
        let addresses = if all_needed {
            addresses.to_vec()
        } else {
            let mut found = runtime.local_addresses().map_err(BindError::Interfaces)?;
            found.retain(|ip| sockets.iter().any(|s| s.bound.is_ipv4() == ip.is_ipv4()));
            found
        };
        if addresses.is_empty() {
            return Err(BindError::NoAddress);
        }
        if encapsulation == Encapsulation::Ip && runtime.kernel_has_sctp() {
            tracing::warn!(
                "this kernel has SCTP loaded, which answers with ABORT what is meant for this \
                 program: unload it (modprobe -r sctp), or use SCTP over UDP"
            );
        }
        let statistics = EndpointStatistics::default();
        Ok(Self {
            sockets,
            addresses,
            encapsulation,
            udp_port,
            problems: Vec::new(),
            answers: Answers::default(),
            statistics,
        })
    }
}

fn bind_all(
    runtime: &dyn Runtime,
    encapsulation: Encapsulation,
    addresses: &[IpAddr],
    port: u16,
    all_needed: bool,
) -> Result<Vec<Socket>, BindError> {
    let mut port = port;
    let mut sockets: Vec<Socket> = Vec::with_capacity(addresses.len());
    let mut first_error = None;
    for &ip in addresses {
        let binding = match encapsulation {
            Encapsulation::Udp => Binding::udp(SocketAddr::new(ip, port)),
            Encapsulation::Ip => Binding::ip(ip),
        };
        match runtime.bind(&binding) {
            Ok(io) => {
                port = io.local_address().port();
                sockets.push(Socket {
                    io,
                    bound: ip,
                    waiting: VecDeque::new(),
                    waiting_bytes: 0,
                    false_alarms: 0,
                });
            }
            Err(source) => {
                let in_use = source.kind() == io::ErrorKind::AddrInUse;
                let error = match encapsulation {
                    Encapsulation::Udp => BindError::Socket { address: binding.address, source },
                    Encapsulation::Ip => BindError::Raw { address: ip, source },
                };
                if all_needed || in_use {
                    return Err(error);
                }
                first_error.get_or_insert(error);
            }
        }
    }
    match first_error {
        Some(error) if sockets.is_empty() => Err(error),
        _ => Ok(sockets),
    }
}
