//! `tipcast healthcheck`, as a container engine calls it.

use crate::support::TestApp;
use crate::support::process::Process;

async fn ask(url: String) -> (Option<i32>, String) {
    let args = ["healthcheck".to_owned(), "--url".to_owned(), url];
    let (status, said) = tokio::task::spawn_blocking(move || Process::run(&args)).await.unwrap();
    (status.code(), said)
}

#[tokio::test(flavor = "multi_thread")]
async fn it_succeeds_only_when_a_gateway_says_that_it_is_well() {
    let app = TestApp::start().await;
    assert_eq!(ask(format!("{}/healthz", app.url())).await.0, Some(0));
    let (code, said) = ask(format!("{}/nowhere", app.url())).await;
    assert!(code == Some(1) && said.contains("404"), "{code:?} {said}");
    let url = app.url();
    // Without a URL the configuration says where, here by the environment as in a container.
    let listen = app.url().trim_start_matches("http://").replace("127.0.0.1", "0.0.0.0");
    let env = vec![
        ("TIPCAST_HTTP__LISTEN".to_owned(), listen),
        ("TIPCAST_HTTP__INSECURE".to_owned(), "true".to_owned()),
    ];
    let asked = move || Process::run_with(&["healthcheck".to_owned()], env);
    let (status, said) = tokio::task::spawn_blocking(asked).await.unwrap();
    assert_eq!(status.code(), Some(0), "{said}");
    app.stop().await;
    let (code, said) = ask(format!("{url}/healthz")).await;
    assert!(code == Some(1) && said.contains("does not answer"), "{code:?} {said}");
}
