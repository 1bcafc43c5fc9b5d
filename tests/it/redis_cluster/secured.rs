//! TLS, users and passwords.

use super::*;
use crate::support::cluster::{Plan, Sentinels};
use crate::support::redis_server::{AclBlock, RedisServer, TLS_PORT};
use crate::support::tls::Papers;

fn tls_server(papers: &Papers, clients: &str) -> (RedisServer, u16) {
    let (cert, key) = (papers.cert().display().to_string(), papers.key().display().to_string());
    let server = RedisServer::with(&[
        "--appendonly",
        "no",
        "--tls-port",
        TLS_PORT,
        "--tls-cert-file",
        &cert,
        "--tls-key-file",
        &key,
        "--tls-ca-cert-file",
        &cert,
        "--tls-auth-clients",
        clients,
    ]);
    let port = server.tls_port;
    (server, port)
}

#[tokio::test(flavor = "multi_thread")]
async fn over_tls_names_and_authorities_are_checked_and_clients_show_their_certificate() {
    let (papers, strangers) = (Papers::new(), Papers::new());
    let (_server, port) = tls_server(&papers, "yes");
    let feed: FeedId = "room".parse().unwrap();
    let url = format!("rediss://localhost:{port}/0");
    let right = StoreOptions {
        ca_file: Some(papers.cert()),
        client_cert: Some(papers.cert()),
        client_key: Some(papers.key()),
        ..StoreOptions::new(url.clone())
    };
    let engine = Store::redis(right.clone()).await.unwrap();
    let mut watcher = Follower::start(&engine, &feed).await;
    let answer = post(&engine, &feed, "a").await.unwrap();
    watcher.hears_of(&answer.at).await;
    has_shards(&engine, Shards::WHOLE).await;

    let wrong = [
        StoreOptions { ca_file: Some(strangers.cert()), ..right.clone() },
        StoreOptions { client_cert: None, client_key: None, ..right.clone() },
        StoreOptions { url: format!("rediss://127.0.0.1:{port}"), ..right.clone() },
    ];
    for options in wrong {
        let engine = Store::redis(options).await.unwrap();
        assert!(matches!(post(&engine, &feed, "b").await, Err(StoreError::Unavailable(_))));
    }
    // The name is that of the address at which it is reached.
    let mapped = StoreOptions {
        url: "rediss://redis.internal:6379".into(),
        addresses: vec![format!("redis.internal:6379=localhost:{port}")],
        ..right
    };
    let engine = Store::redis(mapped).await.unwrap();
    assert_eq!(post(&engine, &feed, "c").await.unwrap().at.seq, 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn why_there_is_no_connection_is_said_with_what_to_do() {
    let (papers, strangers) = (Papers::new(), Papers::new());
    let (over_tls, port) = tls_server(&papers, "yes");
    let guarded = RedisServer::with(&["--appendonly", "no"]);
    assert_eq!(guarded.run(&["CONFIG", "SET", "requirepass", "right"]), "OK");
    let right = StoreOptions {
        ca_file: Some(papers.cert()),
        client_cert: Some(papers.cert()),
        client_key: Some(papers.key()),
        ..StoreOptions::new(format!("rediss://localhost:{port}/0"))
    };
    let plain_as_tls = format!("rediss://localhost:{}/0", over_tls.port);
    let wrong = [
        (
            StoreOptions { client_cert: None, client_key: None, ..right.clone() },
            "CertificateRequired",
            "client_cert",
        ),
        (
            StoreOptions { ca_file: Some(strangers.cert()), ..right.clone() },
            "invalid peer certificate",
            "ca_file",
        ),
        (StoreOptions { url: plain_as_tls, ..right.clone() }, "TLS", "redis:// in place of rediss://"),
        (StoreOptions { url: format!("redis://localhost:{port}/0"), ..right }, "TLS", "rediss:// in the URL"),
        (
            StoreOptions::new(format!("redis://:wrong@127.0.0.1:{}/", guarded.port)),
            "authentication failed",
            "credentials",
        ),
        (StoreOptions::new(format!("redis://127.0.0.1:{}/", guarded.port)), "NOAUTH", "credentials"),
    ];
    for (options, cause, advice) in wrong {
        let (url, since) = (options.url.clone(), Instant::now());
        let engine = Store::redis(options).await.unwrap();
        loop {
            let Err(StoreError::Unavailable(why)) = engine.probe_store().await else {
                panic!("{url} is taken")
            };
            assert!(!why.contains(":wrong@") && why.len() < 700, "{why}");
            if why.contains(cause) && why.contains(advice) {
                break;
            }
            assert!(since.elapsed() < PATIENCE, "{url} should name {cause} and {advice}: {why}");
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_over_tls_is_followed_by_the_names_that_its_nodes_announce() {
    let (papers, strangers) = (Papers::new(), Papers::new());
    let (cert, key) = (papers.cert().display().to_string(), papers.key().display().to_string());
    let options = [
        ["--tls-port", TLS_PORT],
        ["--tls-cluster", "yes"],
        ["--tls-replication", "yes"],
        ["--tls-cert-file", &cert],
        ["--tls-key-file", &key],
        ["--tls-ca-cert-file", &cert],
        ["--cluster-announce-hostname", "localhost"],
        ["--cluster-preferred-endpoint-type", "hostname"],
    ];
    let mut cluster = Cluster::of(Plan {
        replicas: 1,
        options: &|_| options.as_flattened().iter().map(|word| word.to_string()).collect(),
        met_at: &|_, node| (node.tls_port, node.bus_port),
        ..Plan::default()
    });
    for node in &cluster.nodes {
        node.wait("it knows every name", |node| {
            node.run(&["CLUSTER", "SLOTS"]).matches("localhost").count() == cluster.nodes.len()
        });
    }
    // One name is enough: the others are announced.
    let right = StoreOptions {
        ca_file: Some(papers.cert()),
        client_cert: Some(papers.cert()),
        client_key: Some(papers.key()),
        ..StoreOptions::new(format!("rediss+cluster://localhost:{}", cluster.nodes[4].tls_port))
    };
    let strange = StoreOptions { ca_file: Some(strangers.cert()), ..right.clone() };
    let engine = Store::redis(right).await.unwrap();
    for primary in 0..3 {
        let feed = feed_at(&cluster, primary);
        insist(&engine, &feed, "a").await;
        let mut watcher = Follower::start(&engine, &feed).await;
        let answer = post(&engine, &feed, "b").await.unwrap();
        watcher.hears_of(&answer.at).await;
    }
    has_shards(&engine, Shards { up: 3, down: 0 }).await;
    let feed = feed_at(&cluster, 1);
    cluster.nodes[1].kill();
    cluster.wait_for_promotion(&format!("tc:{{{feed}}}:list"), 1);
    insist(&engine, &feed, "after").await;
    is_known(&engine, &feed, "a").await;
    let stranger = Store::redis(strange).await.unwrap();
    assert!(matches!(post(&stranger, &feed, "c").await, Err(StoreError::Unavailable(_))));
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_sent_in_the_clear_when_tls_was_asked_for() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    for scheme in ["rediss", "rediss+cluster", "rediss+sentinel"] {
        let path = if scheme.ends_with("sentinel") { "/main" } else { "" };
        let options = StoreOptions {
            sentinel_password: Some("hush".into()),
            ..StoreOptions::new(format!("{scheme}://user:hush@127.0.0.1:{port}{path}"))
        };
        let opening = tokio::spawn(Store::redis(options));
        // Connections of the engine before this one end without a byte.
        let first = loop {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut first = [0; 1];
            if tokio::io::AsyncReadExt::read_exact(&mut stream, &mut first).await.is_ok() {
                break first[0];
            }
        };
        assert_eq!(first, 22, "{scheme}: a TLS handshake");
        opening.abort();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn sentinels_and_data_nodes_have_users_of_their_own() {
    let mut group = Sentinels::start();
    for node in &mut group.nodes {
        node.make_user(AclBlock::Single);
        assert_eq!(node.run(&["CONFIG", "SET", "masteruser", "default"]), "OK");
    }
    for sentinel in &mut group.sentinels {
        sentinel.make_user(AclBlock::Sentinel);
    }
    let url = group.url().replace("sentinel://", "sentinel://tipcast:secret@");
    let feed: FeedId = "room".parse().unwrap();
    let right = StoreOptions {
        prefix: "t:".into(),
        wait_replicas: 1,
        sentinel_username: Some("tipcast".into()),
        sentinel_password: Some("secret".into()),
        ..StoreOptions::new(url)
    };
    let engine = Store::redis(right.clone()).await.unwrap();
    let since = Instant::now();
    while let Err(error) = post(&engine, &feed, "a").await {
        assert!(since.elapsed() < PATIENCE, "{error}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    has_shards(&engine, Shards::WHOLE).await;
    let wrong = StoreOptions { sentinel_password: Some("guess".into()), ..right };
    let engine = Store::redis(wrong).await.unwrap();
    let refused = post(&engine, &feed, "b").await;
    assert!(
        matches!(&refused, Err(StoreError::Unavailable(why)) if why.contains("sentinel_password")),
        "{refused:?}"
    );
}
