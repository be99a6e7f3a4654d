//! What every store must do. Each test runs on each store; the suite, not the trait, is the contract.

mod deciding;
mod keeping;
mod listing;
mod opening;
mod results;
mod settling;
mod timing;

use std::collections::BTreeMap;

use abeyance::store::Query;

use crate::store_fixture::{Env, namespace};

/// Runs each of these tests on each store.
macro_rules! conformance {
    ($($part:ident: $($test:ident),* $(,)?;)*) => {
        mod memory {
            $($(#[tokio::test] async fn $test() { super::$part::$test(super::Env::memory()).await })*)*
        }
        mod sqlite {
            $($(#[tokio::test] async fn $test() { super::$part::$test(super::Env::sqlite()).await })*)*
        }
    };
}

conformance! {
    opening:
        a_new_wait_is_kept_as_it_was_given,
        lengths_are_cut_to_microseconds,
        a_key_gives_the_wait_that_has_it,
        a_key_belongs_to_one_name_and_question_of_one_namespace,
        a_request_id_gives_the_wait_that_has_it_where_there_is_no_key,
        the_same_id_again_is_the_repeat_of_an_open,
        one_of_many_opens_of_a_key_creates,
    ;
    settling:
        every_ending_is_kept_as_it_was_given,
        a_repeat_is_told_so_and_changes_nothing,
        what_is_refused_changes_nothing,
        a_wait_that_is_not_there_is_none,
        a_question_can_come_later,
        the_first_ask_counts,
        the_listener_hears_each_commit_in_order,
        a_dropped_call_is_done_all_the_same,
    ;
    timing:
        whoever_meets_an_overdue_wait_settles_it_first,
        expire_is_harmless_when_early,
        a_lost_heartbeat_expires_the_wait,
        a_heartbeat_pushes_the_timeout_back,
        after_a_restart_everybody_has_one_full_heartbeat_period,
        time_never_runs_backwards_within_a_wait,
        due_waits_come_earliest_first,
    ;
    listing:
        what_was_committed_is_read_at_once,
        a_list_goes_from_new_to_old_page_by_page,
        a_list_shows_what_is_asked_for,
        a_list_looks_at_a_bounded_number_of_rows,
        a_page_is_bounded_in_bytes,
    ;
    deciding:
        decisions_are_kept_as_they_were_given,
        decisions_are_kept_however_the_wait_ends,
        questions_are_kept_as_they_were_asked,
        a_question_set_later_is_decided_like_any,
        a_purge_leaves_no_decision_behind,
    ;
    results:
        decisions_in_a_message_are_kept_as_they_were_given,
        every_answer_that_is_taken_is_kept,
    ;
    keeping:
        a_purge_takes_what_was_settled_long_enough_ago,
        a_purged_key_leaves_a_tombstone_and_a_request_id_none,
        everything_is_there_after_a_restart,
        a_closed_store_says_so,
    ;
}

/// Everything in the default namespace.
fn every(limit: usize) -> Query {
    Query {
        namespace: namespace(""),
        states: vec![],
        name: None,
        labels: BTreeMap::new(),
        created_until: None,
        created_from: None,
        before: None,
        limit,
    }
}
