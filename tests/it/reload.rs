//! SIGHUP: what can hold at once does, the rest is named, and a bad file changes nothing.

use std::path::PathBuf;

use tempfile::TempDir;

use crate::support::gifts::gift;
use crate::support::process::Process;

struct Reloading {
    gateway: Process,
    file: PathBuf,
    _dir: TempDir,
}

impl Reloading {
    fn start(text: &str) -> Reloading {
        let dir = TempDir::new().unwrap();
        let file = dir.path().join("tipcast.toml");
        std::fs::write(&file, text).unwrap();
        let data = dir.path().join("data").display().to_string();
        let args = ["--config", file.to_str().unwrap(), "--data-dir", &data].map(str::to_owned);
        Reloading { gateway: Process::serve(&args), file, _dir: dir }
    }

    /// Writes the file, asks for it to be read, and waits for these words in the log.
    fn reload(&self, text: &str, words: &str) -> String {
        std::fs::write(&self.file, text).unwrap();
        self.gateway.hang_up();
        self.gateway.wait_for_words(words)
    }

    async fn post(&self, key: &str) -> u16 {
        let request = self.gateway.request("POST", "/v1/feeds/show/gifts").json(&gift("g1").json());
        request.header("authorization", format!("Bearer {key}")).send().await.unwrap().status().as_u16()
    }
}

const ONE: &str = "the-first-key-of-the-tests";
const TWO: &str = "the-second-key-of-the-tests";

#[tokio::test]
async fn keys_change_while_it_runs_and_what_needs_a_restart_is_named() {
    let running = Reloading::start(&format!("[auth]\nproducer_keys = [\"{ONE}\"]\n"));
    assert_eq!((running.post(ONE).await, running.post(TWO).await), (201, 401));
    let both = format!("[auth]\nproducer_keys = [\"{ONE}\", \"{TWO}\"]\n");
    running.reload(&both, "changed: [auth] producer_keys");
    assert_eq!((running.post(ONE).await, running.post(TWO).await), (200, 200));

    let second =
        format!("[auth]\nproducer_keys = [\"{TWO}\"]\n[feeds]\ncapacity = 7\n[log]\nlevel = \"debug\"\n");
    let said = running.reload(&second, "wait for a restart: [feeds] capacity");
    assert!(said.contains("changed: [auth] producer_keys, [log] level"), "{said}");
    assert_eq!((running.post(ONE).await, running.post(TWO).await), (401, 200));
    assert!(!said.contains(ONE) && !said.contains(TWO), "{said}");
}

#[tokio::test]
async fn a_bad_file_leaves_what_was_in_force_and_says_why() {
    let good = format!("[auth]\nproducer_keys = [\"{ONE}\"]\n[limits]\nrequests_per_second = 0\n");
    let running = Reloading::start(&good);
    for (bad, words) in [
        ("[auth]\nproducer_kays = []\n", "did you mean producer_keys?"),
        ("[auth]\nproducer_keys = [\"short\"]\n", "[auth] producer_keys: entry 1"),
        ("[limits]\nrequest_burst = 500\n", "does nothing without requests_per_second"),
        ("[auth\n", "is not TOML"),
        ("[http]\nallowed_origins = [\"show.example\"]\n", "[http] allowed_origins"),
    ] {
        let said = running.reload(bad, words);
        assert!(said.contains("what was stays in force"), "{said}");
        assert_eq!((running.post(ONE).await == 401, running.post(TWO).await), (false, 401), "{bad}");
    }
    running.reload("", "changed: [auth] producer_keys");
    assert_eq!(running.post("anything").await, 200);
}

#[tokio::test]
async fn keys_cannot_be_taken_away_from_a_server_that_listens_beyond_loopback() {
    let dir = TempDir::new().unwrap();
    let file = dir.path().join("tipcast.toml");
    let listen = "[http]\nlisten = \"0.0.0.0:0\"\n";
    std::fs::write(&file, format!("[auth]\nproducer_keys = [\"{ONE}\"]\n{listen}")).unwrap();
    let data = dir.path().join("data").display().to_string();
    let args = ["--config", file.to_str().unwrap(), "--data-dir", &data].map(str::to_owned);
    let gateway = Process::listening(&args);
    // The new file would start by itself; what is in force would be neither.
    std::fs::write(&file, "[http]\nlisten = \"127.0.0.1:0\"\n").unwrap();
    gateway.hang_up();
    let said = gateway.wait_for_words("what was stays in force");
    assert!(said.contains("refusing to listen on 0.0.0.0"), "{said}");
    let api = crate::support::api::Api::at(gateway.base.replace("0.0.0.0", "127.0.0.1"));
    api.post_gift("show", &gift("g1")).await.problem(401);
}

#[tokio::test]
async fn limits_and_origins_change_for_who_comes_next() {
    let running = Reloading::start("");
    let feed = running.gateway.request("GET", "/v1/feeds/show").header("origin", "https://a.example");
    let said = crate::support::api::Api::send(feed.try_clone().unwrap()).await;
    assert_eq!(said.header("access-control-allow-origin"), "*");
    running.reload(
        "[http]\nallowed_origins = [\"https://a.example\"]\n[limits]\nrequests_per_second = 5\n",
        "changed: [http] allowed_origins, [limits] requests_per_second",
    );
    let said = crate::support::api::Api::send(feed).await;
    assert_eq!(said.header("access-control-allow-origin"), "https://a.example");
    let said = running.gateway.post_gift("show", &gift("g1")).await;
    assert_eq!(said.header("ratelimit-policy"), "\"requests\";q=128;w=26");
}

#[tokio::test]
async fn the_level_of_the_log_changes_while_it_runs() {
    let running = Reloading::start("[log]\nlevel = \"error\"\n");
    assert_eq!(running.gateway.get("/healthz").await.status, 200);
    assert!(!running.gateway.said().contains("INFO"), "{}", running.gateway.said());
    let said = running.reload("[log]\nlevel = \"info\"\n", "changed: [log] level");
    assert!(said.contains("INFO"), "{said}");
}
