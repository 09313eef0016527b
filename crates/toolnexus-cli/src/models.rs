//! `toolnexus models`.

use serde_json::json;
use toolnexus::client::{ModelInfo, list_models};
use toolnexus::{ClientError, ClientOptions};

use crate::cli::ModelsArgs;
use crate::exit::{Exit, Failure, timed_out};
use crate::interrupt::Interrupt;
use crate::list::{document, rows};
use crate::model_failure::of_client_error;
use crate::provider::{self, Choice, Wanted};
use crate::render::{count, plain};
use crate::screen::{Paint, Screen};

/// Carries the command out.
pub(crate) async fn models(
    args: &ModelsArgs,
    screen: &Screen,
    interrupt: &Interrupt,
) -> Result<Exit, Failure> {
    let choice = provider::choose_provider(Wanted::of(&args.provider), |name| std::env::var(name).ok())?;
    let options = ClientOptions {
        timeout_ms: args.timeout.map_or(0, |timeout| u64::try_from(timeout.as_millis()).unwrap_or(u64::MAX)),
        ..choice.client_options()
    };
    screen.busy(&format!("asking {} for its models", choice.host));
    let listed = tokio::select! {
        biased;
        () = interrupt.raised() => return Err(interrupt.failure()),
        listed = list_models(&options) => listed.map_err(|error| failure(&error, &choice))?,
    };
    if args.json {
        let provider = choice.origin();
        document(screen, &json!({"provider": provider, "style": choice.style, "models": listed}))?;
    } else {
        screen.answer(&text(&listed, screen.listing_width()))?;
    }
    Ok(Exit::Done)
}

fn text(models: &[ModelInfo], width: usize) -> String {
    let paint = Paint::stdout();
    let listing: Vec<(String, String)> =
        models.iter().map(|model| (plain(&model.id).into_owned(), about(model))).collect();
    let mut out = rows("", &listing, width, |name| paint.name(name));
    out.push_str(&format!("{}\n", count(models.len(), "model")));
    out
}

/// What is known of a model beside its id.
fn about(model: &ModelInfo) -> String {
    let name = model.name.clone().filter(|name| *name != model.id);
    let context = model.context_length.map(|tokens| format!("{tokens} tokens"));
    name.into_iter().chain(context).collect::<Vec<_>>().join(", ")
}

/// A failure in the words of this command, which has no `--model`.
fn failure(error: &ClientError, choice: &Choice) -> Failure {
    match error {
        ClientError::Timeout { .. } => timed_out("the list of models has not come"),
        ClientError::Provider(error) if matches!(error.status, 404 | 405 | 501) => Failure::new(
            Exit::Failed,
            format!(
                "{} has no list of models where one should be ({}); check --base-url (most end in /v1), \
                 not every server has one",
                choice.origin(),
                error.status
            ),
        ),
        other => of_client_error(other, choice, 1),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_says_what_is_known() {
        let model = |id: &str, name: Option<&str>, context_length| ModelInfo {
            id: id.into(),
            name: name.map(Into::into),
            context_length,
        };
        let models = [
            model("claude-a", Some("Claude A"), Some(200_000)),
            model("same", Some("same"), None),
            model("small", None, Some(8192)),
        ];
        assert_eq!(
            text(&models, 80),
            "claude-a  Claude A, 200000 tokens\nsame\nsmall     8192 tokens\n3 models\n"
        );
        assert_eq!(text(&[], 80), "0 models\n");
    }
}
