package tipcast

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"reflect"
	"strings"
	"testing"
	"time"
)

const secret = "whsec_QUJDREVGR0hJSktMTU5PUFFSU1RVVldYWVphYmNkZWY="
const another = "whsec_c29tZSBvdGhlciBzZWNyZXQgb2YgMjQgYnl0ZXM="

// gateway runs the binary that TIPCAST names, on a folder of its own.
type gateway struct {
	t       *testing.T
	dir     string
	process *exec.Cmd
	*Client
}

func start(t *testing.T) *gateway {
	g := &gateway{t: t, dir: t.TempDir(), Client: &Client{}}
	g.serve("127.0.0.1:0")
	t.Cleanup(g.kill)
	return g
}

func (g *gateway) serve(address string) {
	g.process = exec.Command(os.Getenv("TIPCAST"), "--listen", address, "--data-dir", g.dir)
	g.process.Env = append(os.Environ(), "TIPCAST_WEBHOOKS__ALLOW_PRIVATE=true")
	out, err := g.process.StdoutPipe()
	if err == nil {
		err = g.process.Start()
	}
	if err != nil {
		g.t.Fatal(err)
	}
	line, _ := bufio.NewReader(out).ReadString('\n')
	url, found := strings.CutPrefix(strings.TrimSpace(line), "listening on ")
	if !found {
		g.t.Fatalf("the gateway does not listen: %q", line)
	}
	g.URL = url
}

func (g *gateway) kill() {
	_ = g.process.Process.Kill()
	_ = g.process.Wait()
}

func within(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	t.Cleanup(cancel)
	return ctx
}

func gift(n int) Gift {
	return Gift{
		ID: fmt.Sprintf("g%d", n), User: User{ID: fmt.Sprintf("u%d", n), Name: "Mia"}, Gift: Kind{ID: "rose", Name: "Rose"},
	}
}

func must[T any](t *testing.T) func(T, error) T {
	return func(value T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return value
	}
}

func TestAGiftIsTakenOnceHoweverOftenItIsSent(t *testing.T) {
	g, ctx := start(t), within(t)
	first := must[Posted](t)(g.Post(ctx, "show", gift(1)))
	again := must[Posted](t)(g.Post(ctx, "show", gift(1)))
	if first.Status != "accepted" || first.Duplicate || !again.Duplicate || again.Row != first.Row {
		t.Fatalf("%+v, then %+v", first, again)
	}
}

func TestARefusalSaysWhereAndWhatAndIsNotRepeated(t *testing.T) {
	g := start(t)
	wrong := gift(1)
	wrong.Count = -1
	_, err := g.Post(within(t), "show", wrong)
	var problem *Problem
	if !errors.As(err, &problem) || problem.Status != 422 || problem.Errors[0].Pointer != "/count" {
		t.Fatal(err)
	}
}

func TestABatchOfAnyLengthIsAnsweredInOrder(t *testing.T) {
	g := start(t)
	gifts := make([]Gift, 201)
	for n := range gifts {
		gifts[n] = gift(n)
	}
	gifts[200].User.ID = ""
	results := must[[]Result](t)(g.PostAll(within(t), "show", gifts))
	for n, result := range results {
		if result.Index != n || (result.Error != nil) != (n == 200) {
			t.Fatalf("%d: %+v", n, result)
		}
	}
	if len(results) != 201 {
		t.Fatal(len(results))
	}
}

func TestAGatewayThatIsAwayForAWhileIsWaitedFor(t *testing.T) {
	g, ctx := start(t), within(t)
	g.kill()
	posted := make(chan error, 1)
	go func() {
		_, err := g.Post(ctx, "show", gift(1))
		posted <- err
	}()
	select {
	case err := <-posted:
		t.Fatalf("nobody was there: %v", err)
	case <-time.After(200 * time.Millisecond):
	}
	g.serve(strings.TrimPrefix(g.URL, "http://"))
	if err := <-posted; err != nil {
		t.Fatal(err)
	}
}

func TestWhatIsAskedToComeAgainIsSentWithTheSameIDUntilTheContextIsOver(t *testing.T) {
	var ids []string
	server := httptest.NewServer(http.HandlerFunc(func(answer http.ResponseWriter, request *http.Request) {
		var came Gift
		_ = json.NewDecoder(request.Body).Decode(&came)
		ids = append(ids, came.ID)
		if len(ids) < 3 {
			answer.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		fmt.Fprint(answer, `{"status":"accepted"}`)
	}))
	defer server.Close()
	nameless := gift(1)
	nameless.ID = ""
	must[Posted](t)((&Client{URL: server.URL}).Post(within(t), "show", nameless))
	if len(ids) != 3 || ids[0] == "" || ids[0] != ids[2] {
		t.Fatal(ids)
	}
	short, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	_, err := (&Client{URL: "http://127.0.0.1:9"}).Post(short, "show", gift(1))
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Fatal(err)
	}
}

func TestAConsumerGetsEveryGiftAndWhatFailedComesAgain(t *testing.T) {
	g, ctx := start(t), within(t)
	for n := range 5 {
		must[Posted](t)(g.Post(ctx, "show", gift(n)))
	}
	var got []string
	notNow := errors.New("not now")
	group := &Group{Client: g.Client, Feed: "show", Group: "game"}
	handle := func(_ context.Context, entry Entry) error {
		if entry.Gift.ID == "g3" && entry.Attempt == 1 {
			return notNow
		}
		got = append(got, entry.Gift.ID)
		return nil
	}
	if err := group.Consume(ctx, handle); !errors.Is(err, notNow) {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(got, []string{"g0", "g1", "g2"}) {
		t.Fatal(got)
	}
	stopping, stop := context.WithCancel(ctx)
	err := group.Consume(stopping, func(ctx context.Context, entry Entry) error {
		_ = handle(ctx, entry)
		if len(got) == 5 {
			stop()
		}
		return nil
	})
	if !errors.Is(err, context.Canceled) || !reflect.DeepEqual(got, []string{"g0", "g1", "g2", "g3", "g4"}) {
		t.Fatal(got, err)
	}
	var state struct{ Lag, Pending int }
	if err := g.Call(ctx, http.MethodGet, "/feeds/show/groups/game", nil, &state, 0); err != nil || state.Lag+state.Pending != 0 {
		t.Fatal(state, err)
	}
}

func TestAGiftWhoseAnswerWasLostIsSentAgainWithTheIDOfTheError(t *testing.T) {
	g, ctx := start(t), within(t)
	losing := true
	lossy := httptest.NewServer(http.HandlerFunc(func(answer http.ResponseWriter, request *http.Request) {
		passed, err := http.Post(g.URL+request.URL.Path, "application/json", request.Body)
		if err != nil {
			panic(err)
		}
		defer passed.Body.Close()
		if losing {
			panic(http.ErrAbortHandler)
		}
		answer.WriteHeader(passed.StatusCode)
		_, _ = io.Copy(answer, passed.Body)
	}))
	defer lossy.Close()
	client, nameless := &Client{URL: lossy.URL}, gift(1)
	nameless.ID = ""
	short, cancel := context.WithTimeout(ctx, 100*time.Millisecond)
	posted, err := client.Post(short, "show", nameless)
	cancel()
	var lost *SendError
	if !errors.As(err, &lost) || len(lost.IDs) != 1 || lost.IDs[0] != posted.ID || !strings.Contains(err.Error(), posted.ID) {
		t.Fatal(posted, err)
	}
	short, cancel = context.WithTimeout(ctx, 100*time.Millisecond)
	many := make([]Gift, 130)
	for n := range many {
		many[n] = nameless
	}
	_, err = client.PostAll(short, "show", many)
	cancel()
	if !errors.As(err, &lost) || len(lost.IDs) != 130 {
		t.Fatal(err)
	}
	losing = false
	nameless.ID = posted.ID
	if again := must[Posted](t)(client.Post(ctx, "show", nameless)); !again.Duplicate {
		t.Fatalf("%+v", again)
	}
	for n := range many {
		many[n].ID = lost.IDs[n]
	}
	must[[]Result](t)(client.PostAll(ctx, "show", many))
	var claimed struct{ Entries []Entry }
	body := map[string]any{"consumer": "c", "max": 1000}
	if err := g.Call(ctx, http.MethodPost, "/feeds/show/groups/game/claim", body, &claimed, 0); err != nil || len(claimed.Entries) != 131 {
		t.Fatal(len(claimed.Entries), err)
	}
}

func TestAConsumerOutlivesALongOutageAndSaysSo(t *testing.T) {
	g, ctx := start(t), within(t)
	defer func(before time.Duration) { outage = before }(outage)
	outage = -20*time.Second + 100*time.Millisecond // beside the wait of a claim
	logged, got := make(chan string, 1024), make(chan string, 1024)
	group := &Group{Client: g.Client, Feed: "show", Group: "game", Log: slog.New(slog.NewTextHandler(writer(func(line string) { logged <- line }), nil))}
	stopping, stop := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() {
		ended <- group.Consume(stopping, func(_ context.Context, entry Entry) error {
			got <- entry.Gift.ID
			return nil
		})
	}()
	next := func(from chan string) string {
		select {
		case it := <-from:
			return it
		case err := <-ended:
			t.Fatal("it ended: ", err)
		case <-ctx.Done():
			t.Fatal("nothing came")
		}
		return ""
	}
	must[Posted](t)(g.Post(ctx, "show", gift(1)))
	for next(got) != "g1" {
	}
	g.kill()
	for !strings.Contains(next(logged), "refused") {
	}
	g.serve(strings.TrimPrefix(g.URL, "http://"))
	must[Posted](t)(g.Post(ctx, "show", gift(2)))
	for next(got) != "g2" {
	}
	stop()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
}

type writer func(string)

func (w writer) Write(line []byte) (int, error) {
	w(string(line))
	return len(line), nil
}

func TestEntriesWithoutAGiftOrWithOnlyItsIDAreHandedOutLikeAll(t *testing.T) {
	g, ctx := start(t), within(t)
	for _, call := range []struct {
		method, path string
		body         any
	}{
		{http.MethodPatch, "policy", map[string]any{"totals": []string{"session"}, "points": map[string]int{"EUR": 1}}},
		{http.MethodPut, "goals/mic", map[string]any{"title": "Mic", "period": "session", "by": "points", "target": 100}},
	} {
		if err := g.Call(ctx, call.method, "/feeds/show/"+call.path, call.body, nil, 0); err != nil {
			t.Fatal(err)
		}
	}
	paid := gift(1)
	paid.Value = &Value{Amount: 100, Currency: "EUR"}
	must[Posted](t)(g.Post(ctx, "show", paid))
	if err := g.Call(ctx, http.MethodPost, "/feeds/show/gifts/g1/retract", nil, nil, 0); err != nil {
		t.Fatal(err)
	}
	var got []string
	stopping, stop := context.WithCancel(ctx)
	_ = (&Group{Client: g.Client, Feed: "show", Group: "game"}).Consume(stopping, func(_ context.Context, entry Entry) error {
		id := ""
		if entry.Gift != nil {
			id = entry.Gift.ID
		}
		if got = append(got, entry.Type+" "+id); len(got) == 3 {
			stop()
		}
		return nil
	})
	if !reflect.DeepEqual(got, []string{"gift.accepted g1", "goal.reached ", "gift.retracted g1"}) {
		t.Fatal(got)
	}
}

func TestADeliveryIsReadAndAForgedOneIsNot(t *testing.T) {
	g, ctx := start(t), within(t)
	hook, err := NewWebhook(another, secret)
	if err != nil {
		t.Fatal(err)
	}
	type came struct {
		header http.Header
		body   []byte
	}
	requests, deliveries := make(chan came, 8), make(chan *Delivery, 8)
	handler := hook.Handler(func(_ *http.Request, delivery *Delivery) error {
		deliveries <- delivery
		return nil
	})
	server := httptest.NewServer(http.HandlerFunc(func(answer http.ResponseWriter, request *http.Request) {
		body, _ := io.ReadAll(request.Body)
		requests <- came{request.Header, body}
		request.Body = io.NopCloser(strings.NewReader(string(body)))
		handler.ServeHTTP(answer, request)
	}))
	defer server.Close()
	settings := map[string]any{"url": server.URL, "secret": secret, "batch_ms": 1}
	if err := g.Call(ctx, http.MethodPut, "/feeds/show/webhooks/game", settings, nil, 0); err != nil {
		t.Fatal(err)
	}
	must[Posted](t)(g.Post(ctx, "show", gift(1)))
	select {
	case delivery := <-deliveries:
		if delivery.Feed != "show" || delivery.Entries[0].Gift.ID != "g1" {
			t.Fatalf("%+v", delivery)
		}
	case <-ctx.Done():
		t.Fatal("no delivery")
	}
	request := <-requests
	stranger, _ := NewWebhook(another)
	late := *hook
	late.now = func() time.Time { return time.Now().Add(6 * time.Minute) }
	renamed := request.header.Clone()
	renamed.Set("webhook-id", "another")
	for name, read := range map[string]func() (*Delivery, error){
		"another secret": func() (*Delivery, error) { return stranger.Read(request.header, request.body) },
		"too old":        func() (*Delivery, error) { return late.Read(request.header, request.body) },
		"another body":   func() (*Delivery, error) { return hook.Read(request.header, append(request.body, ' ')) },
		"another id":     func() (*Delivery, error) { return hook.Read(renamed, request.body) },
		"nothing":        func() (*Delivery, error) { return hook.Read(http.Header{}, request.body) },
	} {
		if _, err := read(); !errors.Is(err, ErrBadSignature) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
