//! The key with which this installation signs what it sends to webhooks. It is made once and lies beside the webhooks of
//! all feeds. In a cluster every shard has a copy: nodes that start while that shard is away deliver for the others.

use std::sync::Arc;

use redis::FromRedisValue;
use tokio::sync::OnceCell;

use crate::domain::signature::SigningKey;
use crate::engine::protocol::faults::Fault;
use crate::engine::protocol::scripts::{self, Call};
use crate::engine::protocol::wire::Corrupt;
use crate::engine::store::reports::attach::Attaching;
use crate::engine::store::runner::Runner;
use crate::random;

/// The installation's key, as this process knows it: it never changes.
pub struct Signing {
    pub runner: Arc<Runner>,
    pub attaching: Arc<Attaching>,
    pub known: OnceCell<Arc<SigningKey>>,
}

impl Signing {
    pub async fn key(&self) -> Result<Arc<SigningKey>, Fault> {
        self.known.get_or_try_init(async || self.find().await).await.cloned()
    }

    async fn find(&self) -> Result<Arc<SigningKey>, Fault> {
        let home = self.runner.keys.signing_key();
        let copies = self.attaching.copies().into_iter().map(|part| self.runner.keys.signing_key_copy(part));
        let copies: Vec<String> = copies.collect();
        let text = match self.read(&home).await {
            Ok(Some(text)) => text,
            // Also after a store lost it: receivers know the one that was copied.
            Ok(None) => {
                let proposed = match self.first_of(&copies).await {
                    Some(text) => text,
                    None => SigningKey::spell(&random::bytes()),
                };
                self.keep(&home, &proposed).await?
            }
            Err(fault) => self.first_of(&copies).await.ok_or(fault)?,
        };
        let key = SigningKey::read(&text)
            .ok_or_else(|| Fault::from(Corrupt("the key of signatures")).of_an_index())?;
        for copy in copies {
            if let Err(fault) = self.keep(&copy, &text).await {
                tracing::debug!(why = fault.why, "a shard has no copy of the key of signatures");
            }
        }
        Ok(Arc::new(key))
    }

    async fn first_of(&self, copies: &[String]) -> Option<String> {
        for copy in copies {
            if let Ok(Some(text)) = self.read(copy).await {
                return Some(text);
            }
        }
        None
    }

    async fn read(&self, key: &str) -> Result<Option<String>, Fault> {
        let value =
            self.runner.backend.command(key, redis::cmd("GET").arg(key), self.runner.part_timeout()).await?;
        Option::from_redis_value(value).map_err(|_| Corrupt("the key of signatures").into())
    }

    /// Keeps `proposed` where there is none; what there is.
    async fn keep(&self, key: &str, proposed: &str) -> Result<String, Fault> {
        let mut call = Call::of(&scripts::SIGNING_KEY);
        call.key("signing_key", key).arg("proposed", proposed);
        self.runner.run_within(&call, self.runner.part_timeout()).await
    }
}
