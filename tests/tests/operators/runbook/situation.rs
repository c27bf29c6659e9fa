//! The situations that the page is about.

use std::time::Duration;

use idem_runtime::operations::Decision;
use idem_runtime::steps::Recovered;
use serde_json::json;

use crate::handler::{Tested, Version};
use crate::plan::{Answer, End, Plan, Policy, Reserve};
use crate::setup::World;

/// How an operation came to be unknown.
#[derive(Clone, Copy, Debug)]
pub(super) enum Situation {
    LostAnswer,
    ForgottenKey,
    CannotTell,
    OtherStep,
    FewerSteps,
    StepGoesThrough,
    OtherInput,
    OtherDefinition,
    BrokenArguments,
    OtherArguments,
    BrokenSteps,
    WrongByHand,
    Unstorable,
    UnstorableRefusal,
    EndedTransaction,
    OwnConnection,
    TooManyAttempts,
    DeadAttempts,
    LateEffect,
}

impl Situation {
    pub(super) fn of(title: &str) -> &'static [Self] {
        match title {
            "A lost answer that nobody can be asked about" => &[Self::LostAnswer],
            "A key that its service may have forgotten" => &[Self::ForgottenKey],
            "The service can't tell" => &[Self::CannotTell],
            "The handler takes other steps than it did" => {
                &[Self::OtherStep, Self::FewerSteps, Self::StepGoesThrough]
            }
            "Another input, or another version" => &[Self::OtherInput, Self::OtherDefinition],
            "What is stored can't be read" => &[
                Self::BrokenArguments,
                Self::OtherArguments,
                Self::BrokenSteps,
            ],
            "A result that was given by hand" => &[Self::WrongByHand],
            "Its result can't be stored" => &[Self::Unstorable, Self::UnstorableRefusal],
            "A step ended its transaction" => &[Self::EndedTransaction],
            "A connection of its own" => &[Self::OwnConnection],
            "Too many attempts" => &[Self::TooManyAttempts, Self::DeadAttempts],
            "A late effect" => &[Self::LateEffect],
            other => panic!("no situation for the section {other}"),
        }
    }

    fn plan(self) -> Plan {
        let plan = Plan {
            timeout: Duration::from_secs(1),
            ..Plan::default()
        };
        let answering = |answer| Plan { answer, ..plan };
        match self {
            Self::LostAnswer | Self::WrongByHand => answering(Answer::Lost),
            Self::ForgottenKey => Plan {
                policy: Policy::Honoured(Duration::from_millis(1)),
                ..answering(Answer::Lost)
            },
            Self::CannotTell => Plan {
                policy: Policy::Asked,
                ..answering(Answer::Lost)
            },
            Self::Unstorable => answering(Answer::Unstorable),
            Self::UnstorableRefusal => answering(Answer::UnstorableRefusal),
            Self::LateEffect => answering(Answer::TakenOver),
            Self::OwnConnection => answering(Answer::BesideThePool),
            Self::EndedTransaction => Plan {
                reserve: Reserve::EndsItsTransaction,
                ..plan
            },
            Self::StepGoesThrough => Plan {
                reserve: Reserve::Fails,
                end: End::Panics,
                ..plan
            },
            // Recorded, and not ended.
            _ => Plan {
                end: End::Panics,
                ..plan
            },
        }
    }

    /// Makes it.
    pub(super) async fn make<DB: Tested>(self) -> World<DB> {
        let world = World::<DB>::new(self.plan()).await;
        world.charge("alice").await;
        let recovers = match self {
            Self::OtherStep => {
                world.plan(|plan| plan.first = "book");
                Some(Version::First)
            }
            Self::FewerSteps => {
                world.plan(|plan| plan.end = End::Early);
                Some(Version::First)
            }
            Self::StepGoesThrough => {
                world.plan(|plan| plan.reserve = Reserve::Works);
                Some(Version::First)
            }
            Self::OtherInput => {
                world.plan(|plan| plan.more = 1);
                Some(Version::First)
            }
            Self::OtherDefinition => Some(Version::Second),
            Self::OtherArguments => Some(Version::OtherArguments),
            Self::TooManyAttempts => Some(Version::First),
            Self::BrokenArguments => {
                self.damage(&world, "inputs").await;
                Some(Version::First)
            }
            Self::BrokenSteps => {
                self.damage(&world, "journal").await;
                Some(Version::First)
            }
            Self::DeadAttempts => {
                let died = "UPDATE idem_operations SET tries = 2";
                world.database.execute(died).await.unwrap();
                Some(Version::First)
            }
            Self::WrongByHand => {
                let seen = world.only().await.seen;
                let operations = world.app.idempotency.operations();
                let wrong = Decision::Done(json!("ch_17"));
                operations
                    .resolve(seen, wrong, "bob", "a slip")
                    .await
                    .unwrap();
                Some(Version::First)
            }
            _ => None,
        };
        if let Some(version) = recovers {
            assert_eq!(world.recover(version).await, Recovered::Unknown, "{self:?}");
        }
        world
    }

    /// What is stored, damaged; its backup is a table.
    async fn damage<DB: Tested>(self, world: &World<DB>, column: &str) {
        let broken = DB::bytes("7b");
        for sql in [
            "CREATE TABLE backup AS SELECT inputs, journal FROM idem_operations".to_owned(),
            format!("UPDATE idem_operations SET {column} = {broken}"),
        ] {
            world.database.execute(&sql).await.unwrap();
        }
    }

    /// What the section tells to do before the decision.
    pub(super) async fn correct<DB: Tested>(self, world: &World<DB>) {
        match self {
            Self::BrokenArguments | Self::BrokenSteps => {
                let restore = "UPDATE idem_operations SET inputs = (SELECT inputs FROM backup), \
                               journal = (SELECT journal FROM backup)";
                world.database.execute(restore).await.unwrap();
            }
            Self::EndedTransaction => {
                world.database.execute("DELETE FROM effects").await.unwrap();
            }
            _ => {}
        }
        world.plan(|plan| {
            plan.first = "reserve";
            plan.more = 0;
            plan.end = End::Answers;
            plan.answer = Answer::Charged;
            if !matches!(self, Self::StepGoesThrough) {
                plan.reserve = Reserve::Works;
            } else {
                plan.reserve = Reserve::Fails;
            }
            if matches!(self, Self::CannotTell) {
                plan.policy = Policy::Honoured(Duration::from_secs(3600));
            }
        });
    }
}
