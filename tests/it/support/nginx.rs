//! nginx in front of gateways; ends with the test.

use std::process::{Child, Command};

use tempfile::TempDir;
use tokio::time::{Duration, Instant, sleep};

use super::api::Api;
use super::case::PATIENCE;
use super::redis_server::free_port;

pub struct Nginx {
    child: Child,
    pub api: Api,
    /// Where its log is.
    pub folder: TempDir,
}

impl Nginx {
    /// With this in its http block, where `LISTEN` stands for its address and `FOLDER` for its folder.
    pub async fn start(block: &str) -> Nginx {
        let (folder, port) = (TempDir::new().unwrap(), free_port());
        let at = folder.path().display().to_string();
        let block = block.replace("LISTEN", &format!("127.0.0.1:{port}")).replace("FOLDER", &at);
        let paths = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
            .map(|what| format!("{what}_temp_path {at}/{what};"))
            .join("\n");
        let text = format!(
            "pid {at}/pid; error_log {at}/errors; worker_processes 1; daemon off; master_process off;\n\
             events {{ worker_connections 1024; }}\nhttp {{ access_log off;\n{paths}\n{block}\n}}\n",
        );
        let path = folder.path().join("nginx.conf");
        std::fs::write(&path, text).unwrap();
        let mut nginx = Command::new("nginx");
        nginx.args(["-p", &at, "-e", &format!("{at}/errors"), "-c"]).arg(path);
        let child = nginx.spawn().unwrap();
        let nginx = Nginx { child, api: Api::at(format!("http://127.0.0.1:{port}")), folder };
        let since = Instant::now();
        while Api::try_send(nginx.api.request("GET", "/healthz")).await.is_err() {
            assert!(since.elapsed() < PATIENCE, "nginx does not listen");
            sleep(Duration::from_millis(20)).await;
        }
        nginx
    }
}

impl Drop for Nginx {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
