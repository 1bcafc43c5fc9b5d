//! `tipcast source try`: what a webhook's body would become, from a file.

use std::path::PathBuf;

use clap::Args;

use crate::domain::{Refused, json};
use crate::sources::{self, BODY_MAX, Owner, Settings, preset};

/// What to try.
#[derive(Args)]
pub struct TryOptions {
    /// The platform: kofi, stripe, buymeacoffee, github-sponsors, twitch or standard-webhooks.
    #[arg(long, value_name = "NAME", required_unless_present = "settings", conflicts_with = "settings")]
    preset: Option<String>,
    /// A file with a source's settings, as they are PUT; for custom sources.
    #[arg(long, value_name = "FILE")]
    settings: Option<PathBuf>,
    /// The body that the platform sent, or `-` for standard input.
    file: PathBuf,
}

/// Why there is nothing to show.
#[derive(Debug)]
pub enum TryError {
    /// The files or the preset cannot be used; says which and why.
    Usage(String),
    /// The body would be refused; says why.
    Refused(String),
}

impl std::fmt::Display for TryError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            TryError::Usage(why) => f.write_str(why),
            TryError::Refused(why) => write!(f, "this body would be refused: {why}"),
        }
    }
}

impl std::error::Error for TryError {}

/// Says what the body in the file would become, as JSON ([`sources::Event::to_json`]).
pub fn try_file(options: &TryOptions) -> Result<String, TryError> {
    let settings = match (&options.preset, &options.settings) {
        (_, Some(file)) => read_settings(&read(file)?)?,
        (preset, None) => of_preset(preset.as_deref().unwrap_or_default())?,
    };
    let body = read(&options.file)?;
    if body.len() > BODY_MAX {
        return Err(TryError::Refused(format!("it has more than {BODY_MAX} bytes")));
    }
    let source = "try".parse().map_err(|rule| TryError::Usage(format!("the source's name {rule}")))?;
    let owner = Owner { source: &source, salt: "try" };
    match sources::sample(&settings, owner, &body) {
        Ok(event) => Ok(event.to_json()),
        Err(refusal) => Err(TryError::Refused(refusal.detail().to_owned())),
    }
}

fn of_preset(name: &str) -> Result<Settings, TryError> {
    Settings::of_preset(name).ok_or_else(|| {
        let names: Vec<_> = preset::all().iter().map(|preset| preset.name.as_str()).collect();
        TryError::Usage(format!(
            "there is no preset {name:?} that needs no settings; there are {}, and --settings FILE for custom",
            names.join(", ")
        ))
    })
}

fn read_settings(text: &[u8]) -> Result<Settings, TryError> {
    let refused = |refused| {
        let why = match refused {
            Refused::Syntax(why) => why,
            Refused::Invalid(faults) => {
                let all: Vec<_> =
                    faults.iter().map(|fault| format!("{} {}", fault.pointer, fault.detail)).collect();
                all.join("; ")
            }
        };
        TryError::Usage(format!("the settings cannot be used: {why}"))
    };
    Settings::parse(json::syntax(text).map_err(refused)?).map_err(refused)
}

fn read(file: &PathBuf) -> Result<Vec<u8>, TryError> {
    let read = match file.as_os_str() == "-" {
        true => {
            let mut bytes = Vec::new();
            std::io::Read::read_to_end(&mut std::io::stdin(), &mut bytes).map(|_| bytes)
        }
        false => std::fs::read(file),
    };
    read.map_err(|error| TryError::Usage(format!("{} cannot be read: {error}", file.display())))
}
