//! What a router does with a repeat, route by route, for a review.

use std::fmt;
use std::time::Duration;

use serde::{Serialize, Serializer};

use super::declared::Design;
use super::listed::{Does, Listed};
use crate::idempotency::Settings;

/// Every route of a [`Router`](super::Router), sorted by path and method, so that two reports can be compared: print it
/// into a file of the repository, and a change of what a repeat does is a line in a review.
///
/// It is shown as a table, and serializes as a list.
///
/// ```
/// use idem_runtime::{repeat_safe, routing::{Router, get}};
///
/// #[repeat_safe(client_id, why = "the client chooses the id")]
/// async fn put() {}
///
/// let router: Router = Router::new().route("/orders/{id}", get(async || "an order").put(put));
/// let report = serde_json::to_value(router.report()).unwrap();
/// assert_eq!(report[1]["method"], "PUT");
/// assert_eq!(report[1]["repeat"], "repeat_safe");
/// assert_eq!(report[1]["design"], "client_id");
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct Report {
    routes: Vec<ReportedRoute>,
}

/// One function on one route.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct ReportedRoute {
    /// The method; `ANY` for all of them, and `GET..` for those that read.
    pub method: &'static str,
    /// The route's path, from the root. `*` stands for what can't be looked into.
    pub route: String,
    /// The operation's name. What reads has none.
    pub operation: Option<&'static str>,
    /// The function's path.
    pub function: &'static str,
    /// What a repeat of the request does.
    #[serde(flatten)]
    pub repeat: Repeat,
}

/// What a repeat of a request does.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "repeat", rename_all = "snake_case")]
#[non_exhaustive]
pub enum Repeat {
    /// It gets the first answer (`#[idempotent]`).
    Idempotent {
        /// Whose key it is.
        scope: &'static str,
        /// How long the answer is replayed: the attribute's `ttl`, else that of the state's `Idempotency`, else, where
        /// the router has no state yet, the default. Serialized in seconds.
        #[serde(rename = "ttl_seconds", serialize_with = "seconds")]
        ttl: Duration,
    },
    /// It is harmless (`#[repeat_safe]`).
    RepeatSafe {
        /// The design that makes it so.
        design: Design,
        /// Why that holds.
        why: &'static str,
    },
    /// It reads again.
    Read,
}

fn seconds<S: Serializer>(duration: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_f64(duration.as_secs_f64())
}

/// By path; then those that read, before those that write.
pub(super) fn order<S>(listed: &Listed<S>) -> (&str, usize, &str, &str) {
    const METHODS: [&str; 11] = [
        "GET", "GET..", "HEAD", "OPTIONS", "TRACE", "POST", "PUT", "PATCH", "DELETE", "CONNECT",
        "ANY",
    ];
    let method = METHODS.iter().position(|name| *name == listed.method);
    (
        &listed.route,
        method.unwrap_or(METHODS.len()),
        listed.function.path,
        listed.function.identity,
    )
}

impl Report {
    pub(super) fn of<S>(sorted: &[Listed<S>]) -> Self {
        let routes = sorted.iter().map(|listed| {
            let repeat = match &listed.function.does {
                Does::Idempotent(spec) => Repeat::Idempotent {
                    scope: spec.scope,
                    ttl: listed
                        .limits
                        .map_or_else(|| Settings::default().rules(spec).ttl, |limits| limits.ttl),
                },
                Does::ByDesign(declared) => Repeat::RepeatSafe {
                    design: declared.design,
                    why: declared.why,
                },
                Does::Reads => Repeat::Read,
            };
            ReportedRoute {
                method: listed.method,
                route: listed.route.clone(),
                operation: listed.function.operation(),
                function: listed.function.path,
                repeat,
            }
        });
        Self {
            routes: routes.collect(),
        }
    }

    /// The routes, sorted by path and method.
    #[must_use]
    pub fn routes(&self) -> &[ReportedRoute] {
        &self.routes
    }
}

const HEADINGS: [&str; 8] = [
    "METHOD",
    "ROUTE",
    "OPERATION",
    "ON A REPEAT",
    "SCOPE",
    "TTL",
    "FUNCTION",
    "WHY",
];

impl ReportedRoute {
    fn cells(&self) -> [String; 8] {
        let none = || "-".to_owned();
        let (repeat, scope, ttl, why) = match &self.repeat {
            Repeat::Idempotent { scope, ttl } => (
                "idempotent".to_owned(),
                (*scope).to_owned(),
                short(*ttl),
                String::new(),
            ),
            Repeat::RepeatSafe { design, why } => {
                (design.to_string(), none(), none(), (*why).to_owned())
            }
            Repeat::Read => ("reads".to_owned(), none(), none(), String::new()),
        };
        let operation = self.operation.map_or_else(none, ToOwned::to_owned);
        [
            self.method.to_owned(),
            self.route.clone(),
            operation,
            repeat,
            scope,
            ttl,
            self.function.to_owned(),
            why,
        ]
    }
}

/// A table with a heading; the columns are aligned.
impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rows: Vec<[String; 8]> = std::iter::once(HEADINGS.map(ToOwned::to_owned))
            .chain(self.routes.iter().map(ReportedRoute::cells))
            .collect();
        let width = |column: usize| {
            let cells = rows.iter().map(|row| row[column].chars().count());
            cells.max().unwrap_or(0)
        };
        let widths: [usize; 8] = std::array::from_fn(width);
        for row in &rows {
            let line: String = row
                .iter()
                .zip(widths)
                .map(|(cell, width)| format!("{cell:width$}  "))
                .collect();
            writeln!(f, "{}", line.trim_end())?;
        }
        Ok(())
    }
}

/// As an attribute would have it: "48h" and "7d".
fn short(duration: Duration) -> String {
    const DAY: u128 = 24 * 60 * 60 * 1000;
    const UNITS: [(u128, &str); 4] = [
        (DAY, "d"),
        (60 * 60 * 1000, "h"),
        (60 * 1000, "m"),
        (1000, "s"),
    ];
    let milliseconds = duration.as_millis();
    let unit = UNITS.iter().find(|(unit, _)| {
        milliseconds.is_multiple_of(*unit) && (*unit < DAY || milliseconds > 2 * DAY)
    });
    match unit {
        Some((unit, name)) => format!("{}{name}", milliseconds / unit),
        None => format!("{milliseconds}ms"),
    }
}
