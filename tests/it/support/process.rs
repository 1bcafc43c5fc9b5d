//! The gateway as a process of its own: the real binary, for what only a process can suffer.

use std::io::{BufRead, BufReader, Read};
use std::ops::Deref;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex, mpsc};
use std::time::{Duration, Instant};

use super::api::Api;
use super::app::Backing;
use super::case::PATIENCE;

/// The binary, which may open only `files` files.
fn limited(open_files: u32) -> Command {
    let mut command = Command::new("sh");
    let binary = env!("CARGO_BIN_EXE_tipcast");
    command.args(["-c", "ulimit -n \"$0\" && exec \"$@\"", &open_files.to_string(), binary]);
    command
}

/// A child process; killed by its own id when dropped.
pub struct Process {
    child: Child,
    api: Option<Api>,
    said: Arc<Mutex<String>>,
    readers: Vec<std::thread::JoinHandle<()>>,
}

impl Deref for Process {
    type Target = Api;
    fn deref(&self) -> &Api {
        self.api.as_ref().expect("it listens")
    }
}

impl Process {
    /// Starts the binary with these arguments on a free port, and waits until it listens.
    pub fn serve(args: &[String]) -> Process {
        Process::serve_at("127.0.0.1:0", args)
    }

    /// As [`Process::serve`], on this address.
    pub fn serve_at(address: &str, args: &[String]) -> Process {
        Process::start(address, args.to_vec(), vec![])
    }

    /// Starts the binary on this store.
    pub fn on(backing: &Backing) -> Process {
        Process::start("127.0.0.1:0", backing.args(), backing.env())
    }

    /// Starts the binary on this address with these arguments and variables, and waits until it listens.
    pub fn start(address: &str, args: Vec<String>, env: Vec<(String, String)>) -> Process {
        let all: Vec<_> = ["--listen".to_owned(), address.to_owned()].into_iter().chain(args).collect();
        Process::listening_with(&all, env)
    }

    /// The id of its process.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Starts the binary with these arguments and no others, and waits until it listens.
    pub fn listening(args: &[String]) -> Process {
        Process::listening_with(args, vec![])
    }

    /// Starts the binary on a free port with these arguments and variables, where it may open only `files` files, and
    /// waits until it listens.
    pub fn start_with_files(open_files: u32, args: Vec<String>, env: Vec<(String, String)>) -> Process {
        let all: Vec<_> = ["--listen".to_owned(), "127.0.0.1:0".to_owned()].into_iter().chain(args).collect();
        Process::until_it_listens(Process::spawn_from(limited(open_files), &all, env))
    }

    /// Runs the binary to its end where it may open only `files` files.
    pub fn run_with_files(
        open_files: u32,
        args: &[String],
        env: Vec<(String, String)>,
    ) -> (ExitStatus, String) {
        Process::spawn_from(limited(open_files), args, env).0.wait_for_end()
    }

    fn listening_with(args: &[String], env: Vec<(String, String)>) -> Process {
        Process::until_it_listens(Process::spawn(args, env))
    }

    /// Starts the binary with this standard output and error, and waits until it says on one of them that it listens.
    pub fn listening_to(
        args: &[String],
        env: Vec<(String, String)>,
        stdout: Stdio,
        stderr: Stdio,
    ) -> Process {
        let mut command = Command::new(env!("CARGO_BIN_EXE_tipcast"));
        command.stdout(stdout).stderr(stderr);
        Process::until_it_listens(Process::spawn_to(command, args, env))
    }

    fn until_it_listens((mut process, lines): (Process, mpsc::Receiver<String>)) -> Process {
        let deadline = Instant::now() + PATIENCE;
        let base = loop {
            let line = lines.recv_timeout(deadline.saturating_duration_since(Instant::now()));
            let line = line.unwrap_or_else(|e| panic!("it does not listen ({e}):\n{}", process.said()));
            // Over TLS too; the base is then of use for its address only.
            let said = line.replace("listening on https://", "listening on http://");
            // The log says it too, where nobody can read standard output.
            let said = said.replace(" address=", " listening on http://");
            let said = said.replace("\"address\":\"", " listening on http://").replace('"', " ");
            if let Some((_, address)) = said.split_once("listening on http://") {
                let address = address.split_whitespace().next().unwrap().trim_end_matches('/');
                break format!("http://{address}");
            }
        };
        process.api = Some(Api::at(base));
        process
    }

    /// Runs the binary to its end; gives how it ended and everything it said.
    pub fn run(args: &[String]) -> (ExitStatus, String) {
        Process::run_with(args, vec![])
    }

    /// Runs `tipcast-bench` or `tipcast-rehearse` to its end. They are packages of their own, which `cargo test` of the gateway
    /// alone does not build.
    pub fn run_tool(name: &str, args: &[String]) -> (ExitStatus, String) {
        static BUILT: Mutex<Vec<String>> = Mutex::new(Vec::new());
        let mut built = BUILT.lock().unwrap();
        if !built.iter().any(|it| it == name) {
            let done = Command::new(env!("CARGO")).args(["build", "--quiet", "--package", name]).status();
            assert!(done.unwrap().success(), "{name} is not built");
            built.push(name.to_owned());
        }
        drop(built);
        let binary = Path::new(env!("CARGO_BIN_EXE_tipcast")).with_file_name(name);
        Process::spawn_from(Command::new(binary), args, vec![]).0.wait_for_end()
    }

    /// As [`Process::run`], with these variables.
    pub fn run_with(args: &[String], env: Vec<(String, String)>) -> (ExitStatus, String) {
        Process::spawn(args, env).0.wait_for_end()
    }

    fn wait_for_end(mut self) -> (ExitStatus, String) {
        // A command with much to do, on a machine that runs other tests.
        let status = self.wait_within(Duration::from_secs(120));
        self.readers.drain(..).for_each(|reader| reader.join().unwrap());
        (status, self.said())
    }

    /// Starts the binary with these arguments, and does not wait for it.
    pub fn spawned(args: &[String]) -> Process {
        Process::spawn(args, vec![]).0
    }

    fn spawn(args: &[String], env: Vec<(String, String)>) -> (Process, mpsc::Receiver<String>) {
        Process::spawn_from(Command::new(env!("CARGO_BIN_EXE_tipcast")), args, env)
    }

    fn spawn_from(
        mut command: Command,
        args: &[String],
        env: Vec<(String, String)>,
    ) -> (Process, mpsc::Receiver<String>) {
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        Process::spawn_to(command, args, env)
    }

    /// With the standard output and error that `command` has.
    fn spawn_to(
        mut command: Command,
        args: &[String],
        env: Vec<(String, String)>,
    ) -> (Process, mpsc::Receiver<String>) {
        command.args(args).stdin(Stdio::null());
        for (name, _) in
            std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("TIPCAST_"))
        {
            command.env_remove(name);
        }
        command.envs(env);
        let mut child = command.spawn().unwrap();
        let said = Arc::new(Mutex::new(String::new()));
        let (lines, told) = mpsc::channel();
        let out = child.stdout.take().map(|pipe| Box::new(pipe) as Box<dyn Read + Send>);
        let err = child.stderr.take().map(|pipe| Box::new(pipe) as Box<dyn Read + Send>);
        let readers = [out, err].into_iter().flatten().map(|pipe| {
            let (said, lines) = (said.clone(), lines.clone());
            std::thread::spawn(move || {
                for line in BufReader::new(pipe).lines().map_while(Result::ok) {
                    let mut said = said.lock().unwrap();
                    said.push_str(&line);
                    said.push('\n');
                    let _ = lines.send(line);
                }
            })
        });
        let readers = readers.collect();
        (Process { child, api: None, said, readers }, told)
    }

    /// Everything it wrote so far.
    pub fn said(&self) -> String {
        self.said.lock().unwrap().clone()
    }

    /// `kill -9`, and waits until it is gone.
    pub fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// SIGTERM.
    pub fn terminate(&self) {
        signal("TERM", self.child.id());
    }

    /// SIGTERM and at once another.
    pub fn terminate_twice(&self) {
        let pid = self.child.id().to_string();
        assert!(Command::new("kill").args(["-TERM", &pid, &pid]).status().unwrap().success());
    }

    /// SIGHUP.
    pub fn hang_up(&self) {
        signal("HUP", self.child.id());
    }

    /// Waits until it has written these words, and gives everything it wrote so far.
    pub fn wait_for_words(&self, words: &str) -> String {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let said = self.said();
            if said.contains(words) {
                return said;
            }
            assert!(Instant::now() < deadline, "nothing about {words:?}:\n{said}");
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// Waits for its end, 15 s at most: a gateway that was asked to stop.
    pub fn wait(&mut self) -> ExitStatus {
        self.wait_within(Duration::from_secs(15))
    }

    fn wait_within(&mut self, most: Duration) -> ExitStatus {
        let deadline = Instant::now() + most;
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status;
            }
            assert!(Instant::now() < deadline, "it does not end:\n{}", self.said());
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

/// Sends a signal to one process.
pub fn signal(name: &str, pid: u32) {
    let sent = Command::new("kill").arg(format!("-{name}")).arg(pid.to_string()).status().unwrap();
    assert!(sent.success(), "kill -{name} {pid}");
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let gone = self.child.wait();
        if !std::thread::panicking() {
            gone.expect("the child is gone");
        }
    }
}
