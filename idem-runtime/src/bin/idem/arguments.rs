//! The command line.

use std::time::Duration;

use clap::builder::NonEmptyStringValueParser;
use clap::{Args, Parser, Subcommand, ValueEnum};
use idem_runtime::operations::{OperationId, OperationState, Seen};
use idem_runtime::outbox::{MessageId, MessageState};
use idem_runtime::scope::ScopeKey;
use serde_json::Value;

use crate::time;

/// Shows the operations of a database that are not resolved and the messages of its outbox, and records decisions about
/// them.
///
/// Looking changes nothing. A decision is recorded with who made it and why; the application's recovery worker then goes on with
/// the operation, and nothing is run here.
///
/// Data goes to standard output, messages to standard error. Exit codes: 0 done, 1 failed, 2 asked for wrongly.
#[derive(Debug, Parser)]
#[command(name = "idem", version)]
pub(crate) struct Arguments {
    /// The database: `postgres://…`, `mysql://…` or `sqlite:FILE`. Never printed.
    #[arg(
        long,
        global = true,
        env = "DATABASE_URL",
        hide_env_values = true,
        value_name = "URL"
    )]
    pub(crate) database_url: Option<String>,
    /// Prints JSON. Times are milliseconds since 1970, by the database's clock.
    #[arg(long, global = true)]
    pub(crate) json: bool,
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Lists operations that are not completed, the oldest first.
    List(List),
    /// Shows one operation: its steps, the keys that other services were given, and what operators decided.
    Show {
        /// As `list` prints it.
        #[arg(value_name = "ID")]
        id: OperationId,
    },
    /// Says what became of the step whose outcome is unknown; the operation goes on from there.
    Resolve(Resolve),
    /// Lets the operation go on from what is recorded, once what its reason says is corrected.
    Resume {
        /// As `show` prints it: a decision holds for what was seen, and for nothing later.
        #[arg(value_name = "SEEN")]
        seen: Seen,
        #[command(flatten)]
        signed: Signed,
    },
    /// Shows messages of the outbox, and handles those that could not be published.
    #[command(subcommand)]
    Outbox(Outbox),
    /// Deletes the completed records of one owner: a retry that comes later runs its handler again.
    Erase {
        /// As it is stored: `s5:alice` is the text `alice` of 5 bytes, `i42` the number 42.
        #[arg(value_name = "SCOPE")]
        scope: ScopeKey,
    },
    /// Deletes records whose retention is over, once.
    Sweep,
    /// Prints the tables of the URL's database as SQL. Connects to nothing.
    Schema,
}

#[derive(Debug, Args)]
pub(crate) struct List {
    /// Only those of this operation, by its name.
    #[arg(long, value_name = "NAME")]
    pub(crate) operation: Option<String>,
    /// Only those of this owner, as it is stored.
    #[arg(long)]
    pub(crate) scope: Option<ScopeKey>,
    /// Only those in this state.
    #[arg(long)]
    pub(crate) state: Option<State>,
    /// Only those that began so long ago, or longer: `90s`, `10m`, `48h`, `7d`.
    #[arg(long, value_name = "AGE", value_parser = time::duration, default_value = "0s")]
    pub(crate) older_than: Duration,
    /// At most so many.
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) limit: u32,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum State {
    /// An attempt has it, or the recovery worker will.
    Started,
    /// Nothing happens until somebody resolves it.
    Unknown,
}

impl From<State> for OperationState {
    fn from(state: State) -> Self {
        match state {
            State::Started => Self::Started,
            State::Unknown => Self::Unknown,
        }
    }
}

#[derive(Debug, Subcommand)]
pub(crate) enum Outbox {
    /// Lists messages, in the order of their staging.
    List(Messages),
    /// Shows one message: its payload, its headers, and what operators did with it.
    Show {
        /// As `outbox list` prints it.
        #[arg(value_name = "ID")]
        id: MessageId,
    },
    /// Has a message published at once: a dead letter, one that failed, or a delayed one.
    Requeue {
        /// As `outbox list` prints it.
        #[arg(value_name = "ID")]
        id: MessageId,
        #[command(flatten)]
        signed: Signed,
    },
    /// Deletes a message that is not delivered.
    Drop {
        /// As `outbox list` prints it.
        #[arg(value_name = "ID")]
        id: MessageId,
        #[command(flatten)]
        signed: Signed,
    },
}

#[derive(Debug, Args)]
pub(crate) struct Messages {
    /// Only those in this state.
    #[arg(long)]
    pub(crate) state: Option<Standing>,
    /// Only those of this topic.
    #[arg(long)]
    pub(crate) topic: Option<String>,
    /// Only those of this ordering key.
    #[arg(long)]
    pub(crate) key: Option<String>,
    /// At most so many.
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) limit: u32,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum Standing {
    /// A relay publishes it as soon as it comes to it.
    Pending,
    /// It waits for its time.
    Delayed,
    /// It is tried again; messages of its key wait for it.
    Failed,
    /// It is published, and kept.
    Delivered,
    /// It is not tried again, until somebody requeues it.
    Dead,
}

impl From<Standing> for MessageState {
    fn from(standing: Standing) -> Self {
        match standing {
            Standing::Pending => Self::Pending,
            Standing::Delayed => Self::Delayed,
            Standing::Failed => Self::Failed,
            Standing::Delivered => Self::Delivered,
            Standing::Dead => Self::Dead,
        }
    }
}

#[derive(Debug, Args)]
pub(crate) struct Resolve {
    /// As `show` prints it: a decision holds for what was seen, and for nothing later.
    #[arg(value_name = "SEEN")]
    pub(crate) seen: Seen,
    #[command(flatten)]
    pub(crate) outcome: Outcome,
    #[command(flatten)]
    pub(crate) signed: Signed,
}

#[derive(Debug, Args)]
#[group(required = true, multiple = false)]
pub(crate) struct Outcome {
    /// It took place, with this result, as the handler's step stores it.
    #[arg(long, value_name = "JSON", value_parser = json, allow_hyphen_values = true)]
    pub(crate) done: Option<Value>,
    /// It did not take place, and the handler is told this refusal, as its step stores it.
    #[arg(long, value_name = "JSON", value_parser = json, allow_hyphen_values = true)]
    pub(crate) refused: Option<Value>,
}

/// For the audit.
#[derive(Debug, Args)]
pub(crate) struct Signed {
    /// Who decides.
    #[arg(long, value_name = "NAME", value_parser = NonEmptyStringValueParser::new())]
    pub(crate) by: String,
    /// Why.
    #[arg(long, value_name = "TEXT", value_parser = NonEmptyStringValueParser::new())]
    pub(crate) why: String,
}

fn json(text: &str) -> Result<Value, String> {
    serde_json::from_str(text).map_err(|error| {
        format!("it is not JSON ({error}); a text needs quotes of its own: '\"ch_17\"'")
    })
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Arguments::command().debug_assert();
    }

    #[test]
    fn a_decision_is_one_of_two() {
        let seen = format!("{}@1-00000001", "ab".repeat(32));
        let signed = ["--by", "alice", "--why", "ticket 1"];
        let parse = |outcome: &[&str]| {
            let line = ["idem", "resolve", &seen].into_iter();
            Arguments::try_parse_from(line.chain(outcome.iter().copied()).chain(signed))
        };
        assert!(parse(&["--done", "{}"]).is_ok());
        assert!(parse(&["--refused", "null"]).is_ok());
        assert!(parse(&[]).is_err());
        assert!(parse(&["--done", "{}", "--refused", "{}"]).is_err());
        assert!(parse(&["--done", "ch_17"]).is_err(), "no JSON");
    }
}
