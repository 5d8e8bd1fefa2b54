//! Schedules: boundaries in time that enqueue ordinary jobs.

/// A registered schedule.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Schedule {
    /// Its name.
    pub name: String,
    /// `@every <n><s|m|h|d>`.
    pub spec: String,
    /// The queue that it enqueues on.
    pub queue: String,
    /// Options of each job.
    pub opts: ScheduleOpts,
}

/// Options of the jobs that a schedule enqueues, as in [`EnqueueOpts`](crate::EnqueueOpts).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ScheduleOpts {
    /// Higher is claimed first. Default 0.
    pub priority: i64,
    /// Claims after which a job is dead-lettered; 3 if `None`.
    pub max_attempts: Option<i64>,
    /// Seconds from the fire after which a job is not handed out any more.
    pub expires: Option<i64>,
}
