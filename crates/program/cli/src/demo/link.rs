//! The settings that the links of the pages hold.

use std::collections::BTreeMap;

/// The values of a query, by name.
pub(super) struct Link<'a>(BTreeMap<&'a str, &'a str>);

impl<'a> Link<'a> {
    pub(super) fn new(query: &'a str) -> Self {
        Self(query.split('&').filter_map(|pair| pair.split_once('=')).collect())
    }

    /// A text; empty if the link does not have it.
    pub(super) fn text(&self, name: &str) -> &'a str {
        self.0.get(name).copied().unwrap_or_default()
    }

    /// A number from `least` to `most`.
    pub(super) fn number(&self, name: &str, least: f64, most: f64) -> Result<f64, String> {
        let value = self.text(name).parse::<f64>().ok();
        let value = value.filter(|value| (least..=most).contains(value));
        value.ok_or_else(|| format!("{name} must be a number from {least} to {most}"))
    }

    /// What to show, each once and in this order; `from_key` knows the carriers of a page.
    pub(super) fn shown<T: PartialEq>(
        &self,
        from_key: impl Fn(&str) -> Option<T>,
    ) -> Result<Vec<T>, String> {
        let mut shown = Vec::new();
        for key in self.text("show").replace("%2C", ",").split(',').filter(|key| !key.is_empty()) {
            let way = from_key(key).ok_or_else(|| format!("'{key}' is not among the carriers"))?;
            if !shown.contains(&way) {
                shown.push(way);
            }
        }
        Ok(shown)
    }
}
