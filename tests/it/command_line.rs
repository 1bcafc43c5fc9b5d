//! The binary's commands, flags and settings (contract section 4).

use tempfile::TempDir;

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
