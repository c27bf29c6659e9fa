//! What is surely wrong in a handler that says a repeat does no harm, and keeps no key.

use proc_macro2::TokenStream;

use super::{
    names, parse,
    sql::{self, Token},
    walk::Walk,
};
use crate::{errors::Errors, repeat_safe::Design};

/// The faults of the body of a `#[repeat_safe]` handler.
pub(crate) fn repeat_safe(design: Design, body: &TokenStream) -> Errors {
    let mut errors = Errors::default();
    let Some(block) = parse(body) else {
        return errors;
    };
    let handles_duplicates = ["is_unique_violation", "UniqueViolation"]
        .iter()
        .any(|word| names::mentions(body, word));
    for found in Walk::new(&block).over(&block).sql {
        let statements = sql::statements(&found.literal.value());
        for statement in &statements {
            if let Some(column) = incremented(statement) {
                errors.at(
                    &found.literal,
                    format!(
                        "a repeat changes `{column}` again; compare a column that the statement sets, as in \
                         `SET version = version + 1 .. WHERE version = ..`, or use `#[idempotent]`",
                        column = column.to_lowercase()
                    ),
                );
            }
            if design == Design::ClientId && !handles_duplicates && inserts_blindly(statement) {
                errors.at(
                    &found.literal,
                    "a repeat inserts again, or fails; say what happens to an id that is there: \
                     `ON CONFLICT (id) DO NOTHING`, or `INSERT IGNORE` in MySQL",
                );
            }
        }
    }
    errors
}

fn inserts_blindly(statement: &[Token]) -> bool {
    let has = |keyword: &str| statement.iter().any(|token| token.is(keyword));
    let follows = |first: &str, second: &str| {
        statement
            .windows(2)
            .any(|pair| pair[0].is(first) && pair[1].is(second))
    };
    follows("INSERT", "INTO")
        && !follows("ON", "CONFLICT")
        && !follows("ON", "DUPLICATE")
        && !follows("NOT", "EXISTS")
        && !has("MERGE")
}

/// A column that a repeat of the statement changes once more.
fn incremented(statement: &[Token]) -> Option<&str> {
    let set = statement.iter().position(|token| token.is("SET"))?;
    let after = &statement[set + 1..];
    let end = after
        .iter()
        .position(|token| token.is("WHERE"))
        .unwrap_or(after.len());
    let (assignments, condition) = after.split_at(end);
    let assignments: Vec<_> = split_at_commas(assignments)
        .into_iter()
        .filter_map(assignment)
        .collect();
    // A statement that compares what it sets does not match again.
    if assignments
        .iter()
        .any(|(column, _)| compares(condition, column))
    {
        return None;
    }
    assignments
        .iter()
        .find(|(column, value)| is_step(column, value))
        .map(|(column, _)| *column)
}

/// The column and the value of `[table.]column = value`.
fn assignment(tokens: &[Token]) -> Option<(&str, &[Token])> {
    let equals = tokens
        .iter()
        .position(|token| *token == Token::Symbol('='))?;
    let (column, value) = tokens.split_at(equals);
    Some((column.last()?.name()?, &value[1..]))
}

fn split_at_commas(tokens: &[Token]) -> Vec<&[Token]> {
    let mut depth = 0_usize;
    tokens
        .split(|token| {
            match token {
                Token::Symbol('(') => depth += 1,
                Token::Symbol(')') => depth = depth.saturating_sub(1),
                _ => {}
            }
            depth == 0 && *token == Token::Symbol(',')
        })
        .collect()
}

/// `column = ..` or `column IS NULL` in a condition.
fn compares(condition: &[Token], column: &str) -> bool {
    condition.windows(2).any(|pair| {
        pair[0].name() == Some(column) && (pair[1] == Token::Symbol('=') || pair[1].is("IS"))
    })
}

/// `column + ..` or `.. + column`, of a column with or without its table. Inside a function, as in `greatest(n, $1)`, a
/// column may well stay what it is.
fn is_step(column: &str, value: &[Token]) -> bool {
    const OPERATORS: [char; 5] = ['+', '-', '*', '/', '|'];
    let operator = |token: Option<&Token>| matches!(token, Some(Token::Symbol(symbol)) if OPERATORS.contains(symbol));
    let mut depth = 0_usize;
    value.iter().enumerate().any(|(at, token)| {
        match token {
            Token::Symbol('(') => depth += 1,
            Token::Symbol(')') => depth = depth.saturating_sub(1),
            _ => {}
        }
        let qualified = at > 0 && value[at - 1] == Token::Symbol('.');
        let start = if qualified { at.saturating_sub(2) } else { at };
        // The row that the request brings is the same again.
        let brought = qualified && value[start].is("EXCLUDED");
        depth == 0
            && !brought
            && token.name() == Some(column)
            && (operator(value.get(at + 1)) || start > 0 && operator(value.get(start - 1)))
    })
}
