//! The labels, and every value that each can have. A label that is not here cannot be counted, so a
//! stranger's input can never make a new series.

/// A label with a fixed set of values.
pub trait Label: Copy + 'static {
    /// The label's name.
    const NAME: &'static str;
    /// Every value, in the order of [`Label::index`].
    const ALL: &'static [Self];
    /// The value as it is written.
    fn word(self) -> &'static str;
    /// Its place in [`Label::ALL`].
    fn index(self) -> usize;
}

macro_rules! labels {
    ($($(#[$about:meta])* $label:ident, $name:literal { $($(#[$of:meta])* $value:ident = $word:literal,)* })*) => {$(
        $(#[$about])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum $label { $($(#[$of])* $value,)* }

        impl Label for $label {
            const NAME: &'static str = $name;
            const ALL: &'static [Self] = &[$($label::$value,)*];
            fn word(self) -> &'static str {
                match self { $($label::$value => $word,)* }
            }
            fn index(self) -> usize {
                self as usize
            }
        }
    )*};
}

labels! {
    /// What became of a gift.
    GiftStatus, "status" {
        /// A new row.
        Accepted = "accepted",
        /// Joined a row.
        Merged = "merged",
        /// Not shown, because of the dedup lock.
        Suppressed = "suppressed",
        /// Is shown later; counted again then, by what becomes of it.
        Scheduled = "scheduled",
        /// Waits for a host; counted again then, by what becomes of it.
        InReview = "in_review",
        /// Not shown, because a host said so.
        Denied = "denied",
        /// Its id came before.
        Duplicate = "duplicate",
        /// Broke a rule.
        Rejected = "rejected",
    }

    /// What became of a claim.
    ClaimFate, "fate" {
        /// Paid at once, and sold.
        Sold = "sold",
        /// Held.
        Held = "held",
        /// Filled before; the first answer again.
        Repeated = "repeated",
        /// There is no such drop.
        UnknownDrop = "unknown_drop",
        /// Its id came before with another payload, or it is for more than one user may have.
        Invalid = "invalid",
        /// The drop has not opened yet, or has closed.
        NotOpen = "not_open",
        /// The user has what one may have.
        AlreadyClaimed = "already_claimed",
        /// Too few units are free.
        SoldOut = "sold_out",
        /// The user has too many unpaid holds.
        TooManyHolds = "too_many_holds",
    }

    /// How somebody ended a hold.
    HoldFate, "fate" {
        /// Paid for.
        Confirmed = "confirmed",
        /// Given back.
        Cancelled = "cancelled",
        /// It had ended before, so neither.
        TooLate = "too_late",
    }

    /// What became of an attempt to deliver to a webhook.
    DeliveryFate, "fate" {
        /// 2xx.
        Accepted = "accepted",
        /// 410: the webhook is disabled.
        Gone = "gone",
        /// 413: the batch is halved.
        TooLarge = "too_large",
        /// Another 4xx.
        Refused = "refused",
        /// Anything else; it is tried again.
        Failed = "failed",
    }

    /// What became of a delivery to a source.
    SourceFate, "fate" {
        /// A new row.
        Accepted = "accepted",
        /// Joined a row.
        Merged = "merged",
        /// Not shown, because of the dedup lock.
        Suppressed = "suppressed",
        /// Is shown later.
        Scheduled = "scheduled",
        /// Waits for the host's review.
        InReview = "in_review",
        /// Came before.
        Duplicate = "duplicate",
        /// Took a gift back.
        Retracted = "retracted",
        /// An event that is not shown.
        Ignored = "ignored",
        /// Could not become a gift.
        Refused = "refused",
        /// Did not show that it comes from the platform.
        Unverified = "unverified",
    }

    /// How a watcher is connected.
    Transport, "transport" {
        /// A WebSocket that watches one feed.
        Ws = "ws",
        /// A WebSocket that watches many feeds.
        Many = "many",
        /// Server-sent events.
        Sse = "sse",
    }

    /// Why a watcher got a snapshot.
    SnapshotCause, "cause" {
        /// It came without a position, or with one that is not covered.
        Start = "start",
        /// It was too slow: what it missed is no longer in the ring.
        Fold = "fold",
        /// The list became another: the capacity or the epoch changed.
        Replace = "replace",
    }

    /// Where a resuming watcher's missed changes came from.
    ResumedFrom, "from" {
        /// This node's memory.
        Ring = "ring",
        /// The store.
        History = "history",
    }

    /// How a gap between the store and this node was closed.
    RepairedBy, "by" {
        /// The missing changes were read from the store's history.
        History = "history",
        /// The whole list was read.
        Snapshot = "snapshot",
    }

    /// A call of the store.
    Operation, "operation" {
        /// Taking gifts.
        Publish = "publish",
        /// Taking a row back.
        Retract = "retract",
        /// Taking a user's rows back.
        RetractUser = "retract_user",
        /// A step of a walk through all feeds, to take a user's rows back.
        Walk = "walk",
        /// Taking one gift back by its id.
        RetractGift = "retract_gift",
        /// Listing gifts in review.
        Reviews = "reviews",
        /// Deciding about one.
        Review = "review",
        /// Blocking a user, or ending a block.
        Block = "block",
        /// Reading blocks.
        Blocks = "blocks",
        /// Telling how many watch.
        Attend = "attend",
        /// Asking how many watch.
        Presence = "presence",
        /// Telling overlays what to do.
        Control = "control",
        /// Reading totals.
        Totals = "totals",
        /// Reading a ranking.
        Leaders = "leaders",
        /// Beginning a session.
        BeginSession = "begin_session",
        /// Reading goals.
        Goals = "goals",
        /// Defining or changing a goal.
        PutGoal = "put_goal",
        /// Deleting a goal.
        DeleteGoal = "delete_goal",
        /// Reading a policy.
        Policy = "policy",
        /// Changing a policy.
        SetPolicy = "set_policy",
        /// Reading a list.
        Snapshot = "snapshot",
        /// Reading history.
        Changes = "changes",
        /// Comparing positions.
        Heads = "heads",
        /// Following a feed.
        Subscribe = "subscribe",
        /// Listing gifts that wait.
        Scheduled = "scheduled",
        /// Cancelling one.
        Unschedule = "unschedule",
        /// Listing what was given up.
        Dead = "dead",
        /// Taking turns of feeds with something due.
        ClaimDue = "claim_due",
        /// Doing what is due in one feed.
        RunDue = "run_due",
        /// Putting right what was made while the clock was ahead.
        Rewind = "rewind",
        /// A probe through the store and back.
        Probe = "probe",
        /// Defining or changing a drop.
        DefineDrop = "define_drop",
        /// Doing what is due of a drop, which is also how it is read.
        Tick = "tick",
        /// Listing drops.
        Drops = "drops",
        /// Claiming units of a drop.
        Claim = "claim",
        /// Confirming a hold.
        Confirm = "confirm",
        /// Cancelling a hold.
        Cancel = "cancel",
        /// Listing a user's holds.
        Holds = "holds",
        /// Looking a claim up.
        LookUpClaim = "look_up_claim",
        /// Taking a sale back, or refunding a part of it.
        ReverseSale = "reverse_sale",
        /// Entries handed to a claimer.
        TakeEntries = "take_entries",
        /// Entries acknowledged.
        AckEntries = "ack_entries",
        /// Entries given back.
        NackEntries = "nack_entries",
        /// Reports of nodes written and read.
        Nodes = "nodes",
        /// Names of feeds written, and feeds listed.
        Feeds = "feeds",
        /// Groups read, listed or deleted.
        Readers = "readers",
        /// Dead letters listed or sent again.
        Letters = "letters",
        /// Webhooks read, listed or changed.
        Hooks = "hooks",
        /// Webhooks' turns taken and given back.
        ClaimJobs = "claim_jobs",
        /// What a webhook has to send.
        OpenJob = "open_job",
        /// What a webhook has done.
        SaveJob = "save_job",
        /// Sources read, listed or changed.
        Sources = "sources",
        /// Deliveries to sources and refunds noted.
        NoteDelivery = "note_delivery",
        /// A viewer's tokens refused.
        Revoke = "revoke",
        /// Revocations read.
        Revoked = "revoked",
        /// Recording what a signed request is for.
        ClaimRequest = "claim_request",
    }

    /// Why a store call failed.
    Failure, "reason" {
        /// The store does not answer, or refuses to write.
        Unavailable = "unavailable",
        /// More was waiting than the store will hold.
        Overloaded = "overloaded",
        /// The stored records of the feed cannot be read.
        Damaged = "damaged",
        /// The store had no room in memory.
        Full = "full",
        /// Too few replicas had the write in time.
        NotReplicated = "not_replicated",
        /// The caller stopped waiting: its time had ended, or its client left.
        Abandoned = "abandoned",
    }

    /// A primary of Redis.
    ShardState, "state" {
        /// It answers.
        Up = "up",
        /// It does not.
        Down = "down",
    }

    /// A connection to Redis.
    RedisLink, "connection" {
        /// One that carries commands.
        Commands = "commands",
        /// The one that subscribes.
        Pubsub = "pubsub",
    }

    /// A thread or task that must live as long as the gateway.
    Part, "part" {
        /// The thread that owns the embedded store's file.
        Writer = "writer",
        /// What keeps a connection for commands to Redis.
        RedisCommands = "redis_commands",
        /// What keeps the connection that subscribes at Redis.
        RedisSubscriptions = "redis_subscriptions",
        /// What follows one watched feed.
        Replica = "replica",
        /// What compares watched feeds with the store.
        Compare = "compare",
        /// Announcements of how many watch.
        Presence = "presence",
        /// What reports what this node does.
        Nodes = "nodes",
        /// What does what is due.
        Due = "due",
        /// What sends ledgers to webhooks.
        Reports = "reports",
        /// What asks the store whether a write is possible.
        Probe = "probe",
        /// A thread's timing wheel, which rings for its watchers.
        Ticks = "ticks",
        /// What passes one feed's moves on to the watchers of a thread.
        Moves = "moves",
        /// A thread that serves sockets.
        Sockets = "sockets",
        /// A thread that answers requests.
        Requests = "requests",
        /// What ends connections that take too long.
        Sweep = "sweep",
        /// What learns of viewers whose tokens were revoked.
        Revocations = "revocations",
        /// The thread that writes the audit log.
        Audit = "audit",
        /// What fetches the key set for viewer tokens.
        KeySet = "key_set",
        /// What sends spans to a collector.
        Traces = "traces",
        /// What takes rows of blocked users back in all feeds.
        Walks = "walks",
    }

    /// What became of a span of a trace.
    SpanFate, "outcome" {
        /// The collector took it.
        Sent = "sent",
        /// The queue to the collector was full.
        QueueFull = "queue_full",
        /// The collector did not take it: it was away for too long, or refused it.
        Lost = "lost",
    }

    /// A bound on what strangers may cost.
    Bound, "bound" {
        /// Feeds that a node follows.
        FollowedFeeds = "followed_feeds",
        /// Feeds watched from one address.
        SubscriptionsPerAddress = "subscriptions_per_address",
        /// Feeds that nobody else watches, asked for by one address.
        NewFeeds = "new_feeds_per_second",
        /// Commands on one connection.
        Commands = "commands_per_second",
        /// Bytes sent before a watcher is where the feed is.
        ReplayBytes = "replay_bytes_per_second",
        /// Bytes of history read for an address, or for all.
        HistoryBytes = "history_bytes_per_second",
        /// Watchers in all.
        Watchers = "watchers",
        /// Watchers of one address.
        WatchersPerAddress = "watchers_per_address",
        /// Bytes of bodies whose signature is not checked yet.
        UnverifiedBodies = "unverified_body_bytes",
        /// The same, of one address.
        UnverifiedBodiesPerAddress = "unverified_body_bytes_per_address",
    }

    /// Why a client's connection was cut.
    Cut, "reason" {
        /// A head did not come in time.
        Head = "head",
        /// The rest of a body did not come in time after its request was answered.
        Body = "body",
        /// Nothing came for as long as a connection may be idle.
        Idle = "idle",
        /// It waited for its client, and others needed its place.
        Room = "room",
        /// Too many bytes waited for its address, and it had taken none for longest.
        Unsent = "unsent",
    }

    /// Why a client's connection was refused.
    Turned, "reason" {
        /// Its address has as many as it may.
        Address = "address",
        /// As many are open as may be, and all of them are in use.
        Full = "full",
    }

    /// What became of a TLS handshake.
    Handshake, "outcome" {
        /// It is done, with a signature.
        Full = "full",
        /// It is done, by a ticket of an earlier connection.
        Resumed = "resumed",
        /// The client broke TLS' rules, left, or took too long.
        Failed = "failed",
        /// It did not begin: too many were under way.
        Refused = "refused",
    }

    /// The class of a path.
    Route, "route" {
        /// `POST /v1/feeds/{feed}/gifts`
        Gifts = "gifts",
        /// `POST /v1/feeds/{feed}/gifts/batch`
        Batch = "batch",
        /// `/v1/feeds/{feed}`
        Feed = "feed",
        /// `/v1/feeds/{feed}/rows` and below
        Rows = "rows",
        /// `/v1/feeds/{feed}/control`, `/v1/feeds/{feed}/gifts/{id}/retract`
        Moderation = "moderation",
        /// `/v1/feeds/{feed}/presence`
        Presence = "presence",
        /// Totals, leaders, sessions and goals.
        Totals = "totals",
        /// `/v1/feeds/{feed}/policy`
        Policy = "policy",
        /// `/v1/feeds/{feed}/scheduled` and below
        Scheduled = "scheduled",
        /// `/v1/feeds/{feed}/drops` and below
        Drops = "drops",
        /// `/v1/feeds/{feed}/holds/{hold}` and below, `/v1/feeds/{feed}/users/{user}/holds`
        Holds = "holds",
        /// `/v1/feeds/{feed}/groups` and below
        Groups = "groups",
        /// `/v1/feeds/{feed}/webhooks` and below
        Webhooks = "webhooks",
        /// `/v1/feeds/{feed}/sources` and below
        Sources = "sources",
        /// `/in/{path}`
        In = "in",
        /// `/v1/viewers/{sub}/revoke`
        Viewers = "viewers",
        /// `/v1/admin/overview`
        Admin = "admin",
        /// `/v1/feeds`, `/v1/nodes`, `/v1/stats`, `/v1/audit`, `/v1/keys`
        Console = "console",
        /// `/v1/feeds/{feed}/ws`
        Ws = "ws",
        /// `/v1/ws`
        Many = "many",
        /// `/v1/feeds/{feed}/sse`
        Sse = "sse",
        /// `/healthz`, `/readyz`, `/metrics`
        Operations = "operations",
        /// Pages, their files, `/docs`, `/openapi.json`, `/problems/{name}`
        Pages = "pages",
        /// Paths that do not exist.
        Other = "other",
    }

    /// The class of a status code.
    StatusClass, "class" {
        /// 100–199
        Informational = "1xx",
        /// 200–299
        Success = "2xx",
        /// 300–399
        Redirection = "3xx",
        /// 400–499
        ClientError = "4xx",
        /// 500–599
        ServerError = "5xx",
    }
}

impl Part {
    /// Whether only one feed depends on it.
    pub fn is_of_one_feed(self) -> bool {
        matches!(self, Part::Replica | Part::Moves)
    }

    /// Its name in a sentence.
    pub fn about(self) -> &'static str {
        match self {
            Part::Writer => "the writer thread of the embedded store",
            Part::RedisCommands => "the keeper of a Redis connection",
            Part::RedisSubscriptions => "the keeper of Redis subscriptions",
            Part::Replica => "what follows a watched feed",
            Part::Compare => "what compares watched feeds with the store",
            Part::Presence => "what reports how many watch",
            Part::Nodes => "what reports to other nodes what this one does",
            Part::Due => "the loop that does what is due",
            Part::Reports => "the loop that sends to webhooks",
            Part::Probe => "what asks the store whether a write is possible",
            Part::Ticks => "a timing wheel of watchers",
            Part::Moves => "what passes a feed's changes on to watchers",
            Part::Sockets => "a thread of sockets",
            Part::Requests => "a thread that answers requests",
            Part::Sweep => "what ends connections that take too long",
            Part::Revocations => "what learns of revoked viewers",
            Part::Audit => "the thread that writes the audit log",
            Part::KeySet => "the loop that fetches the key set for tokens",
            Part::Traces => "the loop that sends spans to a collector",
            Part::Walks => "the loop that takes rows of blocked users back in all feeds",
        }
    }
}

impl StatusClass {
    /// The class that `status` is in.
    pub fn of(status: u16) -> StatusClass {
        match status {
            0..200 => StatusClass::Informational,
            200..300 => StatusClass::Success,
            300..400 => StatusClass::Redirection,
            400..500 => StatusClass::ClientError,
            _ => StatusClass::ServerError,
        }
    }
}
