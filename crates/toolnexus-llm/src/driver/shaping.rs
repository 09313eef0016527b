//! What the host's options change in a request body, the same for every call of the model.

use std::sync::PoisonError;

use bytes::Bytes;
use serde_json::{Map, Value};
use toolnexus_core::Style;
use toolnexus_core::http::Body;

use crate::ClientError;
use crate::client::ClientInner;
use crate::wire::{RequestBody, wire};

/// A body as it is sent.
pub(super) struct Shaped {
    pub(super) body: Body,
    /// The model it names.
    pub(super) model: String,
}

impl ClientInner {
    /// The body for `model` with `request_params` merged in and `body_transform` applied. With
    /// neither, its bytes as they are.
    pub(super) fn shaped(&self, body: &RequestBody<'_>, model: &str) -> Result<Shaped, ClientError> {
        let options = &self.options;
        if options.request_params.is_empty() && options.body_transform.is_none() {
            return Ok(Shaped { body: body.to_body(), model: model.to_owned() });
        }
        let unreadable = |error| ClientError::Config(format!("the request body cannot be shaped: {error}"));
        let fields = serde_json::from_slice(&body.to_body().to_bytes()).map_err(unreadable)?;
        self.shaped_fields(fields, model)
    }

    /// The same for a body that is not written yet.
    pub(super) fn shaped_fields(
        &self,
        mut fields: Map<String, Value>,
        model: &str,
    ) -> Result<Shaped, ClientError> {
        let options = &self.options;
        // Whoever shapes the body finds the model in it in every style.
        let model_is_in_url = wire(options.style).model_is_in_url();
        if model_is_in_url && !fields.contains_key("model") {
            fields.shift_insert(0, "model".into(), model.into());
        }
        for (key, value) in &options.request_params {
            if self.is_reserved(key) {
                self.warn_reserved(key);
            } else {
                fields.insert(key.clone(), value.clone());
            }
        }
        if let Some(transform) = &options.body_transform {
            match transform(Value::Object(fields.clone())) {
                Value::Object(changed) => fields = changed,
                Value::Null => {}
                _ => {
                    return Err(ClientError::Config(
                        "body_transform returned no JSON object: return the body, or null to leave it as it is"
                            .into(),
                    ));
                }
            }
        }
        let model = fields.get("model").and_then(Value::as_str).unwrap_or(model).to_owned();
        if model_is_in_url {
            fields.shift_remove("model");
        }
        Ok(Shaped { body: Bytes::from(Value::Object(fields).to_string()).into(), model })
    }

    fn is_reserved(&self, key: &str) -> bool {
        matches!(key, "messages" | "tools" | "stream")
            || (self.options.style == Style::Gemini && key == "contents")
    }

    /// Says once per client and key that it has no effect.
    fn warn_reserved(&self, key: &str) {
        // The lock is let go before the host's subscriber is called.
        if self.warned_params.lock().unwrap_or_else(PoisonError::into_inner).insert(key.to_owned()) {
            tracing::warn!(
                "[toolnexus] request_params key \"{key}\" is not allowed \u{2014} ignored (use body_transform)"
            );
        }
    }
}
