//! Several hooks as one.

use std::sync::Arc;

use toolnexus_core::{BoxError, BoxFuture};

use super::{
    AfterLlm, AfterLlmEvent, AfterTool, AfterToolEvent, BeforeLlm, BeforeLlmEvent, BeforeTool,
    BeforeToolEvent, Hooks, LlmOverride, ToolOverride,
};

/// One set of hooks that calls all of these, in order. `None` when there is nothing to call.
///
/// `before_llm` and `after_tool` are pipelines: each stage sees what the stages before it made.
/// `before_tool` passes rewritten arguments on; the first stage that gives a result ends the chain, and
/// no later stage can undo it. `after_llm` calls every stage. The first error ends any chain.
///
/// ```
/// use toolnexus_llm::{BeforeToolEvent, Hooks, chain_hooks};
/// let audit = Hooks::default().with_before_tool(|_: BeforeToolEvent| async { Ok(None) });
/// assert!(chain_hooks([audit, Hooks::default()]).is_some());
/// assert!(chain_hooks([Hooks::default()]).is_none());
/// ```
pub fn chain_hooks(stages: impl IntoIterator<Item = Hooks>) -> Option<Hooks> {
    let mut before_llm: Vec<BeforeLlm> = Vec::new();
    let mut after_llm: Vec<AfterLlm> = Vec::new();
    let mut before_tool: Vec<BeforeTool> = Vec::new();
    let mut after_tool: Vec<AfterTool> = Vec::new();
    for stage in stages {
        before_llm.extend(stage.before_llm);
        after_llm.extend(stage.after_llm);
        before_tool.extend(stage.before_tool);
        after_tool.extend(stage.after_tool);
    }
    let hooks = Hooks {
        before_llm: one(before_llm, |stages, event| Box::pin(before_llm_chain(stages, event))),
        after_llm: one(after_llm, |stages, event| Box::pin(after_llm_chain(stages, event))),
        before_tool: one(before_tool, |stages, event| Box::pin(before_tool_chain(stages, event))),
        after_tool: one(after_tool, |stages, event| Box::pin(after_tool_chain(stages, event))),
    };
    (!hooks.is_empty()).then_some(hooks)
}

type Hook<E, O> = Arc<dyn Fn(E) -> Verdict<O> + Send + Sync>;
type Verdict<O> = BoxFuture<'static, Result<O, BoxError>>;
/// Calls the stages of a hook one after the other.
type Chain<E, O> = fn(Arc<[Hook<E, O>]>, E) -> Verdict<O>;

/// The stages as one hook; a single stage is that hook already.
fn one<E: 'static, O: 'static>(mut stages: Vec<Hook<E, O>>, chain: Chain<E, O>) -> Option<Hook<E, O>> {
    if stages.len() < 2 {
        return stages.pop();
    }
    let stages: Arc<[Hook<E, O>]> = stages.into();
    Some(Arc::new(move |event| chain(Arc::clone(&stages), event)))
}

async fn before_llm_chain(
    stages: Arc<[BeforeLlm]>,
    mut event: BeforeLlmEvent,
) -> Result<Option<LlmOverride>, BoxError> {
    let mut all = LlmOverride::default();
    for stage in stages.iter() {
        let Some(change) = stage(event.clone()).await? else { continue };
        if let Some(messages) = change.messages {
            event.messages.clone_from(&messages);
            all.messages = Some(messages);
        }
        if let Some(tools) = change.tools {
            event.tools = Arc::new(tools.clone());
            all.tools = Some(tools);
        }
        if let Some(model) = change.model {
            event.model.clone_from(&model);
            all.model = Some(model);
        }
    }
    Ok((all != LlmOverride::default()).then_some(all))
}

async fn after_llm_chain(stages: Arc<[AfterLlm]>, event: AfterLlmEvent) -> Result<(), BoxError> {
    for stage in stages.iter() {
        stage(event.clone()).await?;
    }
    Ok(())
}

async fn before_tool_chain(
    stages: Arc<[BeforeTool]>,
    mut event: BeforeToolEvent,
) -> Result<Option<ToolOverride>, BoxError> {
    let mut args = None;
    for stage in stages.iter() {
        let Some(change) = stage(event.clone()).await? else { continue };
        if let Some(rewritten) = change.args {
            event.args.clone_from(&rewritten);
            args = Some(rewritten);
        }
        if change.result.is_some() {
            return Ok(Some(ToolOverride { args, result: change.result }));
        }
    }
    Ok(args.map(ToolOverride::args))
}

async fn after_tool_chain(
    stages: Arc<[AfterTool]>,
    mut event: AfterToolEvent,
) -> Result<Option<ToolOverride>, BoxError> {
    let mut replaced = None;
    for stage in stages.iter() {
        let change = stage(event.clone()).await?;
        if let Some(result) = change.and_then(|change| change.result) {
            event.result = result.clone();
            replaced = Some(result);
        }
    }
    Ok(replaced.map(ToolOverride::result))
}
