//! Files with secrets that other users of the machine can read.

use std::path::{Path, PathBuf};

use crate::config::{self, Config, Flags, STDIN};

/// A sentence for each file with a secret of `config` that others than its owner can read; `file` is the file that the
/// configuration was read from. Nothing is said of files that cannot be looked at, nor where files have no modes.
pub fn readable(config: &Config, file: Option<&Path>) -> Vec<String> {
    let keys = [
        ("[http] tls_key", PathBuf::from(&config.http.tls_key)),
        ("[redis] client_key", config.redis.client_key.clone()),
    ];
    let mut all: Vec<_> = keys.into_iter().filter(|(_, path)| !path.as_os_str().is_empty()).collect();
    // Of the file alone: what comes from the environment is not in it.
    let own = file.filter(|file| *file != Path::new(STDIN));
    let own = own.filter(|file| {
        config::load(Some(file), [], Flags::default()).is_ok_and(|config| config.holds_secrets())
    });
    all.extend(own.map(|file| ("the configuration", file.to_owned())));
    all.iter().filter_map(|(what, path)| warning(what, path)).collect()
}

#[cfg(unix)]
fn warning(what: &str, path: &Path) -> Option<String> {
    use std::os::unix::fs::MetadataExt;
    let file = std::fs::metadata(path).ok()?;
    let by = match (file.mode() & 0o004 != 0, file.mode() & 0o040 != 0) {
        (true, _) => "every user of this machine",
        // How an administrator gives a file to a service: root:tipcast, 0640.
        (false, true) if file.uid() == 0 && file.gid() != 0 => return None,
        // The bits of a group are those of the list that lets the service read its copy.
        (false, true) if is_credential(path) => return None,
        (false, true) => "the file's group",
        (false, false) => return None,
    };
    let path = path.display();
    Some(format!("{what} ({path}) holds a secret and can be read by {by}; run chmod 600 {path}"))
}

/// Whether systemd handed this file over (`LoadCredential`).
#[cfg(unix)]
fn is_credential(path: &Path) -> bool {
    std::env::var_os("CREDENTIALS_DIRECTORY").is_some_and(|folder| path.starts_with(folder))
}

#[cfg(not(unix))]
fn warning(_: &str, _: &Path) -> Option<String> {
    None
}

#[cfg(all(test, unix))]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn files_with_secrets_that_others_can_read_are_named_and_no_others() {
        let dir = tempfile::TempDir::new().unwrap();
        let write = |name: &str, text: &str, mode: u32| {
            let path = dir.path().join(name);
            std::fs::write(&path, text).unwrap();
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
            path
        };
        let mut config = config::load(None, [], Flags::default()).unwrap();
        let hashes = format!("[auth]\nproducer_keys = [\"sha256:{}\"]\n", "0".repeat(64));
        for (text, secret) in [
            ("[auth]\nproducer_keys = [\"a key of an operator\"]\n", true),
            ("[auth.tokens]\nhs256_secrets = [\"0123456789abcdef0123456789abcdef\"]\n", true),
            ("[redis]\nurl = \"redis://:hunter2@10.0.0.1\"\n", true),
            ("[redis]\nsentinel_password = \"hunter2\"\n", true),
            ("[redis]\nurl = \"redis://10.0.0.1\"\n", false),
            (&hashes, false),
            ("", false),
        ] {
            for (mode, readable_by_others) in [(0o644, true), (0o604, true), (0o600, false), (0o700, false)] {
                let file = write("tipcast.toml", text, mode);
                let said = readable(&config, Some(&file));
                assert_eq!(
                    said.len(),
                    usize::from(secret && readable_by_others),
                    "{text} {mode:o}: {said:?}"
                );
                assert!(
                    said.iter().all(|it| it.contains("tipcast.toml") && !it.contains("hunter2")),
                    "{said:?}"
                );
            }
        }
        config.http.tls_key = write("tls.key", "", 0o644).display().to_string();
        config.redis.client_key = write("client.key", "", 0o604);
        let said = readable(&config, None);
        assert!(said[0].contains("tls.key") && said[1].contains("client.key"), "{said:?}");
        write("tls.key", "", 0o400);
        assert_eq!(readable(&config, Some(Path::new(STDIN))).len(), 1);
    }
}
