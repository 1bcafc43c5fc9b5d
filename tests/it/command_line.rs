//! The binary's commands, flags and settings (contract section 4).

use tempfile::TempDir;

use tipcast::engine::protocol::scripts;

use crate::support::process::Process;

fn run(args: &[&str], env: &[(&str, &str)]) -> (Option<i32>, String) {
    let args: Vec<String> = args.iter().map(|arg| arg.to_string()).collect();
    let env = env.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect();
    let (status, said) = Process::run_with(&args, env);
    (status.code(), said)
}

#[test]
fn the_default_configuration_is_printed_commented_and_fine() {
    let (code, text) = run(&["default-config"], &[]);
    assert_eq!(code, Some(0), "{text}");
    let table: toml::Table = text.parse().unwrap();
    assert_eq!(table["http"]["listen"].as_str(), Some("127.0.0.1:8080"));
    assert_eq!(table["embedded"]["data_dir"].as_str(), Some("./data"));
    assert_eq!(table["feeds"]["capacity"].as_integer(), Some(10));
    assert_eq!(table["redis"]["url"].as_str(), Some(""));
    assert!(text.lines().filter(|line| line.starts_with('#')).count() > 20, "{text}");
    let dir = TempDir::new().unwrap();
    let file = dir.path().join("tipcast.toml");
    std::fs::write(&file, text).unwrap();
    assert_eq!(run(&["check-config", "--config", file.to_str().unwrap()], &[]).0, Some(0));
}

#[test]
fn scripts_are_listed_and_printed_as_they_are_run() {
    let (code, names) = run(&["script"], &[]);
    let known: Vec<_> = scripts::ALL.iter().map(|script| script.name).collect();
    assert_eq!((code, names.lines().collect::<Vec<_>>()), (Some(0), known));
    for name in ["feed_publish", "publish"] {
        assert_eq!(run(&["script", name], &[]), (Some(0), scripts::PUBLISH.source()), "{name}");
    }
    let (code, said) = run(&["script", "nothing"], &[]);
    assert!(code == Some(2) && said.contains("tipcast script"), "{code:?}: {said}");
}

#[test]
fn an_unknown_key_is_an_error_that_names_it() {
    let dir = TempDir::new().unwrap();
    let file = dir.path().join("tipcast.toml");
    for (text, word) in [
        ("[feeds]\ncapasity = 3\n", "capasity"),
        ("[fedes]\ncapacity = 3\n", "fedes"),
        ("capacity = 3\n", "capacity"),
        ("[feeds]\ncapacity = 101\n", "capacity"),
        ("[feeds]\ncapacity = \"ten\"\n", "capacity"),
        ("[feeds\n", "TOML"),
    ] {
        std::fs::write(&file, text).unwrap();
        for command in [&["check-config"][..], &[]] {
            let args = [command, &["--config", file.to_str().unwrap()]].concat();
            let (code, said) = run(&args, &[]);
            assert!(code.is_some_and(|code| code != 0) && said.contains(word), "{code:?} {said}");
        }
    }
    let (code, said) = run(&["check-config"], &[("TIPCAST_FEEDS__CAPASITY", "3")]);
    assert!(code.is_some_and(|code| code != 0) && said.to_uppercase().contains("CAPASITY"), "{said}");
    let missing = dir.path().join("missing.toml").display().to_string();
    let (code, said) = run(&["check-config", "--config", &missing], &[]);
    assert!(code.is_some_and(|code| code != 0) && said.contains(&missing), "{said}");
}

#[test]
fn a_redis_url_that_cannot_be_read_is_found_without_starting_and_its_password_is_not_repeated() {
    let bad = [
        "redis://",
        "redis://u:hush@",
        "redis://u:hush@h:x",
        "redis://u:hush@h:70000",
        "redis://u:hush@h/one",
        "redis://u:hush@a,b",
        "redis+cluster://",
        "redis+cluster://u:hush@a:1,:2",
        "redis+cluster://u:hush@a:1,,b:2",
        "redis+cluster://u:hush@a/3",
        "redis+sentinel://u:hush@a:26379",
        "redis+sentinel://u:hush@a:26379/main/x",
        "rediss+magic://u:hush@a",
        "http://u:hush@a",
        "u:hush@a:6379",
    ];
    for url in bad {
        for command in [&["check-config"][..], &[]] {
            let (code, said) = run(command, &[("TIPCAST_REDIS__URL", url)]);
            assert!(code.is_some_and(|code| code != 0), "{url}: {said}");
            assert!(said.contains("[redis]") && said.contains("redis+cluster://"), "{url}: {said}");
            assert!(!said.contains("hush"), "{url}: {said}");
        }
    }
    for (key, value) in [("ADDRESSES", "[\"a:1\"]"), ("PREFIX", "{x}")] {
        let env = [("TIPCAST_REDIS__URL", "redis://h"), (&format!("TIPCAST_REDIS__{key}"), value)];
        let (code, said) = run(&["check-config"], &env);
        assert!(code.is_some_and(|code| code != 0) && said.contains("[redis]"), "{key}: {said}");
    }
    let env = [("TIPCAST_REDIS__URL", "rediss+cluster://u:hush@a:1,[::1]:2")];
    assert_eq!(run(&["check-config"], &env).0, Some(0));
}

#[test]
fn other_variables_are_nobodys_business() {
    let env = [("TIPCAST_URL", "x"), ("TIPCAST_", "x"), ("TIPCAST_FEEDS__CAPACITY", "7")];
    let (code, said) = run(&["check-config"], &env);
    assert_eq!(code, Some(0), "{said}");
}

#[tokio::test]
async fn flags_win_over_variables_and_variables_over_the_file() {
    let dir = TempDir::new().unwrap();
    let file = dir.path().join("tipcast.toml");
    std::fs::write(&file, "[feeds]\ncapacity = 3\nflush_ms = 7\n[http]\nlisten = \"127.0.0.1:1\"\n").unwrap();
    let data = dir.path().join("data").display().to_string();
    let args = ["--config", file.to_str().unwrap(), "--data-dir", &data].map(str::to_owned);
    let env = vec![
        ("TIPCAST_FEEDS__CAPACITY".to_owned(), "4".to_owned()),
        ("TIPCAST_EMBEDDED__DATA_DIR".to_owned(), "/nowhere/at/all".to_owned()),
    ];
    let gateway = Process::start("127.0.0.1:0", args.to_vec(), env);
    let policy = gateway.get_policy("show").await;
    assert_eq!((policy["capacity"].as_u64(), policy["flush_ms"].as_u64()), (Some(4), Some(7)));
}

/// The output of one command as the file of another, through a pipe.
fn checked(text: &str) -> (Option<i32>, String) {
    use std::io::Write;
    use std::process::{Command, Stdio};
    let mut check = Command::new(env!("CARGO_BIN_EXE_tipcast"))
        .args(["check-config", "-"])
        .env_clear()
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    check.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
    let out = check.wait_with_output().unwrap();
    let said = format!("{}{}", String::from_utf8_lossy(&out.stdout), String::from_utf8_lossy(&out.stderr));
    (out.status.code(), said)
}

#[test]
fn the_default_file_passes_through_a_pipe_and_each_typing_error_in_it_gets_a_hint() {
    let (_, text) = run(&["default-config"], &[]);
    let (code, said) = checked(&text);
    assert_eq!((code, said.contains("warning")), (Some(0), false), "{said}");
    let mut tried = 0;
    for (n, line) in text.lines().enumerate() {
        let Some((key, rest)) = line.split_once(" = ").filter(|_| !line.starts_with('#')) else { continue };
        // Two letters swapped, as fingers do.
        let mut typo: Vec<char> = key.chars().collect();
        let Some(at) = (1..typo.len()).find(|at| typo[*at] != typo[at - 1]) else { continue };
        typo.swap(at, at - 1);
        let typo: String = typo.into_iter().collect();
        let wrong: Vec<String> = text
            .lines()
            .enumerate()
            .map(|(m, other)| if m == n { format!("{typo} = {rest}") } else { other.to_owned() })
            .collect();
        let (code, said) = checked(&wrong.join("\n"));
        assert_eq!(code, Some(2), "{typo}: {said}");
        assert!(said.contains(&typo) && said.contains(&format!("did you mean {key}?")), "{said}");
        tried += 1;
    }
    assert!(tried > 30, "{tried}");
}

#[test]
fn combinations_that_would_go_wrong_are_said_before_the_start() {
    for (text, words) in [
        ("[http]\nlisten = \"0.0.0.0:80\"\n", "tipcast key new"),
        ("[limits]\nwatchers = 5\n", "could take every place"),
        ("[limits]\nrequest_burst = 200\n", "does nothing without"),
        ("[http]\nallowed_origins = [\"https://show.example/\"]\n", "without a path or a slash"),
        ("[http]\ntrusted_proxies = [\"0.0.0.0/0\"]\n", "anybody could claim any address"),
        ("[auth]\nproducer_keys = [\"sha256:beef\"]\n", "entry 1"),
        ("[log]\nlevel = \"info,,=\"\n", "[log] level"),
    ] {
        let (code, said) = checked(text);
        assert!(code == Some(2) && said.contains(words), "{code:?} {said}");
    }
    let both = "[redis]\nurl = \"redis://127.0.0.1\"\n[embedded]\ndata_dir = \"/srv/feeds\"\n";
    let (code, said) = checked(both);
    assert!(code == Some(0) && said.contains("warning:") && said.contains("/srv/feeds"), "{code:?} {said}");
}

#[test]
fn each_commands_help_lists_its_own_flags_and_no_others() {
    for command in [&["default-config"][..], &["key", "new"], &["demo"], &["healthcheck"]] {
        let (code, said) = run(&[command, &["--help"]].concat(), &[]);
        assert_eq!(code, Some(0), "{said}");
        for flag in ["--config", "--listen", "--redis", "--data-dir", "--insecure"] {
            // The health check reads where the gateway is from its configuration.
            let own = (command, flag) == (&["healthcheck"][..], "--config");
            assert_eq!(said.contains(flag), own, "{command:?} lists {flag}:\n{said}");
        }
    }
    for args in [&["--help"][..], &["check-config", "--help"]] {
        let (_, said) = run(args, &[]);
        for flag in ["--config", "--listen", "--redis", "--data-dir", "--insecure"] {
            assert!(said.contains(flag), "{args:?} does not list {flag}:\n{said}");
        }
    }
    let (code, said) = run(&["--listen", "127.0.0.1:1", "healthcheck"], &[]);
    assert!(code == Some(2) && said.contains("are for the server and check-config"), "{code:?} {said}");
}

#[test]
fn a_configuration_is_checked_wherever_its_flags_stand() {
    let dir = TempDir::new().unwrap();
    let file = dir.path().join("tipcast.toml").display().to_string();
    std::fs::write(&file, "[feeds]\ncapacity = 101\n").unwrap();
    for args in [
        &["check-config", &file][..],
        &["check-config", "--config", &file],
        &["--config", &file, "check-config"],
    ] {
        let (code, said) = run(args, &[]);
        assert!(code == Some(2) && said.contains("capacity"), "{args:?}: {code:?} {said}");
    }
    let (code, said) = run(&["--config", "-"], &[]);
    assert!(code == Some(2) && said.contains("give it a file"), "{code:?} {said}");
}

#[test]
fn a_sample_of_a_platform_is_tried_from_a_file() {
    let file = |name: &str| format!("{}/tests/samples/{name}", env!("CARGO_MANIFEST_DIR"));
    for (preset, name, words) in [
        ("kofi", "kofi.json", "\"value\":{\"amount\":300,\"currency\":\"USD\"}"),
        ("stripe", "stripe-checkout.json", "\"id\":\"try:pi_sample_1\""),
        ("stripe", "stripe-refund.json", "{\"outcome\":\"refund\",\"id\":\"try:pi_sample_1\"}"),
        ("twitch", "twitch-gift-subs.json", "\"count\":20"),
        ("github-sponsors", "kofi.json", "\"outcome\":\"ignored\""),
    ] {
        let (code, said) = run(&["source", "try", "--preset", preset, &file(name)], &[]);
        assert!(code == Some(0) && said.contains(words), "{code:?} {said}");
        assert!(!said.contains("mail.example"), "{said}");
    }
    let (code, said) = run(&["source", "try", "--preset", "paypal", &file("kofi.json")], &[]);
    assert!(code == Some(2) && said.contains("kofi, stripe"), "{code:?} {said}");
    let (code, said) = run(&["source", "try", "--preset", "kofi", &file("nobody.json")], &[]);
    assert!(code == Some(2) && said.contains("nobody.json"), "{code:?} {said}");

    let dir = TempDir::new().unwrap();
    let body = dir.path().join("body.json");
    let fine = std::fs::read_to_string(file("kofi.json")).unwrap().replace("\"3.00\"", "\"3.005\"");
    std::fs::write(&body, fine).unwrap();
    let (code, said) = run(&["source", "try", "--preset", "kofi", body.to_str().unwrap()], &[]);
    assert!(code == Some(1) && said.contains("/amount") && said.contains("not rounded"), "{code:?} {said}");

    let settings = dir.path().join("settings.json");
    let own = r#"{"preset":"custom","secret":"s","default_gift":{"id":"t","name":"T"},"amount":"micros",
        "verify":{"scheme":"hmac-sha256","header":"X-Sig"},
        "map":{"id":"/n","user_name":"/who","amount":"/sum","currency":"EUR"}}"#;
    std::fs::write(&settings, own).unwrap();
    std::fs::write(&body, r#"{"n":7,"who":"Ada","sum":1500000}"#).unwrap();
    let own = ["source", "try", "--settings", settings.to_str().unwrap(), body.to_str().unwrap()];
    let (code, said) = run(&own, &[]);
    assert!(code == Some(0) && said.contains("\"amount\":150,\"currency\":\"EUR\""), "{code:?} {said}");
}

#[test]
fn check_config_says_in_a_line_each_which_store_which_address_how_many_keys_and_what_is_open() {
    let key = format!("sha256:{}", "0".repeat(64));
    let env = [
        ("TIPCAST_REDIS__URL", "redis://someone:hush@10.0.0.7:6379"),
        ("TIPCAST_HTTP__LISTEN", "0.0.0.0:8080"),
        ("TIPCAST_AUTH__PRODUCER_KEYS", key.as_str()),
    ];
    let (code, said) = run(&["check-config"], &env);
    assert_eq!(code, Some(0), "{said}");
    for line in [
        "store: Redis at redis://10.0.0.7:6379",
        "address: http://0.0.0.0:8080",
        "keys: 1 producer",
        "open to strangers: reading",
    ] {
        assert!(said.lines().any(|it| it.starts_with(line)), "{line}: {said}");
    }
    assert!(!said.contains("hush"), "{said}");
}

#[test]
fn tools_that_find_no_gateway_say_at_which_address_and_how_to_start_one() {
    // Bound and not listening: nobody else gets the port, and nobody answers there.
    let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
    socket.bind(&std::net::SocketAddr::from(([127, 0, 0, 1], 0)).into()).unwrap();
    let url = format!("http://{}", socket.local_addr().unwrap().as_socket().unwrap());
    for command in [&["demo"][..], &["tipcast-bench", "--seconds", "1"], &["healthcheck"]] {
        let args = [command, &["--url", &url]].concat();
        let (code, said) = match command[0] {
            "tipcast-bench" => {
                let args: Vec<String> = args[1..].iter().map(|arg| arg.to_string()).collect();
                let (status, said) = Process::run_tool("tipcast-bench", &args);
                (status.code(), said)
            }
            _ => run(&args, &[]),
        };
        assert_eq!(code, Some(1), "{command:?}: {said}");
        assert!(
            said.contains(&url)
                && said.contains("does not answer")
                && said.contains("Start a gateway with `tipcast`"),
            "{command:?}: {said}"
        );
    }
}
