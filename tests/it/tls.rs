//! https and wss by the server itself: the certificate's files, and what watchers get over it (all of
//! `watching` runs over TLS as well).

use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::support::process::Process;
use crate::support::tls::{Papers, certificate, connect};

struct Served {
    papers: Papers,
    gateway: Process,
    _dir: TempDir,
}

impl Served {
    fn start() -> Served {
        let (papers, dir) = (Papers::new(), TempDir::new().unwrap());
        let env = [("TLS_CERT", papers.cert()), ("TLS_KEY", papers.key())];
        let env = env.map(|(key, path)| (format!("TIPCAST_HTTP__{key}"), path.display().to_string()));
        let args = vec!["--data-dir".into(), dir.path().join("data").display().to_string()];
        let gateway = Process::start("127.0.0.1:0", args, env.into());
        Served { papers, gateway, _dir: dir }
    }

    /// What `/healthz` answers to a client that trusts only the certificate in the files now.
    async fn health(&self) -> Option<String> {
        let address = self.gateway.authority().parse().unwrap();
        let mut stream = connect(address, certificate(&self.papers.cert())).await.ok()?;
        let request = "GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        Some(answer)
    }
}

#[tokio::test]
async fn it_answers_over_tls_and_a_renewed_certificate_is_read_without_a_restart() {
    let served = Served::start();
    assert!(served.gateway.said().contains("listening on https://"), "{}", served.gateway.said());
    let answer = served.health().await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    assert!(answer.to_lowercase().contains("strict-transport-security: max-age=31536000\r\n"), "{answer}");

    served.papers.renew();
    assert_eq!(served.health().await, None, "the old certificate is still shown");
    served.gateway.hang_up();
    served.gateway.wait_for_words("the certificate was read again");
    assert!(served.health().await.unwrap().starts_with("HTTP/1.1 200"));

    let good = std::fs::read(served.papers.key()).unwrap();
    std::fs::write(served.papers.key(), "no key").unwrap();
    served.gateway.hang_up();
    served.gateway.wait_for_words("[http] tls_key: there is no PEM private key");
    assert!(served.health().await.unwrap().starts_with("HTTP/1.1 200"), "what was stays in force");
    std::fs::write(served.papers.key(), good).unwrap();
}

#[test]
fn files_that_cannot_serve_are_refused_with_what_to_do() {
    let (papers, others) = (Papers::new(), Papers::new());
    let (cert, key) = (papers.cert().display().to_string(), papers.key().display().to_string());
    let other_key = others.key().display().to_string();
    let missing = papers.cert().with_file_name("missing.pem").display().to_string();
    for (cert, key, words) in [
        (&cert, &String::new(), "belong together"),
        (&missing, &key, "cannot be read"),
        (&key, &key, "there is no certificate"),
        (&cert, &cert, "no PEM private key"),
        (&cert, &other_key, "does not fit"),
    ] {
        let env = vec![
            ("TIPCAST_HTTP__TLS_CERT".to_owned(), cert.clone()),
            ("TIPCAST_HTTP__TLS_KEY".to_owned(), key.clone()),
        ];
        let (status, said) = Process::run_with(&["check-config".to_owned()], env);
        assert!(!status.success() && said.contains(words), "{words}: {said}");
    }
}
