//! Whoever the server asks.

use std::sync::Arc;

use serde_json::{Map, Value};
use toolnexus::suspension::{Answer, Request, WaitFor};

/// Somebody who sends every form as it is filled in already.
pub(crate) fn accepts_defaults() -> WaitFor {
    Arc::new(|request: Request| {
        let schema = request.data.as_ref().and_then(|data| data.get("schema"));
        let properties = schema.and_then(|schema| schema.get("properties")).and_then(Value::as_object);
        let filled = properties.into_iter().flatten();
        let defaults: Map<String, Value> = filled
            .filter_map(|(name, property)| Some((name.clone(), property.get("default")?.clone())))
            .collect();
        let answer = Answer { id: request.id, ok: true, data: Some(defaults), reason: None };
        Box::pin(async move { Ok(answer) })
    })
}
