//! The token signers of docs/AUTH.md, each run where its language is at hand, and `tipcast token`.

use std::path::Path;
use std::process::Command;

use tempfile::TempDir;

use crate::support::process::Process;

const DOCS: &str = include_str!("../../docs/AUTH.md");
const SECRET: &str = "a secret of the tests, longer than it must be";

/// The block of the page in this language that signs.
fn example(language: &str) -> &'static str {
    let blocks = DOCS.split("```").skip(1).step_by(2);
    let fits = |block: &&str| block.starts_with(&format!("{language}\n")) && block.contains("HS256");
    let block = blocks.into_iter().find(fits).unwrap_or_else(|| panic!("no {language}"));
    block.split_once('\n').unwrap().1
}

/// What the example prints; nothing where the language is not at hand.
fn run(dir: &Path, program: &str, language: &str, file: &str, before: &[&str]) -> Option<String> {
    std::fs::write(dir.join(file), example(language)).unwrap();
    let said = Command::new(program).args(before).arg(file).current_dir(dir).env("SECRET", SECRET).output();
    match said {
        Ok(said) if said.status.success() => Some(String::from_utf8(said.stdout).unwrap().trim().to_owned()),
        Ok(said) => panic!("{language}: {}", String::from_utf8_lossy(&said.stderr)),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            eprintln!("{program} is not here, so its example is not run");
            None
        }
        Err(error) => panic!("{error}"),
    }
}

fn config(dir: &Path) -> String {
    let file = dir.join("tipcast.toml");
    std::fs::write(&file, format!("[auth.tokens]\nhs256_secrets = [{SECRET:?}]\n")).unwrap();
    file.display().to_string()
}

fn check(dir: &Path, token: &str) -> (bool, String) {
    let args = ["token", "check", "--config", &config(dir), token].map(str::to_owned);
    let (status, said) = Process::run(&args);
    (status.success(), said)
}

#[test]
fn every_signer_of_the_page_makes_tokens_that_are_good() {
    let dir = TempDir::new().unwrap();
    let mut ran = 0;
    for (program, language, file, before) in [
        ("node", "js", "token.js", &[][..]),
        ("python3", "python", "token.py", &[][..]),
        ("go", "go", "token.go", &["run"][..]),
        ("java", "java", "Token.java", &[][..]),
        ("php", "php", "token.php", &[][..]),
    ] {
        let Some(token) = run(dir.path(), program, language, file, before) else { continue };
        let (good, said) = check(dir.path(), &token);
        assert!(good && said.contains("ann") && said.contains("show-*"), "{language}: {said}");
        ran += 1;
    }
    assert!(ran > 0, "no language is at hand");
}

#[test]
fn the_program_makes_and_judges_tokens() {
    let dir = TempDir::new().unwrap();
    let args = [
        "token",
        "new",
        "--config",
        &config(dir.path()),
        "--sub",
        "bob",
        "--feeds",
        "a,b-*",
        "--may",
        "hold",
    ];
    let (status, token) = Process::run(&args.map(str::to_owned));
    assert!(status.success(), "{token}");
    let (good, said) = check(dir.path(), token.trim());
    assert!(
        good && said.contains("bob") && said.contains("a, b-*") && said.contains("watch and hold"),
        "{said}"
    );
    let (good, said) = check(dir.path(), &format!("{}x", token.trim()));
    assert!(!good && said.contains("signature"), "{said}");
}
