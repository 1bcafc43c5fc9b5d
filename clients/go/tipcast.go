// Package tipcast sends gifts to a Tipcast gateway, reads its reports, and checks its webhooks.
//
// Every call takes a context and is retried until the context has ended: while the gateway does not answer, or asks to come again
// (429, 503 and other 5xx), with the same id, so that a gift is taken once however often it had to be sent.
package tipcast

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	mathrand "math/rand/v2"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// Ceilings of the back-off: the first, and the most.
const (
	firstPause = 250 * time.Millisecond
	mostPause  = 10 * time.Second
)

// outage is how long a claim may go without an answer, its own wait not counted, before that is logged.
var outage = time.Minute

// Client asks one gateway. The zero HTTP client is http.DefaultClient; it is safe for concurrent use.
type Client struct {
	// URL of the gateway, such as https://gateway.example.
	URL string
	// Key of the producer, tck_…; empty where none is needed.
	Key  string
	HTTP *http.Client
	// Timeout of one attempt, a claim's wait not counted; 10 s when zero.
	Timeout time.Duration
}

// User who gives.
type User struct {
	ID        string `json:"id"`
	Name      string `json:"name"`
	Avatar    string `json:"avatar,omitempty"`
	Anonymous bool   `json:"anonymous,omitempty"`
}

// Kind of a gift.
type Kind struct {
	ID   string `json:"id"`
	Name string `json:"name"`
	Icon string `json:"icon,omitempty"`
}

// Value in minor units of its currency, never a float.
type Value struct {
	Amount   int64  `json:"amount"`
	Currency string `json:"currency"`
}

// Combo is a run of gifts; Count is cumulative.
type Combo struct {
	ID    string `json:"id"`
	Count uint32 `json:"count"`
	End   bool   `json:"end,omitempty"`
}

// Gift as a producer sends it. Without ID, Post makes one, so that a retry is not a second gift.
type Gift struct {
	ID         string          `json:"id,omitempty"`
	User       User            `json:"user"`
	Gift       Kind            `json:"gift"`
	Count      int             `json:"count,omitempty"`
	Value      *Value          `json:"value,omitempty"`
	Combo      *Combo          `json:"combo,omitempty"`
	Message    string          `json:"message,omitempty"`
	Tier       *int            `json:"tier,omitempty"`
	OccurredAt *time.Time      `json:"occurred_at,omitempty"`
	DeliverAt  *time.Time      `json:"deliver_at,omitempty"`
	DelayMS    int64           `json:"delay_ms,omitempty"`
	Test       bool            `json:"test,omitempty"`
	Meta       json.RawMessage `json:"meta,omitempty"`
}

// Posted is what became of a gift. Duplicate says that its id had come before: this is the first answer again.
type Posted struct {
	Status    string    `json:"status"`
	ID        string    `json:"id"`
	Epoch     string    `json:"epoch"`
	Seq       uint64    `json:"seq"`
	Row       string    `json:"row"`
	Count     uint64    `json:"count"`
	DeliverAt time.Time `json:"deliver_at"`
	Duplicate bool      `json:"duplicate"`
}

// Result of one gift of a batch; Error is there when it was refused.
type Result struct {
	Index int `json:"index"`
	Posted
	Error *Problem `json:"error"`
}

// Delta is by how much an entry changes what was given: negative where that was taken back. Value is nil where the gift has
// none.
type Delta struct {
	Count int64  `json:"count"`
	Value *Value `json:"value"`
}

// Lost are entries that were cut before this reader was handed them: the cursors of the first and the last.
type Lost struct {
	From  string `json:"from"`
	To    string `json:"to"`
	Count int64  `json:"count"`
}

// Entry of a feed's ledger. EventID is the key to know a repeat by. Gift and Delta are nil where nothing was given or taken
// back (a goal that was reached); of a gift that was taken back there may be only an ID.
type Entry struct {
	Cursor  string          `json:"cursor"`
	EventID string          `json:"event_id"`
	Type    string          `json:"type"`
	Feed    string          `json:"feed"`
	At      time.Time       `json:"at"`
	Attempt int             `json:"attempt"`
	Seq     uint64          `json:"seq"`
	Row     string          `json:"row"`
	Drop    string          `json:"drop"`
	Hold    string          `json:"hold"`
	Delta   *Delta          `json:"delta"`
	Reason  string          `json:"reason"`
	Gift    *Gift           `json:"gift"`
	Goal    json.RawMessage `json:"goal"`
	Lost    *Lost           `json:"lost"`
}

// Problem is a refusal (RFC 9457). Sending the same again is of no use.
type Problem struct {
	Type   string `json:"type"`
	Title  string `json:"title"`
	Status int    `json:"status"`
	Detail string `json:"detail"`
	Errors []struct {
		Pointer string `json:"pointer"`
		Detail  string `json:"detail"`
	} `json:"errors"`
}

func (p *Problem) Error() string {
	text := fmt.Sprintf("tipcast: %d %s: %s", p.Status, p.Type, p.Detail)
	for _, e := range p.Errors {
		text += fmt.Sprintf("; %s: %s", e.Pointer, e.Detail)
	}
	return text
}

// SendError is why gifts could not be sent. To send them again, give each its id of IDs: what was taken already is not
// taken twice.
type SendError struct {
	// IDs of all gifts of the call in their order, also those that the client made.
	IDs []string
	Err error
}

func (e *SendError) Error() string {
	if len(e.IDs) == 1 {
		return fmt.Sprintf("%v (gift id %s)", e.Err, e.IDs[0])
	}
	return fmt.Sprintf("%v (%d gifts, the first with id %s)", e.Err, len(e.IDs), e.IDs[0])
}

func (e *SendError) Unwrap() error { return e.Err }

// Post sends one gift. Posted has its ID, also one that was made here and also beside an error, which is a *SendError.
func (c *Client) Post(ctx context.Context, feed string, gift Gift) (posted Posted, err error) {
	if gift.ID == "" {
		gift.ID = freshID()
	}
	err = c.Call(ctx, http.MethodPost, path(feed, "gifts"), gift, &posted, 0)
	posted.ID = gift.ID
	if err != nil {
		err = &SendError{IDs: []string{gift.ID}, Err: err}
	}
	return posted, err
}

// PostAll sends many, in batches of 128, and answers one result for each, in order. An error is a *SendError with the ids
// of all gifts, those of batches that went well too.
func (c *Client) PostAll(ctx context.Context, feed string, gifts []Gift) ([]Result, error) {
	results := make([]Result, 0, len(gifts))
	all, ids := append([]Gift(nil), gifts...), make([]string, len(gifts))
	for i := range all {
		if all[i].ID == "" {
			all[i].ID = freshID()
		}
		ids[i] = all[i].ID
	}
	for start := 0; start < len(all); start += 128 {
		batch := all[start:min(start+128, len(all))]
		var answer struct {
			Results []Result `json:"results"`
		}
		if err := c.Call(ctx, http.MethodPost, path(feed, "gifts", "batch"), map[string]any{"gifts": batch}, &answer, 0); err != nil {
			return results, &SendError{IDs: ids, Err: err}
		}
		for _, result := range answer.Results {
			result.Index += start
			results = append(results, result)
		}
	}
	return results, nil
}

// Retract takes a row back everywhere.
func (c *Client) Retract(ctx context.Context, feed, row string) error {
	return c.Call(ctx, http.MethodDelete, path(feed, "rows", row), nil, nil, 0)
}

// RetractGift takes one gift back by its id; reason may be empty.
func (c *Client) RetractGift(ctx context.Context, feed, gift, reason string) error {
	return c.Call(ctx, http.MethodPost, path(feed, "gifts", "retract")+"?id="+url.QueryEscape(gift), with(reason), nil, 0)
}

// Refund takes a part of a gift's value back. refunded is all that is refunded so far, in minor units: a repeat changes
// nothing.
func (c *Client) Refund(ctx context.Context, feed, gift string, refunded int64, reason string) error {
	body := with(reason)
	body["refunded"] = refunded
	return c.Call(ctx, http.MethodPost, path(feed, "gifts", "refund")+"?id="+url.QueryEscape(gift), body, nil, 0)
}

// Sale is units of a drop that somebody wants. Without ID, Sell makes one, so that a retry is not a second sale.
type Sale struct {
	ID    string `json:"id,omitempty"`
	User  User   `json:"user"`
	Count int    `json:"count,omitempty"`
	// Pay is "now" or "later".
	Pay     string `json:"pay"`
	Message string `json:"message,omitempty"`
}

// Sold is what became of a claim: Status is "sold", or "held" with a Hold until ExpiresAt.
type Sold struct {
	Status string `json:"status"`
	Seq    uint64 `json:"seq"`
	Row    string `json:"row"`
	Hold   string `json:"hold"`
	// Value is what it costs, nil if the drop has no price.
	Value     *Value    `json:"value"`
	ExpiresAt time.Time `json:"expires_at"`
}

// Sell claims units of a drop. An error is a *SendError with the claim's id.
func (c *Client) Sell(ctx context.Context, feed, drop string, sale Sale) (sold Sold, err error) {
	if sale.ID == "" {
		sale.ID = freshID()
	}
	if err = c.Call(ctx, http.MethodPost, path(feed, "drops", drop, "claims"), sale, &sold, 0); err != nil {
		err = &SendError{IDs: []string{sale.ID}, Err: err}
	}
	return sold, err
}

// Confirm says that a hold was paid: its gift is shown.
func (c *Client) Confirm(ctx context.Context, feed, hold string) (sold Sold, err error) {
	return sold, c.Call(ctx, http.MethodPost, path(feed, "holds", hold, "confirm"), nil, &sold, 0)
}

// Release cancels a hold: its units are free again.
func (c *Client) Release(ctx context.Context, feed, hold string) error {
	return c.Call(ctx, http.MethodDelete, path(feed, "holds", hold), nil, nil, 0)
}

// Cancel cancels a scheduled gift; a *Problem with status 409 when it was shown already.
func (c *Client) Cancel(ctx context.Context, feed, gift string) error {
	return c.Call(ctx, http.MethodDelete, path(feed, "scheduled")+"?id="+url.QueryEscape(gift), nil, nil, 0)
}

// Group reads a feed's ledger at its own pace.
type Group struct {
	Client      *Client
	Feed, Group string
	// Consumer names this reader; a random name when empty.
	Consumer string
	// Max entries of one claim; 128 when zero.
	Max int
	// Lease on what was claimed; 30 s when zero. Handling a claim has to be over before it.
	Lease time.Duration
	// Log hears of outages; slog.Default() when nil.
	Log *slog.Logger
}

// Handler handles an entry; what it returns nil for is acknowledged.
type Handler func(context.Context, Entry) error

// Handlers by the type of an entry; "*" takes what has none of its own. Without that, it is logged and acknowledged: new
// types may come at any time.
type Handlers map[string]Handler

// Consume hands every entry to handle; see ConsumeTypes.
func (g *Group) Consume(ctx context.Context, handle Handler) error {
	return g.ConsumeTypes(ctx, Handlers{"*": handle})
}

// ConsumeTypes hands every entry to the handler of its type, at least once, until ctx has ended. What a handler returned nil
// for is acknowledged. An entry whose handler fails or panics, or that cannot be read, is logged, given back alone after a
// pause that grows with its attempts, and comes again; its neighbours go on. Where nothing works any more, because your
// database is away, entries are claimed one by one with growing pauses, up to a minute. The gateway makes an entry a dead
// letter after its 16th attempt. Outages of the gateway, however long, are waited out. An error is returned when ctx has ended,
// and a *Problem where the first claim is refused.
//
// An entry may come twice: know it by its EventID, as EventStore does.
func (g *Group) ConsumeTypes(ctx context.Context, handlers Handlers) error {
	consumer := g.Consumer
	if consumer == "" {
		consumer = "go-" + freshID()[:12]
	}
	most, lease := g.Max, g.Lease
	if most == 0 {
		most = 128
	}
	if lease == 0 {
		lease = 30 * time.Second
	}
	// Entries that failed, by when they are given back. And how many have failed since one was handled.
	later := map[string]time.Time{}
	failures, claimed := 0, false
	for {
		wait := 20 * time.Second
		var due []string
		for cursor, at := range later {
			left := time.Until(at)
			if left <= 0 {
				due = append(due, cursor)
				delete(later, cursor)
			}
			wait = min(wait, max(left, 0))
		}
		if len(due) > 0 {
			wait = 0
			g.settle(ctx, nil, due)
		}
		asked := most
		if failures > 0 {
			asked = 1
		}
		var answer struct {
			Entries []json.RawMessage `json:"entries"`
		}
		body := map[string]any{
			"consumer": consumer, "max": asked, "wait_ms": wait.Milliseconds(), "lease_ms": lease.Milliseconds(),
		}
		if err := g.claim(ctx, body, &answer, wait, claimed); err != nil {
			return err
		}
		claimed = true
		var done, rest []string
		for n, text := range answer.Entries {
			// It is not this one's fault, it seems.
			isOutage := failures >= 3 && n > 0
			var entry Entry
			err := json.Unmarshal(text, &entry)
			if entry.Cursor == "" {
				entry = Entry{Cursor: cursorOf(text)}
			}
			if isOutage || ctx.Err() != nil {
				rest = append(rest, entry.Cursor)
				continue
			}
			if err == nil {
				err = g.handle(ctx, handlers, entry)
			}
			switch {
			case err == nil:
				failures = 0
				done = append(done, entry.Cursor)
			case ctx.Err() != nil:
				rest = append(rest, entry.Cursor)
			default:
				failures++
				g.log().Error("tipcast: an entry failed and comes again", "event", entry.EventID, "type", entry.Type,
					"attempt", entry.Attempt, "error", err)
				pause := min(time.Second<<min(max(entry.Attempt-1, 0), 16), lease/2)
				later[entry.Cursor] = time.Now().Add(pause)
			}
		}
		if ctx.Err() != nil {
			for cursor := range later {
				rest = append(rest, cursor)
			}
		}
		g.settle(ctx, done, rest)
		if failures > 0 {
			ceiling := min(time.Minute, time.Second/2<<min(failures, 10))
			select {
			case <-ctx.Done():
			case <-time.After(ceiling/2 + time.Duration(mathrand.Int64N(int64(ceiling/2)))):
			}
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
}

func cursorOf(text json.RawMessage) string {
	var known struct {
		Cursor string `json:"cursor"`
	}
	_ = json.Unmarshal(text, &known)
	return known.Cursor
}

// handle calls the handler of the entry's type; a panic is an error of this entry and of no other.
func (g *Group) handle(ctx context.Context, handlers Handlers, entry Entry) (err error) {
	handle := handlers[entry.Type]
	if handle == nil {
		handle = handlers["*"]
	}
	if handle == nil {
		g.log().Info("tipcast: nothing is done about an entry", "event", entry.EventID, "type", entry.Type)
		return nil
	}
	defer func() {
		if panicked := recover(); panicked != nil {
			err = fmt.Errorf("panic: %v", panicked)
		}
	}()
	return handle(ctx, entry)
}

// settle acknowledges and gives back, also when ctx has ended, or what was done would come again. Where nobody answers, the
// leases run out and the entries come again.
func (g *Group) settle(ctx context.Context, done, rest []string) {
	settling, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	var err error
	if len(done) > 0 {
		_, err = g.Ack(settling, done)
	}
	if err == nil && len(rest) > 0 {
		_, err = g.Nack(settling, rest)
	}
	if err != nil {
		g.log().Warn("tipcast: entries will come again, their acknowledgement failed", "feed", g.Feed, "group", g.Group, "error", err)
	}
}

// claim asks until there is an answer, through outages of any length, and with goOn through refusals too.
func (g *Group) claim(ctx context.Context, body, into any, wait time.Duration, goOn bool) error {
	since := time.Now()
	for {
		asking, cancel := context.WithTimeout(ctx, wait+outage)
		err := g.Client.Call(asking, http.MethodPost, g.path("claim"), body, into, wait)
		cancel()
		var refused *Problem
		isRefused := errors.As(err, &refused)
		if err == nil || ctx.Err() != nil || isRefused && !goOn {
			return err
		}
		if isRefused {
			select {
			case <-ctx.Done():
				return ctx.Err()
			case <-time.After(mostPause):
			}
		}
		silent := time.Since(since).Round(time.Second)
		g.log().Warn("tipcast: no entries, trying again", "feed", g.Feed, "group", g.Group, "for", silent, "error", err)
	}
}

func (g *Group) log() *slog.Logger {
	if g.Log != nil {
		return g.Log
	}
	return slog.Default()
}

// Call makes one request below /v1. The answer goes into into, unless it is nil; wait is added to an attempt's time.
func (c *Client) Call(ctx context.Context, method, path string, body, into any, wait time.Duration) error {
	var text []byte
	if body != nil {
		var err error
		if text, err = json.Marshal(body); err != nil {
			return err
		}
	}
	for try := 0; ; try++ {
		after, err := c.once(ctx, method, path, text, into, wait)
		if err == nil {
			return nil
		}
		if _, refused := err.(*Problem); refused {
			return err
		}
		ceiling := min(mostPause, firstPause<<min(try, 10))
		pause := after + time.Duration(mathrand.Int64N(int64(ceiling)))
		select {
		case <-ctx.Done():
			return fmt.Errorf("tipcast: %s %s after %d tries: %w (%w)", method, path, try+1, err, ctx.Err())
		case <-time.After(pause):
		}
	}
}

// once is one attempt: a *Problem is final, any other error is worth another try after the pause.
func (c *Client) once(ctx context.Context, method, path string, text []byte, into any, wait time.Duration) (time.Duration, error) {
	timeout := c.Timeout
	if timeout == 0 {
		timeout = 10 * time.Second
	}
	ctx, cancel := context.WithTimeout(ctx, timeout+wait)
	defer cancel()
	var body io.Reader
	if text != nil {
		body = bytes.NewReader(text)
	}
	if !strings.HasPrefix(c.URL, "https://") && !strings.HasPrefix(c.URL, "http://") {
		return 0, &Problem{Type: "about:blank", Detail: fmt.Sprintf("%q is no address of a gateway; it begins with https:// or http://", c.URL)}
	}
	request, err := http.NewRequestWithContext(ctx, method, strings.TrimRight(c.URL, "/")+"/v1"+path, body)
	if err != nil {
		return 0, &Problem{Type: "about:blank", Detail: err.Error()}
	}
	if text != nil {
		request.Header.Set("Content-Type", "application/json")
	}
	if c.Key != "" {
		request.Header.Set("Authorization", "Bearer "+c.Key)
	}
	client := c.HTTP
	if client == nil {
		client = http.DefaultClient
	}
	answer, err := client.Do(request)
	if err != nil {
		return 0, err
	}
	defer answer.Body.Close()
	said, err := io.ReadAll(answer.Body)
	if err != nil {
		return 0, err
	}
	switch status := answer.StatusCode; {
	case status < 300:
		if into == nil {
			return 0, nil
		}
		if err := json.Unmarshal(said, into); err != nil {
			return 0, &Problem{Type: "about:blank", Status: status, Detail: notAGateway(answer)}
		}
		return 0, nil
	case status == 408, status == 425, status == 429, status >= 500:
		seconds, _ := strconv.Atoi(answer.Header.Get("Retry-After"))
		return time.Duration(max(seconds, 0)) * time.Second, fmt.Errorf("%s: %.200s", answer.Status, said)
	default:
		problem := &Problem{Type: "about:blank"}
		if json.Unmarshal(said, problem) != nil {
			problem.Detail = notAGateway(answer)
		}
		problem.Status = status
		return 0, problem
	}
}

func notAGateway(answer *http.Response) string {
	return fmt.Sprintf("what answered at %s is no Tipcast gateway, it seems: %d, %s; is the address right?",
		answer.Request.URL, answer.StatusCode, answer.Header.Get("Content-Type"))
}

func freshID() string {
	var bytes [16]byte
	_, _ = rand.Read(bytes[:])
	return hex.EncodeToString(bytes[:])
}
