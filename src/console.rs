//! Standard output and standard error. Nothing here panics if they are closed or full, as `println!` does, and what a
//! server says there never waits for its reader.

use std::fmt::Display;
use std::io::{self, Write};
use std::sync::mpsc::channel;
use std::time::Duration;

/// How long an error message may take.
const COMPLAIN_TIME: Duration = Duration::from_secs(1);

/// Prints a command's result. Waits for the reader, as programs do.
pub fn print(text: impl Display) -> io::Result<()> {
    let mut out = io::stdout().lock();
    write!(out, "{text}")?;
    out.flush()
}

/// Prints a line on standard output, from a thread of its own: the process goes on if nobody reads it.
pub fn announce(line: String) {
    let print = move || {
        let _ = print(line + "\n");
    };
    // Without a thread there is no line; the one who waits for it sees that the server does not start.
    let _ = std::thread::Builder::new().name("tipcast-announce".into()).spawn(print);
}

/// Prints a line on standard error, and gives up after a second.
pub fn complain(line: impl Display) {
    let (done, waits) = channel();
    let text = format!("{line}\n");
    let print = move || {
        let _ = stderr().write_all(text.as_bytes());
        let _ = done.send(());
    };
    if std::thread::Builder::new().name("tipcast-complain".into()).spawn(print).is_ok() {
        let _ = waits.recv_timeout(COMPLAIN_TIME);
    }
}

/// Standard error without the lock of [`io::stderr`]: a write that hangs holds nobody else up.
pub fn stderr() -> Box<dyn Write + Send> {
    #[cfg(unix)]
    let own = std::os::fd::AsFd::as_fd(&io::stderr()).try_clone_to_owned();
    #[cfg(windows)]
    let own = std::os::windows::io::AsHandle::as_handle(&io::stderr()).try_clone_to_owned();
    match own {
        Ok(own) => Box::new(std::fs::File::from(own)),
        Err(_) => Box::new(io::stderr()),
    }
}
