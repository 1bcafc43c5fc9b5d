//! The command line.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Parser, Subcommand};
use tipcast::app::key_new::KeyOptions;
use tipcast::app::token_tool::{self, CheckToken, NewToken};
use tipcast::app::{self, StartError, StoreJob};
use tipcast::config::{self, Config, ConfigError, Flags, LogFormat};
use tipcast::console;
use tipcast::tools::demo::{self, DemoOptions};
use tipcast::tools::healthcheck::{self, HealthcheckOptions};
use tipcast::tools::listen::{self, ListenError, ListenOptions};
use tipcast::tools::source::{self, TryError, TryOptions};
use tipcast::tools::trigger::{self, TriggerError, TriggerOptions};

/// Most of what a gift costs the store in this process is memory taken and given back.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// A live gift feed gateway: POST a gift, every watcher of the feed sees it, in order, exactly once.
///
/// Without a command it serves.
#[derive(Parser)]
#[command(version)]
struct Cli {
    #[command(subcommand)]
    command: Option<Command>,
    #[command(flatten)]
    settings: ServerArgs,
}

#[derive(Args, Clone, Default, PartialEq)]
struct ServerArgs {
    /// A configuration file; `tipcast default-config` prints one.
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Where to listen, such as 127.0.0.1:8080.
    #[arg(long, value_name = "ADDR")]
    listen: Option<String>,
    /// Use this Redis instead of the embedded store, such as redis://127.0.0.1:6379.
    #[arg(long, value_name = "URL")]
    redis: Option<String>,
    /// The folder of the embedded store.
    #[arg(long, value_name = "DIR")]
    data_dir: Option<String>,
    /// Listen beyond loopback although nobody is asked who they are.
    #[arg(long)]
    insecure: bool,
}

impl ServerArgs {
    /// These, with what `others` say laid over them.
    fn under(self, others: ServerArgs) -> ServerArgs {
        ServerArgs {
            config: others.config.or(self.config),
            listen: others.listen.or(self.listen),
            redis: others.redis.or(self.redis),
            data_dir: others.data_dir.or(self.data_dir),
            insecure: others.insecure || self.insecure,
        }
    }

    fn reading(self, file: Option<PathBuf>) -> ServerArgs {
        ServerArgs { config: file.or(self.config), ..self }
    }
}

#[derive(Subcommand)]
enum Command {
    /// Say whether the server would start with this configuration.
    CheckConfig {
        /// The configuration file, `-` for standard input; the same as --config.
        #[arg(value_name = "FILE", conflicts_with = "config")]
        file: Option<PathBuf>,
        #[command(flatten)]
        settings: ServerArgs,
    },
    /// Print the commented default configuration.
    DefaultConfig,
    /// Print a Lua script as it is run, such as `publish`; without a name, list them.
    Script {
        /// Its name; `feed_` in front of it may be left out.
        name: Option<String>,
    },
    /// Producer keys.
    #[command(subcommand)]
    Key(KeyCommand),
    /// Sources: tips that come from payment and streaming platforms.
    #[command(subcommand)]
    Source(SourceCommand),
    /// What the embedded store keeps: check it, copy it, bring a copy back.
    Store {
        #[command(subcommand)]
        job: StoreCommand,
        #[command(flatten)]
        place: FolderArgs,
    },
    /// Viewer tokens.
    #[command(subcommand)]
    Token(TokenCommand),
    /// Play a realistic show against a running gateway until stopped.
    Demo(DemoOptions),
    /// Print what happens in a feed, as lines of JSON, or post it to a local program as a webhook would.
    Listen(ListenOptions),
    /// Make one real entry of a type happen in a feed's ledger.
    Trigger(TriggerOptions),
    /// Ask a running gateway whether it lives; exit code 0 if so.
    Healthcheck(HealthcheckOptions),
}

/// Which folder.
#[derive(Args)]
struct FolderArgs {
    /// A configuration file that names the folder.
    #[arg(long, value_name = "FILE", global = true)]
    config: Option<PathBuf>,
    /// The folder of the embedded store.
    #[arg(long, value_name = "DIR", global = true)]
    data_dir: Option<String>,
}

#[derive(Subcommand)]
enum StoreCommand {
    /// Say which feeds are damaged; exit code 1 if any is. Also while a gateway runs on the folder.
    Check,
    /// Copy everything to a new file. Also while a gateway runs on the folder.
    Backup {
        /// The file; it must not be there yet.
        file: PathBuf,
    },
    /// Bring a backup back into a folder that is empty and not in use. Every feed begins a new epoch.
    Restore {
        /// What `backup` wrote.
        file: PathBuf,
    },
    /// Copy what can be read of a damaged folder to a new file, and list what is lost. Not while a gateway runs on it; the damaged
    /// file stays under another name. Every feed begins a new epoch.
    Recover,
    /// Copy everything into a Redis, from which any number of gateways go on. Not while a gateway runs on the folder, which is not
    /// changed. Every feed begins a new epoch; ids, cursors, stock and sums go on.
    Move {
        /// The Redis, as [redis] url has it: redis://HOST, rediss://…, redis+cluster://…, redis+sentinel://…
        ///
        /// Other users of this machine see it in the list of processes. Leave it out where it has a password: then it is [redis] url, of
        /// the file that --config names or of the variable TIPCAST_REDIS__URL.
        #[arg(long, value_name = "URL")]
        to: Option<String>,
        /// What its keys begin with, under which nothing may be yet; as [redis] prefix.
        #[arg(long, value_name = "PREFIX")]
        prefix: Option<String>,
        /// Go on where a run was interrupted.
        #[arg(long)]
        resume: bool,
    },
}

#[derive(Subcommand)]
enum KeyCommand {
    /// Print a fresh key, and what to put into the configuration for it.
    New(KeyOptions),
}

#[derive(Subcommand)]
enum SourceCommand {
    /// Show the gift that a webhook's body would become, or why not. Nothing is sent anywhere.
    Try(TryOptions),
}

#[derive(Subcommand)]
enum TokenCommand {
    /// Print a token that this configuration takes, for trying.
    New {
        #[command(flatten)]
        options: NewToken,
        #[command(flatten)]
        settings: ServerArgs,
    },
    /// Say what a server with this configuration thinks of a token.
    Check {
        #[command(flatten)]
        options: CheckToken,
        #[command(flatten)]
        settings: ServerArgs,
    },
}

/// Bad usage or configuration.
const USAGE: u8 = 2;
/// The configuration is fine, and yet it does not start.
const FAILED: u8 = 1;

fn main() -> ExitCode {
    let Cli { command, settings } = Cli::parse();
    if !matches!(
        command,
        None | Some(Command::CheckConfig { .. } | Command::Store { .. } | Command::Token(_))
    ) && settings != ServerArgs::default()
    {
        let error = "--config, --listen, --redis, --data-dir and --insecure in front of a command are for the \
                      server and check-config, and for store and token";
        return refuse(USAGE, &error);
    }
    match command {
        None => serve(settings),
        Some(Command::CheckConfig { file, settings: own }) => {
            let settings = settings.under(own).reading(file);
            let file = settings.config.clone();
            match load(settings) {
                Ok(config) => {
                    let secrets = app::secrets::readable(&config, file.as_deref());
                    secrets.iter().for_each(|warning| console::complain(format!("warning: {warning}")));
                    config
                        .warnings()
                        .iter()
                        .for_each(|warning| console::complain(format!("warning: {warning}")));
                    config.notes().iter().for_each(|note| console::complain(format!("note: {note}")));
                    print(format!("{}\nthe configuration is fine\n", config.summary()))
                }
                Err(error) => refuse(USAGE, &error),
            }
        }
        Some(Command::Store { job, place: FolderArgs { config, data_dir } }) => {
            let job = match job {
                StoreCommand::Check => StoreJob::Check,
                StoreCommand::Backup { file } => StoreJob::Backup(file),
                StoreCommand::Restore { file } => StoreJob::Restore(file),
                StoreCommand::Recover => StoreJob::Recover,
                StoreCommand::Move { to, prefix, resume } => StoreJob::Move { to, prefix, resume },
            };
            match load(settings.under(ServerArgs { config, data_dir, ..ServerArgs::default() }))
                .map(|config| app::run_store_job(&config, &job))
            {
                Ok(Ok(text)) => print(format!("{text}\n")),
                Ok(Err(error)) => refuse(FAILED, &error),
                Err(error) => refuse(USAGE, &error),
            }
        }
        Some(Command::DefaultConfig) => print(config::DEFAULT),
        Some(Command::Script { name }) => match app::script(name.as_deref()) {
            Ok(text) => print(text),
            Err(why) => refuse(USAGE, &why),
        },
        Some(Command::Healthcheck(options)) => match healthy(options) {
            Ok(Ok(())) => ExitCode::SUCCESS,
            Ok(Err(error)) => refuse(FAILED, &error),
            Err(error) => refuse(FAILED, &error),
        },
        Some(Command::Key(KeyCommand::New(options))) => match app::key_new::explain(&options) {
            Ok(text) => print(text),
            Err(error) => refuse(FAILED, &error),
        },
        Some(Command::Token(TokenCommand::New { options, settings: own })) => match load(settings.under(own))
        {
            Ok(config) => match token_tool::new(&config, &options) {
                Ok(token) => print(format!("{token}\n")),
                Err(error) => refuse(FAILED, &error),
            },
            Err(error) => refuse(USAGE, &error),
        },
        Some(Command::Token(TokenCommand::Check { options, settings: own })) => {
            let config = match load(settings.under(own)) {
                Ok(config) => config,
                Err(error) => return refuse(USAGE, &error),
            };
            match block_on(token_tool::check(&config, &options)) {
                Ok(Ok(text)) => print(text),
                Ok(Err(error)) => refuse(FAILED, &error),
                Err(error) => refuse(FAILED, &error),
            }
        }
        Some(Command::Source(SourceCommand::Try(options))) => match source::try_file(&options) {
            Ok(text) => print(format!("{text}\n")),
            Err(error @ TryError::Usage(_)) => refuse(USAGE, &error),
            Err(error @ TryError::Refused(_)) => refuse(FAILED, &error),
        },
        Some(Command::Listen(options)) => match block_on(async {
            let stop = app::asked_to_stop().map_err(ListenError::Io)?;
            listen::run(options, stop).await
        }) {
            Ok(Ok(())) => ExitCode::SUCCESS,
            Ok(Err(error)) => refuse(FAILED, &error),
            Err(error) => refuse(FAILED, &error),
        },
        Some(Command::Trigger(options)) => match block_on(trigger::run(options)) {
            Ok(Ok(())) => ExitCode::SUCCESS,
            Ok(Err(error @ TriggerError::Usage(_))) => refuse(USAGE, &error),
            Ok(Err(error)) => refuse(FAILED, &error),
            Err(error) => refuse(FAILED, &error),
        },
        Some(Command::Demo(options)) => match block_on(demo::run(options)) {
            Ok(Ok(())) => ExitCode::SUCCESS,
            Ok(Err(error)) => refuse(FAILED, &error),
            Err(error) => refuse(FAILED, &error),
        },
    }
}

/// Asks the gateway that is named, or that the configuration describes.
fn healthy(options: HealthcheckOptions) -> std::io::Result<Result<(), String>> {
    let described = match &options.url {
        Some(_) => String::new(),
        None => match load(ServerArgs { config: options.config.clone(), ..ServerArgs::default() }) {
            Ok(config) => health_url(&config),
            Err(error) => return Ok(Err(error.to_string())),
        },
    };
    block_on(healthcheck::run(options, described))
}

/// Where the gateway of `config` is reached on this machine.
fn health_url(config: &Config) -> String {
    let scheme = config.scheme();
    let (host, port) = match config.listen_address() {
        Ok(at) if at.ip().is_unspecified() && at.is_ipv6() => ("[::1]".to_owned(), at.port()),
        Ok(at) if at.ip().is_unspecified() => ("127.0.0.1".to_owned(), at.port()),
        Ok(at) if at.is_ipv6() => (format!("[{}]", at.ip()), at.port()),
        Ok(at) => (at.ip().to_string(), at.port()),
        Err(_) => ("127.0.0.1".to_owned(), 8080),
    };
    format!("{scheme}://{host}:{port}/healthz")
}

fn block_on<T>(work: impl Future<Output = T>) -> std::io::Result<T> {
    Ok(tokio::runtime::Builder::new_multi_thread().enable_all().build()?.block_on(work))
}

fn load(settings: ServerArgs) -> Result<Config, ConfigError> {
    let ServerArgs { config, listen, redis, data_dir, insecure } = settings;
    // A variable that is not Unicode cannot be one of ours with a usable value, unless its name says so.
    let env = std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.to_string_lossy().into_owned())));
    let config = config::load(config.as_deref(), env, Flags { listen, redis, data_dir, insecure })?;
    app::check(&config)?;
    Ok(config)
}

fn serve(settings: ServerArgs) -> ExitCode {
    if settings.config.as_deref().is_some_and(|file| file == config::STDIN) {
        let error = "a server reads its configuration again when it gets SIGHUP: give it a file, not \
                     standard input";
        return refuse(USAGE, &error);
    }
    let config = match load(settings.clone()) {
        Ok(config) => config,
        Err(error) => return refuse(USAGE, &error),
    };
    if let Err(error) = app::logs::start(&config.log) {
        return refuse(USAGE, &error);
    }
    app::secrets::readable(&config, settings.config.as_deref())
        .iter()
        .for_each(|warning| tracing::warn!("{warning}"));
    app::raise_limit(&config);
    let code = match block_on(listen_and_run(config, settings)).map_err(StartError::Server).flatten() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error @ StartError::Config(_)) => refuse(USAGE, &error),
        Err(error) => refuse(FAILED, &error),
    };
    app::logs::flush();
    code
}

async fn listen_and_run(config: Config, settings: ServerArgs) -> Result<(), StartError> {
    let address = config.listen_address().map_err(|e| StartError::Listen(e.0))?;
    let listener = app::bind(address)?;
    let shutdown = app::asked_to_stop().map_err(StartError::Server)?;
    let reloads = app::asked_to_reload(move || load(settings.clone())).map_err(StartError::Server)?;
    let address = listener.local_addr().map_err(StartError::Server)?;
    let scheme = config.scheme();
    // The one line on stdout, for people and scripts: with port 0 nothing else names the port. With JSON logs there is none:
    // containers collect both streams, and the log has the address.
    let is_json = config.log.format == LogFormat::Json;
    let announce = move || {
        if !is_json {
            console::announce(format!("listening on {scheme}://{address}"));
        }
    };
    app::run_reloading(config, listener, shutdown, reloads, announce).await
}

/// Prints what a command found out.
fn print(text: impl std::fmt::Display) -> ExitCode {
    match console::print(text) {
        Ok(()) => ExitCode::SUCCESS,
        // As with `| head`: the reader has seen enough.
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => ExitCode::SUCCESS,
        Err(error) => refuse(FAILED, &format!("standard output cannot be written: {error}")),
    }
}

fn refuse(code: u8, why: &dyn std::fmt::Display) -> ExitCode {
    console::complain(format!("tipcast: {why}"));
    ExitCode::from(code)
}
