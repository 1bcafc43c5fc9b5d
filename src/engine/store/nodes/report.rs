//! What nodes report, all in one slot: they are of no feed. None of it is worth anything after a restart.

use redis::{Cmd, cmd};

use crate::domain::Millis;
use crate::engine::StoreResult;
use crate::engine::nodes::{NODE_STATE_LEASE_MS, NodeReport, ReportedNode, SERIES_KEPT_MS};
use crate::engine::protocol::faults::Fault;
use crate::engine::protocol::slots::slot_of_key;
use crate::engine::protocol::wire::Corrupt;
use crate::engine::store::Store;
use crate::metrics::labels::Operation;

/// Nodes that are listed.
const MAX_NODES: usize = 256;

impl Store {
    /// Reports what a node does, and that it lives. Call it every five seconds.
    pub async fn report_node(&self, report: &NodeReport, now: Millis) -> StoreResult<()> {
        self.measured(Operation::Nodes, None, async {
            let keys = &self.parts.runner.keys;
            let NodeReport { run, state, series, is_new } = report;
            let mut writes = vec![expiring(keys.node_state(run), state, NODE_STATE_LEASE_MS)];
            writes.extend(series.as_ref().map(|it| expiring(keys.node_series(run), it, SERIES_KEPT_MS)));
            if *is_new {
                let mut add = cmd("ZADD");
                add.arg(keys.node_names()).arg(now.0).arg(run);
                writes.push(add);
            }
            self.ask_of_nodes(writes).await.map(drop)
        })
        .await
    }

    /// Takes a node that leaves out of the list. Its samples stay.
    pub async fn forget_node(&self, run: &str) -> StoreResult<()> {
        self.measured(Operation::Nodes, None, async {
            let mut gone = cmd("DEL");
            gone.arg(self.parts.runner.keys.node_state(run));
            self.ask_of_nodes(vec![gone]).await.map(drop)
        })
        .await
    }

    /// What nodes reported: their states, or with `with_series` their samples too. Those that died lately are among them.
    pub async fn read_nodes(&self, with_series: bool) -> StoreResult<Vec<ReportedNode>> {
        self.measured(Operation::Nodes, None, async {
            let keys = &self.parts.runner.keys;
            let mut range = cmd("ZRANGE");
            range.arg(keys.node_names()).arg(-(MAX_NODES as i64)).arg(-1);
            let names = self.ask_of_nodes(vec![range]).await?.into_iter().next().unwrap_or_default();
            let runs: Vec<String> = names.into_iter().flatten().collect();
            if runs.is_empty() {
                return Ok(Vec::new());
            }
            let (mut states, mut series) = (cmd("MGET"), cmd("MGET"));
            for run in &runs {
                states.arg(keys.node_state(run));
                series.arg(keys.node_series(run));
            }
            let reads = [Some(states), with_series.then_some(series)].into_iter().flatten().collect();
            let mut replies = self.ask_of_nodes(reads).await?.into_iter();
            let (states, series) = (replies.next().unwrap_or_default(), replies.next().unwrap_or_default());
            let mut series = series.into_iter();
            let node = |(run, state)| ReportedNode { run, state, series: series.next().flatten() };
            Ok(runs.into_iter().zip(states).map(node).collect())
        })
        .await
    }

    /// Takes runs of nodes out of the list that neither live nor have samples.
    pub async fn forget_old_nodes(&self, before: Millis) -> StoreResult<()> {
        self.measured(Operation::Nodes, None, async {
            let keys = &self.parts.runner.keys;
            let mut old = cmd("ZRANGEBYSCORE");
            old.arg(keys.node_names()).arg("-inf").arg(before.0);
            let names = self.ask_of_nodes(vec![old]).await?.into_iter().next().unwrap_or_default();
            let names: Vec<String> = names.into_iter().flatten().collect();
            if names.is_empty() {
                return Ok(());
            }
            let mut gone = cmd("ZREM");
            gone.arg(keys.node_names()).arg(names);
            self.ask_of_nodes(vec![gone]).await.map(drop)
        })
        .await
    }

    /// Runs commands about nodes. Answers the texts of each reply; a number is none.
    async fn ask_of_nodes(&self, commands: Vec<Cmd>) -> Result<Vec<Vec<Option<String>>>, Fault> {
        let runner = &self.parts.runner;
        let slot = slot_of_key(&runner.keys.node_names());
        let commands: Vec<(u16, Cmd)> = commands.into_iter().map(|command| (slot, command)).collect();
        let mut all = Vec::with_capacity(commands.len());
        for reply in runner.backend.commands(&commands, runner.options.call_timeout).await {
            let texts = match reply? {
                reply @ redis::Value::Array(_) => {
                    redis::from_redis_value(reply).map_err(|_| Corrupt("reports of nodes"))?
                }
                _ => Vec::new(),
            };
            all.push(texts);
        }
        Ok(all)
    }
}

fn expiring(key: String, text: &str, ms: u64) -> Cmd {
    let mut set = cmd("SET");
    set.arg(key).arg(text).arg("PX").arg(ms);
    set
}
