//! The `auth` key of an entry.

use std::time::Duration;

use secrecy::SecretString;
use serde_json::{Map, Value};
use toolnexus_core::env;
use tracing::warn;

use super::settings::McpAuth;

/// Reads the `auth` key of a server's entry: `true`, or an object. `Err` says what is wrong with
/// it, and quotes no value.
pub(crate) fn from_entry(server: &str, entry: &Map<String, Value>) -> Result<Option<McpAuth>, String> {
    let auth = match entry.get("auth") {
        None | Some(Value::Null | Value::Bool(false)) => return Ok(None),
        Some(Value::Bool(true)) => return Ok(Some(McpAuth::new())),
        Some(Value::Object(auth)) => auth,
        Some(_) => return Err("auth must be an object, true or false".to_owned()),
    };
    let client_id = text(auth, "clientId")?;
    let secret = secret(server, auth, "clientSecret")?;
    let key = self::secret(server, auth, "privateKey")?;
    let needs_id = || client_id.clone().ok_or_else(|| "auth needs a clientId for this grant".to_owned());
    let mut read = match text(auth, "grant")?.as_deref() {
        None | Some("authorization_code") => {
            let mut read = McpAuth::new();
            if let Some(id) = &client_id {
                read = read.client_id(id);
            }
            if let Some(secret) = secret {
                needs_id()?;
                read = read.client_secret(secret);
            }
            read
        }
        Some("client_credentials") => match (key, secret) {
            (Some(key), _) => McpAuth::private_key(needs_id()?, &key),
            (None, Some(secret)) => McpAuth::client_credentials(needs_id()?, secret),
            (None, None) => {
                return Err("auth needs a clientSecret or a privateKey for client_credentials".to_owned());
            }
        },
        Some(_) => return Err("auth grant must be authorization_code or client_credentials".to_owned()),
    };
    if let Some(url) = text(auth, "clientMetadataUrl")? {
        read = read.client_metadata_url(url);
    }
    if let Some(name) = text(auth, "clientName")? {
        read = read.client_name(name);
    }
    if let Some(scopes) = scopes(auth)? {
        read = read.scopes(scopes);
    }
    if let Some(port) = number(auth, "redirectPort")? {
        read = read.redirect_port(
            u16::try_from(port).map_err(|_| "auth redirectPort must be at most 65535".to_owned())?,
        );
    }
    if let Some(ms) = number(auth, "signInLimit")? {
        read = read.sign_in_limit(Duration::from_millis(ms));
    }
    Ok(Some(read))
}

fn text(auth: &Map<String, Value>, key: &str) -> Result<Option<String>, String> {
    match auth.get(key) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) if !text.is_empty() => Ok(Some(text.clone())),
        Some(_) => Err(format!("auth {key} must be a text")),
    }
}

fn number(auth: &Map<String, Value>, key: &str) -> Result<Option<u64>, String> {
    match auth.get(key) {
        None | Some(Value::Null) => Ok(None),
        Some(value) => match value.as_u64() {
            Some(number) if number > 0 => Ok(Some(number)),
            _ => Err(format!("auth {key} must be a positive whole number")),
        },
    }
}

fn scopes(auth: &Map<String, Value>) -> Result<Option<Vec<String>>, String> {
    let wrong = || "auth scopes must be an array of texts, or one text".to_owned();
    match auth.get("scopes") {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(scopes)) => Ok(Some(super::challenge::split(scopes))),
        Some(Value::Array(scopes)) => {
            let scopes = scopes.iter().map(|scope| scope.as_str().map(str::to_owned).ok_or_else(wrong));
            scopes.collect::<Result<_, _>>().map(Some)
        }
        Some(_) => Err(wrong()),
    }
}

/// A text that should come from the environment, `${NAME}`.
fn secret(server: &str, auth: &Map<String, Value>, key: &str) -> Result<Option<SecretString>, String> {
    let Some(raw) = text(auth, key)? else { return Ok(None) };
    let names = env::variables(&raw);
    if names.is_empty() {
        warn!(
            "[toolnexus] server \"{server}\" auth {key} stands in the document: put it into a variable and \
             write ${{NAME}}"
        );
    }
    if let Some(missing) = names.iter().find(|name| std::env::var_os(name).is_none()) {
        return Err(format!("auth {key} names the variable {missing}, which is not set"));
    }
    Ok(Some(env::expand(&raw).into()))
}
