//! A handler whose arguments, inputs, results and answer all hold one word.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::extract::{FromRef, Json, Path, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use idem_runtime::steps::{CallFailure, Classify, DownstreamKey, Recovery};
use idem_runtime::{
    AssertEffectFree, Backend, Disposition, External, Idempotency, Steps, Tx, idempotent,
};
use idem_tests::dump::dump;
use idem_tests::servers::TestDatabase;
use serde::{Deserialize, Serialize};

use super::cipher::Cipher;

/// Text that is stored.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Note {
    pub(crate) text: String,
}

/// What the bank and the last step do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Plan {
    #[default]
    Works,
    /// The bank's answers are lost.
    Loses,
    /// The bank refuses.
    Refuses,
    /// The last step fails for the moment.
    FailsAtLast,
    /// The cipher refuses from the call on.
    ClosesTheVault,
}

/// The bank, from which the database is seen at the moment of the call.
#[derive(Clone)]
pub(crate) struct Bank {
    pub(crate) plan: Arc<Mutex<Plan>>,
    pub(crate) calls: Arc<Mutex<Vec<Vec<String>>>>,
    pub(crate) database: Arc<TestDatabase>,
    pub(crate) cipher: Cipher,
}

impl Bank {
    pub(crate) fn plan(&self) -> Plan {
        *self.plan.lock().expect("no holder panics")
    }

    async fn charge(&self, _: &DownstreamKey, note: &Note) -> Result<Note, NoCharge> {
        let seen = dump(&self.database).await;
        self.calls.lock().expect("no holder panics").push(seen);
        match self.plan() {
            Plan::Loses => Err(NoCharge::Lost),
            Plan::Refuses => Err(NoCharge::Refused(note.clone())),
            Plan::ClosesTheVault => {
                self.cipher.refuse(true);
                Ok(note.clone())
            }
            Plan::Works | Plan::FailsAtLast => Ok(note.clone()),
        }
    }
}

pub(crate) enum NoCharge {
    Lost,
    Refused(Note),
}

impl Classify for NoCharge {
    type Refusal = Note;

    fn classify(self) -> CallFailure<Note> {
        match self {
            Self::Lost => CallFailure::Unknown("the answer is lost".to_owned()),
            Self::Refused(note) => CallFailure::Refused(note),
        }
    }
}

#[derive(Debug, Disposition)]
pub(crate) enum Failed {
    #[disposition(rejection)]
    Refused(Note),
    #[disposition(transient)]
    Passing,
    #[disposition(source)]
    Database(sqlx::Error),
}

impl From<Note> for Failed {
    fn from(note: Note) -> Self {
        Self::Refused(note)
    }
}

impl From<sqlx::Error> for Failed {
    fn from(error: sqlx::Error) -> Self {
        Self::Database(error)
    }
}

impl IntoResponse for Failed {
    fn into_response(self) -> Response {
        match self {
            Self::Refused(note) => (StatusCode::PAYMENT_REQUIRED, Json(note)).into_response(),
            Self::Passing | Self::Database(_) => StatusCode::SERVICE_UNAVAILABLE.into_response(),
        }
    }
}

pub(crate) struct App<DB: Backend> {
    pub(crate) idempotency: Idempotency<DB>,
    pub(crate) bank: Bank,
}

impl<DB: Backend> Clone for App<DB> {
    fn clone(&self) -> Self {
        Self {
            idempotency: self.idempotency.clone(),
            bank: self.bank.clone(),
        }
    }
}

impl<DB: Backend> FromRef<App<DB>> for Idempotency<DB> {
    fn from_ref(app: &App<DB>) -> Self {
        app.idempotency.clone()
    }
}

impl<DB: Backend> FromRef<App<DB>> for External<Bank> {
    fn from_ref(app: &App<DB>) -> Self {
        External::new(app.bank.clone())
    }
}

impl<DB: Backend> FromRef<App<DB>> for AssertEffectFree<Bank> {
    fn from_ref(app: &App<DB>) -> Self {
        AssertEffectFree::new(app.bank.clone(), "its plan is read, in memory")
    }
}

pub(crate) trait Tested: Backend {
    /// `POST /notes/{account}`.
    fn router(app: App<Self>) -> Router;
    fn recovery(app: &App<Self>) -> Recovery<Self, App<Self>>;
}

macro_rules! tested {
    ($module:ident, $db:ty) => {
        mod $module {
            use super::*;

            #[idempotent(scope = "account", operation = "notes.charge")]
            async fn charge(
                steps: &mut Steps<$db, Failed>,
                Path(account): Path<String>,
                State(bank): State<External<Bank>>,
                State(plan): State<AssertEffectFree<Bank>>,
                Json(note): Json<Note>,
            ) -> Result<Json<Vec<Note>>, Failed> {
                let of = |what: &str| Note {
                    text: format!("{} {what} {account}", note.text),
                };
                let reserved = steps
                    .atomic("reserve", async |_: &mut Tx<$db>| Ok(of("reserved")))
                    .await?;
                let charged = steps
                    .external("charge", &bank, of("sent"))
                    .key_lifetime(Duration::from_secs(24 * 3600))
                    .call(Bank::charge)
                    .await?;
                let settled = steps
                    .atomic("settle", async |_: &mut Tx<$db>| {
                        if plan.plan() == Plan::FailsAtLast {
                            return Err(Failed::Passing);
                        }
                        Ok(of("settled"))
                    })
                    .await?;
                Ok(Json(vec![reserved, charged, settled]))
            }

            impl Tested for $db {
                fn router(app: App<Self>) -> Router {
                    Router::new()
                        .route("/notes/{account}", post(charge))
                        .with_state(app)
                }

                fn recovery(app: &App<Self>) -> Recovery<Self, App<Self>> {
                    app.idempotency.recovery(app.clone()).register(charge)
                }
            }
        }
    };
}

tested!(on_postgres, sqlx::Postgres);
tested!(on_sqlite, sqlx::Sqlite);
tested!(on_mysql, sqlx::MySql);
