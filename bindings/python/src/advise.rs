//! Advice on options.

use std::time::Duration;

use anabranch_lab::advise::{Conditions, Routing, advise};
use anabranch_lab::advise_timely::{self, Sends, Traffic};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

fn seconds(name: &str, value: Option<f64>) -> PyResult<Option<Duration>> {
    let known = |value: f64| {
        Duration::try_from_secs_f64(value)
            .map_err(|error| PyValueError::new_err(format!("{name} is {value} s: {error}")))
    };
    value.map(known).transpose()
}

/// Options with their values, if there is an answer, and the questions with their answers.
type Advised = (Option<(String, u32, Vec<&'static str>)>, Vec<String>);

/// Walks through the decision tree of the study of multihoming.
#[pyfunction]
pub(crate) fn advise_paths(
    loss: Option<f64>,
    rtt_ratio: Option<f64>,
    routing: Option<&str>,
    cache: Option<f64>,
    discovery: Option<f64>,
) -> PyResult<Advised> {
    if let Some(loss) = loss.filter(|loss| !(0.0..=1.0).contains(loss)) {
        return Err(PyValueError::new_err(format!("loss is {loss}, a share from 0 to 1")));
    }
    if let Some(ratio) = rtt_ratio.filter(|ratio| !(ratio.is_finite() && *ratio > 0.0)) {
        return Err(PyValueError::new_err(format!("rtt_ratio is {ratio}, above 0")));
    }
    let (cache, discovery) = (seconds("cache", cache)?, seconds("discovery", discovery)?);
    let routing = match routing {
        Some("reactive") => Some(Routing::Reactive { cache, discovery }),
        _ if cache.or(discovery).is_some() => {
            let reason = "cache and discovery mean nothing without routing='reactive'";
            return Err(PyValueError::new_err(reason));
        }
        Some("proactive") => Some(Routing::Proactive),
        None => None,
        Some(other) => {
            let reason = format!("routing is '{other}', neither 'proactive' nor 'reactive'");
            return Err(PyValueError::new_err(reason));
        }
    };
    let advice = advise(&Conditions { loss, rtt_ratio, routing });
    let choice = advice.choice.map(|choice| {
        let extensions = choice.extensions.to_vec();
        (choice.retransmission.name().to_owned(), choice.path_max_retrans, extensions)
    });
    Ok((choice, advice.path))
}

/// An option, its value, the reason, and the study that shows it.
type Recommended = (&'static str, &'static str, &'static str, &'static str);

/// Recommends options for what is sent.
#[pyfunction]
pub(crate) fn advise_traffic(
    sends: Option<&str>,
    reorders: bool,
    stands_still: bool,
    many_short: bool,
) -> PyResult<Vec<Recommended>> {
    let sends = match sends {
        None => None,
        Some("bulk") => Some(Sends::Bulk),
        Some("signalling") => Some(Sends::Signalling),
        Some("web") => Some(Sends::Web),
        Some(other) => {
            let reason = format!("sends is '{other}', not 'bulk', 'signalling' or 'web'");
            return Err(PyValueError::new_err(reason));
        }
    };
    let all = advise_timely::advise(&Traffic { sends, reorders, stands_still, many_short });
    Ok(all.into_iter().map(|one| (one.option, one.value, one.reason, one.study)).collect())
}
