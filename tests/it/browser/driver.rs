//! A real Chromium, driven over WebDriver: the few commands that the tests need, as plain HTTP.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use reqwest::Method;
use serde_json::{Value, json};
use tempfile::TempDir;

/// How long a page may take for anything; far more than it needs, also on a busy machine.
const PATIENCE: Duration = Duration::from_secs(30);
/// The key under which WebDriver names an element (W3C WebDriver, section 11).
const ELEMENT: &str = "element-6066-11e4-a52e-4f735466cecf";

/// A chromedriver of this test's own. Dropping it ends it and every browser that it started, and removes what they wrote.
pub struct Driver {
    /// Leads a process group, in which its browsers are too.
    process: Child,
    port: u16,
    client: reqwest::Client,
    /// Where they keep profiles and whatever else is temporary.
    folder: TempDir,
}

impl Driver {
    /// Starts it on a free port.
    pub fn start() -> Driver {
        // It takes a free port for IPv4, then wants the same for IPv6; when somebody else took that
        // meanwhile, it ends without a word.
        let folder = tempfile::tempdir().unwrap();
        let started = (0..5).find_map(|_| Driver::try_start(folder.path()));
        let (process, port) = started.expect("chromedriver says its port");
        let client = crate::support::api::http().timeout(PATIENCE * 2).build().unwrap();
        Driver { process, port, client, folder }
    }

    fn try_start(folder: &Path) -> Option<(Child, u16)> {
        let mut process = Command::new("chromedriver")
            .arg("--port=0")
            .env("TMPDIR", folder)
            .process_group(0)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("chromedriver is installed; `make test` does it");
        // "ChromeDriver was started successfully on port 40323."
        let mut lines = BufReader::new(process.stdout.take().unwrap()).lines();
        let port = lines
            .by_ref()
            .map_while(Result::ok)
            .find_map(|line| line.strip_suffix('.')?.split_once(" on port ")?.1.parse().ok());
        let Some(port) = port else {
            let _ = process.kill();
            process.wait().unwrap();
            return None;
        };
        // Read on, or it would stand still at a full pipe.
        std::thread::spawn(move || lines.map_while(Result::ok).for_each(drop));
        Some((process, port))
    }

    /// Opens a browser of its own, with nothing remembered, on `url`.
    pub async fn open(&self, url: &str) -> Page<'_> {
        let page = self.blank().await;
        page.go(url).await;
        page
    }

    /// Opens a browser of its own on an empty page.
    pub async fn blank(&self) -> Page<'_> {
        let session = self
            .call(
                Method::POST,
                "/session",
                json!({ "capabilities": { "alwaysMatch": {
                    "goog:loggingPrefs": { "browser": "ALL" },
                    // What is looked for may still be on its way.
                    "timeouts": { "implicit": 10_000 },
                    "goog:chromeOptions": { "args": [
                        "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-quic",
                        "--disable-dev-shm-usage", "--no-first-run", "--disable-background-networking",
                        "--disable-component-update", "--disable-sync",
                    ] },
                } } }),
            )
            .await;
        let id = session["sessionId"].as_str().expect("a session has an id").to_owned();
        Page { driver: self, id }
    }

    async fn call(&self, method: Method, path: &str, body: Value) -> Value {
        let url = format!("http://127.0.0.1:{}{path}", self.port);
        let mut request = self.client.request(method.clone(), url);
        if method == Method::POST {
            request = request.json(&body);
        }
        let response = request.send().await.unwrap_or_else(|e| panic!("{path}: {e:?}"));
        let status = response.status();
        let mut answer: Value = response.json().await.unwrap();
        assert!(status.is_success(), "{path} {body}: {answer:#}");
        answer["value"].take()
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        // `/shutdown` ends the browsers too; killing chromedriver alone would leave them behind.
        let asked = TcpStream::connect(("127.0.0.1", self.port)).and_then(|mut stream| {
            stream.set_read_timeout(Some(Duration::from_secs(10)))?;
            stream.write_all(b"GET /shutdown HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")?;
            stream.read_to_end(&mut Vec::new())
        });
        let group = self.process.id();
        let ends = || {
            let until = Instant::now() + Duration::from_secs(10);
            while is_running(group) && Instant::now() < until {
                std::thread::sleep(Duration::from_millis(20));
            }
        };
        if asked.is_ok() {
            ends();
        }
        let _ =
            Command::new("kill").args(["-KILL", "--", &format!("-{group}")]).stderr(Stdio::null()).status();
        let _ = self.process.wait();
        // A browser's parts end a moment after it, and write until then: what they write to must be there until the last has.
        ends();
    }
}

/// Whether any process of this group runs. One that has ended and is not waited for by anybody does not.
fn is_running(group: u32) -> bool {
    let processes = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    processes.filter_map(|it| std::fs::read_to_string(it.path().join("stat")).ok()).any(|stat| {
        // Behind the name, which may hold anything: state, parent, group.
        let mut rest = stat.rsplit(") ").next().unwrap_or_default().split(' ');
        rest.next() != Some("Z") && rest.nth(1) == Some(&group.to_string())
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn a_browser_leaves_nothing_behind() {
    let driver = Driver::start();
    let (folder, group) = (driver.folder.path().to_owned(), driver.process.id());
    driver.open("about:blank").await.go("data:text/html,<p>there").await;
    assert!(is_running(group) && std::fs::read_dir(&folder).unwrap().next().is_some());
    drop(driver);
    assert!(!is_running(group) && !folder.exists());
}

/// One browser with one page.
pub struct Page<'a> {
    driver: &'a Driver,
    id: String,
}

impl Page<'_> {
    async fn command(&self, path: &str, body: Value) -> Value {
        self.driver.call(Method::POST, &format!("/session/{}{path}", self.id), body).await
    }

    /// Navigates and waits for the document.
    pub async fn go(&self, url: &str) {
        self.command("/url", json!({ "url": url })).await;
    }

    /// What a function body gives back.
    pub async fn eval(&self, script: &str) -> Value {
        self.command("/execute/sync", json!({ "script": script, "args": [] })).await
    }

    /// What a function body that calls `arguments[0]` calls it with.
    pub async fn eval_async(&self, script: &str) -> Value {
        self.command("/execute/async", json!({ "script": script, "args": [] })).await
    }

    /// Waits until `expression` gives `wanted`, and says what it gave when it never does.
    pub async fn until(&self, expression: &str, wanted: Value) {
        let script = format!("return {expression};");
        let deadline = Instant::now() + PATIENCE;
        loop {
            let got = self.eval(&script).await;
            if got == wanted {
                return;
            }
            if Instant::now() > deadline {
                panic!("{expression} is still {got:#}, not {wanted:#}; console: {:#?}", self.console().await);
            }
            tokio::time::sleep(Duration::from_millis(25)).await;
        }
    }

    /// A command of the browser's own protocol, for what WebDriver has no word for.
    pub async fn devtools(&self, command: &str, parameters: Value) -> Value {
        self.command("/goog/cdp/execute", json!({ "cmd": command, "params": parameters })).await
    }

    /// Runs a script before any of the page's own, in every document that comes.
    pub async fn before_all(&self, script: &str) {
        self.devtools("Page.addScriptToEvaluateOnNewDocument", json!({ "source": script })).await;
    }

    /// As if the person at this browser had chosen so: names and values of CSS media features.
    pub async fn prefers(&self, features: &[(&str, &str)]) {
        let features: Vec<_> =
            features.iter().map(|(name, value)| json!({ "name": name, "value": value })).collect();
        self.devtools("Emulation.setEmulatedMedia", json!({ "features": features })).await;
    }

    /// As if it were a phone of this size, in CSS pixels.
    pub async fn is_a_phone(&self, width: u32, height: u32) {
        let size = json!({ "width": width, "height": height, "deviceScaleFactor": 2, "mobile": true });
        self.devtools("Emulation.setDeviceMetricsOverride", size).await;
    }

    /// As if it were a window of a usual size.
    pub async fn is_a_desktop(&self) {
        let size = json!({ "width": 1280, "height": 900, "deviceScaleFactor": 1, "mobile": false });
        self.devtools("Emulation.setDeviceMetricsOverride", size).await;
    }

    async fn element(&self, css: &str) -> String {
        let found = self.command("/element", json!({ "using": "css selector", "value": css })).await;
        found[ELEMENT].as_str().expect("an element has a name").to_owned()
    }

    /// Empties a field and types into it, key by key.
    pub async fn fill(&self, css: &str, text: &str) {
        let element = self.element(css).await;
        self.command(&format!("/element/{element}/clear"), json!({})).await;
        self.command(&format!("/element/{element}/value"), json!({ "text": text })).await;
    }

    /// Clicks as a person does: what is hidden or covered is an error.
    pub async fn click(&self, css: &str) {
        let element = self.element(css).await;
        self.command(&format!("/element/{element}/click"), json!({})).await;
    }

    /// Presses keys one after the other, as a person at a keyboard does, wherever the focus is.
    pub async fn keys(&self, keys: &str) {
        let presses: Vec<Value> = keys
            .chars()
            .flat_map(|key| {
                ["keyDown", "keyUp"].map(|kind| json!({ "type": kind, "value": key.to_string() }))
            })
            .collect();
        self.command(
            "/actions",
            json!({ "actions": [{ "type": "key", "id": "keyboard", "actions": presses }] }),
        )
        .await;
    }

    /// Touches the middle of an element so often in a row, as a finger does.
    pub async fn tap(&self, css: &str, times: usize) {
        let element = self.element(css).await;
        let into_view =
            format!("document.querySelector({}).scrollIntoView({{ block: 'center' }})", json!(css));
        self.eval(&into_view).await;
        let origin = json!({ ELEMENT: element });
        let mut touches =
            vec![json!({ "type": "pointerMove", "duration": 0, "origin": origin, "x": 0, "y": 0 })];
        for _ in 0..times {
            touches.push(json!({ "type": "pointerDown", "button": 0 }));
            touches.push(json!({ "type": "pointerUp", "button": 0 }));
        }
        let finger = json!({ "type": "pointer", "id": "finger", "parameters": { "pointerType": "touch" }, "actions": touches });
        self.command("/actions", json!({ "actions": [finger] })).await;
    }

    /// What came into the console since the last call: errors, failed loads, violations of the
    /// Content-Security-Policy.
    pub async fn console(&self) -> Vec<Value> {
        match self.command("/se/log", json!({ "type": "browser" })).await {
            Value::Array(lines) => lines,
            other => panic!("the console is {other:#}"),
        }
    }
}
