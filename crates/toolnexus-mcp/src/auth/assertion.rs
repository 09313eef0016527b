//! A client that proves with a key who it is (RFC 7523).

use std::sync::Arc;

use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::signature::{
    ECDSA_P256_SHA256_FIXED_SIGNING, ECDSA_P384_SHA384_FIXED_SIGNING, EcdsaKeyPair, Ed25519KeyPair,
    RSA_PKCS1_SHA256, RsaKeyPair,
};
use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use secrecy::{ExposeSecret as _, SecretString};
use serde_json::json;

use super::problem::Problem;

/// How long an assertion is good for, in seconds.
const LIFETIME: u64 = 300;

/// A private key, and the algorithm it is for. Has no `Debug`.
#[derive(Clone)]
pub(super) struct SigningKey(Option<Arc<Key>>);

enum Key {
    P256(EcdsaKeyPair),
    P384(EcdsaKeyPair),
    Ed25519(Ed25519KeyPair),
    Rsa(RsaKeyPair),
}

impl SigningKey {
    /// Reads a PKCS #8 key out of a PEM text. The algorithm is the one the key is for.
    pub(super) fn from_pem(pem: &SecretString) -> Self {
        SigningKey(der(pem.expose_secret()).and_then(|der| Key::read(&der)).map(Arc::new))
    }

    /// A signed statement of `client` to `audience`, at `now` (seconds since 1970).
    pub(super) fn assertion(&self, client: &str, audience: &str, now: u64) -> Result<SecretString, Problem> {
        let key = self.0.as_deref().ok_or(Problem::Key)?;
        let mut unique = [0_u8; 16];
        aws_lc_rs::rand::fill(&mut unique).map_err(|_| Problem::Key)?;
        let claims = json!({
            "iss": client, "sub": client, "aud": audience,
            "iat": now, "exp": now.saturating_add(LIFETIME), "jti": URL_SAFE_NO_PAD.encode(unique),
        });
        let header = json!({"alg": key.algorithm(), "typ": "client-authentication+jwt"});
        let part = |value: serde_json::Value| URL_SAFE_NO_PAD.encode(value.to_string());
        let signed = format!("{}.{}", part(header), part(claims));
        let signature = key.sign(signed.as_bytes()).ok_or(Problem::Key)?;
        Ok(format!("{signed}.{}", URL_SAFE_NO_PAD.encode(signature)).into())
    }
}

impl Key {
    fn read(der: &[u8]) -> Option<Self> {
        let p256 = || EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, der).map(Key::P256);
        let p384 = || EcdsaKeyPair::from_pkcs8(&ECDSA_P384_SHA384_FIXED_SIGNING, der).map(Key::P384);
        let ed25519 = || Ed25519KeyPair::from_pkcs8(der).map(Key::Ed25519);
        let rsa = || RsaKeyPair::from_pkcs8(der).map(Key::Rsa);
        p256().or_else(|_| p384()).or_else(|_| ed25519()).or_else(|_| rsa()).ok()
    }

    const fn algorithm(&self) -> &'static str {
        match self {
            Key::P256(_) => "ES256",
            Key::P384(_) => "ES384",
            Key::Ed25519(_) => "EdDSA",
            Key::Rsa(_) => "RS256",
        }
    }

    fn sign(&self, text: &[u8]) -> Option<Vec<u8>> {
        let random = SystemRandom::new();
        match self {
            Key::P256(key) | Key::P384(key) => Some(key.sign(&random, text).ok()?.as_ref().to_vec()),
            Key::Ed25519(key) => Some(key.sign(text).as_ref().to_vec()),
            Key::Rsa(key) => {
                let mut signature = vec![0; key.public_modulus_len()];
                key.sign(&RSA_PKCS1_SHA256, &random, text, &mut signature).ok()?;
                Some(signature)
            }
        }
    }
}

/// What a PEM text holds. An environment variable may have its line ends written out.
fn der(pem: &str) -> Option<Vec<u8>> {
    let (_, after) = pem.split_once("-----BEGIN PRIVATE KEY-----")?;
    let (body, _) = after.split_once("-----END PRIVATE KEY-----")?;
    let body = body.replace("\\n", "");
    let body: String = body.chars().filter(|letter| !letter.is_whitespace()).collect();
    STANDARD.decode(body).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use aws_lc_rs::signature::{ECDSA_P256_SHA256_FIXED, KeyPair as _, UnparsedPublicKey};

    fn pem(der: &[u8], line_end: &str) -> SecretString {
        let body = STANDARD.encode(der);
        format!("-----BEGIN PRIVATE KEY-----{line_end}{body}{line_end}-----END PRIVATE KEY-----\n").into()
    }

    #[test]
    fn an_assertion_is_signed_with_the_key() {
        let random = SystemRandom::new();
        let der = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &random).unwrap();
        let public = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, der.as_ref()).unwrap();
        for line_end in ["\n", "\\n", "\r\n"] {
            let key = SigningKey::from_pem(&pem(der.as_ref(), line_end));
            let assertion = key.assertion("client", "https://as.test", 1000).unwrap();
            let (signed, signature) = assertion.expose_secret().rsplit_once('.').unwrap();
            let signature = URL_SAFE_NO_PAD.decode(signature).unwrap();
            let verifier =
                UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, public.public_key().as_ref().to_vec());
            verifier.verify(signed.as_bytes(), &signature).unwrap();
            let parts: Vec<serde_json::Value> = signed
                .split('.')
                .map(|part| serde_json::from_slice(&URL_SAFE_NO_PAD.decode(part).unwrap()).unwrap())
                .collect();
            assert_eq!(parts[0]["alg"], "ES256");
            assert_eq!((&parts[1]["sub"], &parts[1]["exp"]), (&json!("client"), &json!(1300)));
        }
    }

    #[test]
    fn the_algorithm_is_the_one_of_the_key() {
        let random = SystemRandom::new();
        let p384 = EcdsaKeyPair::generate_pkcs8(&ECDSA_P384_SHA384_FIXED_SIGNING, &random).unwrap();
        let ed25519 = Ed25519KeyPair::generate_pkcs8(&random).unwrap();
        for (der, algorithm) in [(p384.as_ref(), "ES384"), (ed25519.as_ref(), "EdDSA")] {
            let key = SigningKey::from_pem(&pem(der, "\n"));
            assert_eq!(key.0.as_ref().unwrap().algorithm(), algorithm);
            key.assertion("c", "a", 0).unwrap();
        }
        let useless = SigningKey::from_pem(&"no key".into());
        assert_eq!(useless.assertion("c", "a", 0).err(), Some(Problem::Key));
    }
}
