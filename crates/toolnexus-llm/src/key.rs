//! Which credential belongs to which host.

use secrecy::{ExposeSecret as _, SecretString};
use url::Url;

use crate::{ClientError, ClientOptions};

/// The credential of a call, resolved anew each time.
pub(crate) struct Credential {
    pub(crate) value: SecretString,
    /// Where it came from, for error messages: `api_key` or a variable's name.
    pub(crate) origin: String,
}

/// Finds the credential: the given one, the named variable, or the variable that belongs to the
/// host of an https URL. A key of one provider is never sent to another host.
pub(crate) fn resolve(options: &ClientOptions, base: &Url) -> Result<Credential, ClientError> {
    resolve_with(options, base, |name| std::env::var(name).ok())
}

fn resolve_with(
    options: &ClientOptions,
    base: &Url,
    environment: impl Fn(&str) -> Option<String>,
) -> Result<Credential, ClientError> {
    if !options.api_key.expose_secret().is_empty() {
        return Ok(Credential { value: options.api_key.clone(), origin: "api_key".into() });
    }
    let lookup = |name: &str| {
        let value = environment(name)?;
        let value = value.trim();
        (!value.is_empty()).then(|| Credential { value: value.into(), origin: name.to_owned() })
    };
    if let Some(name) = options.api_key_env.as_deref().filter(|name| !name.is_empty()) {
        return lookup(name).ok_or_else(|| {
            ClientError::Config(format!(
                "no API key: set api_key or api_key_env; the variable {name} is unset or empty"
            ))
        });
    }
    let names = variables_of(base);
    names.iter().find_map(|name| lookup(name)).ok_or_else(|| {
        let host = base.host_str().unwrap_or_default();
        ClientError::Config(if names.is_empty() {
            format!(
                "no API key: set api_key or api_key_env (no variable belongs to {}://{host})",
                base.scheme()
            )
        } else {
            format!("no API key: set api_key or api_key_env, or the variable {}", names.join(" or "))
        })
    })
}

/// The variables that belong to a host.
pub(crate) fn variables_of(base: &Url) -> &'static [&'static str] {
    if base.scheme() != "https" {
        return &[];
    }
    // The URL parser has lower-cased the host and split off port and user.
    match base.host_str().unwrap_or_default() {
        "api.openai.com" => &["OPENAI_API_KEY"],
        "api.anthropic.com" => &["ANTHROPIC_API_KEY"],
        "generativelanguage.googleapis.com" => &["GEMINI_API_KEY", "GOOGLE_API_KEY"],
        host if host == "openrouter.ai" || host.ends_with(".openrouter.ai") => &["OPENROUTER_API_KEY"],
        _ => &[],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(key: &str, env: Option<&str>) -> ClientOptions {
        ClientOptions { api_key: key.into(), api_key_env: env.map(str::to_owned), ..Default::default() }
    }

    fn found(options: &ClientOptions, base: &str) -> Result<String, String> {
        let environment = |name: &str| match name {
            "OPENAI_API_KEY" => Some("  openai-key \n".to_owned()),
            "ANTHROPIC_API_KEY" => Some("anthropic-key".to_owned()),
            "OPENROUTER_API_KEY" => Some("openrouter-key".to_owned()),
            "GOOGLE_API_KEY" => Some("google-key".to_owned()),
            "EMPTY" => Some("  ".to_owned()),
            "MINE" => Some("my-key".to_owned()),
            _ => None,
        };
        resolve_with(options, &Url::parse(base).unwrap(), environment)
            .map(|credential| credential.value.expose_secret().to_owned())
            .map_err(|error| error.to_string())
    }

    // CLIENT-6, CLIENT-7, CLIENT-8, cases K1, K4, K5
    #[test]
    fn a_variable_belongs_to_one_host_over_https() {
        let none = options("", None);
        assert_eq!(found(&none, "https://api.openai.com/v1").unwrap(), "openai-key");
        assert_eq!(found(&none, "https://API.OpenAI.com:443/v1").unwrap(), "openai-key");
        assert_eq!(found(&none, "https://api.anthropic.com").unwrap(), "anthropic-key");
        assert_eq!(found(&none, "https://openrouter.ai/api/v1").unwrap(), "openrouter-key");
        assert_eq!(found(&none, "https://eu.openrouter.ai/api/v1").unwrap(), "openrouter-key");
        assert_eq!(found(&none, "https://generativelanguage.googleapis.com").unwrap(), "google-key");
        for stranger in [
            "http://localhost:11434/v1",
            "http://api.openai.com/v1",
            "https://api.openai.com.evil.test/v1",
            "https://evilopenrouter.ai/v1",
            "https://api.openai.com@evil.test/v1",
            "https://gateway.internal/v1",
        ] {
            let error = found(&none, stranger).unwrap_err();
            assert!(error.starts_with("no API key: set api_key or api_key_env"), "{stranger}: {error}");
        }
    }

    // CLIENT-6, CLIENT-9, case K2
    #[test]
    fn the_given_key_wins_and_a_named_variable_is_the_only_one_read() {
        assert_eq!(found(&options("given", Some("MINE")), "https://api.openai.com").unwrap(), "given");
        assert_eq!(found(&options("", Some("MINE")), "https://api.openai.com").unwrap(), "my-key");
        for name in ["EMPTY", "TN_DOCS_SURELY_UNSET_KEY"] {
            let error = found(&options("", Some(name)), "https://api.openai.com").unwrap_err();
            assert!(error.contains(name), "{error}");
        }
        assert_eq!(found(&options("", Some("")), "https://api.openai.com/v1").unwrap(), "openai-key");
    }
}
