//! A move that is killed on the way, and goes on.

use std::time::Instant;

use serde_json::json;

use super::{Target, folder_of, stop};
use crate::support::app::Backing;
use crate::support::case::PATIENCE;
use crate::support::gifts::gift;
use crate::support::process::Process;
use crate::support::stores::{Corner, Storage};

/// Gifts in the folder: enough that a move lasts a while.
const GIFTS: usize = 128 * 200;

#[tokio::test(flavor = "multi_thread")]
async fn a_move_that_is_killed_goes_on_with_resume_and_no_gateway_begins_on_a_half_of_it() {
    let backing = Backing::folder();
    let gateway = Process::on(&backing);
    let batch = |from: usize| -> Vec<_> {
        (from..from + 128).map(|n| gift(&format!("g{n}")).by(&format!("u{n}")).json()).collect()
    };
    for from in (0..GIFTS).step_by(128) {
        assert_eq!(gateway.post_batch(&format!("f{}", from % 5), &batch(from)).await.status, 200);
    }
    stop(gateway);

    let target = Target::of(Storage::redis());
    let Storage::Redis(Corner { server, prefix }) = &target.store else { unreachable!() };
    let mut connection = server.connect();
    let mut keys = || -> usize {
        let pattern = format!("{prefix}*");
        let text = "return #redis.call('KEYS', ARGV[1])";
        redis::cmd("EVAL").arg(text).arg(0).arg(pattern).query(&mut connection).unwrap()
    };
    // Killed three times, each time further on.
    for (kill, more) in [&[][..], &["--resume"], &["--resume"]].iter().enumerate() {
        let before = keys();
        let mut moving = Process::spawned(&target.command(folder_of(&backing), more));
        let deadline = Instant::now() + PATIENCE;
        while keys() <= before.max(100) {
            assert!(Instant::now() < deadline, "kill {kill}: {}", moving.said());
        }
        moving.kill();
        assert!(keys() < GIFTS, "it was over before it was killed");
    }
    let (args, env) = target.settings();
    let all: Vec<String> = ["--listen", "127.0.0.1:0"].map(Into::into).into_iter().chain(args).collect();
    let (status, said) = Process::run_with(&all, env);
    assert!(!status.success() && said.contains("--resume"), "a gateway began on a half: {said}");
    let (code, said) = target.take(folder_of(&backing), &[]);
    assert!(code == Some(1) && said.contains("go on with --resume"), "{said}");

    let (code, said) = target.take(folder_of(&backing), &["--resume"]);
    assert!(code == Some(0) && said.contains("moved 5 feeds"), "{said}");
    let gateway = target.gateway();
    for from in (0..GIFTS).step_by(128 * 10) {
        let said = gateway.post_batch(&format!("f{}", from % 5), &batch(from)).await.json();
        assert_eq!(said["duplicate"], 128, "{said}");
    }
    assert_eq!(gateway.get_feed("f0").await["rows"].as_array().unwrap().len(), 10);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_interrupted_move_resumes_with_its_folder_only() {
    let (backing, other) = (Backing::folder(), Backing::folder());
    for one in [&backing, &other] {
        let gateway = Process::on(one);
        gateway.give("show", &gift("g")).await;
        stop(gateway);
    }
    let target = Target::of(Storage::redis());
    let (code, said) = target.take(folder_of(&backing), &["--resume"]);
    assert!(code == Some(1) && said.contains("no interrupted move"), "{said}");
    // As a run leaves it that was killed when it had begun.
    let Storage::Redis(Corner { server, prefix }) = &target.store else { unreachable!() };
    let (form, state) = (format!("{prefix}{{probe}}:form"), format!("{prefix}{{move}}:state"));
    server.run(&["SET", &form, "moving"]);
    server.run(&["HSET", &state, "folder", "other 1", "at", "1800000000000", "life", "abcde"]);
    let (code, said) = target.take(folder_of(&other), &["--resume"]);
    assert!(code == Some(1) && said.contains("another folder"), "{said}");
    server.run(&["DEL", &state]);
    let (code, said) = target.take(folder_of(&other), &["--resume"]);
    assert!(code == Some(0) && said.contains("moved 1 feeds"), "{said}");
    assert_eq!(target.gateway().post_gift("show", &gift("g")).await.json()["duplicate"], json!(true));
}
