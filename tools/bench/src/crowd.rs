//! All watchers: connecting them, hearing them, letting some stall.

use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Duration;

use mio::net::TcpStream;
use mio::{Interest, Registry, Token};
use socket2::{Domain, Protocol, Socket, Type};

use crate::BenchError;
use crate::dialect::Dialect;
use crate::ledger::Ledger;
use crate::options::{LoadOptions, Target};
use crate::watcher::{Stage, Watcher};
use crate::wire::Wire;

/// What the kernel may hold for a watcher that stalls: little, so that it is felt soon.
const STALLED_BUFFER: usize = 4096;

/// Sampled watchers, one of each of the first feeds.
const SAMPLES: usize = 4;

/// All watchers of a run. Their tokens are their numbers.
#[derive(Debug)]
pub(crate) struct Crowd {
    pub all: Vec<Watcher>,
    target: Target,
    sources: u32,
    /// The next to connect.
    next: usize,
    /// How many handshakes are under way.
    pub under_way: usize,
    pub live: usize,
    /// Watchers that ended although nobody asked them to, and why the first did.
    pub ended: u64,
    pub first_end: Option<String>,
    scratch: Vec<u8>,
}

impl Crowd {
    pub fn new(options: &LoadOptions, target: &Target, samples: bool) -> Crowd {
        let watcher = |n: u32| {
            let mut watcher = Watcher::new(n % options.feeds, options.stalls(n));
            watcher.late = options.storm;
            watcher
        };
        let mut all: Vec<Watcher> = (0..options.watchers).map(watcher).collect();
        if samples {
            let reading = all.iter_mut().take(options.feeds as usize).filter(|watcher| !watcher.stalled);
            reading.take(SAMPLES).for_each(Watcher::examine);
        }
        Crowd {
            all,
            target: target.clone(),
            sources: options.source_addresses,
            next: 0,
            under_way: 0,
            live: 0,
            ended: 0,
            first_end: None,
            scratch: Vec::new(),
        }
    }

    /// Begins as many handshakes as `most` allows.
    pub fn connect_more(
        &mut self,
        most: usize,
        registry: &Registry,
        dialect: &dyn Dialect,
    ) -> Result<(), BenchError> {
        while self.under_way < most && self.next < self.all.len() {
            let n = self.next;
            let refused = |e: io::Error| BenchError::Server(explain(n, &e));
            let stalled = self.all[n].stalled;
            let mut socket = open(self.target.address, self.sources, n, stalled).map_err(refused)?;
            // On loopback the connection already stands: asking at once saves a round.
            registry.register(&mut socket, Token(n), Interest::READABLE | Interest::WRITABLE)?;
            let watcher = &mut self.all[n];
            watcher.socket = Some(Wire::new(socket, self.target.encryption.as_ref())?);
            watcher.shake(dialect, &mut self.scratch).map_err(|why| no_watcher(n, &why))?;
            self.next += 1;
            self.under_way += 1;
        }
        Ok(())
    }

    /// True when every watcher was opened.
    pub fn complete(&self) -> bool {
        self.next == self.all.len() && self.under_way == 0
    }

    /// Watcher `n` can be read or written. An error while they are being opened ends the run; later it
    /// ends the watcher.
    pub fn stir(
        &mut self,
        n: usize,
        closed: bool,
        buffer: &mut [u8],
        dialect: &dyn Dialect,
        ledger: &mut Ledger,
        now: &dyn Fn() -> u64,
    ) -> Result<(), BenchError> {
        let Some(watcher) = self.all.get_mut(n) else { return Ok(()) };
        let before = watcher.stage;
        if before == Stage::Connecting {
            match watcher.shake(dialect, &mut self.scratch) {
                Ok(true) => {}
                Ok(false) => return Ok(()),
                Err(why) => return Err(no_watcher(n, &why)),
            }
        }
        let heard = watcher.read(buffer, closed, dialect, ledger, now);
        let opened = before != Stage::Live && watcher.stage == Stage::Live;
        if opened {
            self.under_way -= 1;
            self.live += 1;
            ledger.feeds[watcher.feed as usize].watching += u32::from(!watcher.stalled);
        }
        let Err(why) = heard else { return Ok(()) };
        if watcher.stage != Stage::Live {
            return Err(no_watcher(n, &why));
        }
        if !watcher.stalled {
            ledger.feeds[watcher.feed as usize].watching -= 1;
        }
        watcher.close();
        self.live -= 1;
        self.ended += 1;
        self.first_end.get_or_insert(why);
        Ok(())
    }

    /// Those that stall are no longer read.
    pub fn stall(&mut self, registry: &Registry) -> io::Result<()> {
        for watcher in self.all.iter_mut().filter(|watcher| watcher.stalled) {
            if let Some(socket) = &mut watcher.socket {
                registry.deregister(&mut socket.socket)?;
            }
        }
        Ok(())
    }

    /// They are read again.
    pub fn resume(&mut self, registry: &Registry) -> io::Result<()> {
        for (n, watcher) in self.all.iter_mut().enumerate().filter(|(_, watcher)| watcher.stalled) {
            if let Some(socket) = &mut watcher.socket {
                registry.register(&mut socket.socket, Token(n), Interest::READABLE)?;
            }
        }
        Ok(())
    }

    /// Watchers of those that `which` names who are not at the end of their feed.
    pub fn behind(&self, ends: &[u64], which: impl Fn(&Watcher) -> bool) -> u64 {
        let live = self.all.iter().filter(|watcher| watcher.stage == Stage::Live);
        let behind = |watcher: &&Watcher| which(watcher) && watcher.place.seq < ends[watcher.feed as usize];
        live.filter(behind).count() as u64
    }

    /// Ops that never came, although their feeds have them.
    pub fn missing(&self, ends: &[u64]) -> u64 {
        self.all.iter().map(|watcher| ends[watcher.feed as usize].saturating_sub(watcher.place.seq)).sum()
    }

    /// What sampled watchers hold that is wrong.
    pub fn compare(&self, dialect: &dyn Dialect) -> Vec<String> {
        let sampled = self.all.iter().filter(|watcher| watcher.stage == Stage::Live);
        sampled.filter_map(|w| dialect.compare(w.feed as usize, w.sample()?)).collect()
    }

    /// How many there are that do not read.
    pub fn stalled(&self) -> u64 {
        self.all.iter().filter(|watcher| watcher.stalled).count() as u64
    }

    /// The names of the feeds' watchers in numbers, stalled ones included.
    pub fn of_feeds(&self, feeds: usize) -> Vec<u64> {
        let mut count = vec![0; feeds];
        self.all.iter().for_each(|watcher| count[watcher.feed as usize] += 1);
        count
    }
}

/// For how long nothing may happen before a phase is given up.
pub(crate) const STALL_TIMEOUT: Duration = Duration::from_secs(20);

fn no_watcher(n: usize, why: &str) -> BenchError {
    BenchError::Server(format!("watcher {} of the run cannot watch: {why}", n + 1))
}

fn explain(n: usize, error: &io::Error) -> String {
    let hint = match error.kind() {
        io::ErrorKind::AddrNotAvailable | io::ErrorKind::AddrInUse => {
            "; no port is left to connect from: use more --source-addresses"
        }
        _ => "",
    };
    format!("watcher {} cannot connect: {error}{hint}", n + 1)
}

/// A connection that is being made, without waiting for it.
fn open(address: SocketAddr, sources: u32, n: usize, stalled: bool) -> io::Result<TcpStream> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    socket.set_nonblocking(true)?;
    // Closing gives the port back at once, so that the next run finds as many.
    socket.set_linger(Some(Duration::ZERO))?;
    if stalled {
        socket.set_recv_buffer_size(STALLED_BUFFER)?;
    }
    if sources > 0 && address.is_ipv4() {
        let last = 2 + (n % sources as usize) as u8;
        socket.bind(&SocketAddr::new(IpAddr::V4(Ipv4Addr::new(127, 0, 0, last)), 0).into())?;
    }
    match socket.connect(&address.into()) {
        Ok(()) => {}
        Err(e) if e.kind() == io::ErrorKind::WouldBlock || e.raw_os_error() == Some(IN_PROGRESS) => {}
        Err(e) => return Err(e),
    }
    Ok(TcpStream::from_std(socket.into()))
}

/// `EINPROGRESS`, which the standard library has no stable name for.
const IN_PROGRESS: i32 = if cfg!(target_os = "linux") { 115 } else { 36 };
