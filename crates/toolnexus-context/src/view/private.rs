//! Ids of private and routing spaces in results.

use std::borrow::Cow;

use crate::Registry;
use crate::json_text::rewrite_strings;
use crate::settings::Policy;

/// The tool whose results are definitions of tools.
const TOOL_SEARCH: &str = "tool_search";

impl Registry {
    /// Registers the private and routing ids in a result, so that calls before it can be encoded.
    pub(crate) fn register_private_results(&self, tool: &str, output: &str) {
        if let Some(policy) = self.settings().policy(tool) {
            self.encode_private(tool, policy, output);
        }
    }

    /// Registers the private and routing ids in a result and shows them as handles.
    pub(super) fn encode_private<'t>(&self, tool: &str, policy: &Policy, output: &'t str) -> Cow<'t, str> {
        if tool == TOOL_SEARCH {
            return self.encode_found_tools(output);
        }
        if policy.directory {
            return self.encode_directory(output);
        }
        if policy.private_encode.is_empty() {
            return Cow::Borrowed(output);
        }
        let rewritten = rewrite_strings(output, &mut |place, text| {
            let key = place.key().filter(|_| !place.is_name)?;
            let space = policy.private_encode.get(&*key.to_lowercase())?;
            // A stored resource is no id.
            match self.encode_resources(text) {
                Cow::Borrowed(text) => self.register_private(*space, text),
                Cow::Owned(_) => None,
            }
        });
        match rewritten {
            Ok(Some(rewritten)) => Cow::Owned(rewritten),
            _ => Cow::Borrowed(output),
        }
    }
}
