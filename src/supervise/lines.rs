//! Lines of a log, written by a thread of their own.
//!
//! The caller never waits: a pipe that nobody reads, a full disk or a file server that hangs stops this thread and no
//! other. What does not fit into the queue, and what cannot be written, is dropped and counted.
//!
//! `tracing-appender` bounds its queue by lines and not by bytes, cannot change its file while it runs, and counts neither lines that
//! could not be written nor its thread's panics. The audit log needs all of that, so both logs use this.

use std::io::{self, Write};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::{Duration, Instant};

use prometheus_client::metrics::counter::Counter;

use super::faults;

/// Lines that may wait to be written.
const MAX_LINES: usize = 4_096;

/// Bytes of lines that may wait to be written.
const MAX_BYTES: usize = 4 << 20;

/// A longer line is cut.
const MAX_LINE: usize = 16 << 10;

/// How often lost lines are reported.
const REPORT_EVERY: Duration = Duration::from_secs(60);

/// Where lines go.
pub type LineTarget = Box<dyn Write + Send>;

enum LineTask {
    Line(Vec<u8>),
    Target(Option<LineTarget>),
}

/// What is done about lines that were lost, at most once a minute: gets how many since the last report, and the error
/// if the last line could not be written. Called on the writing thread.
pub type LossReport = Box<dyn FnMut(u64, Option<&io::Error>) + Send>;

/// The queue in front of the thread. The thread ends when this is dropped; call [`LineWriter::flush`] before that.
#[derive(Debug)]
pub struct LineWriter {
    tasks: SyncSender<LineTask>,
    waiting: Arc<UnwrittenLines>,
    dropped: Counter,
}

/// What was queued and is not written yet.
#[derive(Debug, Default)]
struct UnwrittenLines {
    tasks: AtomicUsize,
    bytes: AtomicUsize,
}

impl LineWriter {
    /// Starts the thread. Lines go nowhere until [`LineWriter::set_target`]. `name` is the name of the thread and of
    /// its point for faults; lost lines are counted in `dropped`; `restarted` is called after a panic of the thread.
    pub fn start(
        name: &'static str,
        dropped: Counter,
        report: LossReport,
        restarted: impl Fn() + Send + 'static,
    ) -> io::Result<LineWriter> {
        let (tasks, queue) = sync_channel(MAX_LINES);
        let waiting = Arc::<UnwrittenLines>::default();
        let mut thread = Thread {
            name,
            target: None,
            torn: false,
            waiting: waiting.clone(),
            dropped: dropped.clone(),
            reported: dropped.get(),
            report,
            next_report: None,
        };
        std::thread::Builder::new().name(format!("tipcast-{name}")).spawn(move || {
            while catch_unwind(AssertUnwindSafe(|| thread.run(&queue))).is_err() {
                thread.dropped.inc();
                restarted();
            }
        })?;
        Ok(LineWriter { tasks, waiting, dropped })
    }

    /// Queues a line, which must end with a line break. Never blocks.
    pub fn write(&self, line: Vec<u8>) {
        let line = cut(line);
        let bytes = line.len();
        // Reserved before it is sent, so that several threads together cannot exceed the bound.
        let fits = self.waiting.bytes.fetch_add(bytes, Ordering::Relaxed) + bytes <= MAX_BYTES;
        if !fits || !self.send(LineTask::Line(line)) {
            self.waiting.bytes.fetch_sub(bytes, Ordering::Relaxed);
            self.dropped.inc();
        }
    }

    /// Lines that are queued from now on go there. An error if the queue is full.
    pub fn set_target(&self, target: Option<LineTarget>) -> io::Result<()> {
        match self.send(LineTask::Target(target)) {
            true => Ok(()),
            false => Err(io::Error::other("the lines before are not written yet")),
        }
    }

    fn send(&self, task: LineTask) -> bool {
        self.waiting.tasks.fetch_add(1, Ordering::Release);
        let sent = self.tasks.try_send(task).is_ok();
        if !sent {
            self.waiting.tasks.fetch_sub(1, Ordering::Release);
        }
        sent
    }

    /// Waits until everything that was queued is written, at most for this time.
    pub fn flush(&self, within: Duration) {
        let until = Instant::now() + within;
        while self.waiting.tasks.load(Ordering::Acquire) > 0 && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(2));
        }
    }
}

impl Write for &LineWriter {
    /// `text` is taken as a whole line.
    fn write(&mut self, text: &[u8]) -> io::Result<usize> {
        LineWriter::write(self, text.to_vec());
        Ok(text.len())
    }

    /// Does not wait; see [`LineWriter::flush`].
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Cuts a line that is too long, between two characters.
fn cut(mut line: Vec<u8>) -> Vec<u8> {
    if line.len() > MAX_LINE {
        let continues = |byte: u8| byte & 0xC0 == 0x80;
        let end = (0..MAX_LINE).rev().find(|at| !continues(line[*at])).unwrap_or(0);
        line.truncate(end);
        line.extend_from_slice("…\n".as_bytes());
    }
    line
}

struct Thread {
    name: &'static str,
    target: Option<LineTarget>,
    /// The last line was written in part.
    torn: bool,
    waiting: Arc<UnwrittenLines>,
    dropped: Counter,
    /// How many of `dropped` were reported.
    reported: u64,
    report: LossReport,
    next_report: Option<Instant>,
}

impl Thread {
    /// Until the queue is dropped.
    fn run(&mut self, queue: &Receiver<LineTask>) {
        while let Ok(task) = queue.recv() {
            // Released also if this panics.
            let _taken = CurrentTask { waiting: self.waiting.clone(), bytes: task.bytes() };
            match task {
                LineTask::Target(target) => (self.target, self.torn) = (target, false),
                LineTask::Line(line) => {
                    faults::pass_blocking(self.name);
                    let written = self.write(&line);
                    if written.is_err() {
                        self.dropped.inc();
                    }
                    self.report_loss(written.err().as_ref());
                }
            }
        }
    }

    fn write(&mut self, line: &[u8]) -> io::Result<()> {
        let Some(target) = &mut self.target else { return Ok(()) };
        if self.torn {
            target.write_all(b"\n")?;
            self.torn = false;
        }
        // In one call, so that lines of several processes do not mix.
        let written = loop {
            match target.write(line) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                written => break written?,
            }
        };
        self.torn = true;
        target.write_all(&line[written..])?;
        self.torn = false;
        target.flush()
    }

    fn report_loss(&mut self, error: Option<&io::Error>) {
        let dropped = self.dropped.get();
        let now = Instant::now();
        if dropped > self.reported && self.next_report.is_none_or(|at| now >= at) {
            (self.report)(dropped - self.reported, error);
            self.reported = dropped;
            self.next_report = Some(now + REPORT_EVERY);
        }
    }
}

impl LineTask {
    fn bytes(&self) -> usize {
        match self {
            LineTask::Line(line) => line.len(),
            LineTask::Target(_) => 0,
        }
    }
}

/// A task that the thread is at.
struct CurrentTask {
    waiting: Arc<UnwrittenLines>,
    bytes: usize,
}

impl Drop for CurrentTask {
    fn drop(&mut self) {
        self.waiting.bytes.fetch_sub(self.bytes, Ordering::Relaxed);
        self.waiting.tasks.fetch_sub(1, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{Sender, channel};
    use std::sync::{Mutex, MutexGuard, PoisonError};

    use super::*;

    /// Long enough for the slowest machine; tests end as soon as they can.
    const TEST_TIMEOUT: Duration = Duration::from_secs(60);

    /// A target whose writes wait for the test's permission, and fail or are cut short if it says so.
    #[derive(Clone, Default)]
    struct Pipe {
        gate: Arc<Mutex<()>>,
        room: Arc<AtomicUsize>,
        text: Arc<Mutex<Vec<u8>>>,
    }

    impl Pipe {
        fn with_room(bytes: usize) -> Pipe {
            Pipe { room: Arc::new(AtomicUsize::new(bytes)), ..Pipe::default() }
        }

        fn text(&self) -> MutexGuard<'_, Vec<u8>> {
            self.text.lock().unwrap_or_else(PoisonError::into_inner)
        }
    }

    impl Write for Pipe {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            drop(self.gate.lock().unwrap());
            let room = self.room.load(Ordering::Relaxed).min(bytes.len());
            if room == 0 {
                return Err(io::Error::from(io::ErrorKind::StorageFull));
            }
            self.room.fetch_sub(room, Ordering::Relaxed);
            self.text().extend_from_slice(&bytes[..room]);
            Ok(room)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn writer(to: &Pipe) -> (LineWriter, Counter, std::sync::mpsc::Receiver<(u64, bool)>) {
        let dropped = Counter::default();
        let (reports, reported): (Sender<_>, _) = channel();
        let report = Box::new(move |lost, error: Option<&io::Error>| {
            let _ = reports.send((lost, error.is_some()));
        });
        let writer = LineWriter::start("test", dropped.clone(), report, || ()).unwrap();
        writer.set_target(Some(Box::new(to.clone()))).unwrap();
        (writer, dropped, reported)
    }

    #[test]
    fn a_target_that_hangs_delays_nobody_and_what_does_not_fit_is_counted() {
        let pipe = Pipe::with_room(usize::MAX);
        let (writer, dropped, reported) = writer(&pipe);
        let hangs = pipe.gate.lock().unwrap();
        let sent = 3 * MAX_LINES as u64;
        (0..sent).for_each(|n| writer.write(format!("{n}\n").into_bytes()));
        let lost = dropped.get();
        assert!(lost >= sent - MAX_LINES as u64 - 1 && lost < sent, "{lost}");
        writer.flush(Duration::from_millis(1));
        assert!(pipe.text().is_empty(), "a flush does not wait for ever");
        drop(hangs);
        writer.flush(TEST_TIMEOUT);
        let text = String::from_utf8(pipe.text().clone()).unwrap();
        assert_eq!(text.lines().count() as u64, sent - lost);
        assert_eq!(reported.recv_timeout(TEST_TIMEOUT).unwrap(), (lost, false));
    }

    #[test]
    fn the_queue_is_bounded_in_bytes_and_so_is_a_line() {
        let pipe = Pipe::with_room(usize::MAX);
        let (writer, dropped, _reported) = writer(&pipe);
        let hangs = pipe.gate.lock().unwrap();
        let line = format!("{}\n", "€".repeat(MAX_LINE));
        let sent = 2 * (MAX_BYTES / MAX_LINE) as u64;
        (0..sent).for_each(|_| writer.write(line.clone().into_bytes()));
        assert!(dropped.get() >= sent / 2 - 1, "{}", dropped.get());
        assert!(writer.waiting.bytes.load(Ordering::Relaxed) <= MAX_BYTES);
        drop(hangs);
        writer.flush(TEST_TIMEOUT);
        let text = String::from_utf8(pipe.text().clone()).unwrap();
        assert!(text.len() <= MAX_BYTES && text.lines().all(|line| line.ends_with("€…")));
        assert_eq!(writer.waiting.bytes.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn lines_that_a_full_disk_refuses_are_counted_and_the_next_one_begins_on_a_line_of_its_own() {
        let pipe = Pipe::with_room(6);
        let (writer, dropped, reported) = writer(&pipe);
        ["one\n", "two\n", "three\n"].iter().for_each(|line| writer.write(line.as_bytes().to_vec()));
        writer.flush(TEST_TIMEOUT);
        assert_eq!((dropped.get(), reported.recv_timeout(TEST_TIMEOUT).unwrap()), (2, (1, true)));
        pipe.room.store(usize::MAX, Ordering::Relaxed);
        writer.write(b"four\n".to_vec());
        writer.flush(TEST_TIMEOUT);
        assert_eq!(*pipe.text(), b"one\ntw\nfour\n");
        assert!(reported.try_recv().is_err(), "reports are a minute apart");
    }
}
