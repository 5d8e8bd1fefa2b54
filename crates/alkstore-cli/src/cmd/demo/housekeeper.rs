//! The housekeeping process: leads the schedules, and works on the job that one fires each second.

use std::time::Duration;

use alkstore::{Error, QueueOpts, Result, ScheduleOpts, StopToken, Store};
use serde_json::json;

use crate::business::{self, params};

use super::order::Pipeline;

/// One schedule for all runs: a run that was cut off leaves no more than this one behind, and
/// the next run takes it over.
const SCHEDULE: &str = "demo-housekeeping";

/// Registers the schedule, then fires and works until told to stop.
pub(super) async fn run(store: &dyn Store, pipeline: &Pipeline, stop: &StopToken) -> Result<()> {
    store.unschedule(SCHEDULE).await?;
    let opts = ScheduleOpts { expires: Some(60), ..Default::default() };
    let queue = &pipeline.housekeeping;
    store.schedule(SCHEDULE, "@every 1s", queue, json!({"sweep": &pipeline.emails}), opts).await?;
    tokio::try_join!(lead(store, stop), work(store, pipeline, stop)).map(drop)
}

/// Removes the schedule; what it has fired stays.
pub(super) async fn unschedule(store: &dyn Store) -> anyhow::Result<()> {
    store.unschedule(SCHEDULE).await?;
    Ok(())
}

/// Leads the schedules of the whole store, or stands by while another process does.
async fn lead(store: &dyn Store, stop: &StopToken) -> Result<()> {
    while !stop.is_cancelled() {
        match store.run_schedules(stop.clone()).await {
            Err(Error::LeadershipLost) => {
                tokio::select! {
                    () = tokio::time::sleep(Duration::from_secs(1)) => {}
                    () = stop.cancelled() => {}
                }
            }
            outcome => outcome?,
        }
    }
    Ok(())
}

async fn work(store: &dyn Store, pipeline: &Pipeline, stop: &StopToken) -> Result<()> {
    let fires = store.queue(&pipeline.housekeeping, QueueOpts::default()).await?;
    let emails = store.queue(&pipeline.emails, QueueOpts::default()).await?;
    while !stop.is_cancelled() {
        let Some(job) = fires.claim_one("housekeeper").await? else {
            tokio::select! {
                ready = fires.wait_ready(Duration::from_secs(60)) => { ready?; }
                () = stop.cancelled() => {}
            }
            continue;
        };
        let swept = emails.sweep_expired().await?;
        let mut tx = store.begin_tx().await?;
        business::execute(
            &mut *tx,
            "INSERT INTO demo_report (run, job, swept, emails)
             SELECT $1, $2, $3, count(*) FROM demo_email WHERE run = $1
             ON CONFLICT (run, job) DO NOTHING",
            params![pipeline.run, job.job().id, swept],
        )
        .await?;
        tx.commit().await?;
        job.ack().await?;
    }
    Ok(())
}
