//! docs/CLI.md and docs/CONFIGURATION.md are what the program itself says. `make openapi` writes them.

use std::path::Path;

use crate::support::process::Process;

/// With this variable set the files are written instead.
const WRITE: &str = "TIPCAST_WRITE_OPENAPI";

fn said(program: &str, args: &[&str]) -> String {
    let args: Vec<String> = args.iter().map(|it| (*it).to_owned()).collect();
    let (status, said) = match program {
        "tipcast" => Process::run(&args),
        tool => Process::run_tool(tool, &args),
    };
    assert!(status.success(), "{said}");
    said
}

/// The commands that a help text lists.
fn commands(help: &str) -> Vec<&str> {
    let list = help.split_once("Commands:\n").map_or("", |(_, rest)| rest.split("\n\n").next().unwrap());
    list.lines().filter_map(|line| line.split_whitespace().next()).filter(|name| *name != "help").collect()
}

/// The help of this command and of those below it.
fn help(program: &str, path: &[&str], page: &mut String) {
    let text = said(program, &[path, &["--help"]].concat());
    let name = [&[program], path].concat().join(" ");
    page.push_str(&format!("\n## {name}\n\n```\n{}\n```\n", text.trim_end()));
    for command in commands(&text) {
        help(program, &[path, &[command]].concat(), page);
    }
}

fn is_written(name: &str, text: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(name);
    if std::env::var_os(WRITE).is_some() {
        std::fs::write(path, text).unwrap();
        return;
    }
    assert!(
        std::fs::read_to_string(path).is_ok_and(|it| it == text),
        "{name} is of another build: `make openapi`"
    );
}

#[test]
fn the_page_about_the_command_line_is_the_programs_own_help() {
    let mut page = "# Command line\n\nWhat `tipcast`, each of its commands, `tipcast-bench` and `tipcast-rehearse` say with `--help`.\n"
        .to_owned();
    for program in ["tipcast", "tipcast-bench", "tipcast-rehearse"] {
        help(program, &[], &mut page);
    }
    assert!(page.matches("\n## ").count() > 15);
    is_written("docs/CLI.md", &page);
}

#[test]
fn the_page_about_the_configuration_is_what_the_program_prints() {
    let page = format!(
        "# Configuration\n\nWhat `tipcast default-config` prints.\n\n```toml\n{}```\n",
        said("tipcast", &["default-config"])
    );
    is_written("docs/CONFIGURATION.md", &page);
}
