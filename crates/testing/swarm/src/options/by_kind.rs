//! Draws values for options from the engine's table alone, by kind and usual value. New options are
//! drawn automatically here.

use std::time::Duration;

use anabranch_proto::AssociationConfig;
use anabranch_proto::config::{Kind, OptionInfo, units};

use super::Draw;

/// The usual value of a size that is off by default.
const USUAL_SIZE: u64 = 1000;

/// A value within the bounds of an option, and not too far from the usual one: a network that waits
/// for hours or sends every microsecond tests nothing. `None` if there is no such value.
pub(super) fn value(d: &mut Draw, option: &OptionInfo) -> Option<String> {
    if option.may_be_off && d.one_in(4) {
        return Some("off".to_owned());
    }
    let usual = usual(option);
    Some(match option.kind {
        Kind::Switch => d.of(&["on", "off"]).to_owned(),
        Kind::Word(words) => d.of(words).to_owned(),
        Kind::List(_) if d.one_in(2) => "none".to_owned(),
        Kind::List(words) => {
            let some: Vec<&str> = (0..d.scale(1, 6)).map(|_| d.of(words)).collect();
            some.join(",")
        }
        Kind::Form { forms, least, most } => {
            let number = d.scale(least, most.min(100)).to_string();
            d.of(forms).replace('N', &number)
        }
        Kind::Time { least, most } => {
            if least.is_zero() && d.one_in(4) {
                return Some("0 s".to_owned());
            }
            let usual = usual.and_then(|text| units::parse_time(&text));
            let usual = usual.unwrap_or(Duration::from_secs(1));
            let from = (usual / 100).clamp(least, most).max(Duration::from_millis(1));
            let to = (usual * 10).clamp(from, most.max(from));
            let micros = |time: Duration| u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
            format!("{} us", d.scale(micros(from), micros(to)))
        }
        Kind::Size { least, most } => {
            // An unlimited value stays unlimited.
            let usual = usual.map_or(Some(USUAL_SIZE), |text| units::parse_size(&text))?;
            let from = (usual / 50).clamp(least, most);
            format!("{} B", d.scale(from, usual.saturating_mul(2).clamp(from, most)))
        }
        Kind::Count { least, most } => {
            let usual = usual.and_then(|text| text.parse().ok()).unwrap_or(most / 2);
            let from = if usual <= 20 { least } else { (usual / 8).clamp(least, most) };
            d.between(from, usual.saturating_mul(2).saturating_add(2).clamp(from, most)).to_string()
        }
        // Future kinds are added when they exist.
        _ => return None,
    })
}

/// The usual value of an option, unless it is off by default.
fn usual(option: &OptionInfo) -> Option<String> {
    let known = [AssociationConfig::rfc9260(), AssociationConfig::default()];
    known.iter().map(|config| option.get(config)).find(|text| text != "off")
}

#[cfg(test)]
mod tests {
    use anabranch_impair::Rng;

    use super::*;

    #[test]
    fn whatever_is_drawn_is_a_value_of_its_option() {
        for option in AssociationConfig::options() {
            let mut several = std::collections::BTreeSet::new();
            for seed in 0..50 {
                let Some(text) = value(&mut Draw(Rng::new(seed)), &option) else { continue };
                let mut config = AssociationConfig::rfc9260();
                option.set(&mut config, &text).unwrap_or_else(|error| panic!("{error}"));
                several.insert(option.get(&config));
            }
            let unlimited = usual(&option).is_some_and(|text| text == "unlimited");
            assert!(several.len() > 1 || unlimited, "{}: always {several:?}", option.name);
        }
    }
}
