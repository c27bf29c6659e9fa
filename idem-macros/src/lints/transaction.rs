//! Statements that begin or end a transaction.

use super::sql::{self, Token};

const ENDS: &str = "the framework ends the transaction; return `Ok` to commit or `Err` to roll back; for a part of it use \
                    `tx.savepoint(..)`";
const BEGINS: &str =
    "the framework has begun the transaction; for a part of it use `tx.savepoint(..)`";
const ISOLATION: &str = "the framework begins the transaction; set its isolation by `Idempotency::builder(..).isolation(..)`";

/// What is wrong with a script, once for each kind. `mysql`: of the statements that commit by themselves there, too.
pub(super) fn faults(script: &str, mysql: bool) -> Vec<String> {
    let mut faults = Vec::new();
    for statement in sql::statements(script) {
        if is_compound(&statement) {
            // Its own statements end with semicolons too.
            if mysql && let Some(fault) = commits_by_itself(&statement) {
                faults.push(fault);
            }
            break;
        }
        let fault = fault(&statement)
            .map(str::to_owned)
            .or_else(|| mysql.then(|| commits_by_itself(&statement)).flatten());
        faults.extend(fault);
    }
    faults.dedup();
    faults
}

fn fault(statement: &[Token]) -> Option<&'static str> {
    let word = |at: usize| statement.get(at).and_then(Token::name).unwrap_or_default();
    let (first, second) = (word(0), word(1));
    match first {
        // To a savepoint, it stays in the transaction.
        "ROLLBACK" if statement.iter().any(|token| token.is("TO")) => None,
        "COMMIT" | "ROLLBACK" | "ABORT" => Some(ENDS),
        "END" if matches!(second, "" | "TRANSACTION" | "WORK" | "AND") => Some(ENDS),
        "PREPARE" if second == "TRANSACTION" => Some(ENDS),
        "XA" => Some(ENDS),
        "BEGIN" => Some(BEGINS),
        "START" if second == "TRANSACTION" => Some(BEGINS),
        "SET" if second == "TRANSACTION" => Some(ISOLATION),
        "SET" if statement.iter().any(|token| token.is("AUTOCOMMIT")) => Some(ENDS),
        _ => None,
    }
}

/// `BEGIN NOT ATOMIC .. END` of MariaDB, and the bodies of routines and triggers.
fn is_compound(statement: &[Token]) -> bool {
    let is = |at: usize, keyword| {
        statement
            .get(at)
            .is_some_and(|token: &Token| token.is(keyword))
    };
    let routine = |token: &Token| {
        ["TRIGGER", "FUNCTION", "PROCEDURE", "EVENT"]
            .iter()
            .any(|kind| token.is(kind))
    };
    is(0, "BEGIN") && is(1, "NOT") || is(0, "CREATE") && statement.iter().any(routine)
}

/// MySQL 8.4, section 15.3.3, and MariaDB's "SQL statements that cause an implicit commit".
fn commits_by_itself(statement: &[Token]) -> Option<String> {
    let word = |at: usize| statement.get(at).and_then(Token::name).unwrap_or_default();
    let (first, second) = (word(0), word(1));
    let commits = match first {
        "CREATE" | "DROP" => !statement.iter().any(|token| token.is("TEMPORARY")),
        "ALTER" | "TRUNCATE" | "RENAME" | "GRANT" | "REVOKE" => true,
        "ANALYZE" | "OPTIMIZE" | "REPAIR" | "CHECK" => second == "TABLE",
        "LOCK" | "UNLOCK" => matches!(second, "TABLE" | "TABLES"),
        "FLUSH" => true,
        "SET" => second == "PASSWORD",
        _ => false,
    };
    commits.then(|| {
        let second = if second.is_empty() { String::new() } else { format!(" {second}") };
        format!("`{first}{second}` commits the transaction by itself in MySQL and MariaDB; move it to a migration")
    })
}
