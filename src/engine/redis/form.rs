//! The form in which a Redis holds feeds: a mark on every shard names it, and what another form wrote is not touched.

use std::sync::Arc;

use redis::Value;
use tokio::time::{Duration, Instant};

use super::connection::Work;
use super::dial::ServerId;
use super::layout::Layout;
use super::scan::{Scanned, scan_command};
use super::shard::Shard;
use super::subscriber::PATIENCE;
use crate::engine::store::faults::Fault;
use crate::engine::store::slots::tag_of_slot;

/// The form that this version reads and writes. It grows when a key or a value means something else than before.
const FORM: &str = "5";

/// How long the search for keys may take where there is no mark. After that the server counts as new: other programs own its keys.
const LOOK: Duration = Duration::from_secs(10);

/// Keys that one step of that looks at.
const STEP: u32 = 1_000;

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
}

impl Marks<'_> {
    /// Reads the marks, and sets them where a Redis is new. An error when nobody can be asked now.
    ///
    /// A mark on any shard is enough: slots may have gone to a server that has none yet, and a shard that is away keeps no other
    /// from being used. Where nobody has one, keys under the prefix were written by a version that set none.
    pub(super) async fn judge(&self) -> Result<Judged, Fault> {
        if let Some(judged) = self.read().await? {
            return Ok(judged);
        }
        let until = Instant::now() + LOOK;
        for shard in self.shards {
            let Ok(Some(key)) = self.first_key(shard, until).await else { continue };
            // A gateway that started at the same time sets its mark before it writes anything else.
            return match self.read().await? {
                Some(judged) => Ok(judged),
                None => Ok(Judged::Foreign(self.refusal(&format!("{key} was written, and no form noted")))),
            };
        }
        any(self.shards.iter().map(|shard| self.mark(shard))).await?;
        Ok(Judged::Good)
    }

    /// Sets a shard's mark where there is none: refused like any other write. An error also where the mark is another's.
    pub(super) async fn mark(&self, shard: &Shard) -> Result<ServerId, Fault> {
        let mut set = redis::cmd("SET");
        set.arg(self.mark_of(shard)?).arg(FORM).arg("NX").arg("GET");
        let within = self.call_timeout.min(PATIENCE);
        let (said, server) = shard.connection().run(Work::Command(&set), false, within).await?;
        match form_of(said) {
            Some(form) if form != FORM => Err(Fault::stay(self.refusal(&format!("its form is {form}")))),
            _ => Ok(server),
        }
    }

    /// Reads the marks of all shards that answer. `None`: none of them has a mark.
    async fn read(&self) -> Result<Option<Judged>, Fault> {
        let marks = any(self.shards.iter().map(async |shard| {
            let mut get = redis::cmd("GET");
            get.arg(self.mark_of(shard)?);
            let (said, _) = shard.connection().run(Work::Command(&get), false, self.call_timeout).await?;
            Ok(form_of(said))
        }))
        .await?;
        let mut judged = None;
        for form in marks.into_iter().flatten() {
            if form != FORM {
                return Ok(Some(Judged::Foreign(self.refusal(&format!("its form is {form}")))));
            }
            judged = Some(Judged::Good);
        }
        Ok(judged)
    }

    /// A key under the prefix on this shard that depends on the form.
    async fn first_key(&self, shard: &Shard, until: Instant) -> Result<Option<String>, Fault> {
        let pattern = format!("{}{{*", literal(self.prefix));
        let mut cursor = 0;
        while Instant::now() < until {
            let scan = scan_command(cursor, &pattern, STEP);
            let (said, server) =
                shard.connection().run(Work::Command(&scan), false, self.call_timeout).await?;
            let scanned = Scanned::read(said, server.word());
            let scanned = scanned.ok_or_else(|| Fault::stay("Redis answered SCAN with something else"))?;
            cursor = scanned.cursor;
            // A fence is what one connection knows replicas by, and set before anything is judged.
            if let Some(key) = scanned.keys.into_iter().find(|key| !key.ends_with(":fence")) {
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
            return Ok(format!("{prefix}{{probe}}:form"));
        }
        let home = self.layout.home_of(&shard.endpoint);
        let home = home.ok_or_else(|| Fault::stay("the server has no slots"))?;
        Ok(format!("{prefix}{{{}}}:form", tag_of_slot(home)))
    }

    fn refusal(&self, found: &str) -> String {
        format!(
            "this Redis holds feeds of another version of Tipcast under {:?} ({found}; this version writes form {FORM}): start \
             the version that wrote them, or give this one an empty database, or another [redis] prefix",
            self.prefix
        )
    }
}

/// Asks all at the same time. What those said that answered; an error when nobody did.
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

/// A pattern that matches this text and nothing else.
fn literal(text: &str) -> String {
    let mut pattern = String::with_capacity(text.len());
    for letter in text.chars() {
        if matches!(letter, '*' | '?' | '[' | ']' | '\\' | '^') {
            pattern.push('\\');
        }
        pattern.push(letter);
    }
    pattern
}
