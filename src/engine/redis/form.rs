//! The form in which a Redis holds feeds: a mark on every shard names it, and what another form wrote is not touched.

use std::sync::Arc;

use redis::Value;
use tokio::time::{Duration, Instant};

use super::connection::Trip;
use super::dial::ServerId;
use super::layout::Layout;
use super::purpose::Purpose;
use super::scan::{Scanned, all_under, scan_command};
use super::shard::Shard;
use super::subscriber::CONFIRM_TIMEOUT;
use crate::engine::protocol::faults::Fault;
use crate::engine::protocol::scripts::{self, Call};
use crate::engine::protocol::slots::tag_of_slot;

/// The form that this version reads and writes. It grows when a key or a value means something else than before.
const STORED_FORM: &str = "20";

/// The mark of servers into which feeds are being moved (`tipcast store move`): no gateway begins on a half of them.
const MOVING: &str = "moving";

/// How long the search for keys may take where there is no mark. After that the server counts as new: other programs own its keys.
const SCAN_TIMEOUT: Duration = Duration::from_secs(10);

/// How the key of a fence ends: what one connection knows replicas by, and set before anything is judged.
pub const FENCE: &str = ":fence";

/// How the key of a mark ends.
pub const FORM_KEY: &str = ":form";

/// Keys that one step of that looks at.
const KEYS_PER_SCAN: u32 = 1_000;

/// What is known of the servers' form.
pub(super) enum Judged {
    /// It is this one.
    Good,
    /// It is another; says what to do.
    Foreign(String),
}

/// The servers, and what is to be known to find their marks.
pub(super) struct Marks<'a> {
    pub shards: &'a [Arc<Shard>],
    pub layout: &'a Layout,
    pub is_cluster: bool,
    pub prefix: &'a str,
    pub call_timeout: Duration,
    pub purpose: Purpose,
}

impl Marks<'_> {
    /// Reads the marks, and sets them where a Redis is new. An error if no server can be asked now.
    ///
    /// A mark on any shard is enough: slots may have gone to a server that has none yet, and a shard that is away keeps no other
    /// from being used. If no server has one, keys under the prefix were written by a version that set none.
    pub(super) async fn judge(&self) -> Result<Judged, Fault> {
        if let Purpose::MoveIn { resumed } = self.purpose {
            return self.judge_target(resumed).await;
        }
        if let Some(judged) = self.read().await? {
            return Ok(judged);
        }
        let until = Instant::now() + SCAN_TIMEOUT;
        for shard in self.shards {
            let Ok(Some(key)) = self.first_key(shard, Some(until), &[FENCE]).await else { continue };
            // A gateway that started at the same time sets its mark before it writes anything else.
            return match self.read().await? {
                Some(judged) => Ok(judged),
                None => Ok(Judged::Foreign(self.refusal(&format!("{key} was written, and no form noted")))),
            };
        }
        any(self.shards.iter().map(|shard| self.mark(shard))).await?;
        Ok(Judged::Good)
    }

    /// [`Marks::judge`] for somebody who moves feeds in: every shard has to answer and to hold nothing, and is marked.
    async fn judge_target(&self, resumed: bool) -> Result<Judged, Fault> {
        let prefix = self.prefix;
        let is_begun = self.forms().await?.iter().any(|form| form == MOVING);
        match (resumed, is_begun) {
            (true, true) => return Ok(Judged::Good),
            (true, false) => {
                let why = format!(
                    "there is no interrupted move under {prefix:?}: leave --resume out to begin one, or look at --prefix"
                );
                return Ok(Judged::Foreign(why));
            }
            (false, true) => {
                let why = format!(
                    "a move into {prefix:?} was interrupted: go on with --resume, or begin anew once all keys with this prefix are \
                     removed"
                );
                return Ok(Judged::Foreign(why));
            }
            (false, false) => {}
        }
        for shard in self.shards {
            if let Some(key) = self.first_key(shard, None, &[FENCE, FORM_KEY]).await? {
                let why = format!(
                    "{prefix:?} is not empty ({key} is there): name another with --prefix, or stop its gateways and remove its keys"
                );
                return Ok(Judged::Foreign(why));
            }
        }
        self.set(MOVING).await?;
        Ok(Judged::Good)
    }

    /// What was moved in is whole: gateways may begin.
    pub(super) async fn end_move(&self) -> Result<(), Fault> {
        self.set(STORED_FORM).await
    }

    /// Sets the marks of all shards, whatever they are.
    async fn set(&self, form: &str) -> Result<(), Fault> {
        for shard in self.shards {
            let mut set = redis::cmd("SET");
            set.arg(self.mark_of(shard)?).arg(form);
            shard.connection().run(Trip::Command(&set), false, self.call_timeout).await?;
        }
        Ok(())
    }

    /// The marks of all shards, all of which have to answer.
    async fn forms(&self) -> Result<Vec<String>, Fault> {
        let mut forms = Vec::new();
        for shard in self.shards {
            forms.extend(self.form(shard).await?);
        }
        Ok(forms)
    }

    /// Sets a shard's mark where there is none, and publishes `word` on a channel, by a script that is refused where any other would
    /// be. Which server that was, and how many subscribers it reached. An error also where the mark is another's.
    pub(super) async fn probe(
        &self,
        shard: &Shard,
        channel: &str,
        word: u64,
    ) -> Result<(ServerId, i64), Fault> {
        let mut call = Call::of(&scripts::PROBE);
        call.key("form", self.mark_of(shard)?).arg("form", STORED_FORM);
        call.arg("probe_channel", channel).arg("mark", word);
        let within = self.call_timeout.min(CONFIRM_TIMEOUT);
        let (said, server) = shard.connection().run(Trip::Script(&call), false, within).await?;
        let said: (String, i64) = redis::from_redis_value(said)
            .map_err(|_| Fault::stay("Redis answered a probe with something else"))?;
        match said {
            (form, _) if !form.is_empty() && form != STORED_FORM => {
                Err(Fault::stay(self.refusal(&format!("its form is {form}"))))
            }
            (_, heard) => Ok((server, heard)),
        }
    }

    /// Sets a shard's mark where there is none.
    async fn mark(&self, shard: &Shard) -> Result<(), Fault> {
        let mut set = redis::cmd("SET");
        set.arg(self.mark_of(shard)?).arg(STORED_FORM).arg("NX");
        let within = self.call_timeout.min(CONFIRM_TIMEOUT);
        shard.connection().run(Trip::Command(&set), false, within).await.map(drop)
    }

    /// A shard's mark.
    async fn form(&self, shard: &Shard) -> Result<Option<String>, Fault> {
        let mut get = redis::cmd("GET");
        get.arg(self.mark_of(shard)?);
        let (said, _) = shard.connection().run(Trip::Command(&get), false, self.call_timeout).await?;
        Ok(form_of(said))
    }

    /// Reads the marks of all shards that answer. `None`: none of them has a mark.
    async fn read(&self) -> Result<Option<Judged>, Fault> {
        let marks = any(self.shards.iter().map(|shard| self.form(shard))).await?;
        let mut judged = None;
        for form in marks.into_iter().flatten() {
            if form == MOVING {
                let why = format!(
                    "a `tipcast store move` into {:?} is under way or was interrupted: wait for it, or go on with --resume",
                    self.prefix
                );
                return Ok(Some(Judged::Foreign(why)));
            }
            if form != STORED_FORM {
                return Ok(Some(Judged::Foreign(self.refusal(&format!("its form is {form}")))));
            }
            judged = Some(Judged::Good);
        }
        Ok(judged)
    }

    /// A key under the prefix on this shard that ends with none of these.
    async fn first_key(
        &self,
        shard: &Shard,
        until: Option<Instant>,
        but: &[&str],
    ) -> Result<Option<String>, Fault> {
        let pattern = all_under(self.prefix);
        let mut cursor = 0;
        while until.is_none_or(|until| Instant::now() < until) {
            let scan = scan_command(cursor, &pattern, KEYS_PER_SCAN);
            let (said, server) =
                shard.connection().run(Trip::Command(&scan), false, self.call_timeout).await?;
            let scanned = Scanned::read(said, server.word());
            let scanned = scanned.ok_or_else(|| Fault::stay("Redis answered SCAN with something else"))?;
            cursor = scanned.cursor;
            if let Some(key) = scanned.keys.into_iter().find(|key| !but.iter().any(|end| key.ends_with(end)))
            {
                return Ok(Some(key));
            }
            if cursor == 0 {
                break;
            }
        }
        Ok(None)
    }

    fn mark_of(&self, shard: &Shard) -> Result<String, Fault> {
        let prefix = self.prefix;
        if !self.is_cluster {
            return Ok(format!("{prefix}{{probe}}{FORM_KEY}"));
        }
        let home = self.layout.home_of(&shard.endpoint);
        let home = home.ok_or_else(|| Fault::stay("the server has no slots"))?;
        Ok(format!("{prefix}{{{}}}{FORM_KEY}", tag_of_slot(home)))
    }

    fn refusal(&self, found: &str) -> String {
        format!(
            "this Redis holds feeds of another version of Tipcast under {:?} ({found}; this version writes form {STORED_FORM}): start \
             the version that wrote them, or give this one an empty database, or another [redis] prefix",
            self.prefix
        )
    }
}

/// Asks all at the same time. What those said that answered; an error if none did.
async fn any<T>(
    asked: impl Iterator<Item = impl Future<Output = Result<T, Fault>>>,
) -> Result<Vec<T>, Fault> {
    let (mut answers, mut fault) = (Vec::new(), None);
    for said in futures_util::future::join_all(asked).await {
        match said {
            Ok(answer) => answers.push(answer),
            Err(why) => fault = Some(why),
        }
    }
    match fault {
        Some(fault) if answers.is_empty() => Err(fault),
        _ => Ok(answers),
    }
}

fn form_of(said: Value) -> Option<String> {
    redis::from_redis_value(said).ok().flatten()
}
