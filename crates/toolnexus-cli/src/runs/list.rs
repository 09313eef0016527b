//! `toolnexus runs list`.

use serde_json::{Value, json};
use toolnexus::client::run::RunEvent;
use toolnexus::client::run_log::{FileRunLog, RunFilter, RunLog as _, RunSummary, RunSummaryStatus};

use super::args::ListArgs;
use super::directory::Directory;
use super::transcript::prompt_text;
use crate::exit::{Exit, Failure};
use crate::list::document;
use crate::render::{count, grouped, one_line, rfc3339, utc};
use crate::screen::{Paint, Screen};

/// A run and what it was asked.
struct Listed {
    summary: RunSummary,
    prompt: String,
}

/// Carries the command out.
pub(crate) async fn list(args: ListArgs, screen: &Screen) -> Result<Exit, Failure> {
    let directory = Directory::require(args.place.flag())?;
    let log = directory.open()?;
    let limit = args.limit as usize;
    // One more than wanted tells whether there are more.
    let filter =
        RunFilter { status: args.status.map(Into::into), after: args.after, limit: limit.saturating_add(1) };
    let mut summaries = log.list(filter).await.map_err(|error| directory.failure(&error))?;
    let more = summaries.len() > limit;
    summaries.truncate(limit);
    let mut runs = Vec::new();
    for summary in summaries {
        let prompt = prompt_of(&log, &summary.run_id).await;
        runs.push(Listed { summary, prompt });
    }
    let next = runs.last().filter(|_| more).map(|last| last.summary.run_id.clone());
    if args.json {
        let runs: Vec<Value> = runs.iter().map(as_json).collect();
        document(screen, &json!({"runs": runs, "next": next}))?;
        return Ok(Exit::Done);
    }
    if runs.is_empty() {
        screen.note(&format!("no such runs in {directory}"));
        return Ok(Exit::Done);
    }
    let mut out = String::new();
    for run in &runs {
        out.push_str(&text(run, screen.listing_width()));
    }
    screen.answer(&out)?;
    if let Some(next) = next {
        screen.note(&screen.paint().dim(&format!("more with --after {next}")));
    }
    Ok(Exit::Done)
}

/// What the run was asked; nothing when it went away meanwhile.
async fn prompt_of(log: &FileRunLog, run_id: &str) -> String {
    match log.read(run_id, 0).await.unwrap_or_default().first() {
        Some(RunEvent::Started(started)) => prompt_text(&started.prompt),
        _ => String::new(),
    }
}

fn text(run: &Listed, width: usize) -> String {
    let paint = Paint::stdout();
    let summary = &run.summary;
    let mut facts = vec![
        utc(summary.started_at),
        count(summary.turns as usize, "turn"),
        count(summary.tool_calls, "tool call"),
    ];
    if summary.total_tokens > 0 {
        facts.push(format!("{} tokens", grouped(summary.total_tokens)));
    }
    let mut out = format!(
        "{}  {}  {}\n",
        paint.name(&summary.run_id),
        painted(summary.status, &paint),
        paint.dim(&facts.join(" · "))
    );
    let room = width.saturating_sub(4).max(20);
    out.push_str(&format!("  {}\n", one_line(&run.prompt, room.min(100))));
    for request in &summary.pending {
        let asked = one_line(&request.prompt, room.saturating_sub(request.id.chars().count() + 3));
        out.push_str(&format!("  {} {asked} {}\n", paint.warn("?"), paint.dim(&one_line(&request.id, 60))));
    }
    out
}

/// The status in its colour.
pub(crate) fn painted(status: RunSummaryStatus, paint: &Paint) -> String {
    let text = status.as_str();
    match status {
        RunSummaryStatus::Done => paint.good(text),
        RunSummaryStatus::Failed => paint.bad(text),
        RunSummaryStatus::Pending | RunSummaryStatus::Incomplete => paint.warn(text),
        RunSummaryStatus::Running => paint.name(text),
    }
}

fn as_json(run: &Listed) -> Value {
    let summary = &run.summary;
    json!({
        "runId": summary.run_id,
        "status": summary.status,
        "prompt": run.prompt,
        "turns": summary.turns,
        "toolCalls": summary.tool_calls,
        "totalTokens": summary.total_tokens,
        "startedAt": rfc3339(summary.started_at),
        "updatedAt": rfc3339(summary.updated_at),
        "pending": summary.pending,
    })
}
