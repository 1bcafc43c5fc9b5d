//! A process that may open few files: it says so at its start, or shares out what it has.

use tokio::net::TcpStream;

use crate::support::app::Backing;
use crate::support::gifts::gift;
use crate::support::process::Process;
use crate::support::watcher::{Brought, open_socket, read_socket};

fn two_workers() -> Vec<(String, String)> {
    vec![("TIPCAST_HTTP__WORKERS".to_owned(), "2".to_owned())]
}

#[tokio::test(flavor = "multi_thread")]
async fn with_few_descriptors_producers_watchers_and_health_checks_get_in_while_idlers_take_all_they_can() {
    let backing = Backing::folder();
    let gateway = Process::start_with_files(128, backing.args(), two_workers());
    let mut socket = open_socket(&gateway, "/v1/feeds/show/ws", None).await.unwrap();
    let Brought::Frame(first) = read_socket(&mut socket).await else { panic!("a frame") };
    assert_eq!(first["type"], "snapshot");
    let mut idlers = vec![];
    for round in 0..8 {
        for _ in 0..50 {
            idlers.push(TcpStream::connect(gateway.authority()).await.unwrap());
        }
        assert_eq!(gateway.get("/healthz").await.status, 200);
        let said = gateway.give("show", &gift(&format!("g{round}")).by(&format!("u{round}"))).await;
        assert_eq!(said["status"], "accepted", "{said}");
        let Brought::Frame(delta) = read_socket(&mut socket).await else { panic!("it still watches") };
        assert_eq!(delta["seq"], round + 1);
    }
    let said = gateway.said();
    assert!(!said.contains("cannot be accepted") && !said.contains("Too many open files"), "{said}");
}

#[test]
fn with_too_few_descriptors_it_does_not_start_and_says_what_to_set() {
    let backing = Backing::folder();
    let (status, said) = Process::run_with_files(64, &backing.args(), two_workers());
    assert!(!status.success());
    assert!(said.contains("the limit of open files is 64") && said.contains("at least 108"), "{said}");
    assert!(said.contains("ulimit -n") && said.contains("LimitNOFILE="), "{said}");
}
