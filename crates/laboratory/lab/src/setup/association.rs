//! Options of the association, with the names from the engine's table.

use anabranch_proto::{AssociationConfig, BurstControl, MtuConfig};

use crate::tree::{Checked, Fields, problem};
use crate::units::Kind;

fn profiles() -> String {
    let names: Vec<_> = AssociationConfig::PROFILES.iter().map(|(name, _)| *name).collect();
    names.join(", ")
}

/// Reads a table of options on top of another association's options, or of its profile.
pub(super) fn read(
    root: &Fields<'_>,
    table: &'static str,
    base: Option<&AssociationConfig>,
) -> Checked<AssociationConfig> {
    let fields = root.table(table)?;
    let mut config = match (base, &fields) {
        (Some(base), _) => base.clone(),
        (None, Some(fields)) => {
            let name = fields.required_text("profile")?;
            match AssociationConfig::profile(name) {
                Some(config) => config,
                None => {
                    return problem(
                        fields.line_of("profile"),
                        format!("there is no profile \"{name}\": {}", profiles()),
                    );
                }
            }
        }
        (None, None) => return problem(1, format!("there is no [{table}]")),
    };
    let Some(fields) = fields else { return Ok(config) };
    apply(&fields, &mut config)?;
    let line = fields.line();
    fields.finish()?;
    match config.validate() {
        Ok(()) => Ok(config),
        Err(error) => problem(line, error.to_string()),
    }
}

fn apply(fields: &Fields<'_>, config: &mut AssociationConfig) -> Checked<()> {
    // Set the mode of multipath transfer first: it changes other options, which the file may then
    // override.
    let first = AssociationConfig::option("multipath");
    for option in first.into_iter().chain(AssociationConfig::options()) {
        for key in [Some(option.name), option.short].into_iter().flatten() {
            let Some(node) = fields.node(key) else { continue };
            // Setting the mode again in its turn would undo the file's values of other options.
            if option.name == "multipath" && config.multipath.is_on() {
                continue;
            }
            if let Err(error) = config.set(option.name, &node.text()) {
                return problem(node.line, format!("{}: {error}", fields.name(key)));
            }
        }
    }
    bursts(fields, config)?;
    // Paths of these networks carry 1500 bytes unless the file sets another MTU. Do not probe for a
    // larger MTU: probes would disturb the measurements.
    let mtu = fields.quantity("mtu", Kind::Size, 576.0, 65_532.0)?.map(|mtu| mtu as u16);
    if fields.node("mtu_discovery").is_some() && config.mtu.discovery {
        config.mtu.max = mtu.unwrap_or(config.mtu.max);
    } else {
        config.mtu = MtuConfig::fixed(mtu.unwrap_or(1500));
    }
    Ok(())
}

/// Max.Burst and whether it limits cwnd, each settable without the other, since axes may vary one
/// of them.
fn bursts(fields: &Fields<'_>, config: &mut AssociationConfig) -> Checked<()> {
    let (packets, cuts) = match config.congestion.burst {
        BurstControl::MaxBurstCutsCwnd(packets) => (Some(packets), true),
        BurstControl::MaxBurst(packets) => (Some(packets), false),
        BurstControl::Pacing { .. } | BurstControl::Unlimited => (None, false),
    };
    let wanted = fields.count("max_burst", 1, 1000)?.map(|packets| packets as u32);
    let cuts = fields.flag("burst_cuts_cwnd")?.unwrap_or(cuts);
    if let Some(packets) = wanted.or(packets) {
        config.congestion.burst = if cuts {
            BurstControl::MaxBurstCutsCwnd(packets)
        } else {
            BurstControl::MaxBurst(packets)
        };
    }
    Ok(())
}
