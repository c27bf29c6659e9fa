//! Which publisher a topic has.

use std::sync::Arc;

use futures_util::future::BoxFuture;

use crate::backend::outbox::Paused;
use crate::outbox::{OutboxMessage, PublishError, Publisher};

/// A publisher whose type is forgotten.
pub(super) trait AnyPublisher: Send + Sync {
    fn publish<'a>(&'a self, message: &'a OutboxMessage)
    -> BoxFuture<'a, Result<(), PublishError>>;
}

impl<P: Publisher> AnyPublisher for P {
    fn publish<'a>(
        &'a self,
        message: &'a OutboxMessage,
    ) -> BoxFuture<'a, Result<(), PublishError>> {
        Box::pin(Publisher::publish(self, message))
    }
}

#[derive(Clone)]
struct Route {
    prefix: String,
    publisher: Arc<dyn AnyPublisher>,
}

/// Publishers by the beginnings of their topics. The longest that fits counts.
#[derive(Clone, Default)]
pub(super) struct Routes {
    /// The longest first.
    routes: Vec<Route>,
}

impl Routes {
    /// Adds a publisher. One of the same prefix is replaced.
    pub(super) fn add(&mut self, prefix: String, publisher: impl Publisher) {
        self.routes.retain(|route| route.prefix != prefix);
        self.routes.push(Route {
            prefix,
            publisher: Arc::new(publisher),
        });
        self.routes
            .sort_by_key(|route| std::cmp::Reverse(route.prefix.len()));
    }

    pub(super) fn len(&self) -> usize {
        self.routes.len()
    }

    pub(super) fn prefixes(&self) -> impl Iterator<Item = &str> {
        self.routes.iter().map(|route| route.prefix.as_str())
    }

    /// The route of a topic, by its number, and its publisher.
    pub(super) fn of(&self, topic: &str) -> Option<(usize, &Arc<dyn AnyPublisher>)> {
        let mut routes = self.routes.iter().enumerate();
        let found = routes.find(|(_, route)| topic.starts_with(&route.prefix));
        found.map(|(number, route)| (number, &route.publisher))
    }

    /// The topics whose routes are paused, so that the others' messages are read past them.
    pub(super) fn paused(&self, is_paused: impl Fn(usize) -> bool) -> Vec<Paused> {
        let numbered = || self.routes.iter().enumerate();
        numbered()
            .filter(|(number, _)| is_paused(*number))
            .map(|(_, route)| Paused {
                prefix: route.prefix.clone(),
                except: numbered()
                    .filter(|(number, other)| {
                        !is_paused(*number)
                            && other.prefix.len() > route.prefix.len()
                            && other.prefix.starts_with(&route.prefix)
                    })
                    .map(|(_, other)| other.prefix.clone())
                    .collect(),
            })
            .collect()
    }

    /// Whether there is no topic that is not paused.
    pub(super) fn all_paused(&self, is_paused: impl Fn(usize) -> bool) -> bool {
        let any = self.routes.iter().any(|route| route.prefix.is_empty());
        any && (0..self.routes.len()).all(is_paused)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Nobody;

    impl Publisher for Nobody {
        async fn publish(&self, _: &OutboxMessage) -> Result<(), PublishError> {
            Ok(())
        }
    }

    fn routes(prefixes: &[&str]) -> Routes {
        let mut routes = Routes::default();
        for prefix in prefixes {
            routes.add((*prefix).to_owned(), Nobody);
        }
        routes
    }

    fn prefix<'r>(routes: &'r Routes, topic: &str) -> Option<&'r str> {
        let (number, _) = routes.of(topic)?;
        routes.prefixes().nth(number)
    }

    #[test]
    fn the_longest_prefix_counts() {
        let routes = routes(&["", "orders.", "orders.eu."]);
        assert_eq!(prefix(&routes, "orders.eu.placed"), Some("orders.eu."));
        assert_eq!(prefix(&routes, "orders.us.placed"), Some("orders."));
        assert_eq!(prefix(&routes, "users"), Some(""));
    }

    #[test]
    fn a_topic_without_a_route_has_none() {
        assert_eq!(prefix(&routes(&["orders."]), "users"), None);
    }

    #[test]
    fn a_paused_route_leaves_the_longer_ones_alone() {
        let routes = routes(&["", "orders.", "orders.eu."]);
        let of = |name: &str| routes.prefixes().position(|prefix| prefix == name);
        let orders = of("orders.").expect("it was added");
        assert_eq!(
            routes.paused(|number| number == orders),
            [Paused {
                prefix: "orders.".to_owned(),
                except: vec!["orders.eu.".to_owned()],
            }]
        );
        assert!(!routes.all_paused(|number| number == orders));
        assert!(routes.all_paused(|_| true));
    }
}
