//! Which of the confirmed messages came back.
//!
//! RabbitMQ sends a message back before it confirms it. lapin queues what comes back, and each confirm that it completes takes the
//! oldest of the queue, whosever it is; one acknowledgement of several completes them in any order. So:
//!
//! * a confirm that took nothing found the queue empty: what came back before it was taken by a confirm that is complete, too;
//! * one that took another's message leaves it open whether its own is still in the queue. It isn't once a later confirm took
//!   nothing, or when no confirm is outstanding: the queue never holds more than there are outstanding confirms of messages
//!   that came back.
//!
//! "Later" is counted in looks. A confirm that was not there in one whole look, and is found in the look after, is later than all
//! that were found before that whole look.

use std::fmt;

use lapin::message::BasicReturnMessage;

/// A message that came back, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Returned {
    pub(super) id: String,
    pub(super) reason: String,
}

impl From<&BasicReturnMessage> for Returned {
    fn from(message: &BasicReturnMessage) -> Self {
        let id = message.delivery.properties.message_id().as_ref();
        Returned {
            id: id.map(ToString::to_string).unwrap_or_default(),
            reason: format!("{} ({})", message.reply_text, message.reply_code),
        }
    }
}

impl fmt::Display for Returned {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RabbitMQ sent it back: {}", self.reason)
    }
}

impl std::error::Error for Returned {}

/// The confirmed messages that wait for the proof that they did not come back.
pub(super) struct Returns<A> {
    look: u64,
    /// The last look in which a confirm had taken nothing.
    empty_at: Option<u64>,
    returned: Vec<Returned>,
    confirmed: Vec<Confirmed<A>>,
}

struct Confirmed<A> {
    id: String,
    answer: A,
    found_at: u64,
    took_nothing: bool,
}

impl<A> Default for Returns<A> {
    fn default() -> Self {
        Self {
            look: 0,
            empty_at: None,
            returned: Vec::new(),
            confirmed: Vec::new(),
        }
    }
}

impl<A> Returns<A> {
    pub(super) fn next_look(&mut self) {
        self.look += 1;
    }

    /// A message is confirmed, and its confirm took `carried` from the queue.
    pub(super) fn confirmed(&mut self, id: String, carried: Option<Returned>, answer: A) {
        self.confirmed.push(Confirmed {
            id,
            answer,
            found_at: self.look,
            took_nothing: carried.is_none(),
        });
        self.refused(carried);
    }

    /// A confirm says that the message was not taken; it, too, took `carried` from the queue.
    pub(super) fn refused(&mut self, carried: Option<Returned>) {
        match carried {
            None => self.empty_at = Some(self.look),
            Some(returned) => self.returned.push(returned),
        }
    }

    /// What is certain by now, after a look that found nothing.
    pub(super) fn settle(&mut self, none_outstanding: bool) -> Vec<(A, Option<Returned>)> {
        let mut settled = Vec::new();
        let mut waiting = Vec::new();
        for one in self.confirmed.drain(..) {
            let back = self.returned.iter().position(|back| back.id == one.id);
            if let Some(back) = back {
                settled.push((one.answer, Some(self.returned.swap_remove(back))));
            } else if none_outstanding
                || one.took_nothing
                || self
                    .empty_at
                    .is_some_and(|empty_at| empty_at >= one.found_at + 2)
            {
                settled.push((one.answer, None));
            } else {
                waiting.push(one);
            }
        }
        self.confirmed = waiting;
        if none_outstanding {
            // Of messages that were refused besides.
            self.returned.clear();
        }
        settled
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use std::collections::{BTreeMap, VecDeque};

    use proptest::prelude::*;

    use super::*;

    /// What the broker sends, and lapin's task does with it, one step at a time.
    #[derive(Debug)]
    enum Step {
        SentBack(usize),
        /// A message's confirm is complete; of several that one acknowledgement named, in any order.
        Complete(usize),
    }

    struct Lapin {
        steps: VecDeque<Step>,
        queue: VecDeque<Returned>,
        complete: BTreeMap<usize, Option<Returned>>,
    }

    impl Lapin {
        fn step(&mut self) {
            match self.steps.pop_front() {
                Some(Step::SentBack(message)) => self.queue.push_back(Returned {
                    id: message.to_string(),
                    reason: String::new(),
                }),
                Some(Step::Complete(message)) => {
                    self.complete.insert(message, self.queue.pop_front());
                }
                None => {}
            }
        }
    }

    /// Every message is sent back before it is confirmed, with anything in between.
    fn steps(unroutable: &[bool], random: &mut fastrand::Rng) -> VecDeque<Step> {
        let mut confirms: Vec<usize> = (0..unroutable.len()).collect();
        random.shuffle(&mut confirms);
        let mut steps: VecDeque<Step> = confirms.into_iter().map(Step::Complete).collect();
        for message in (0..unroutable.len()).filter(|message| unroutable[*message]) {
            let confirmed =
                |step: &Step| matches!(step, Step::Complete(other) if *other == message);
            let until = steps.iter().position(confirmed).unwrap();
            steps.insert(random.usize(..=until), Step::SentBack(message));
        }
        steps
    }

    fn settled_like(unroutable: &[bool], random: &mut fastrand::Rng) -> Vec<Option<bool>> {
        let mut lapin = Lapin {
            steps: steps(unroutable, random),
            queue: VecDeque::new(),
            complete: BTreeMap::new(),
        };
        let mut returns = Returns::default();
        let mut in_flight: Vec<usize> = (0..unroutable.len()).collect();
        let mut settled = vec![None; unroutable.len()];
        let often = random.u8(..);
        while !in_flight.is_empty() {
            loop {
                returns.next_look();
                let before = in_flight.len();
                in_flight.retain(|message| {
                    // Mostly nothing happens between two looks at a confirm, and then a lot.
                    if random.u8(..) < often {
                        (0..random.usize(..8)).for_each(|_| lapin.step());
                    }
                    match lapin.complete.remove(message) {
                        Some(carried) => {
                            returns.confirmed(message.to_string(), carried, *message);
                            false
                        }
                        None => true,
                    }
                });
                if in_flight.len() == before {
                    break;
                }
            }
            for (message, returned) in returns.settle(in_flight.is_empty()) {
                settled[message] = Some(returned.is_some());
            }
            lapin.step();
        }
        settled
    }

    proptest! {
        // It takes rare orders to tell a rule that is nearly right from this one.
        #![proptest_config(ProptestConfig::with_cases(20_000))]

        #[test]
        fn what_came_back_is_told_from_what_did_not_whatever_lapin_gave_to_whom(
            unroutable in prop::collection::vec(any::<bool>(), 0..24),
            seed in any::<u64>(),
        ) {
            let mut random = fastrand::Rng::with_seed(seed);
            let settled = settled_like(&unroutable, &mut random);
            let expected: Vec<_> = unroutable.iter().map(|back| Some(*back)).collect();
            prop_assert_eq!(settled, expected);
        }
    }

    #[test]
    fn a_message_that_took_anothers_waits_until_its_own_cannot_be_in_the_queue() {
        let mut returns = Returns::default();
        let other = Returned {
            id: "other".to_owned(),
            reason: String::new(),
        };
        returns.next_look();
        returns.confirmed("a".to_owned(), Some(other), "a");
        // It may have been complete before the first, between two looks at it.
        returns.next_look();
        returns.confirmed("b".to_owned(), None, "b");
        returns.next_look();
        assert_eq!(returns.settle(false), [("b", None)]);
        returns.next_look();
        returns.confirmed("c".to_owned(), None, "c");
        let mut settled = returns.settle(false);
        settled.sort_by_key(|(answer, _)| *answer);
        assert_eq!(settled, [("a", None), ("c", None)]);
    }
}
