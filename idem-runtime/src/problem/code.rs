//! The table of answers: a row each code.

use std::{fmt, time::Duration};

use http::StatusCode;

/// What went wrong, as the stable, machine-readable `code` of the answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Code {
    /// No `Idempotency-Key`.
    KeyMissing,
    /// An `Idempotency-Key` that is not one valid key.
    KeyInvalid,
    /// An owner of the key that can't be stored: too long, or with a NUL in it.
    ScopeInvalid,
    /// The account's writes go to another region.
    WrongRegion,
    /// It is not known, or not settled, which region the account's writes go to.
    RegionUnavailable,
    /// A body over `max_body`.
    RequestTooLarge,
    /// A body that broke off, or that the connection's protocol refused.
    BodyUnreadable,
    /// The key came with another request before.
    KeyReused,
    /// The key's first request is still being processed.
    KeyInProgress,
    /// Too many requests in flight or waiting, or the server drains.
    Overloaded,
    /// It is not known whether the key's operation took place.
    OutcomeUnknown,
    /// The key is past its `ttl`, and `expired = "reject"`.
    KeyExpired,
    /// The database is out of reach, or its pool is exhausted.
    StoreUnavailable,
    /// A table of the framework's, or a column of one, is missing, or they are older than this version needs.
    StoreNotMigrated,
    /// The handler's answer is too large, endless or an event stream; rolled back.
    ResponseNotStorable,
    /// The handler panicked; rolled back.
    HandlerPanicked,
    /// The handler took longer than its `timeout`; rolled back.
    HandlerTimedOut,
    /// The handler ended the framework's transaction itself.
    TransactionEnded,
    /// The handler swallowed an SQL error that had aborted the transaction; rolled back.
    TransactionAborted,
    /// The handler wrote through another connection, which may be durable.
    EffectOutsideTransaction,
    /// Serialization failures or deadlocks in every attempt; rolled back.
    SerializationFailure,
    /// What a step of a `Steps` handler leaves can't be stored, or not be read again.
    StepNotStorable,
}

/// A row of the table of answers.
struct Row {
    code: &'static str,
    status: StatusCode,
    title: &'static str,
    retryable: bool,
    detail: &'static str,
}

impl Code {
    /// Every code, for documentation and tests.
    pub const ALL: [Code; 22] = [
        Code::KeyMissing,
        Code::KeyInvalid,
        Code::ScopeInvalid,
        Code::WrongRegion,
        Code::RegionUnavailable,
        Code::RequestTooLarge,
        Code::BodyUnreadable,
        Code::KeyReused,
        Code::KeyInProgress,
        Code::Overloaded,
        Code::OutcomeUnknown,
        Code::KeyExpired,
        Code::StoreUnavailable,
        Code::StoreNotMigrated,
        Code::ResponseNotStorable,
        Code::HandlerPanicked,
        Code::HandlerTimedOut,
        Code::TransactionEnded,
        Code::TransactionAborted,
        Code::EffectOutsideTransaction,
        Code::SerializationFailure,
        Code::StepNotStorable,
    ];

    /// The answer's `code` member, such as `idempotency-key-missing`.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        self.row().code
    }

    /// The answer's status.
    #[must_use]
    pub const fn status(self) -> StatusCode {
        self.row().status
    }

    /// The answer's `title`: that of draft-ietf-httpapi-idempotency-key-header where it has one.
    #[must_use]
    pub const fn title(self) -> &'static str {
        self.row().title
    }

    /// Whether a program may send the same request with the same key again and expect another
    /// answer. It is always safe to; where this is `false`, it is of no use.
    #[must_use]
    pub const fn retryable(self) -> bool {
        self.row().retryable
    }

    /// The `detail` of an answer that has none of its own: what the client does next.
    #[must_use]
    pub const fn default_detail(self) -> &'static str {
        self.row().detail
    }

    /// How long a client waits that was told nothing else: answers that ask for a retry always
    /// carry `Retry-After`.
    pub(super) const fn default_retry_after(self) -> Option<Duration> {
        match self {
            Code::KeyInProgress
            | Code::RegionUnavailable
            | Code::Overloaded
            | Code::StoreUnavailable
            | Code::HandlerTimedOut
            | Code::SerializationFailure => Some(Duration::from_secs(1)),
            _ => None,
        }
    }

    #[allow(clippy::too_many_lines, reason = "a table")]
    const fn row(self) -> Row {
        match self {
            Code::KeyMissing => Row {
                code: "idempotency-key-missing",
                status: StatusCode::BAD_REQUEST,
                title: "Idempotency-Key is missing",
                retryable: false,
                detail: "This operation needs an Idempotency-Key header field. Send a unique value, \
                         such as a new UUID, and the same value with every retry of the request.",
            },
            Code::KeyInvalid => Row {
                code: "idempotency-key-invalid",
                status: StatusCode::BAD_REQUEST,
                title: "Idempotency-Key is not valid",
                retryable: false,
                detail: "Send one Idempotency-Key header field with 1 to 255 printable ASCII \
                         characters, in quotation marks (RFC 9651).",
            },
            Code::ScopeInvalid => Row {
                code: "idempotency-scope-invalid",
                status: StatusCode::BAD_REQUEST,
                title: "The owner of the Idempotency-Key is not valid",
                retryable: false,
                detail: "What this request says of whose Idempotency-Key it sends is too long, or \
                         holds a NUL character, and the request was not processed.",
            },
            // RFC 9110, section 15.5.20: this server is not one that can answer for the target.
            Code::WrongRegion => Row {
                code: "idempotency-wrong-region",
                status: StatusCode::MISDIRECTED_REQUEST,
                title: "This account is processed in another region",
                retryable: false,
                detail: "The request was not processed here, and would not be later. Send it to the \
                         region that is named, with the same Idempotency-Key.",
            },
            Code::RegionUnavailable => Row {
                code: "idempotency-region-unavailable",
                status: StatusCode::SERVICE_UNAVAILABLE,
                title: "The account's region is not known at the moment",
                retryable: true,
                detail: "The account may be on its way to another region. The request was not \
                         processed. Retry later with the same Idempotency-Key.",
            },
            Code::RequestTooLarge => Row {
                code: "request-too-large",
                status: StatusCode::PAYLOAD_TOO_LARGE,
                title: "The request body is too large",
                retryable: false,
                detail: "The request was not processed. Send a smaller body.",
            },
            Code::BodyUnreadable => Row {
                code: "request-body-unreadable",
                status: StatusCode::BAD_REQUEST,
                title: "The request body could not be read",
                retryable: true,
                detail: "The body did not arrive whole, and the request was not processed. Send it \
                         again with the same Idempotency-Key.",
            },
            Code::KeyReused => Row {
                code: "idempotency-key-reused",
                status: StatusCode::UNPROCESSABLE_ENTITY,
                title: "Idempotency-Key is already used",
                retryable: false,
                detail: "This Idempotency-Key came with a different request before. To retry, send \
                         the first request unchanged; a different operation needs a key of its own.",
            },
            Code::KeyInProgress => Row {
                code: "idempotency-key-in-progress",
                status: StatusCode::CONFLICT,
                title: "A request is outstanding for this Idempotency-Key",
                retryable: true,
                detail: "The first request with this Idempotency-Key is still being processed. \
                         Retry later with the same Idempotency-Key to get its answer.",
            },
            Code::Overloaded => Row {
                code: "idempotency-overloaded",
                status: StatusCode::SERVICE_UNAVAILABLE,
                title: "Too many requests are in progress",
                retryable: true,
                detail: "The request was not processed. Retry later with the same Idempotency-Key.",
            },
            Code::OutcomeUnknown => Row {
                code: "idempotency-outcome-unknown",
                status: StatusCode::CONFLICT,
                title: "The outcome for this Idempotency-Key is unknown",
                retryable: false,
                detail: "It is not known whether this operation took place, and it will not be run \
                         again by itself. Keep the Idempotency-Key, and find out with the operator \
                         of this service; requests with it are answered once that is settled.",
            },
            Code::KeyExpired => Row {
                code: "idempotency-key-expired",
                status: StatusCode::GONE,
                title: "Idempotency-Key has expired",
                retryable: false,
                detail: "This Idempotency-Key was used before, and its answer is no longer kept. \
                         The operation was not run again: look up what the first request did.",
            },
            Code::StoreUnavailable => Row {
                code: "idempotency-store-unavailable",
                status: StatusCode::SERVICE_UNAVAILABLE,
                title: "The idempotency store is unavailable",
                retryable: true,
                detail: "Retry later with the same Idempotency-Key: with it, the operation takes \
                         place at most once, even if an earlier attempt went through unnoticed.",
            },
            Code::StoreNotMigrated => Row {
                code: "idempotency-store-not-migrated",
                status: StatusCode::INTERNAL_SERVER_ERROR,
                title: "The idempotency store is not set up",
                retryable: false,
                detail: "The request was not processed. This is an error of the service; report it \
                         to its operator.",
            },
            Code::ResponseNotStorable => Row {
                code: "response-not-storable",
                status: StatusCode::INTERNAL_SERVER_ERROR,
                title: "The answer could not be stored",
                retryable: false,
                detail: "The operation was undone, because its answer could not be kept for a \
                         retry. This is an error of the service; report it to its operator.",
            },
            Code::HandlerPanicked => Row {
                code: "idempotency-handler-panicked",
                status: StatusCode::INTERNAL_SERVER_ERROR,
                title: "The operation failed",
                retryable: true,
                detail: "The operation failed and was undone. Retry with the same Idempotency-Key.",
            },
            Code::HandlerTimedOut => Row {
                code: "idempotency-handler-timed-out",
                status: StatusCode::SERVICE_UNAVAILABLE,
                title: "The operation took too long",
                retryable: true,
                detail: "The operation took too long and was undone. Retry later with the same \
                         Idempotency-Key.",
            },
            Code::TransactionEnded => Row {
                code: "idempotency-transaction-ended",
                status: StatusCode::INTERNAL_SERVER_ERROR,
                title: "The operation left its transaction",
                retryable: false,
                detail: "This is an error of the service, and the operation may have taken place. \
                         Keep the Idempotency-Key, and find out with the operator of this service.",
            },
            Code::TransactionAborted => Row {
                code: "idempotency-transaction-aborted",
                status: StatusCode::INTERNAL_SERVER_ERROR,
                title: "The operation's transaction was aborted",
                retryable: true,
                detail: "The operation failed and was undone. Retry with the same Idempotency-Key.",
            },
            Code::EffectOutsideTransaction => Row {
                code: "idempotency-effect-outside-transaction",
                status: StatusCode::INTERNAL_SERVER_ERROR,
                title: "The operation wrote outside its transaction",
                retryable: false,
                detail: "This is an error of the service, and a part of the operation may have \
                         taken place. Keep the Idempotency-Key, and find out with the operator of \
                         this service.",
            },
            Code::SerializationFailure => Row {
                code: "idempotency-serialization-failure",
                status: StatusCode::SERVICE_UNAVAILABLE,
                title: "The operation kept conflicting with others",
                retryable: true,
                detail: "Concurrent operations got in the way each time, and everything was \
                         undone. Retry later with the same Idempotency-Key.",
            },
            Code::StepNotStorable => Row {
                code: "idempotency-step-not-storable",
                status: StatusCode::INTERNAL_SERVER_ERROR,
                title: "A step of the operation could not be recorded",
                retryable: false,
                detail: "The operation was undone, because a step of it can't be kept for later \
                         attempts. This is an error of the service; report it to its operator.",
            },
        }
    }
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
