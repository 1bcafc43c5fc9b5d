//! What is released is of one version, says who owns it only where the owner has said so, and names no address that is nobody's.

use std::path::Path;

use serde_json::Value;

fn read(name: &str) -> String {
    std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(name)).unwrap()
}

const VERSION: &str = env!("CARGO_PKG_VERSION");

#[test]
fn every_package_has_the_version_of_the_gateway() {
    let json = |name: &str| serde_json::from_str::<Value>(&read(name)).unwrap()["version"].clone();
    assert_eq!(json("clients/js/package.json"), VERSION);
    assert_eq!(json("clients/js/package-lock.json"), VERSION);
    let python: toml::Table = read("clients/python/pyproject.toml").parse().unwrap();
    assert_eq!(python["project"]["version"].as_str(), Some(VERSION));
    assert!(
        read("clients/jvm/pom.xml")
            .contains(&format!("<artifactId>tipcast</artifactId>\n  <version>{VERSION}</version>"))
    );
    let chart = read("packaging/helm/tipcast/Chart.yaml");
    assert!(
        chart.contains(&format!("\nversion: {VERSION}\n"))
            && chart.contains(&format!("\nappVersion: \"{VERSION}\"\n"))
    );
    assert!(
        read("CHANGELOG.md").contains(&format!("\n## {VERSION} – 20")),
        "the changelog has no {VERSION} with its day"
    );
    for guide in ["docs/DEPLOYING.md", "clients/go/README.md"] {
        assert!(read(guide).contains(VERSION), "{guide} names another version");
    }
}

#[test]
fn packages_name_no_owner_and_no_address_of_their_own() {
    let owner: toml::Table = read("packaging/owner.toml").parse().unwrap();
    // A fork may fill it in; then scripts/release puts it into every package.
    assert!(owner.values().all(|it| it.is_str()));
    for name in [
        "Cargo.toml",
        "clients/js/package.json",
        "clients/python/pyproject.toml",
        "clients/jvm/pom.xml",
        "clients/go/go.mod",
        "packaging/helm/tipcast/Chart.yaml",
        "packaging/deb/control.in",
    ] {
        let text = read(name).to_lowercase();
        for invented in [
            ".example",
            "localhost",
            "homepage:",
            "\"homepage\"",
            "repository =",
            "\"repository\"",
            "maintainer:",
            "<scm>",
            "@tipcast",
        ] {
            assert!(!text.contains(invented), "{name}: {invented}");
        }
    }
}
