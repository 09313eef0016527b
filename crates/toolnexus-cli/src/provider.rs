//! Which model a run talks to, from flags and environment. Pure: nothing is sent or opened.

use toolnexus::client::http::is_loopback;
use toolnexus::{ClientOptions, Style};
use url::Url;

use crate::cli::ProviderArgs;
use crate::exit::Failure;

/// What is sent where no key is wanted: some servers refuse an empty one.
const PLACEHOLDER_KEY: &str = "unused";

/// A provider whose address and key variable are known.
pub(crate) struct Known {
    pub(crate) variables: &'static [&'static str],
    host: &'static str,
    pub(crate) base_url: &'static str,
    style: Style,
    pub(crate) model: &'static str,
}

/// In the order in which their keys are looked for.
pub(crate) const KNOWN: [Known; 5] = [
    Known {
        variables: &["OPENAI_API_KEY"],
        host: "api.openai.com",
        base_url: "https://api.openai.com/v1",
        style: Style::OpenAI,
        model: "gpt-5-mini",
    },
    Known {
        variables: &["ANTHROPIC_API_KEY"],
        host: "api.anthropic.com",
        base_url: "https://api.anthropic.com",
        style: Style::Anthropic,
        model: "claude-sonnet-4-5",
    },
    Known {
        variables: &["OPENROUTER_API_KEY"],
        host: "openrouter.ai",
        base_url: "https://openrouter.ai/api/v1",
        style: Style::OpenAI,
        model: "openai/gpt-5-mini",
    },
    Known {
        variables: &["GEMINI_API_KEY", "GOOGLE_API_KEY"],
        host: "generativelanguage.googleapis.com",
        // Gemini's endpoint for OpenAI clients, hence the style.
        base_url: "https://generativelanguage.googleapis.com/v1beta/openai",
        style: Style::OpenAI,
        model: "gemini-2.5-flash",
    },
    Known {
        variables: &["GEMINI_API_KEY", "GOOGLE_API_KEY"],
        host: "generativelanguage.googleapis.com",
        // Gemini's own dialect, when it is asked for.
        base_url: "https://generativelanguage.googleapis.com/v1beta",
        style: Style::Gemini,
        model: "gemini-2.5-flash",
    },
];

/// The choice as `--help` explains it.
pub(crate) const HELP: &str = "\
Which model answers:
  --base-url says where it is; without it, the first key found in the environment decides:
    OPENAI_API_KEY                    api.openai.com, gpt-5-mini
    ANTHROPIC_API_KEY                 api.anthropic.com, claude-sonnet-4-5
    OPENROUTER_API_KEY                openrouter.ai, openai/gpt-5-mini
    GEMINI_API_KEY, GOOGLE_API_KEY    generativelanguage.googleapis.com, gemini-2.5-flash
  --model replaces the model. --style or --api-key-env pick one of several keys. Gemini is spoken to
  at its OpenAI-compatible address unless --style is gemini.
  A server without a key (Ollama, llama.cpp, vLLM, LM Studio) needs --base-url and --model.
  TOOLNEXUS_BASE_URL, TOOLNEXUS_STYLE and TOOLNEXUS_MODEL stand for the flags left out.";

/// What to say when nothing points to a model.
const NONE: &str = "\
no model to talk to. One of these gives you one:
  * a key in the environment: OPENAI_API_KEY, ANTHROPIC_API_KEY, OPENROUTER_API_KEY or GEMINI_API_KEY
  * a local server that speaks OpenAI's API, no key needed:
      toolnexus run --base-url http://localhost:11434/v1 --model qwen3 \"your prompt\"
  * none at all: `toolnexus demo` shows the real thing with a scripted model";

/// What the person asked for; `None` is not said.
#[derive(Debug, Default, Clone)]
pub(crate) struct Wanted {
    pub(crate) base_url: Option<String>,
    pub(crate) style: Option<Style>,
    pub(crate) model: Option<String>,
    pub(crate) api_key_env: Option<String>,
}

impl Wanted {
    /// What flags say about the provider.
    pub(crate) fn of(args: &ProviderArgs) -> Self {
        Wanted {
            base_url: args.base_url.clone(),
            style: args.style.map(Into::into),
            model: None,
            api_key_env: args.api_key_env.clone(),
        }
    }
}

/// A model to talk to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Choice {
    pub(crate) base_url: String,
    pub(crate) host: String,
    pub(crate) style: Style,
    pub(crate) model: String,
    pub(crate) key: Key,
}

/// Where the credential comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Key {
    /// This environment variable.
    Variable(String),
    /// Nowhere: the server wants none, and the header must not be empty.
    Placeholder,
}

impl Choice {
    /// The options of a client of this model.
    pub(crate) fn client_options(&self) -> ClientOptions {
        let (api_key, api_key_env) = match &self.key {
            Key::Variable(name) => ("".into(), Some(name.clone())),
            Key::Placeholder => (PLACEHOLDER_KEY.into(), None),
        };
        ClientOptions {
            base_url: self.base_url.clone(),
            style: self.style,
            model: self.model.clone(),
            api_key,
            api_key_env,
            ..Default::default()
        }
    }

    /// Scheme, host and port: the rest of the address may hold a secret.
    pub(crate) fn origin(&self) -> String {
        match Url::parse(&self.base_url) {
            Ok(url) => url.origin().ascii_serialization(),
            Err(_) => self.host.clone(),
        }
    }
}

impl Key {
    /// For messages.
    pub(crate) fn describe(&self) -> String {
        match self {
            Key::Variable(name) => format!("the value of {name}"),
            Key::Placeholder => "none was given; name its variable with --api-key-env".to_owned(),
        }
    }
}

/// Makes the choice. `environment` gives the value of a variable.
///
/// A key is never sent to a host that it does not belong to, unless `api_key_env` says so.
pub(crate) fn choose(
    wanted: &Wanted,
    environment: impl Fn(&str) -> Option<String>,
) -> Result<Choice, Failure> {
    let set =
        |name: &str| environment(name).map(|value| value.trim().to_owned()).filter(|value| !value.is_empty());
    let or_variable = |flag: &Option<String>, name: &str| flag.clone().or_else(|| set(name));
    let style = match wanted.style {
        Some(style) => Some(style),
        None => set("TOOLNEXUS_STYLE").map(|text| parse_style(&text)).transpose().map_err(Failure::usage)?,
    };
    let model = or_variable(&wanted.model, "TOOLNEXUS_MODEL");
    if let Some(name) = &wanted.api_key_env
        && set(name).is_none()
    {
        return Err(Failure::usage(format!(
            "--api-key-env {name}: the variable is not set, or empty; export {name}=…"
        )));
    }
    match or_variable(&wanted.base_url, "TOOLNEXUS_BASE_URL") {
        Some(base_url) => at_address(&base_url, style, model, wanted.api_key_env.as_deref(), set),
        None => by_key(style, model, wanted.api_key_env.as_deref(), set),
    }
}

/// The same where no model is to be named; the choice has none.
pub(crate) fn choose_provider(
    wanted: Wanted,
    environment: impl Fn(&str) -> Option<String>,
) -> Result<Choice, Failure> {
    choose(&Wanted { model: Some(String::new()), ..wanted }, environment)
}

/// Reads a style's name.
pub(crate) fn parse_style(text: &str) -> Result<Style, String> {
    match text {
        "openai" => Ok(Style::OpenAI),
        "anthropic" => Ok(Style::Anthropic),
        "gemini" => Ok(Style::Gemini),
        other => Err(format!("unknown style \"{other}\": it is openai, anthropic or gemini")),
    }
}

fn at_address(
    base_url: &str,
    style: Option<Style>,
    model: Option<String>,
    api_key_env: Option<&str>,
    set: impl Fn(&str) -> Option<String>,
) -> Result<Choice, Failure> {
    let url = Url::parse(base_url.trim()).map_err(|error| {
        Failure::usage(format!(
            "--base-url {}is not a URL ({error}): it looks like http://localhost:11434/v1",
            quoted(base_url)
        ))
    })?;
    let Some(host) = url.host_str().filter(|_| matches!(url.scheme(), "http" | "https")) else {
        return Err(Failure::usage(format!(
            "--base-url {}must start with http:// or https://, as in http://localhost:11434/v1",
            quoted(base_url)
        )));
    };
    if !url.username().is_empty() || url.password().is_some() {
        return Err(Failure::usage(
            "--base-url holds a user name or password: leave them out; a key belongs into a variable that \
             --api-key-env names",
        ));
    }
    let mut at_host =
        KNOWN.iter().filter(|known| host == known.host || is_subdomain_of_openrouter(host, known));
    let is_below = |known: &&Known| base_url.trim().starts_with(known.base_url);
    // One host speaks two dialects, at two addresses.
    let known = at_host.clone().find(is_below).or_else(|| at_host.next());
    let Some(model) = model.or_else(|| known.map(|known| known.model.to_owned())) else {
        return Err(Failure::usage(format!("no model for {host}: name one of its models with --model")));
    };
    let own =
        |known: &Known| known.variables.iter().find(|name| set(name).is_some()).map(ToString::to_string);
    let key = match api_key_env {
        Some(name) => Key::Variable(name.to_owned()),
        None => match known.filter(|_| url.scheme() == "https") {
            Some(known) => Key::Variable(own(known).ok_or_else(|| {
                let names = known.variables.join(" or ");
                Failure::usage(format!(
                    "no key for {host}: set {names}, or name another variable with --api-key-env"
                ))
            })?),
            None if url.scheme() == "http" || is_loopback(&url) => Key::Placeholder,
            None => {
                return Err(Failure::usage(format!(
                    "no key for {host}: name the variable that holds it with --api-key-env"
                )));
            }
        },
    };
    let style = style.unwrap_or(match known {
        Some(known) => known.style,
        None => Style::OpenAI,
    });
    Ok(Choice { base_url: base_url.trim().to_owned(), host: shown_host(&url, host), style, model, key })
}

fn by_key(
    style: Option<Style>,
    model: Option<String>,
    api_key_env: Option<&str>,
    set: impl Fn(&str) -> Option<String>,
) -> Result<Choice, Failure> {
    let mut candidates = KNOWN.iter().filter(|known| style.is_none_or(|style| style == known.style));
    let found = match api_key_env {
        None => candidates.find_map(|known| {
            let name = known.variables.iter().find(|name| set(name).is_some())?;
            Some((known, (*name).to_owned()))
        }),
        Some(name) => {
            candidates.find(|known| known.variables.contains(&name)).map(|known| (known, name.to_owned()))
        }
    };
    match (found, api_key_env, style) {
        (Some((known, variable)), ..) => Ok(Choice {
            base_url: known.base_url.to_owned(),
            host: known.host.to_owned(),
            style: known.style,
            model: model.unwrap_or_else(|| known.model.to_owned()),
            key: Key::Variable(variable),
        }),
        (None, Some(name), _) => {
            Err(Failure::usage(format!("--api-key-env {name}: say with --base-url where that key belongs")))
        }
        (None, None, Some(style)) => {
            let variables: Vec<&str> = KNOWN
                .iter()
                .filter(|known| known.style == style)
                .flat_map(|known| known.variables.iter().copied())
                .collect();
            Err(Failure::usage(format!(
                "no key for a provider of style {style}: set {}, or say with --base-url and --model where a \
                 model is",
                variables.join(" or ")
            )))
        }
        (None, None, None) => Err(Failure::usage(NONE)),
    }
}

fn is_subdomain_of_openrouter(host: &str, known: &Known) -> bool {
    known.host == "openrouter.ai" && host.ends_with(".openrouter.ai")
}

fn shown_host(url: &Url, host: &str) -> String {
    url.port().map_or_else(|| host.to_owned(), |port| format!("{host}:{port}"))
}

/// The value for a message, unless a password may be in it.
fn quoted(base_url: &str) -> String {
    if base_url.contains('@') { String::new() } else { format!("\"{base_url}\" ") }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(wanted: Wanted, variables: &[(&str, &str)]) -> Result<Choice, String> {
        let environment =
            |name: &str| variables.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).to_owned());
        choose(&wanted, environment).map_err(|failure| {
            assert_eq!(failure.exit, crate::exit::Exit::Usage);
            failure.message
        })
    }

    fn at(base_url: &str) -> Wanted {
        Wanted { base_url: Some(base_url.into()), model: Some("m".into()), ..Default::default() }
    }

    #[test]
    fn a_provider_is_chosen_without_a_model() {
        let none = |_: &str| None;
        let wanted = Wanted { model: None, ..at("http://localhost:11434/v1") };
        assert!(choose(&wanted, none).is_err());
        let choice = choose_provider(wanted, none).unwrap();
        assert_eq!((choice.model.as_str(), choice.key), ("", Key::Placeholder));
        let key = |name: &str| (name == "ANTHROPIC_API_KEY").then(|| "k".to_owned());
        let choice = choose_provider(Wanted::default(), key).unwrap();
        assert_eq!((choice.host.as_str(), choice.model.as_str()), ("api.anthropic.com", ""));
    }

    fn variable(name: &str) -> Key {
        Key::Variable(name.into())
    }

    #[test]
    fn each_key_has_a_provider_and_the_order_is_fixed() {
        let mut variables = vec![
            ("OPENAI_API_KEY", "k"),
            ("ANTHROPIC_API_KEY", "k"),
            ("OPENROUTER_API_KEY", "k"),
            ("GEMINI_API_KEY", "k"),
            ("GOOGLE_API_KEY", "k"),
        ];
        let mut found = Vec::new();
        while !variables.is_empty() {
            let choice = with(Wanted::default(), &variables).unwrap();
            assert_eq!(choice.key, variable(variables[0].0));
            found.push(format!("{} {} {}", choice.base_url, choice.style, choice.model));
            variables.remove(0);
        }
        assert_eq!(
            found,
            [
                "https://api.openai.com/v1 openai gpt-5-mini",
                "https://api.anthropic.com anthropic claude-sonnet-4-5",
                "https://openrouter.ai/api/v1 openai openai/gpt-5-mini",
                "https://generativelanguage.googleapis.com/v1beta/openai openai gemini-2.5-flash",
                "https://generativelanguage.googleapis.com/v1beta/openai openai gemini-2.5-flash",
            ]
        );
    }

    #[test]
    fn nothing_set_names_every_way_out() {
        for variables in [&[][..], &[("OPENAI_API_KEY", "  ")]] {
            let message = with(Wanted::default(), variables).unwrap_err();
            for way in
                ["OPENAI_API_KEY", "ANTHROPIC_API_KEY", "--base-url http://localhost", "toolnexus demo"]
            {
                assert!(message.contains(way), "{way}: {message}");
            }
        }
    }

    #[test]
    fn the_help_tells_the_defaults() {
        for known in &KNOWN {
            for text in [known.host, known.model].iter().chain(known.variables) {
                assert!(HELP.contains(text), "{text}");
            }
        }
    }

    #[test]
    fn style_and_key_variable_pick_one_of_several() {
        let variables = [("OPENAI_API_KEY", "k"), ("ANTHROPIC_API_KEY", "k"), ("OPENROUTER_API_KEY", "k")];
        let wanted = Wanted { style: Some(Style::Anthropic), ..Default::default() };
        assert_eq!(with(wanted, &variables).unwrap().key, variable("ANTHROPIC_API_KEY"));
        let wanted = Wanted { api_key_env: Some("OPENROUTER_API_KEY".into()), ..Default::default() };
        assert_eq!(with(wanted, &variables).unwrap().base_url, "https://openrouter.ai/api/v1");
        let wanted = Wanted { style: Some(Style::Anthropic), ..Default::default() };
        assert_eq!(
            with(wanted, &variables[..1]).unwrap_err(),
            "no key for a provider of style anthropic: set ANTHROPIC_API_KEY, or say with --base-url and \
             --model where a model is"
        );
    }

    #[test]
    fn gemini_is_spoken_at_its_own_address_when_asked_for() {
        let own = "https://generativelanguage.googleapis.com/v1beta";
        let key = [("GEMINI_API_KEY", "k")];
        let styled = Wanted { style: Some(Style::Gemini), ..Default::default() };
        for (wanted, variables) in [
            (styled, &key[..]),
            (Wanted::default(), &[key[0], ("TOOLNEXUS_STYLE", "gemini")]),
            (at(own), &key[..]),
        ] {
            let choice = with(wanted, variables).unwrap();
            assert_eq!((choice.base_url.as_str(), choice.style), (own, Style::Gemini));
            assert_eq!(choice.key, variable("GEMINI_API_KEY"));
        }
        let compatible = format!("{own}/openai");
        for wanted in [Wanted::default(), at(&compatible)] {
            let choice = with(wanted, &key).unwrap();
            assert_eq!((choice.base_url, choice.style), (compatible.clone(), Style::OpenAI));
        }
        let local = with(Wanted { style: Some(Style::Gemini), ..at("http://localhost:1") }, &key).unwrap();
        assert_eq!((local.style, local.key), (Style::Gemini, Key::Placeholder));
    }

    #[test]
    fn a_local_server_needs_no_key_and_gets_none() {
        let variables = [("OPENAI_API_KEY", "secret")];
        for base in [
            "http://localhost:11434/v1",
            "http://127.0.0.1:8080",
            "https://localhost:8443/v1",
            "https://[::1]:8443/v1",
            "http://gpu.lan/v1",
            "http://api.openai.com/v1",
        ] {
            let choice = with(at(base), &variables).unwrap();
            assert_eq!((choice.key, choice.style), (Key::Placeholder, Style::OpenAI), "{base}");
            assert_eq!(choice.base_url, base);
        }
    }

    #[test]
    fn a_key_goes_only_to_its_own_host() {
        let variables = [("OPENAI_API_KEY", "k"), ("ANTHROPIC_API_KEY", "k"), ("MINE", "k")];
        assert_eq!(
            with(at("https://api.openai.com/v1"), &variables).unwrap().key,
            variable("OPENAI_API_KEY")
        );
        let choice = with(at("https://api.anthropic.com"), &variables).unwrap();
        assert_eq!((choice.key, choice.style), (variable("ANTHROPIC_API_KEY"), Style::Anthropic));
        for stranger in ["https://gateway.example/v1", "https://api.openai.com.evil.test/v1"] {
            assert!(with(at(stranger), &variables).unwrap_err().contains("--api-key-env"), "{stranger}");
            let wanted = Wanted { api_key_env: Some("MINE".into()), ..at(stranger) };
            assert_eq!(with(wanted, &variables).unwrap().key, variable("MINE"));
        }
        let message = with(at("https://openrouter.ai/api/v1"), &variables).unwrap_err();
        assert!(message.contains("OPENROUTER_API_KEY"), "{message}");
    }

    #[test]
    fn models_are_guessed_for_known_hosts_only() {
        let here = |base: &str| Wanted { model: None, ..at(base) };
        let variables = [("OPENAI_API_KEY", "k")];
        assert_eq!(with(here("https://api.openai.com/v1"), &variables).unwrap().model, "gpt-5-mini");
        let message = with(here("http://localhost:11434/v1"), &variables).unwrap_err();
        assert_eq!(message, "no model for localhost: name one of its models with --model");
    }

    #[test]
    fn variables_stand_for_flags_left_out() {
        let variables = [
            ("TOOLNEXUS_BASE_URL", "http://localhost:1/v1"),
            ("TOOLNEXUS_MODEL", "from-variable"),
            ("TOOLNEXUS_STYLE", "anthropic"),
            ("OPENAI_API_KEY", "k"),
        ];
        let choice = with(Wanted::default(), &variables).unwrap();
        assert_eq!((choice.model.as_str(), choice.style), ("from-variable", Style::Anthropic));
        assert_eq!(choice.host, "localhost:1");
        let choice =
            with(Wanted { style: Some(Style::OpenAI), ..at("http://localhost:2") }, &variables).unwrap();
        assert_eq!(
            (choice.model.as_str(), choice.style, choice.host.as_str()),
            ("m", Style::OpenAI, "localhost:2")
        );
        let message = with(Wanted::default(), &[("TOOLNEXUS_STYLE", "grok")]).unwrap_err();
        assert!(message.contains("unknown style \"grok\""), "{message}");
    }

    #[test]
    fn what_cannot_be_used_is_named_without_secrets() {
        let message = with(at("localhost:11434"), &[]).unwrap_err();
        assert!(message.contains("\"localhost:11434\"") && message.contains("http://"), "{message}");
        let message = with(at("not a url"), &[]).unwrap_err();
        assert!(message.contains("not a url"), "{message}");
        let message = with(at("ftp://user:hunter2@host"), &[]).unwrap_err();
        assert!(!message.contains("hunter2"), "{message}");
        let message = with(at("http://user:hunter2@host/v1"), &[]).unwrap_err();
        assert!(message.contains("--api-key-env") && !message.contains("hunter2"), "{message}");
        let wanted = Wanted { api_key_env: Some("UNSET".into()), ..Default::default() };
        assert!(with(wanted, &[]).unwrap_err().contains("UNSET"));
        let wanted = Wanted { api_key_env: Some("MINE".into()), ..Default::default() };
        assert!(with(wanted, &[("MINE", "k")]).unwrap_err().contains("--base-url"));
    }
}
