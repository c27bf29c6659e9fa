//! The network and the provider.

use crate::action::{Reply, Sender};
use crate::protocol::Protocol;
use crate::state::{Event, Phase, Request, State, Worker};

impl Protocol {
    pub(crate) fn arrive(&self, state: &mut State, sender: Sender, reply: Reply) -> Option<()> {
        let request = self.take(state, sender)?;
        if reply != Reply::Refused {
            self.handle(state, request);
        }
        if let Sender::Waiting(worker) = sender {
            let next = match reply {
                Reply::Done => Phase::StoreDone,
                Reply::Refused => Phase::StoreRefused,
                Reply::Lost => return Some(()),
            };
            if let Worker::Running { phase, .. } = &mut state.workers[worker] {
                *phase = next;
            }
        } else if state.event == Event::None {
            state.event = Event::LateArrival;
        }
        Some(())
    }

    pub(crate) fn lose(&self, state: &mut State, sender: Sender) -> Option<()> {
        self.take(state, sender).map(|_| ())
    }

    /// Takes the request off the network.
    fn take(&self, state: &mut State, sender: Sender) -> Option<Request> {
        match sender {
            Sender::Gone(place) => Some(state.strays.remove(place)),
            Sender::Waiting(worker) => {
                let (_, attempt, phase) = self.running(state, worker)?;
                let Phase::Await {
                    age,
                    under_way: true,
                } = phase
                else {
                    return None;
                };
                if let Worker::Running { phase, .. } = &mut state.workers[worker] {
                    *phase = Phase::Await {
                        age,
                        under_way: false,
                    };
                }
                Some(Request {
                    key: self.key(attempt),
                    age,
                })
            }
        }
    }

    fn handle(&self, state: &mut State, request: Request) {
        let key = usize::from(request.key);
        let remembered = &mut state.ledger.remembered[key];
        if self.provider.honours_keys() {
            if remembered.is_some() {
                return;
            }
            *remembered = Some(0);
        }
        // Two are as wrong as more.
        state.ledger.effects[key] = (state.ledger.effects[key] + 1).min(2);
        if state.is_unknown() {
            state.event = Event::EffectWhileUnknown;
        }
    }
}
