//! `toolnexus runs fork` and `toolnexus runs remove`.

use std::sync::Arc;

use toolnexus::client::run_log::{RunLog, check_run_id};
use toolnexus::{ClientError, ClientOptions, create_client};

use super::args::{ForkArgs, RemoveArgs};
use super::directory::{Directory, Recorded, Stored};
use super::failure::of_durable_error;
use crate::exit::{Exit, Failure};
use crate::render::count;
use crate::screen::{Paint, Screen};

/// Begins another run with the first events of one.
pub(crate) async fn fork(args: &ForkArgs, screen: &Screen) -> Result<Exit, Failure> {
    let stored = Stored::read(args.place.flag(), &args.run_id).await?;
    let directory = &stored.recorded.directory;
    check_run_id(&args.new_id).map_err(|error| directory.failure(&error))?;
    let events = stored.events.len();
    if args.at > events as u64 {
        return Err(Failure::usage(format!(
            "--at {} is behind the end of the run \"{}\", which has {}: take at most {events}",
            args.at,
            args.run_id,
            count(events, "event")
        )));
    }
    let log: Arc<dyn RunLog> = Arc::new(stored.log.clone());
    let client = create_client(ClientOptions::default());
    client.fork(&log, &args.run_id, args.at, &args.new_id).await.map_err(|error| match error {
        ClientError::Durable(error) => of_durable_error(&error, &directory.flag()),
        ClientError::RunLog(error) => directory.failure(&error),
        other => Failure::new(Exit::Failed, other.to_string()),
    })?;
    let copied = count(usize::try_from(args.at).unwrap_or(usize::MAX), "event");
    let forked = Recorded::new(directory.clone(), args.new_id.clone());
    screen.answer(&format!(
        "{} begins with the first {copied} of {}\n{}\n",
        Paint::stdout().name(&args.new_id),
        args.run_id,
        forked.how_to_go_on()
    ))?;
    Ok(Exit::Done)
}

/// Deletes a run.
pub(crate) async fn remove(args: &RemoveArgs, screen: &Screen) -> Result<Exit, Failure> {
    let directory = Directory::require(args.place.flag())?;
    let log = directory.open()?;
    log.remove(&args.run_id).await.map_err(|error| directory.failure(&error))?;
    screen.answer(&format!("removed {}\n", args.run_id))?;
    Ok(Exit::Done)
}
