//! Clusters and sentinels of a test's own.

use std::time::{Duration, Instant};

use super::redis_server::{BUS_PORT, RedisServer};

/// How long a cluster may take to form, or to choose another primary.
const PATIENCE: Duration = Duration::from_secs(90);

/// A failover by hand that has not happened by then was given up by the server, without a word: it gives up after 5 s.
const HANDED_OVER: Duration = Duration::from_secs(6);

/// Nodes that do not hear of each other for so long think that the other is gone.
const NODE_TIMEOUT_MS: &str = "2000";

/// How a cluster is made, of three primaries.
pub struct Plan<'a> {
    /// Of each primary.
    pub replicas: usize,
    /// What its nodes run.
    pub program: &'a str,
    /// More options of each node, by its number.
    pub options: &'a dyn Fn(usize) -> Vec<String>,
    /// By which ports, its own and its bus's, others hear of a node.
    pub met_at: &'a dyn Fn(usize, &RedisServer) -> (u16, u16),
    /// Called with the nodes when they run, before they know of each other.
    pub ready: &'a dyn Fn(&[RedisServer]),
}

impl Default for Plan<'_> {
    fn default() -> Self {
        Plan {
            replicas: 0,
            program: "redis-server",
            options: &|_| Vec::new(),
            met_at: &|_, node| (node.port, node.bus_port),
            ready: &|_| (),
        }
    }
}

/// A running cluster: primaries, and as many replicas behind each of them as were asked for.
pub struct Cluster {
    /// The first ones are the primaries; the replicas of the first follow, then those of the second.
    pub nodes: Vec<RedisServer>,
}

impl Cluster {
    /// Three primaries, each with this number of replicas.
    pub fn start(replicas: usize) -> Cluster {
        Cluster::of(Plan { replicas, ..Plan::default() })
    }

    /// As this plan says.
    pub fn of(plan: Plan) -> Cluster {
        let (primaries, replicas) = (3, plan.replicas);
        let nodes: Vec<_> =
            (0..primaries * (1 + replicas)).map(|at| node(plan.program, &(plan.options)(at))).collect();
        (plan.ready)(&nodes);
        let cluster = Cluster { nodes };
        let share = 16_384 / primaries;
        for (at, node) in cluster.nodes.iter().enumerate() {
            if at < primaries {
                let last = if at + 1 == primaries { 16_383 } else { (at + 1) * share - 1 };
                node.run(&["CLUSTER", "ADDSLOTSRANGE", &(at * share).to_string(), &last.to_string()]);
            }
            let (port, bus) = (plan.met_at)(at, node);
            cluster.nodes[0].run(&["CLUSTER", "MEET", "127.0.0.1", &port.to_string(), &bus.to_string()]);
        }
        let all = format!("cluster_known_nodes:{}", cluster.nodes.len());
        cluster.wait("every node knows every other", |node| node.run(&["CLUSTER", "INFO"]).contains(&all));
        for (at, node) in cluster.nodes.iter().enumerate().skip(primaries) {
            let primary = &cluster.nodes[(at - primaries) / replicas];
            let id = primary.run(&["CLUSTER", "MYID"]);
            let since = Instant::now();
            while node.run(&["CLUSTER", "REPLICATE", &id]) != "OK" {
                assert!(since.elapsed() < PATIENCE, "a replica does not follow");
                std::thread::sleep(Duration::from_millis(20));
            }
        }
        cluster.wait("the cluster works", |node| node.run(&["CLUSTER", "INFO"]).contains("cluster_state:ok"));
        cluster.wait("replicas are up to date", |node| {
            let info = node.run(&["INFO", "replication"]);
            info.contains("role:master") || info.contains("master_link_status:up")
        });
        for node in &cluster.nodes[..primaries] {
            let connected = format!("connected_slaves:{replicas}");
            node.wait("it has its replicas", |node| node.run(&["INFO", "replication"]).contains(&connected));
        }
        // Everybody must know who has what before a client asks.
        cluster.wait("every node knows all slots", |node| {
            node.run(&["CLUSTER", "NODES"]).lines().filter(|line| line.contains("-")).count() >= primaries
                && node.run(&["CLUSTER", "INFO"]).contains("cluster_slots_ok:16384")
        });
        cluster
    }

    /// For clients: some of its nodes.
    pub fn url(&self) -> String {
        let hosts: Vec<_> = self.nodes.iter().map(|node| format!("127.0.0.1:{}", node.port)).collect();
        format!("redis+cluster://{}{}", self.nodes[0].user, hosts.join(","))
    }

    /// A name, of those that begin so, whose slot is at this primary.
    pub fn name_at(&self, primary: usize, begin: &str) -> String {
        let nodes = self.nodes[primary].run(&["CLUSTER", "NODES"]);
        let slot_of =
            |name: &str| -> u16 { self.nodes[primary].run(&["CLUSTER", "KEYSLOT", name]).parse().unwrap() };
        (0..).map(|n| format!("{begin}{n}")).find(|name| has_slot(&nodes, slot_of(name))).unwrap()
    }

    /// Waits until another node than `before` is the primary of this key's slot, and says which.
    pub fn wait_for_promotion(&self, key: &str, before: usize) -> usize {
        self.promoted(key, before, PATIENCE).expect("a replica is promoted")
    }

    /// Has this replica take over the slot of this key from its primary, as an operator does: again when the server
    /// gave it up, which a slow one does.
    pub fn hand_over(&self, key: &str, primary: usize, replica: usize) {
        let since = Instant::now();
        loop {
            assert_eq!(self.nodes[replica].run(&["CLUSTER", "FAILOVER"]), "OK");
            match self.promoted(key, primary, HANDED_OVER) {
                Some(at) => return assert_eq!(at, replica),
                None => assert!(since.elapsed() < PATIENCE, "the replica does not take over"),
            }
        }
    }

    /// Which other node than `before` is the primary of this key's slot, as soon as there is one.
    fn promoted(&self, key: &str, before: usize, patience: Duration) -> Option<usize> {
        let since = Instant::now();
        while since.elapsed() < patience {
            let slot: u16 = self.nodes[self.any_up()].run(&["CLUSTER", "KEYSLOT", key]).parse().unwrap();
            let others =
                self.nodes.iter().enumerate().filter(|(at, node)| *at != before && node.is_running());
            for (at, node) in others {
                if has_slot(&node.run(&["CLUSTER", "NODES"]), slot) {
                    return Some(at);
                }
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        None
    }

    fn any_up(&self) -> usize {
        self.nodes.iter().position(RedisServer::is_running).expect("a node that runs")
    }

    fn wait(&self, what: &str, done: impl Fn(&RedisServer) -> bool) {
        self.nodes.iter().for_each(|node| node.wait(what, &done));
    }
}

/// True when the node that says this of itself has the slot.
fn has_slot(nodes: &str, slot: u16) -> bool {
    let Some(own) = nodes.lines().find(|line| line.contains("myself,master")) else { return false };
    own.split(' ').skip(8).filter(|range| !range.starts_with('[')).any(|range| {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        (first.parse().unwrap_or(u16::MAX)..=last.parse().unwrap_or(0)).contains(&slot)
    })
}

fn node(program: &str, options: &[String]) -> RedisServer {
    let own = [
        "--appendonly",
        "no",
        "--cluster-enabled",
        "yes",
        "--cluster-port",
        BUS_PORT,
        "--cluster-node-timeout",
        NODE_TIMEOUT_MS,
        "--cluster-require-full-coverage",
        "no",
        "--cluster-replica-validity-factor",
        "0",
        "--repl-diskless-sync-delay",
        "0",
    ];
    let all: Vec<&str> = own.into_iter().chain(options.iter().map(String::as_str)).collect();
    RedisServer::program(program, &all)
}

/// A primary with a replica, and three sentinels that watch it as `main`.
pub struct Sentinels {
    /// The primary, and its replica.
    pub nodes: Vec<RedisServer>,
    /// Those who watch.
    pub sentinels: Vec<RedisServer>,
}

impl Sentinels {
    /// Two of three must agree that the primary is gone, after 1.5 s without an answer.
    pub fn start() -> Sentinels {
        Sentinels::with(&["--appendonly", "no"], &[])
    }

    /// With these options for the data nodes, and these lines for sentinels.
    pub fn with(options: &[&str], lines: &[&str]) -> Sentinels {
        let primary = RedisServer::with(&[options, &["--repl-diskless-sync-delay", "0"]].concat());
        let port = primary.port.to_string();
        let replica = RedisServer::with(
            &[options, &["--repl-diskless-sync-delay", "0", "--replicaof", "127.0.0.1", &port]].concat(),
        );
        primary
            .wait("it has its replica", |node| node.run(&["INFO", "replication"]).contains("state=online"));
        let watch = |_| {
            let mut text = format!(
                "sentinel monitor main 127.0.0.1 {port} 2\nsentinel down-after-milliseconds main 1500\n\
                 sentinel failover-timeout main 4000\nsentinel parallel-syncs main 1\n"
            );
            lines.iter().for_each(|line| text.push_str(&format!("{line}\n")));
            RedisServer::sentinel(&text)
        };
        let sentinels: Vec<_> = (0..3).map(watch).collect();
        for sentinel in &sentinels {
            sentinel.wait("it knows the others and the replica", |it| {
                let told = it.run(&["SENTINEL", "MASTER", "main"]);
                told.contains("num-other-sentinels\n2") && told.contains("num-slaves\n1")
            });
        }
        Sentinels { nodes: vec![primary, replica], sentinels }
    }

    /// For clients.
    pub fn url(&self) -> String {
        let hosts: Vec<_> = self.sentinels.iter().map(|it| format!("127.0.0.1:{}", it.port)).collect();
        format!("redis+sentinel://{}/main", hosts.join(","))
    }

    /// Waits until the replica is the primary.
    pub fn wait_for_promotion(&self) {
        self.nodes[1].wait("the replica is promoted", |node| {
            node.run(&["INFO", "replication"]).contains("role:master")
        });
    }
}
