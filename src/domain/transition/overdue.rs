//! Expiry and heartbeat loss. A wait is over when the clock says so, whether or not a timer fired.

use super::{Decision, Moment, Verdict, settle};
use crate::domain::{
    outcome::{Ending, ExpiryCause, Outcome},
    time::{self, Timestamp},
    wait::Record,
};

/// The outcome of a pending wait whose time is up.
pub(super) fn check(record: &Record, moment: Moment) -> Option<Outcome> {
    let now = moment.now;
    let heartbeat = granted_until(record, moment).filter(|until| *until <= now);
    // If both clocks ran out, the one that ran out first is the cause.
    let (cause, reason) = match heartbeat {
        Some(until) if until < record.expire_time => (
            ExpiryCause::Heartbeat,
            format!(
                "No heartbeat arrived within {}.",
                time::text(record.heartbeat_timeout.unwrap_or_default())
            ),
        ),
        _ if record.expire_time <= now => (
            ExpiryCause::Timeout,
            format!(
                "No resolution arrived within {}.",
                time::text(record.timeout)
            ),
        ),
        _ => return None,
    };
    Some(Outcome {
        settle_time: now,
        decided: settle::denied(record, &reason),
        ending: Ending::Expired { cause, reason },
        request_id: None,
    })
}

/// Somebody looked too early. If that was because the record's heartbeat ran out while the broker was down, the grace is
/// written into it, so that the store's index does not bring it up again and again.
pub(super) fn not_yet(record: &Record, moment: Moment) -> Decision {
    if record.due_time() > moment.now {
        return Decision::ok(Verdict::Nothing);
    }
    let mut rearmed = record.clone();
    rearmed.heartbeat_time = record.heartbeat_time.map(|t| t.max(moment.ready));
    Decision::update(rearmed)
}

/// When the heartbeat really runs out: a full period from when the broker was ready, if that is later than the record says.
fn granted_until(record: &Record, moment: Moment) -> Option<Timestamp> {
    let last = record.heartbeat_time?.max(moment.ready);
    Some(last.after(record.heartbeat_timeout?))
}
