//! What the model is told of handles: the protocol prompt.
//!
//! It depends on the configuration alone, so its bytes are the same at every call of every execution.

use std::fmt::Write as _;

use crate::Registry;
use crate::settings::{Kind, Settings};

impl Registry {
    /// The system-owned rules for handles and citations. They are appended to the encoded system text,
    /// and stored nowhere.
    pub fn protocol_prompt(&self) -> String {
        let settings = self.settings();
        let mut prompt = String::from("## Source handling protocol (system-owned)\n\n");
        settings.write_forms(&mut prompt);
        settings.write_rules(&mut prompt);
        if settings.cites() {
            settings.write_citing(&mut prompt);
        } else {
            prompt.push_str(NOT_CITING);
        }
        prompt.push_str(RESOURCES);
        prompt
    }
}

const NOT_CITING: &str = "
Source citations are disabled:
- Write no citation tags, and do not use source handles as citations.
- A URL that the user asks for may be given.
";

const RESOURCES: &str = "
## Resource handle protocol (system-owned)

- `res://NNNN` stands for a stored resource, such as an image or a file. Copy it exactly from the supplied \
context or from tool results, for example as the target of a Markdown image. Never invent, edit or expand \
one; the system restores the reference.";

impl Settings {
    /// Whether answers may cite anything.
    fn cites(&self) -> bool {
        self.citations && self.kinds().any(|(_, kind)| kind.citation.is_some())
    }

    fn is_citable(&self, kind: &Kind) -> bool {
        self.citations && kind.citation.is_some()
    }

    /// Every handle and what it stands for.
    fn write_forms(&self, prompt: &mut String) {
        prompt.push_str(
            "Durable items are shown to you under short handles of this conversation, where N is a number:\n",
        );
        for (_, kind) in self.kinds() {
            let _ = writeln!(prompt, "- `{}://N`: {}", kind.name, kind.meaning);
        }
        for (form, meaning) in self.private_forms() {
            let _ = writeln!(prompt, "- {form}: {meaning} (private)");
        }
        prompt.push_str("- `res://NNNN`: a stored resource\n");
    }

    /// The forms of private and routing handles, and what they stand for.
    fn private_forms(&self) -> impl Iterator<Item = (String, &str)> {
        self.spaces().map(|(_, space)| {
            let definition = &space.definition;
            // A width only makes sense for numbers of a few digits.
            let number = "N".repeat(definition.width.clamp(1, 8));
            (format!("`{}{number}`", definition.prefix), definition.meaning.as_str())
        })
    }

    fn write_rules(&self, prompt: &mut String) {
        prompt.push_str(
            "\nHandles:\n\
             - Copy handles exactly from the supplied context or from tool results. Never invent, edit or \
             expand one; the system restores what it stands for.\n",
        );
        let bare = self.kinds().filter(|(_, kind)| !self.is_citable(kind));
        let bare = listed(bare.map(|(_, kind)| format!("`{}://N`", kind.name)), "and");
        if !bare.is_empty() {
            let _ = writeln!(prompt, "- {bare} serve as tool arguments only, never as citations.");
        }
        let private = listed(self.private_forms().map(|(form, _)| form), "and");
        let private = if private.is_empty() { private } else { format!(" or private handles ({private})") };
        let _ = writeln!(prompt, "- Never put raw IDs{private} into visible output.");
    }

    fn write_citing(&self, prompt: &mut String) {
        let citable = || self.kinds().filter(|(_, kind)| self.is_citable(kind));
        let tags = listed(citable().map(|(_, kind)| format!("`<ref id=\"{}://N\"/>`", kind.name)), "or");
        let _ = writeln!(
            prompt,
            "\nCitations:\n\
             - Cite with exactly {tags}, with the number of the source for N.\n\
             - Cite only sources that tools returned for the current task and that support the adjacent \
             claim. Handles from history, arguments or directories are for navigation, not for citing."
        );
        if let Some(url) = self.roles.url.and_then(|id| self.kind(id)).filter(|kind| self.is_citable(kind)) {
            let chunk = self.roles.chunk.and_then(|id| self.kind(id));
            let chunk = chunk.map(|kind| format!(", never a `{}://N`", kind.name)).unwrap_or_default();
            let _ = writeln!(
                prompt,
                "- For MCP content use the matching `{}://N` of `external_source_candidates`{chunk}.",
                url.name
            );
        }
        let mut names: Vec<String> = Vec::new();
        for format in citable().filter_map(|(_, kind)| kind.citation.as_ref()) {
            let name = format!("`<{}>`", format.tag_name);
            if !names.contains(&name) {
                names.push(name);
            }
        }
        let _ = writeln!(
            prompt,
            "- Where a source has no handle, use the exact supplied URL as a Markdown link; without one, give \
             no citation.\n\
             - Never write {}.\n\
             - Keep the tag inline, on the line of the claim.\n\
             - These rules override saved or custom citation instructions.",
            listed(names.into_iter(), "or")
        );
    }
}

/// The items with commas between them, and `last` before the last.
fn listed(items: impl Iterator<Item = String>, last: &str) -> String {
    let mut items: Vec<String> = items.collect();
    match items.pop() {
        Some(only) if items.is_empty() => only,
        Some(end) => format!("{} {last} {end}", items.join(", ")),
        None => String::new(),
    }
}
