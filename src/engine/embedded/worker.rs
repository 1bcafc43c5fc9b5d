//! The thread that has the data: it makes calls one after the other, and answers when what they report is durable.
//!
//! What calls change is gathered in a group. One group is with the disk, the next one is being filled meanwhile. A call is
//! answered at once unless it changed something, or one of its keys was changed by a group that is not durable yet: then it
//! is answered with that group. A group that the disk refuses is taken back, and so is the one behind it; from then on calls
//! are made as before, but those that change something are taken back and refused, until the disk takes a row again.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender};
use std::time::{Duration, Instant};

use foldhash::fast::RandomState;

use super::changes::Changes;
use super::effect::{Effect, Name};
use super::events::{Call, PublishHook, StoreEvent, StoreRequest, ToDisk};
use super::group::{CallRefusal, Group, Held};
use super::host::{ScriptHost, ScriptRun, ScriptText};
use super::reply::Reply;
use super::steady::Steady;
use super::stored::StoredString;
use super::weight;
use crate::domain::Millis;
use crate::engine::protocol::owner::{Owners, shown};
use crate::engine::protocol::scripts::Room;
use crate::metrics::Metrics;
use crate::supervise::{Beat, faults};

/// Calls that are made before the group is handed over though the disk has time.
const AT_ONCE: usize = 512;

/// Bytes of effects in one group. What changes something beyond that waits for the next one.
const GROUP_BYTES: usize = 8 << 20;

/// How often a disk that refused is asked whether it takes a row.
const PROBE_EVERY: Duration = Duration::from_secs(1);

/// For how long a row that was written says that rows can be written, while nothing else is: an idle process leaves the disk
/// alone.
const WRITE_PROOF_TIME: Duration = Duration::from_secs(60);

/// How often what has expired is taken out, and how many keys are looked at then: more than calls can bring, in steps that
/// nobody notices.
const EXPIRY_SWEEP: (Duration, usize) = (Duration::from_millis(100), 16_384);

/// With less room than this the store is said to be full: most calls that take something in are smaller.
const FULL_BELOW_BYTES: i64 = 64 << 10;

/// The parts of the bound that are left free below and above it for what the gateway writes by itself, as a feed's name in the list of
/// feeds: gifts end a hundredth below the bound, and what ends or shows something that is there 4 % above it.
const FREE_BELOW: i64 = 100;
const WISHES_ABOVE: i64 = 25;

/// How long the thread waits for something to do before it looks around.
const MAX_IDLE_WAIT: Duration = Duration::from_secs(1);

/// The store thread's state.
pub(super) struct StoreThread {
    host: ScriptHost,
    disk: Sender<ToDisk>,
    on_publish: PublishHook,
    metrics: Arc<Metrics>,
    clock: Steady,
    /// Being filled.
    group: Group,
    /// With the disk, and since when.
    away: Option<(Group, Instant)>,
    /// By key: the last group that changed it and is not durable.
    unsure: HashMap<Name, u64, RandomState>,
    /// Calls that found the group full.
    aside: VecDeque<Call>,
    /// What the data takes, in bytes; and how much it may.
    bytes: i64,
    most: i64,
    /// Owners whose records are damaged, and by what.
    damaged: Option<(Owners, BTreeMap<Vec<u8>, String>)>,
    /// Why the disk takes nothing.
    refused: Option<String>,
    /// When the disk last took something.
    proved: Option<Instant>,
    probed: Instant,
    tidied: Instant,
    /// The clock on the wall was set by more than a minute since the machine was started.
    was_clock_set: bool,
}

impl StoreThread {
    pub fn new(
        host: ScriptHost,
        disk: Sender<ToDisk>,
        on_publish: PublishHook,
        metrics: Arc<Metrics>,
        clock: Steady,
        max_bytes: u64,
    ) -> StoreThread {
        let begun = Instant::now();
        let bytes = host.with_space(|space| weight::of(space));
        metrics.store_bytes.set(bytes);
        StoreThread {
            host,
            disk,
            on_publish,
            metrics,
            clock,
            group: Group { number: 1, ..Group::default() },
            away: None,
            unsure: HashMap::default(),
            aside: VecDeque::new(),
            bytes,
            most: i64::try_from(max_bytes).unwrap_or(i64::MAX),
            damaged: None,
            refused: None,
            proved: None,
            probed: begun,
            tidied: begun,
            was_clock_set: false,
        }
    }

    /// Calls about keys of these owners are refused.
    pub fn with_damaged(self, owners: Owners, damaged: BTreeMap<Vec<u8>, String>) -> StoreThread {
        for (owner, what) in &damaged {
            tracing::error!(what, "{} is damaged and answers 503, all others go on", shown(owner));
        }
        StoreThread { damaged: (!damaged.is_empty()).then_some((owners, damaged)), ..self }
    }

    /// Why a call is about records that are damaged.
    fn damage(&self, work: &StoreRequest) -> Option<CallRefusal> {
        let (owners, damaged) = self.damaged.as_ref()?;
        let of = |key: &[u8]| damaged.get(&owners(key).word()?).cloned();
        let what = match work {
            StoreRequest::Script { keys, .. } => keys.iter().find_map(of),
            StoreRequest::Command(words) => words.iter().skip(1).find_map(of),
            StoreRequest::Row => None,
        };
        what.map(|what| CallRefusal::Failed(format!("DAMAGED {what}")))
    }

    /// Until it is to close, or its last caller has gone.
    pub fn run(mut self, events: &Receiver<StoreEvent>, beat: &Beat) {
        let mut closing = false;
        loop {
            if self.is_idle() {
                beat.rests();
            }
            let mut event = match events.recv_timeout(MAX_IDLE_WAIT) {
                Ok(event) => Some(event),
                Err(RecvTimeoutError::Timeout) => None,
                Err(RecvTimeoutError::Disconnected) => return,
            };
            beat.works();
            faults::pass_blocking("writer");
            let mut made = 0;
            while let Some(next) = event {
                match next {
                    StoreEvent::Call(call) => self.make(call),
                    StoreEvent::Committed(done) => self.committed(done),
                    StoreEvent::Probed(done) => self.probed(done),
                    StoreEvent::Close => closing = true,
                }
                made += 1;
                event = if made < AT_ONCE { events.try_recv().ok() } else { None };
            }
            self.make_aside();
            self.tidy();
            self.hand_over();
            if closing && self.is_idle() {
                return;
            }
        }
    }

    /// True when nothing waits for the disk.
    fn is_idle(&self) -> bool {
        self.away.is_none() && self.group.is_empty() && self.aside.is_empty()
    }

    /// Makes a call, and sees to its answer.
    fn make(&mut self, call: Call) {
        if call.to.is_closed() {
            // The caller has stopped waiting, so the call need not run.
            return;
        }
        if matches!(call.work, StoreRequest::Row) && self.bytes + FULL_BELOW_BYTES > self.bound() {
            let _ = call.to.send(Err(self.full()));
            return;
        }
        let is_proved =
            self.refused.is_none() && self.proved.is_some_and(|at| at.elapsed() < WRITE_PROOF_TIME);
        if matches!(call.work, StoreRequest::Row) && is_proved && self.is_idle() {
            let _ = call.to.send(Ok(Reply::Status("OK")));
            return;
        }
        if let Some(refusal) = self.damage(&call.work) {
            let _ = call.to.send(Err(refusal));
            return;
        }
        let now = self.clock.now();
        let ran = match &call.work {
            StoreRequest::Script { script, keys, args } => {
                self.host.run(script, keys, args, now).map_err(|error| CallRefusal::Failed(error.0))
            }
            StoreRequest::Command(words) => {
                let words: Vec<&[u8]> = words.iter().collect();
                Ok(self.host.run_command(&words, now))
            }
            StoreRequest::Row => {
                if self.refused.is_none() {
                    self.group.asked = true;
                }
                Ok(ScriptRun { reply: Reply::Status("OK"), changes: Changes::default() })
            }
        };
        let (answer, mut changes) = match ran {
            Ok(ScriptRun { reply, changes }) => (Ok(reply), changes),
            Err(refusal) => (Err(refusal), Changes::default()),
        };
        let is_row = matches!(call.work, StoreRequest::Row);
        let growth = weight::growth(&changes.effects, &changes.undo);
        let bound = match &call.work {
            StoreRequest::Script { script: ScriptText { room: Room::Bound, .. }, .. } => self.bound(),
            StoreRequest::Script { script: ScriptText { room: Room::Reserve, .. }, .. } => {
                self.most.saturating_add(self.most / WISHES_ABOVE)
            }
            _ => i64::MAX,
        };
        if growth > 0 && self.bytes.saturating_add(growth) > bound {
            self.host.with_space(|space| space.undo(&mut changes));
            let _ = call.to.send(Err(self.full()));
            return;
        }
        let changed = !changes.effects.is_empty() || !changes.messages.is_empty() || is_row;
        if let Some(why) = self.refused.as_ref().filter(|_| changed) {
            let refusal = CallRefusal::ReadOnly(why.clone());
            self.host.with_space(|space| space.undo(&mut changes));
            let _ = call.to.send(Err(refusal));
            return;
        }
        if changed && self.group.bytes >= GROUP_BYTES {
            // Made again when there is room: what it would answer now may not be true then.
            self.host.with_space(|space| space.undo(&mut changes));
            self.aside.push_back(call);
            return;
        }
        let until = if changed { Some(self.group.number) } else { self.not_before(&call.work) };
        if changed {
            let mut before: Option<&Name> = None;
            for key in changes.effects.iter().map(Effect::key) {
                // Most come several in a row.
                if before.is_none_or(|before| !Arc::ptr_eq(before, key)) {
                    self.unsure.insert(key.clone(), self.group.number);
                }
                before = Some(key);
            }
            self.bytes += growth;
            self.group.add(changes);
        }
        let held = Held { to: call.to, answer };
        match until {
            Some(number) if number == self.group.number => self.group.held.push(held),
            Some(_) if self.away.is_some() => {
                if let Some((away, _)) = &mut self.away {
                    away.held.push(held);
                }
            }
            // A caller that has gone needs no answer.
            _ => drop(held.to.send(held.answer)),
        }
    }

    /// What the data may take before gifts are refused.
    fn bound(&self) -> i64 {
        self.most - FULL_BELOW_BYTES.min(self.most / FREE_BELOW)
    }

    fn full(&self) -> CallRefusal {
        CallRefusal::Full(self.bytes.max(0) as u64, self.most.max(0) as u64)
    }

    /// The last group that is not durable and changed one of the keys that a call is about.
    fn not_before(&self, work: &StoreRequest) -> Option<u64> {
        if self.unsure.is_empty() {
            return None;
        }
        let of = |key: &[u8]| self.unsure.get(key).copied();
        match work {
            StoreRequest::Script { keys, .. } => keys.iter().filter_map(of).max(),
            // Words that are no keys are no keys of anything that was changed either, as a rule; if they are, it waits a moment.
            StoreRequest::Command(words) => words.iter().skip(1).filter_map(of).max(),
            StoreRequest::Row => None,
        }
    }

    /// Calls that found the group full are made in the order in which they came.
    fn make_aside(&mut self) {
        while self.group.bytes < GROUP_BYTES
            && let Some(call) = self.aside.pop_front()
        {
            self.make(call);
        }
    }

    /// Gives the group to the disk, if that has time.
    fn hand_over(&mut self) {
        if self.away.is_some() || self.group.is_empty() {
            return;
        }
        let number = self.group.number + 1;
        let group = std::mem::replace(&mut self.group, Group { number, ..Group::default() });
        let (effects, asked) = (group.effects.clone(), group.asked);
        self.metrics.commit_size.observe(group.held.len() as f64);
        self.away = Some((group, Instant::now()));
        if self.disk.send(ToDisk::Commit(effects, asked, self.clock.now())).is_err() {
            self.committed(Err("the thread that writes to the disk has ended".into()));
        }
    }

    fn committed(&mut self, done: Result<bool, String>) {
        let Some((group, begun)) = self.away.take() else { return };
        match done {
            Ok(wrote) => {
                if wrote {
                    self.proved = Some(Instant::now());
                }
                self.metrics.commit_time.observe(begun.elapsed().as_secs_f64());
                for key in group.keys() {
                    if self.unsure.get(key) == Some(&group.number) {
                        self.unsure.remove(key);
                    }
                }
                for (channel, message) in &group.messages {
                    (self.on_publish)(channel, message);
                }
                for held in group.held {
                    let _ = held.to.send(held.answer);
                }
            }
            Err(why) => self.refuse(group, why),
        }
    }

    /// Undoes all changes that are not durable, newest first, and refuses the calls that made or read them.
    fn refuse(&mut self, away: Group, why: String) {
        if self.refused.is_none() {
            tracing::error!(
                error = why,
                "a commit failed; what it held is refused and was not shown, and so is what follows until writing works \
                 again"
            );
        }
        let number = self.group.number + 1;
        let newest = std::mem::replace(&mut self.group, Group { number, ..Group::default() });
        for group in [newest, away] {
            self.bytes -= weight::growth(&group.effects, &group.undo);
            let mut changes = Changes { undo: group.undo, ..Changes::default() };
            self.host.with_space(|space| space.undo(&mut changes));
            for held in group.held {
                let _ = held.to.send(Err(CallRefusal::Unavailable(why.clone())));
            }
        }
        self.unsure.clear();
        self.refused = Some(why);
        self.probed = Instant::now();
    }

    fn probed(&mut self, done: Result<bool, String>) {
        match done {
            Ok(_) => {
                if self.refused.take().is_some() {
                    tracing::info!("the disk takes what is written again");
                }
            }
            Err(why) => self.refused = Some(why),
        }
        self.probed = Instant::now();
    }

    /// Says in the log when the clock on the wall was set, and when that was taken back.
    fn compare_clocks(&mut self) {
        let set_by = self.clock.was_set_by(Millis::now().0);
        if let Some(set_by) = set_by.filter(|_| !self.was_clock_set) {
            tracing::warn!(
                set_by_ms = set_by,
                "the clock of this machine was set: windows of ids and locks go on by a steady one; holds and schedules end by the new time"
            );
        } else if self.was_clock_set && set_by.is_none() {
            tracing::info!("the clock of this machine agrees with the steady one again");
        }
        self.was_clock_set = set_by.is_some();
    }

    fn tidy(&mut self) {
        if self.refused.is_some() && self.probed.elapsed() >= PROBE_EVERY {
            self.probed = Instant::now();
            // Its end shows with the next commit.
            let _ = self.disk.send(ToDisk::Probe);
        }
        if self.refused.is_none() && self.tidied.elapsed() >= EXPIRY_SWEEP.0 {
            self.tidied = Instant::now();
            self.compare_clocks();
            let (now, mut changes) = (self.clock.now(), Changes::default());
            let mut freed = 0;
            let forgot = |key: &[u8], held: &StoredString| freed += weight::string(key, held);
            self.host.with_space(|space| space.collect_garbage(now, EXPIRY_SWEEP.1, &mut changes, forgot));
            self.bytes += weight::growth(&changes.effects, &changes.undo) - freed;
            self.metrics.store_bytes.set(self.bytes);
            self.group.add(changes);
        }
    }
}
