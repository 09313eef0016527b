//! Which skills a host lets the model see.

use std::collections::BTreeMap;

/// Whether `filter` lets `name` through: empty lets all, one `true` makes it a list of those
/// allowed, only `false` a list of those dropped.
pub(crate) fn admits(filter: &BTreeMap<String, bool>, name: &str) -> bool {
    let allowlist = filter.values().any(|&allowed| allowed);
    filter.get(name).copied().unwrap_or(!allowlist)
}

/// A filter with `disabled` folded in as `name: false`; an entry of `filter` itself wins.
///
/// ```
/// use toolnexus_skills::fold_disabled;
/// let filter = fold_disabled(&["a".into(), "b".into()], &[("a".to_string(), true)].into());
/// assert_eq!(filter, [("a".to_string(), true), ("b".to_string(), false)].into());
/// ```
pub fn fold_disabled(disabled: &[String], filter: &BTreeMap<String, bool>) -> BTreeMap<String, bool> {
    let mut folded: BTreeMap<String, bool> = disabled.iter().map(|name| (name.clone(), false)).collect();
    folded.extend(filter.iter().map(|(name, &allowed)| (name.clone(), allowed)));
    folded
}
