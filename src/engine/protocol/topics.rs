//! What this process wants to hear, from any server: the channels of watched feeds, and those by which nodes
//! wake each other. A shard's subscriber takes what is in its slots and says here what came of it.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::{broadcast, oneshot};

use super::faults::Fault;
use super::known::SeenPositions;
use super::slots::slot_of_key;
use super::wire;
use crate::domain::FeedId;
use crate::engine::protocol::records::Message;
use crate::engine::{Notice, Notices, Subscription};

/// The state of a channel. The numbers are those of a subscriber's connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ChannelState {
    /// No server sends it.
    Wanted,
    /// This connection has asked for it.
    Asked(u64),
    /// The server at the other end of this connection sends it.
    Confirmed(u64),
}

/// What is done with a channel's messages.
enum Listener {
    /// Changes of a feed.
    Feed(FeedId, Notices),
    /// In how many milliseconds something is due.
    Wakes(broadcast::Sender<u64>),
}

type Confirmation = oneshot::Sender<Result<Subscription, Fault>>;

struct Topic {
    slot: u16,
    listener: Listener,
    place: ChannelState,
    /// True once any server has confirmed it: then the next confirmation comes after a gap.
    is_announced: bool,
    /// Who waits for a confirmation.
    waiting: Vec<(Subscription, Confirmation)>,
}

impl Topic {
    fn is_used(&self) -> bool {
        match &self.listener {
            Listener::Feed(_, notices) => notices.are_heard(),
            Listener::Wakes(_) => true,
        }
    }

    /// Something may have been missed.
    fn lost(&self) {
        // Nobody listening is no failure.
        match &self.listener {
            Listener::Feed(_, notices) => notices.tell(&Notice::Lost),
            Listener::Wakes(wakes) => drop(wakes.send(0)),
        }
    }
}

/// The channels that this process wants to hear.
pub struct Topics {
    table: Mutex<HashMap<String, Topic>>,
    known: Arc<SeenPositions>,
}

impl Topics {
    pub fn new(known: Arc<SeenPositions>) -> Topics {
        Topics { table: Mutex::default(), known }
    }

    fn locked(&self) -> MutexGuard<'_, HashMap<String, Topic>> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Wants a channel by which nodes are woken, for ever.
    pub fn want_wakes(&self, channel: String, wakes: broadcast::Sender<u64>) {
        let topic = Topic {
            slot: slot_of_key(&channel),
            listener: Listener::Wakes(wakes),
            place: ChannelState::Wanted,
            is_announced: false,
            waiting: Vec::new(),
        };
        self.locked().insert(channel, topic);
    }

    /// Wants a feed's channel for as long as somebody listens. The answer comes when a server has confirmed it; true
    /// when one has to be asked.
    pub fn want_feed(&self, feed: &FeedId, channel: &str, reply: Confirmation) -> bool {
        let mut table = self.locked();
        let topic = table.entry(channel.to_owned()).or_insert_with(|| Topic {
            slot: slot_of_key(channel),
            listener: Listener::Feed(feed.clone(), Notices::default()),
            place: ChannelState::Wanted,
            is_announced: false,
            waiting: Vec::new(),
        });
        let Listener::Feed(_, notices) = &topic.listener else { return false };
        // From here on nothing is missed, so it is made before the server is asked.
        let subscription = notices.subscribe();
        match topic.place {
            ChannelState::Confirmed(_) => drop(reply.send(Ok(subscription))),
            _ => topic.waiting.push((subscription, reply)),
        }
        topic.place == ChannelState::Wanted
    }

    /// At most `most` channels that this connection is to ask for, by slot: those whose slots it has and that it
    /// has not asked for, even if another connection has.
    pub fn take(&self, connection: u64, owns: impl Fn(u16) -> bool, most: usize) -> Vec<(u16, String)> {
        let mut table = self.locked();
        table.retain(|_, topic| topic.place != ChannelState::Wanted || topic.is_used());
        let mine = [ChannelState::Asked(connection), ChannelState::Confirmed(connection)];
        let wanted = table.iter_mut().filter(|(_, topic)| !mine.contains(&topic.place) && owns(topic.slot));
        let mut taken: Vec<_> = wanted
            .take(most)
            .map(|(channel, topic)| {
                topic.place = ChannelState::Asked(connection);
                (topic.slot, channel.clone())
            })
            .collect();
        taken.sort_unstable_by_key(|(slot, _)| *slot);
        taken
    }

    /// This connection sends the channel from now on, without being asked for it.
    pub fn confirm(&self, connection: u64, channel: &str) {
        // Of two who want it at the same time the first has it confirmed for both.
        if let Some(topic) = self.locked().get_mut(channel).filter(|it| it.place == ChannelState::Wanted) {
            topic.place = ChannelState::Asked(connection);
        }
        self.confirmed(connection, channel);
    }

    /// How many channels there are.
    pub fn len(&self) -> usize {
        self.locked().len()
    }

    /// Whether somebody listens to a feed.
    pub fn is_watched(&self) -> bool {
        self.locked().values().any(|topic| matches!(topic.listener, Listener::Feed(..)))
    }

    /// Ends every subscription.
    pub fn close(&self) {
        self.locked().clear();
    }

    /// The server sends it from now on.
    pub fn confirmed(&self, connection: u64, channel: &str) {
        let mut table = self.locked();
        let Some(topic) = table.get_mut(channel).filter(|it| it.place == ChannelState::Asked(connection))
        else {
            return;
        };
        topic.place = ChannelState::Confirmed(connection);
        if std::mem::replace(&mut topic.is_announced, true) || matches!(topic.listener, Listener::Wakes(_)) {
            topic.lost();
        }
        for (subscription, reply) in topic.waiting.drain(..) {
            let _ = reply.send(Ok(subscription));
        }
    }

    /// The server does not send it, or no longer. Returns true if it was to.
    pub fn taken_away(&self, connection: u64, channel: &str) -> bool {
        let mut table = self.locked();
        let mine = [ChannelState::Asked(connection), ChannelState::Confirmed(connection)];
        let Some(topic) = table.get_mut(channel).filter(|it| mine.contains(&it.place)) else { return false };
        topic.place = ChannelState::Wanted;
        true
    }

    /// The connection has ended: its channels have no server, and those who waited for it get the reason.
    pub fn ended(&self, connection: u64, why: &str) {
        let mine = [ChannelState::Asked(connection), ChannelState::Confirmed(connection)];
        for topic in self.locked().values_mut().filter(|it| mine.contains(&it.place)) {
            topic.place = ChannelState::Wanted;
            refuse(topic, why);
        }
    }

    /// Answers those who wait for a channel in these slots why there is no connection.
    pub fn refuse(&self, owns: impl Fn(u16) -> bool, why: &str) {
        let mut table = self.locked();
        table
            .values_mut()
            .filter(|it| it.place == ChannelState::Wanted && owns(it.slot))
            .for_each(|it| refuse(it, why));
    }

    /// Channels of this connection without listeners; they are forgotten.
    pub fn unused(&self, connection: u64) -> Vec<(u16, String)> {
        let mut table = self.locked();
        let unused = table
            .extract_if(|_, topic| topic.place == ChannelState::Confirmed(connection) && !topic.is_used());
        let mut unused: Vec<_> = unused.map(|(channel, topic)| (topic.slot, channel)).collect();
        unused.sort_unstable_by_key(|(slot, _)| *slot);
        unused
    }

    /// Passes on what a connection brought. Once another server has confirmed the channel, what the one before still has
    /// on its way is late: the new one's changes may have been passed on already, and listeners have been notified of a gap.
    pub fn tell(&self, connection: u64, channel: &str, payload: &[u8]) {
        let table = self.locked();
        let Some(topic) = table.get(channel) else { return };
        if matches!(topic.place, ChannelState::Confirmed(by) if by != connection) {
            return;
        }
        let text = std::str::from_utf8(payload).ok();
        match &topic.listener {
            Listener::Wakes(wakes) => {
                let _ = wakes.send(text.and_then(|ms| ms.parse().ok()).unwrap_or(0));
            }
            Listener::Feed(feed, notices) => {
                match text.ok_or(wire::Corrupt("a message")).and_then(wire::read_message) {
                    Ok(message) => self.tell_feed(feed, notices, message),
                    Err(wire::Corrupt(what)) => {
                        tracing::warn!(channel, what, "a message that Tipcast did not write");
                        topic.lost();
                    }
                }
            }
        }
    }

    /// What one call published. Nobody listening is no failure.
    fn tell_feed(&self, feed: &FeedId, notices: &Notices, message: Message) {
        if message.lost {
            notices.tell(&Notice::Lost);
        }
        // Without changes too: what is new is then in the ledger alone.
        if !message.changes.is_empty() || (!message.new_policy && !message.lost) {
            for change in &message.changes {
                self.known.received(feed, change);
            }
            notices.tell(&Notice::Changes(message.changes.into()));
        }
        if message.new_policy {
            notices.tell(&Notice::Policy);
        }
    }
}

fn refuse(topic: &mut Topic, why: &str) {
    for (_, reply) in topic.waiting.drain(..) {
        let _ = reply.send(Err(Fault::stay(why)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_channel_belongs_to_whoever_has_its_slot_and_a_second_confirmation_comes_after_a_gap() {
        let topics = Topics::new(Arc::default());
        let feed: FeedId = "room".parse().unwrap();
        let (reply, mut answer) = oneshot::channel();
        assert!(topics.want_feed(&feed, "tc:{room}:live", reply));
        assert_eq!(topics.take(1, |_| false, 9), []);
        let channel = "tc:{room}:live".to_owned();
        let slot = slot_of_key(&channel);
        assert_eq!(topics.take(1, |it| it == slot, 9), [(slot, channel.clone())]);
        assert_eq!(topics.take(1, |_| true, 9), [], "once");
        topics.confirmed(2, &channel);
        assert!(answer.try_recv().is_err(), "another connection's word");
        topics.confirmed(1, &channel);
        let mut subscription = answer.try_recv().unwrap().unwrap();
        assert!(subscription.try_next().is_none());
        // The slot moves: the new owner takes it before the old one has let go.
        assert_eq!(topics.take(2, |_| true, 9).len(), 1);
        assert!(!topics.taken_away(1, &channel), "it is no longer the old one's");
        topics.confirmed(2, &channel);
        assert!(matches!(subscription.try_next(), Some(Notice::Lost)));
        let message = |seq: u64| {
            let change = format!(r#"{{"seq":{seq},"prev":0,"tag":{seq},"op":"expired","id":"e-1"}}"#);
            format!("{{\"news\":\"live\",\"epoch\":\"e\"}}\n{change}").into_bytes()
        };
        topics.tell(2, &channel, &message(33));
        topics.tell(1, &channel, &message(27));
        topics.tell(2, &channel, &message(34));
        let heard: Vec<u64> = std::iter::from_fn(|| subscription.try_next())
            .map(|notice| match notice {
                Notice::Changes(changes) => changes[0].seq,
                other => panic!("{other:?}"),
            })
            .collect();
        assert_eq!(heard, [33, 34], "what the old owner still had on its way comes too late");
        drop(subscription);
        assert_eq!(topics.unused(2), [(slot, channel)]);
    }
}
