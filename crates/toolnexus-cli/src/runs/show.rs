//! `toolnexus runs show`.

use toolnexus::client::run_log::RunSummaryStatus;

use super::args::ShowArgs;
use super::directory::Stored;
use super::list::painted;
use super::transcript::Transcript;
use crate::exit::{Exit, Failure};
use crate::render::{arguments, asked_by, count, grouped, one_line, plain, utc};
use crate::screen::{Paint, Screen};

/// Carries the command out.
pub(crate) async fn show(args: &ShowArgs, screen: &Screen) -> Result<Exit, Failure> {
    let stored = Stored::read(args.place.flag(), &args.run_id).await?;
    if args.json {
        for event in &stored.events {
            let line = serde_json::to_string(event).map_err(|error| {
                Failure::new(Exit::Failed, format!("an event cannot be written: {error}"))
            })?;
            screen.answer(&format!("{line}\n"))?;
        }
        return Ok(Exit::Done);
    }
    screen.answer(&text(&stored, screen.listing_width()).await?)?;
    Ok(Exit::Done)
}

async fn text(stored: &Stored, width: usize) -> Result<String, Failure> {
    let Stored { log, recorded, events, run } = stored;
    let paint = Paint::stdout();
    let summary = log.summary(&recorded.run_id).await.map_err(|error| recorded.directory.failure(&error))?;
    let mut facts = vec![
        format!("{} ({})", plain(run.model()), run.style()),
        count(summary.turns as usize, "turn"),
        count(summary.tool_calls, "tool call"),
    ];
    if summary.total_tokens > 0 {
        facts.push(format!("{} tokens", grouped(summary.total_tokens)));
    }
    let mut out = format!(
        "{}  {}\n{}\n{}\n\n{}",
        paint.name(&recorded.run_id),
        painted(summary.status, &paint),
        paint.dim(&facts.join(" · ")),
        paint.dim(&format!("began {}, went on until {}", utc(summary.started_at), utc(summary.updated_at))),
        Transcript::of(events, width)
    );
    let open = run.open_requests();
    let in_doubt = run.running_calls();
    if !open.is_empty() || !in_doubt.is_empty() {
        out.push('\n');
    }
    for open in &open {
        out.push_str(&format!("{} {}\n", paint.warn("open:"), asked_by(open.request)));
    }
    for planned in &in_doubt {
        let call = format!("{}({})", planned.call.name, arguments(planned.args));
        let call = one_line(&call, width.saturating_sub(12).clamp(20, 400));
        out.push_str(&format!(
            "{} {call}\n  it was started and has no result: it runs now, or its process ended\n",
            paint.warn("in doubt:")
        ));
    }
    let next = match summary.status {
        RunSummaryStatus::Done | RunSummaryStatus::Incomplete => return Ok(out),
        _ if !open.is_empty() => recorded.how_to_answer(open.len()),
        _ => recorded.how_to_go_on(),
    };
    out.push_str(&format!("\n{}\n", paint.dim(&next)));
    Ok(out)
}
