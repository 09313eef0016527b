//! The error with which a tool says that it waits for an answer.

use std::any::Any;
use std::error::Error;

use crate::{BoxError, Request, ToolResult, pending};

/// A tool cannot go on before `0` is answered: the error of [`ToolContext::elicit`].
///
/// A tool function that returns it as its error, bare or boxed, suspends the call instead of
/// failing it, so `context.elicit(…).await?` is all a tool writes. A boxed error that was *caused*
/// by it counts too.
///
/// [`ToolContext::elicit`]: crate::ToolContext::elicit
///
/// ```
/// use toolnexus_core::{IntoToolOutcome, Request, Suspended, pending_of};
/// let outcome: Result<(), Suspended> =
///     Err(Suspended(Request { prompt: "Which city?".into(), ..Default::default() }));
/// assert_eq!(pending_of(&outcome.into_outcome()).unwrap().prompt, "Which city?");
/// ```
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error("waiting for an answer to: {}", .0.prompt)]
pub struct Suspended(pub Request);

/// The suspension that an error of a tool means, if it means one.
pub(crate) fn suspension(error: &dyn Any) -> Option<ToolResult> {
    let bare = error.downcast_ref::<Suspended>();
    let bare = bare.or_else(|| error.downcast_ref::<Box<Suspended>>().map(AsRef::as_ref));
    let boxed = || {
        let boxed: Option<&(dyn Error + 'static)> = error
            .downcast_ref::<BoxError>()
            .map(|error| &**error as &(dyn Error + 'static))
            .or_else(|| error.downcast_ref::<Box<dyn Error + Send>>().map(|error| &**error as _))
            .or_else(|| error.downcast_ref::<Box<dyn Error>>().map(|error| &**error));
        let mut chain = std::iter::successors(boxed, |&error| error.source());
        chain.find_map(|error| error.downcast_ref())
    };
    let Suspended(request) = bare.or_else(boxed)?;
    Some(pending(request.clone()))
}
