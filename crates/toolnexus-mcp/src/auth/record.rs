//! What is kept of a sign-in.

use std::time::{SystemTime, UNIX_EPOCH};

use secrecy::{ExposeSecret as _, SecretString};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::challenge::split;

/// Seconds before its end at which a token is renewed.
const EARLY_SECONDS: u64 = 30;

/// Everything known of one server. Secret: has no `Debug`.
#[derive(Clone, Default, Serialize, Deserialize)]
pub(super) struct Record {
    /// Who issued the rest.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) issuer: Option<String>,
    /// The client that registered itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) client: Option<Client>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) tokens: Option<Tokens>,
}

/// A client as the authorization server knows it.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Client {
    pub(super) id: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) secret: Option<String>,
    pub(super) redirect_uri: String,
}

#[derive(Clone, Serialize, Deserialize)]
pub(super) struct Tokens {
    pub(super) access: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) refresh: Option<String>,
    /// Seconds since 1970 at which it is time for another one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) renew_at: Option<u64>,
    /// The client that they were issued to.
    pub(super) client_id: String,
    #[serde(default)]
    pub(super) scopes: Vec<String>,
}

impl Tokens {
    /// Reads an answer of a token endpoint. What it leaves out is as it was asked for.
    pub(super) fn read(answer: &Value, client_id: &str, asked: &[String], now: u64) -> Option<Self> {
        let text = |key| answer.get(key).and_then(Value::as_str);
        let lifetime = answer.get("expires_in").and_then(Value::as_u64);
        Some(Tokens {
            access: text("access_token")?.to_owned(),
            refresh: text("refresh_token").map(str::to_owned),
            renew_at: lifetime
                .map(|seconds| now.saturating_add(seconds).saturating_sub(EARLY_SECONDS.min(seconds / 2))),
            client_id: client_id.to_owned(),
            scopes: text("scope").map_or_else(|| asked.to_vec(), split),
        })
    }

    /// Whether it is time for another one.
    pub(super) fn is_stale(&self, now: u64) -> bool {
        self.renew_at.is_some_and(|at| at <= now)
    }
}

impl Record {
    /// A record that cannot be read is none: the person signs in again.
    pub(super) fn from_secret(text: &SecretString) -> Option<Self> {
        serde_json::from_str(text.expose_secret()).ok()
    }

    pub(super) fn to_secret(&self) -> SecretString {
        serde_json::to_string(self).unwrap_or_default().into()
    }

    /// Forgets what another authorization server has issued.
    pub(super) fn bind(&mut self, issuer: Option<&str>) {
        if self.issuer.as_deref() != issuer {
            *self = Record { issuer: issuer.map(str::to_owned), ..Record::default() };
        }
    }
}

/// Seconds since 1970.
pub(super) fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_token_is_renewed_a_little_early() {
        let renew_at = |lifetime: Value| {
            let answer = json!({"access_token": "a", "expires_in": lifetime});
            Tokens::read(&answer, "c", &[], 1000).unwrap().renew_at
        };
        assert_eq!(renew_at(json!(3600)), Some(4570));
        assert_eq!(renew_at(json!(10)), Some(1005));
        assert_eq!(renew_at(json!(0)), Some(1000));
        assert_eq!(renew_at(Value::Null), None);
    }

    #[test]
    fn scopes_are_as_asked_for_unless_the_answer_says_otherwise() {
        let scopes = |answer: Value| Tokens::read(&answer, "c", &["a".into()], 0).unwrap().scopes;
        assert_eq!(scopes(json!({"access_token": "t"})), ["a"]);
        assert_eq!(scopes(json!({"access_token": "t", "scope": "b c"})), ["b", "c"]);
        assert!(Tokens::read(&json!({"token_type": "bearer"}), "c", &[], 0).is_none());
    }

    #[test]
    fn a_record_comes_back_and_belongs_to_one_issuer() {
        let tokens = Tokens::read(&json!({"access_token": "t"}), "c", &[], 0);
        let record = Record { issuer: Some("https://as.test".into()), client: None, tokens };
        let mut back = Record::from_secret(&record.to_secret()).unwrap();
        back.bind(Some("https://as.test"));
        assert_eq!(back.tokens.as_ref().unwrap().access, "t");
        back.bind(Some("https://other.test"));
        assert!(back.tokens.is_none());
        assert!(Record::from_secret(&"nonsense".into()).is_none());
    }
}
