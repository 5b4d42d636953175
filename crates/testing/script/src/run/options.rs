//! The options of a script.

use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

use anabranch_proto::config::{OutOfTheBlue, Routes, SetError, units};
use anabranch_proto::{AssociationConfig, Encapsulation, EndpointConfig, MtuConfig};

use crate::failure::{Failure, Place};
use crate::read::{Action, Script, ScriptOption};

/// The settings for running a script.
#[derive(Clone, Debug)]
pub(crate) struct Options {
    /// How far the time of a packet may deviate from the script.
    pub(crate) tolerance: Duration,
    pub(crate) locals: Vec<IpAddr>,
    pub(crate) remotes: Vec<IpAddr>,
    /// The number of local addresses with which associations begin.
    pub(crate) bound: usize,
    /// Port of listeners that do not request one.
    pub(crate) bind_port: u16,
    /// Destination port of connections.
    pub(crate) connect_port: u16,
    /// UDP ports of this side and the peer.
    pub(crate) udp: Option<(u16, u16)>,
    pub(crate) endpoint: EndpointConfig,
    pub(crate) association: AssociationConfig,
    pub(crate) seed: u8,
}

impl Options {
    pub(crate) fn of(script: &Script) -> Result<Self, Failure> {
        let mut options = Self {
            tolerance: Duration::from_micros(4_000),
            locals: vec![IpAddr::V4(Ipv4Addr::new(192, 168, 0, 1))],
            remotes: vec![IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1))],
            bound: usize::MAX,
            bind_port: 8080,
            connect_port: 8080,
            udp: udp_ports(script),
            endpoint: EndpointConfig::default(),
            association: AssociationConfig::rfc9260(),
            seed: 1,
        };
        options.association.mtu = MtuConfig::fixed(1500);
        let mut mesh = false;
        for option in &script.options {
            options.apply(option, &mut mesh)?;
        }
        let encapsulation =
            if options.udp.is_some() { Encapsulation::Udp } else { Encapsulation::Ip };
        options.endpoint.encapsulation = encapsulation;
        if !mesh {
            let pairs = options.locals.iter().copied().zip(options.remotes.iter().copied());
            // With different numbers of addresses, every local address reaches every remote one.
            if options.locals.len() == options.remotes.len() && options.locals.len() > 1 {
                options.endpoint.routes = Routes::Pairs(pairs.collect());
            }
        }
        let place = script.options.last().map_or(&script.end, |option| &option.place);
        let valid = options.association.validate();
        valid.map_err(|error| Failure::script(place, error.to_string()))?;
        Ok(options)
    }

    fn apply(&mut self, option: &ScriptOption, mesh: &mut bool) -> Result<(), Failure> {
        let place = &option.place;
        let value = option.value.trim_matches('"');
        match option.name.as_str() {
            "tolerance_usecs" => self.tolerance = Duration::from_micros(number(place, value)?),
            "local" | "local_ip" => self.locals = addresses(place, value)?,
            "remote" | "remote_ip" => self.remotes = addresses(place, value)?,
            "ip_version" if value == "ipv4" => {}
            "ip_version" if value == "ipv6" => {
                self.locals = addresses(place, "fd3d:fa7b:d17d::1")?;
                self.remotes = addresses(place, "2001:db8::1")?;
            }
            "bound" => self.bound = number(place, value)?.max(1) as usize,
            "routes" if value == "all" => *mesh = true,
            "routes" if value == "pairs" => *mesh = false,
            "bind_port" => self.bind_port = number(place, value)? as u16,
            "connect_port" => self.connect_port = number(place, value)? as u16,
            "mtu" => self.association.mtu = MtuConfig::fixed(number(place, value)? as u16),
            "tsn" => self.endpoint.initial_tsn = Some(number(place, value)? as u32),
            "seed" => self.seed = number(place, value)? as u8,
            "profile" => {
                let mtu = self.association.mtu;
                let profile = AssociationConfig::profile(value);
                self.association =
                    profile.ok_or_else(|| Failure::script(place, format!("no profile {value}")))?;
                self.association.mtu = mtu;
            }
            "udp_encaps" => self.udp = Some(encapsulation(place, value)?),
            "set" => {
                let Some((name, value)) = value.split_once('=') else {
                    return Err(Failure::script(place, "--set needs name=value"));
                };
                self.set(place, name, value)?;
            }
            "sysctl" => {
                if let Some((name, value)) = value.split_once('=') {
                    self.sysctl(place, name, value)?;
                }
            }
            name => return Err(Failure::script(place, format!("no option --{name}={value}"))),
        }
        Ok(())
    }

    /// Sets an option of the engine: of associations, by the names in their table, or of the
    /// endpoint.
    fn set(&mut self, place: &Place, name: &str, value: &str) -> Result<(), Failure> {
        let endpoint = &mut self.endpoint;
        let count = || number(place, value).map(|count| count as usize);
        match name {
            "cookie_life" => endpoint.valid_cookie_life = duration(place, value)?,
            "max_associations" => endpoint.max_associations = count()?,
            "memory_limit" => endpoint.memory_limit = count()?,
            "max_stateless_replies" => endpoint.max_stateless_replies = count()?,
            "out_of_the_blue" if value == "silent" => {
                endpoint.out_of_the_blue = OutOfTheBlue::Silent;
            }
            "initial_cwnd_mtus" => {
                let mtus = format!("{value} mtus");
                let done = self.association.set("initial_cwnd", &mtus);
                done.map_err(|error| Failure::script(place, error.to_string()))?;
            }
            _ => {
                let done = self.association.set(name, value);
                done.map_err(|error| Failure::script(place, error.to_string()))?;
            }
        }
        Ok(())
    }

    /// Sets a host setting used by the public suites.
    fn sysctl(&mut self, place: &Place, name: &str, value: &str) -> Result<(), Failure> {
        // An option that does not exist can be switched off.
        if name.ends_with("_enable") && value == "0" {
            return Ok(());
        }
        let number = value.parse().map_err(|_| {
            Failure::script(place, format!("'{value}' is not a number from 0 to {}", u32::MAX))
        })?;
        self.association.set_sysctl(name, number).map_err(|error| {
            let message = match error {
                SetError::Unknown(_) => format!("the setting {name}={value} has no meaning here"),
                error => error.to_string(),
            };
            Failure::script(place, message)
        })
    }
}

/// The UDP ports of the first packet that names some: of this side, and of the peer.
fn udp_ports(script: &Script) -> Option<(u16, u16)> {
    script.events.iter().find_map(|event| match &event.action {
        Action::Inject(spec) => spec.udp.map(|(source, destination)| (destination, source)),
        Action::Expect(spec) => spec.udp,
        _ => None,
    })
}

fn number(place: &Place, value: &str) -> Result<u64, Failure> {
    value.parse().map_err(|_| Failure::script(place, format!("'{value}' is not a number")))
}

fn addresses(place: &Place, value: &str) -> Result<Vec<IpAddr>, Failure> {
    let address = |text: &str| {
        text.trim()
            .parse()
            .map_err(|_| Failure::script(place, format!("'{text}' is not an address")))
    };
    value.split(',').map(address).collect()
}

/// `1s`, `200ms`, `5us`.
fn duration(place: &Place, value: &str) -> Result<Duration, Failure> {
    units::parse_time(value)
        .ok_or_else(|| Failure::script(place, format!("'{value}' is not a time with its unit")))
}

/// `sctp:9899:9899`, `9899:9899`
fn encapsulation(place: &Place, value: &str) -> Result<(u16, u16), Failure> {
    let mut ports = value.rsplitn(3, ':');
    let mut port = || ports.next().and_then(|port| port.parse().ok());
    match (port(), port()) {
        (Some(remote), Some(local)) => Ok((local, remote)),
        _ => Err(Failure::script(place, "expected two UDP ports: local:remote")),
    }
}
