//! Faults planted in the runtime, each with the cases of this contract that it turns red. Those that
//! take a crash or an outage to be seen are in `crash.rs` and `outage.rs`.

use idem_tests::application::Fixture;
use idem_tests::planted::assert_turns_red;
use idem_tests::servers::Backend;

use super::{answers, expiry, failures, fingerprint, key, order, processes, stored};

/// A case that is given a probe.
macro_rules! alone {
    ($case:path) => {
        async |backend: Backend| $case(&Fixture::start(backend, &[]).await).await
    };
}

/// A case that starts its own probes.
macro_rules! together {
    ($case:path) => {
        async |backend: Backend| $case(backend).await
    };
}

macro_rules! planted {
    ($($name:ident: $plant:literal, $kind:ident $module:ident $case:ident
        on [$($backend_module:ident = $backend:ident),*];)*) => {
        $(
            mod $name {
                $(
                    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                    async fn $backend_module() {
                        use super::*;
                        let case = $kind!($module::$case);
                        let name = concat!(stringify!($module), "::", stringify!($case));
                        assert_turns_red($plant, name, async || case(Backend::$backend).await).await;
                    }
                )*
            }
        )*
    };
    ($($name:ident: $plant:literal, $kind:ident $module:ident $case:ident;)*) => {
        planted! {
            $($name: $plant, $kind $module $case
                on [postgres = Postgres, sqlite = Sqlite, mysql = MySql];)*
        }
    };
}

planted! {
    no_claim: "NoClaim", together processes a_duplicate_in_another_process_waits_for_the_answer;
    expired_not_atomic: "ExpiredNotAtomic",
        together processes an_expired_key_is_taken_over_by_one_of_two_processes;
    no_fingerprint: "NoFingerprint", alone answers another_request_with_a_completed_key_is_refused;
    no_fingerprint_in_flight: "NoFingerprint",
        alone answers another_request_with_a_key_in_flight_is_refused;
    no_path: "NoPath", alone fingerprint the_path_counts;
    no_scope: "NoScope", alone key two_callers_with_one_key_never_meet;
    no_ttl: "NoTtl", alone expiry an_expired_key_of_another_request_is_as_new;
    no_ttl_and_a_tombstone: "NoTtl", alone expiry a_tombstone_refuses_an_expired_key;
    dropped_with_client: "DroppedWithClient", alone stored a_client_that_disconnects_cancels_nothing;
    replay_unauthenticated: "ReplayUnauthenticated",
        alone order who_may_not_call_now_may_not_see_a_stored_answer;
}

planted! {
    commit_swallowed: "CommitSwallowed", alone failures a_constraint_that_fails_at_commit_has_no_effect
        on [postgres = Postgres, postgres_fewest = PostgresFewest, sqlite = Sqlite];
    // Elsewhere it takes a crash.
    answer_before: "AnswerBefore", alone answers a_first_use_is_the_handlers_answer_in_one_commit
        on [sqlite = Sqlite];
}
