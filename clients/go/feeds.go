package tipcast

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"strconv"
	"time"
)

// Object is an answer whose fields docs/openapi.json names.
type Object = map[string]any

// Waiting is a gift that waits: to be shown at DeliverAt, or for a decision, which is made by itself at ExpiresAt.
type Waiting struct {
	ID        string    `json:"id"`
	At        time.Time `json:"at"`
	DeliverAt time.Time `json:"deliver_at"`
	ExpiresAt time.Time `json:"expires_at"`
	Gift      Gift      `json:"gift"`
}

// GoalSpec is what a goal counts: By is points, units or a currency, Target counts those.
type GoalSpec struct {
	Title  string `json:"title"`
	By     string `json:"by"`
	Period string `json:"period"`
	Target int64  `json:"target"`
}

// Goal and how far it is; ReachedAt is nil until it is reached.
type Goal struct {
	GoalSpec
	Goal      string     `json:"goal"`
	Value     int64      `json:"value"`
	ReachedAt *time.Time `json:"reached_at"`
}

// DropSpec is what is sold, and how many of it; Value is the price of one.
type DropSpec struct {
	Total           int64      `json:"total"`
	Gift            Kind       `json:"gift"`
	Value           *Value     `json:"value,omitempty"`
	PerUser         int64      `json:"per_user,omitempty"`
	MaxHoldsPerUser int64      `json:"max_holds_per_user,omitempty"`
	HoldTTLMS       int64      `json:"hold_ttl_ms,omitempty"`
	OpensAt         *time.Time `json:"opens_at,omitempty"`
	ClosesAt        *time.Time `json:"closes_at,omitempty"`
}

// Drop and how much of it is left. State is "pending", "open", "sold_out" or "closed".
type Drop struct {
	DropSpec
	Drop  string `json:"drop"`
	State string `json:"state"`
	Free  int64  `json:"free"`
	Held  int64  `json:"held"`
	Sold  int64  `json:"sold"`
}

// Block keeps a user's gifts from being shown.
type Block struct {
	User  string     `json:"user"`
	At    time.Time  `json:"at"`
	Until *time.Time `json:"until"`
}

// GroupState is how far a group is: Lag counts what it was not handed, Pending what it has not acknowledged.
type GroupState struct {
	Group    string `json:"group"`
	Lag      int64  `json:"lag"`
	Pending  int64  `json:"pending"`
	OldestMS int64  `json:"oldest_ms"`
	Dead     int64  `json:"dead"`
	Lost     int64  `json:"lost"`
}

// WebhookSpec says where entries are sent. What is zero has its default.
type WebhookSpec struct {
	URL      string            `json:"url"`
	Secret   string            `json:"secret"`
	BatchMax int               `json:"batch_max,omitempty"`
	BatchMS  *int64            `json:"batch_ms,omitempty"`
	MaxAgeMS int64             `json:"max_age_ms,omitempty"`
	Delivery string            `json:"delivery,omitempty"`
	Types    []string          `json:"types,omitempty"`
	Headers  map[string]string `json:"headers,omitempty"`
}

// LedgerFilter says which entries are read; what is zero lets everything through.
type LedgerFilter struct {
	After, Type, User string
	From, To          time.Time
}

// SeekTo is where a group is moved: one of "start" or "now" as To, a Cursor, or a time.
type SeekTo struct {
	To     string     `json:"to,omitempty"`
	Cursor string     `json:"cursor,omitempty"`
	At     *time.Time `json:"at,omitempty"`
}

// ask makes one request and reads its answer as a T.
func ask[T any](ctx context.Context, c *Client, method, path string, body any) (answer T, err error) {
	return answer, c.Call(ctx, method, path, body, &answer, 0)
}

// field makes one request and reads one field of its answer.
func field[T any](ctx context.Context, c *Client, method, path string, body any, name string) (T, error) {
	answer, err := ask[map[string]json.RawMessage](ctx, c, method, path, body)
	var value T
	if err == nil {
		err = json.Unmarshal(answer[name], &value)
	}
	return value, err
}

// each walks through the pages of a list.
func each[T any](ctx context.Context, c *Client, path, name string, query url.Values, do func(T) error) error {
	for {
		page, err := ask[map[string]json.RawMessage](ctx, c, http.MethodGet, path+"?"+query.Encode(), nil)
		if err != nil {
			return err
		}
		var items []T
		if err := json.Unmarshal(page[name], &items); err != nil {
			return err
		}
		for _, item := range items {
			if err := do(item); err != nil {
				return err
			}
		}
		var next *string
		if len(page["next"]) > 0 {
			if err := json.Unmarshal(page["next"], &next); err != nil {
				return err
			}
		}
		if next == nil {
			return nil
		}
		query.Set("after", *next)
	}
}

func path(feed string, parts ...string) string {
	text := "/feeds/" + url.PathEscape(feed)
	for _, part := range parts {
		text += "/" + url.PathEscape(part)
	}
	return text
}

func (g *Group) path(parts ...string) string {
	return path(g.Feed, append([]string{"groups", g.Group}, parts...)...)
}

// stamp is a time as the API has it.
func stamp(at time.Time) string { return at.UTC().Format("2006-01-02T15:04:05.000Z") }

// between puts two times, of which each may be zero, into a query.
func between(query url.Values, from, to time.Time) url.Values {
	for name, at := range map[string]time.Time{"from": from, "to": to} {
		if !at.IsZero() {
			query.Set(name, stamp(at))
		}
	}
	return query
}

func with(reason string) Object {
	if reason == "" {
		return Object{}
	}
	return Object{"reason": reason}
}

// Story is what became of a gift: each of its entries, and how each reader stands.
func (c *Client) Story(ctx context.Context, feed, gift string) (Object, error) {
	return ask[Object](ctx, c, http.MethodGet, path(feed, "gifts")+"?id="+url.QueryEscape(gift), nil)
}

// EachScheduled hands over the gifts that wait to be shown, until do returns an error.
func (c *Client) EachScheduled(ctx context.Context, feed string, do func(Waiting) error) error {
	return each(ctx, c, path(feed, "scheduled"), "scheduled", url.Values{}, do)
}

// RetractUser takes all rows of a user back.
func (c *Client) RetractUser(ctx context.Context, feed, user string) error {
	return c.Call(ctx, http.MethodDelete, path(feed, "rows")+"?user="+url.QueryEscape(user), nil, nil, 0)
}

// Drops of a feed.
func (c *Client) Drops(ctx context.Context, feed string) ([]Drop, error) {
	return field[[]Drop](ctx, c, http.MethodGet, path(feed, "drops"), nil, "drops")
}

// Drop is one, and how much of it is left.
func (c *Client) Drop(ctx context.Context, feed, drop string) (Drop, error) {
	return ask[Drop](ctx, c, http.MethodGet, path(feed, "drops", drop), nil)
}

// PutDrop defines or changes a drop.
func (c *Client) PutDrop(ctx context.Context, feed, drop string, spec DropSpec) (Drop, error) {
	return ask[Drop](ctx, c, http.MethodPut, path(feed, "drops", drop), spec)
}

// Claimed is what became of a claim.
func (c *Client) Claimed(ctx context.Context, feed, drop, claim string) (Object, error) {
	return ask[Object](ctx, c, http.MethodGet, path(feed, "drops", drop, "claims")+"?id="+url.QueryEscape(claim), nil)
}

// RefundSale takes a part of what a sale cost back, as Refund does of a gift.
func (c *Client) RefundSale(ctx context.Context, feed, drop, claim string, refunded int64, reason string) error {
	body := with(reason)
	body["refunded"] = refunded
	return c.Call(ctx, http.MethodPost, path(feed, "drops", drop, "claims", "refund")+"?id="+url.QueryEscape(claim), body, nil, 0)
}

// RetractSale takes a sale back; reason may be empty.
func (c *Client) RetractSale(ctx context.Context, feed, drop, claim, reason string) error {
	return c.Call(ctx, http.MethodPost, path(feed, "drops", drop, "claims", "retract")+"?id="+url.QueryEscape(claim), with(reason), nil, 0)
}

// Holds are what a user holds and has not paid.
func (c *Client) Holds(ctx context.Context, feed, user string) ([]Object, error) {
	return field[[]Object](ctx, c, http.MethodGet, path(feed, "users", "holds")+"?user="+url.QueryEscape(user), nil, "holds")
}

// EachEntry hands over every entry of a feed's ledger that the filter lets through, oldest first, until do returns an error.
// It reads and changes nothing.
func (c *Client) EachEntry(ctx context.Context, feed string, filter LedgerFilter, do func(Entry) error) error {
	query := url.Values{"limit": {"1000"}}
	for name, value := range map[string]string{"after": filter.After, "type": filter.Type, "user": filter.User} {
		if value != "" {
			query.Set(name, value)
		}
	}
	return each(ctx, c, path(feed, "ledger"), "entries", between(query, filter.From, filter.To), do)
}

// Summary is what the deltas of a feed's ledger add up to, between two times, of which each may be zero.
func (c *Client) Summary(ctx context.Context, feed string, from, to time.Time) (Object, error) {
	query := between(url.Values{}, from, to)
	return ask[Object](ctx, c, http.MethodGet, path(feed, "ledger", "summary")+"?"+query.Encode(), nil)
}

// Groups of a feed.
func (c *Client) Groups(ctx context.Context, feed string) ([]GroupState, error) {
	return field[[]GroupState](ctx, c, http.MethodGet, path(feed, "groups"), nil, "groups")
}

// PutWebhook sets a webhook.
func (c *Client) PutWebhook(ctx context.Context, feed, webhook string, spec WebhookSpec) (Object, error) {
	return ask[Object](ctx, c, http.MethodPut, path(feed, "webhooks", webhook), spec)
}

// Webhook is how one stands, without its secret.
func (c *Client) Webhook(ctx context.Context, feed, webhook string) (Object, error) {
	return ask[Object](ctx, c, http.MethodGet, path(feed, "webhooks", webhook), nil)
}

// Webhooks of a feed.
func (c *Client) Webhooks(ctx context.Context, feed string) ([]Object, error) {
	return field[[]Object](ctx, c, http.MethodGet, path(feed, "webhooks"), nil, "webhooks")
}

// DeleteWebhook deletes one.
func (c *Client) DeleteWebhook(ctx context.Context, feed, webhook string) error {
	return c.Call(ctx, http.MethodDelete, path(feed, "webhooks", webhook), nil, nil, 0)
}

// Feed is the list as it is now.
func (c *Client) Feed(ctx context.Context, feed string) (Object, error) {
	return ask[Object](ctx, c, http.MethodGet, path(feed), nil)
}

// EachFeed hands over every feed that the key covers, by name, until do returns an error.
func (c *Client) EachFeed(ctx context.Context, prefix string, do func(Object) error) error {
	return each(ctx, c, "/feeds", "feeds", url.Values{"prefix": {prefix}, "limit": {"1000"}}, do)
}

// Policy is how a feed is set.
func (c *Client) Policy(ctx context.Context, feed string) (Object, error) {
	return ask[Object](ctx, c, http.MethodGet, path(feed, "policy"), nil)
}

// PatchPolicy changes some fields of a feed's policy.
func (c *Client) PatchPolicy(ctx context.Context, feed string, changes Object) (Object, error) {
	return ask[Object](ctx, c, http.MethodPatch, path(feed, "policy"), changes)
}

// PutPolicy replaces a feed's policy: fields that are not there have their defaults.
func (c *Client) PutPolicy(ctx context.Context, feed string, policy Object) (Object, error) {
	return ask[Object](ctx, c, http.MethodPut, path(feed, "policy"), policy)
}

// StartSession begins a session: what is counted by session starts at zero. The gateway makes an id where there is none.
func (c *Client) StartSession(ctx context.Context, feed, id string) (Object, error) {
	body := Object{}
	if id != "" {
		body["id"] = id
	}
	return ask[Object](ctx, c, http.MethodPost, path(feed, "session"), body)
}

// Review lists the gifts that wait for a decision.
func (c *Client) Review(ctx context.Context, feed string) ([]Waiting, error) {
	return field[[]Waiting](ctx, c, http.MethodGet, path(feed, "review"), nil, "review")
}

// Decide about a gift that waits: action is "approve", "mask" or "deny".
func (c *Client) Decide(ctx context.Context, feed, gift, action string) error {
	return c.Call(ctx, http.MethodPost, path(feed, "review")+"?id="+url.QueryEscape(gift), Object{"action": action}, nil, 0)
}

// Blocks lists users whose gifts are not shown.
func (c *Client) Blocks(ctx context.Context, feed string) ([]Block, error) {
	return field[[]Block](ctx, c, http.MethodGet, path(feed, "blocks"), nil, "blocks")
}

// Block keeps a user's gifts from being shown, for ever where until is zero; with retract, what is shown goes too.
func (c *Client) Block(ctx context.Context, feed, user string, until time.Time, retract bool) error {
	body := Object{"retract": retract}
	if !until.IsZero() {
		body["until"] = stamp(until)
	}
	return c.Call(ctx, http.MethodPut, path(feed, "blocks")+"?user="+url.QueryEscape(user), body, nil, 0)
}

// Unblock shows a user's gifts again.
func (c *Client) Unblock(ctx context.Context, feed, user string) error {
	return c.Call(ctx, http.MethodDelete, path(feed, "blocks")+"?user="+url.QueryEscape(user), nil, nil, 0)
}

// Control overlays: action is "pause", "resume", "skip", "mute", "unmute" or "replay", which names a row.
func (c *Client) Control(ctx context.Context, feed, action, row string) error {
	body := Object{"action": action}
	if row != "" {
		body["row"] = row
	}
	return c.Call(ctx, http.MethodPost, path(feed, "control"), body, nil, 0)
}

// Goals of a feed.
func (c *Client) Goals(ctx context.Context, feed string) ([]Goal, error) {
	return field[[]Goal](ctx, c, http.MethodGet, path(feed, "goals"), nil, "goals")
}

// Goal is one, and how far it is.
func (c *Client) Goal(ctx context.Context, feed, goal string) (Goal, error) {
	return ask[Goal](ctx, c, http.MethodGet, path(feed, "goals", goal), nil)
}

// PutGoal defines or changes a goal.
func (c *Client) PutGoal(ctx context.Context, feed, goal string, spec GoalSpec) (Goal, error) {
	return ask[Goal](ctx, c, http.MethodPut, path(feed, "goals", goal), spec)
}

// DeleteGoal deletes one.
func (c *Client) DeleteGoal(ctx context.Context, feed, goal string) error {
	return c.Call(ctx, http.MethodDelete, path(feed, "goals", goal), nil, nil, 0)
}

// Totals are what was counted; back 1 is the run before the current one.
func (c *Client) Totals(ctx context.Context, feed string, back int) (Object, error) {
	return ask[Object](ctx, c, http.MethodGet, path(feed, "totals")+"?back="+strconv.Itoa(back), nil)
}

// Leaders is a ranking of givers: period, by, back, limit and user are the fields of its query.
func (c *Client) Leaders(ctx context.Context, feed string, query url.Values) (Object, error) {
	return ask[Object](ctx, c, http.MethodGet, path(feed, "leaders")+"?"+query.Encode(), nil)
}

// Presence is how many watch.
func (c *Client) Presence(ctx context.Context, feed string) (Object, error) {
	return ask[Object](ctx, c, http.MethodGet, path(feed, "presence"), nil)
}

// Revoke refuses a viewer's tokens that were made before now, or before a time.
func (c *Client) Revoke(ctx context.Context, viewer string, before time.Time) error {
	body := Object{}
	if !before.IsZero() {
		body["before"] = stamp(before)
	}
	return c.Call(ctx, http.MethodPost, "/viewers/revoke?sub="+url.QueryEscape(viewer), body, nil, 0)
}

// Claim takes entries, waiting at most wait for the first. Consume does that, and acknowledges them.
func (g *Group) Claim(ctx context.Context, wait time.Duration) ([]Entry, error) {
	var answer struct {
		Entries []Entry `json:"entries"`
	}
	body := Object{"consumer": g.Consumer, "max": max(g.Max, 1), "wait_ms": wait.Milliseconds()}
	if g.Lease > 0 {
		body["lease_ms"] = g.Lease.Milliseconds()
	}
	return answer.Entries, g.Client.Call(ctx, http.MethodPost, g.path("claim"), body, &answer, wait)
}

// Ack says how many of them this group had pending.
func (g *Group) Ack(ctx context.Context, cursors []string) (int, error) {
	return field[int](ctx, g.Client, http.MethodPost, g.path("ack"), Object{"cursors": cursors}, "acked")
}

// Nack gives them to the next claimer.
func (g *Group) Nack(ctx context.Context, cursors []string) (int, error) {
	return field[int](ctx, g.Client, http.MethodPost, g.path("nack"), Object{"cursors": cursors}, "nacked")
}

// State is how far it is.
func (g *Group) State(ctx context.Context) (GroupState, error) {
	return ask[GroupState](ctx, g.Client, http.MethodGet, g.path(), nil)
}

// Seek moves it, and answers the cursor of the entry that is next.
func (g *Group) Seek(ctx context.Context, to SeekTo) (string, error) {
	return field[string](ctx, g.Client, http.MethodPost, g.path("seek"), to, "cursor")
}

// Delete forgets where it was.
func (g *Group) Delete(ctx context.Context) error {
	return g.Client.Call(ctx, http.MethodDelete, g.path(), nil, nil, 0)
}

// DeadLetters are entries that it gave up on.
func (g *Group) DeadLetters(ctx context.Context) ([]Object, error) {
	return field[[]Object](ctx, g.Client, http.MethodGet, g.path("dead"), nil, "dead")
}

// Replay hands dead letters out again, those with these ids, or all for none; it answers how many.
func (g *Group) Replay(ctx context.Context, ids []string) (int, error) {
	body := Object{}
	if len(ids) > 0 {
		body["ids"] = ids
	}
	return field[int](ctx, g.Client, http.MethodPost, g.path("dead", "replay"), body, "replayed")
}
