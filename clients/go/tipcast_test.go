package tipcast

import (
	"bufio"
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
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
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
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

// consume runs a consumer until enough says so and everything is acknowledged, with no dead letter.
func consume(t *testing.T, g *gateway, handlers Handlers, enough func() bool) {
	t.Helper()
	ctx := within(t)
	stopping, stop := context.WithCancel(ctx)
	ended := make(chan error, 1)
	quiet := slog.New(slog.NewTextHandler(io.Discard, nil))
	go func() {
		ended <- (&Group{Client: g.Client, Feed: "show", Group: "game", Log: quiet}).ConsumeTypes(stopping, handlers)
	}()
	var state struct{ Lag, Pending, Dead int }
	for ctx.Err() == nil {
		time.Sleep(10 * time.Millisecond)
		if enough() && g.Call(ctx, http.MethodGet, "/feeds/show/groups/game", nil, &state, 0) == nil && state.Lag+state.Pending == 0 {
			break
		}
	}
	stop()
	if err := <-ended; !errors.Is(err, context.Canceled) || !enough() || state.Lag+state.Pending+state.Dead != 0 {
		t.Fatal(err, enough(), state)
	}
}

// locked makes handlers and the test see the same list.
type locked struct {
	sync.Mutex
	all []string
}

func (l *locked) add(text string) {
	l.Lock()
	defer l.Unlock()
	l.all = append(l.all, text)
}

func (l *locked) list() []string {
	l.Lock()
	defer l.Unlock()
	return append([]string(nil), l.all...)
}

func TestWhatFailsOrPanicsComesAgainAloneAndItsNeighboursGoOn(t *testing.T) {
	g, ctx := start(t), within(t)
	for n := range 5 {
		must[Posted](t)(g.Post(ctx, "show", gift(n)))
	}
	var got locked
	handle := func(_ context.Context, entry Entry) error {
		switch {
		case entry.Gift.ID == "g1" && entry.Attempt == 1:
			return errors.New("not now")
		case entry.Gift.ID == "g3" && entry.Attempt == 1:
			panic("a nil pointer")
		}
		got.add(entry.Gift.ID)
		return nil
	}
	consume(t, g, Handlers{"*": handle}, func() bool { return len(got.list()) == 5 })
	if all := got.list(); !reflect.DeepEqual(all[:3], []string{"g0", "g2", "g4"}) {
		t.Fatal(all)
	}
}

func TestABackendThatIsAwayForAWhileLosesNothingAndKillsNothing(t *testing.T) {
	g, ctx := start(t), within(t)
	for n := range 40 {
		must[Posted](t)(g.Post(ctx, "show", gift(n)))
	}
	var got locked
	var tries atomic.Int32
	consume(t, g, Handlers{"*": func(_ context.Context, entry Entry) error {
		if tries.Add(1) < 6 {
			return errors.New("no database")
		}
		got.add(entry.Gift.ID)
		return nil
	}}, func() bool { return len(got.list()) == 40 })
}

func TestEntriesGoToTheHandlerOfTheirTypeAndWhatCannotBeReadStopsNoOther(t *testing.T) {
	g, ctx := start(t), within(t)
	drop := map[string]any{"gift": Kind{ID: "r", Name: "R"}, "total": 3}
	if err := g.Call(ctx, http.MethodPut, "/feeds/show/drops/rocket", drop, nil, 0); err != nil {
		t.Fatal(err)
	}
	must[Sold](t)(g.Sell(ctx, "show", "rocket", Sale{User: User{ID: "u", Name: "U"}, Pay: "now"}))
	held := must[Sold](t)(g.Sell(ctx, "show", "rocket", Sale{User: User{ID: "v", Name: "V"}, Pay: "later"}))
	must[Sold](t)(g.Confirm(ctx, "show", held.Hold))
	freed := must[Sold](t)(g.Sell(ctx, "show", "rocket", Sale{User: User{ID: "w", Name: "W"}, Pay: "later"}))
	if err := g.Release(ctx, "show", freed.Hold); err != nil {
		t.Fatal(err)
	}
	paid := gift(1)
	paid.Value, paid.Combo = &Value{Amount: 500, Currency: "EUR"}, &Combo{ID: "run", Count: 3, End: true}
	must[Posted](t)(g.Post(ctx, "show", paid))
	tested := gift(2)
	tested.Test = true
	must[Posted](t)(g.Post(ctx, "show", tested))
	if err := errors.Join(g.Refund(ctx, "show", "g1", 100, "half of it"), g.RetractGift(ctx, "show", "g1", "chargeback")); err != nil {
		t.Fatal(err)
	}
	// A gateway of the future: a type that nobody knows, and an entry of another shape.
	odd := `{"cursor":"1","event_id":"show/1","type":"gift.accepted","feed":"show","gift":"a rose"}`
	unknown := `{"cursor":"2","event_id":"show/2","type":"gift.polished","feed":"show","shine":1e999}`
	var settled locked
	proxy := httptest.NewServer(http.HandlerFunc(func(answer http.ResponseWriter, request *http.Request) {
		body, _ := io.ReadAll(request.Body)
		if strings.HasSuffix(request.URL.Path, "ack") {
			settled.add(request.URL.Path[strings.LastIndex(request.URL.Path, "/")+1:] + " " + string(body))
		}
		said, err := http.Post(g.URL+request.URL.Path, "application/json", bytes.NewReader(body))
		if err != nil {
			answer.WriteHeader(http.StatusBadGateway)
			return
		}
		defer said.Body.Close()
		text, _ := io.ReadAll(said.Body)
		if len(settled.list()) == 0 {
			text = bytes.Replace(text, []byte(`"entries":[`), []byte(`"entries":[`+odd+","+unknown+","), 1)
		}
		answer.WriteHeader(said.StatusCode)
		_, _ = answer.Write(text)
	}))
	defer proxy.Close()
	var got locked
	named := func(name string) Handler {
		return func(_ context.Context, entry Entry) error {
			got.add(strings.TrimSpace(name + " " + entry.Type + " " + entry.Reason))
			return nil
		}
	}
	handlers := Handlers{"drop.sold": named("sale"), "gift.refunded": named("money"), "gift.retracted": named("money")}
	stopping, stop := context.WithCancel(ctx)
	quiet := slog.New(slog.NewTextHandler(io.Discard, nil))
	ended := make(chan error, 1)
	go func() {
		ended <- (&Group{Client: &Client{URL: proxy.URL}, Feed: "show", Group: "game", Log: quiet}).ConsumeTypes(stopping, handlers)
	}()
	for ctx.Err() == nil && len(settled.list()) < 2 {
		time.Sleep(10 * time.Millisecond)
	}
	stop()
	<-ended
	wanted := []string{"sale drop.sold", "sale drop.sold", "money gift.refunded half of it", "money gift.retracted chargeback"}
	if !reflect.DeepEqual(got.list(), wanted) {
		t.Fatal(got.list())
	}
	acked, nacked := settled.list()[0], settled.list()[1]
	if !strings.Contains(acked, `"2"`) || strings.Contains(acked, `"1"`) || nacked != `nack {"cursors":["1"]}` {
		t.Fatal(settled.list())
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
	outage = -20*time.Second + time.Second // Beside the wait of a claim.
	logged, got := make(chan string, 1024), make(chan string, 1024)
	// A claim that is given up just as its answer comes leaves the entry leased: it comes again when the lease has ended, which
	// has to be well inside the test's time.
	group := &Group{
		Client: g.Client, Feed: "show", Group: "game", Lease: time.Second,
		Log: slog.New(slog.NewTextHandler(writer(func(line string) { logged <- line }), nil)),
	}
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
	// Samples that an operator sends are signed like the others, and nobody paid for them.
	var back struct{ Status, Entries int }
	if err := g.Call(ctx, http.MethodPost, "/feeds/show/webhooks/game/test", nil, &back, 0); err != nil {
		t.Fatal(err)
	}
	trial := <-deliveries
	if back.Status != http.StatusNoContent || back.Entries == 0 || !trial.Test || len(trial.Entries) != 0 {
		t.Fatalf("%+v %+v", back, trial)
	}
}

func TestEightSignaturesAreReadAndNoMore(t *testing.T) {
	hook, err := NewWebhook(secret)
	if err != nil {
		t.Fatal(err)
	}
	key, _ := base64.StdEncoding.DecodeString(strings.TrimPrefix(secret, "whsec_"))
	body, stamp := []byte(`{"type":"entries"}`), strconv.FormatInt(time.Now().Unix(), 10)
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte("msg_1." + stamp + "." + string(body)))
	right := "v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil))
	wrong := "v1," + base64.StdEncoding.EncodeToString(make([]byte, sha256.Size))
	for wrongOnes, fits := range map[int]bool{0: true, 7: true, 8: false, 1000: false} {
		header := http.Header{}
		header.Set("webhook-id", "msg_1")
		header.Set("webhook-timestamp", stamp)
		header.Set("webhook-signature", strings.Repeat(wrong+" v2,x v1,short ", wrongOnes)+right)
		if _, err := hook.Read(header, body); (err == nil) != fits {
			t.Errorf("%d wrong ones: %v", wrongOnes, err)
		}
	}
}
