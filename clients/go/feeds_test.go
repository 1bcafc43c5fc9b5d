package tipcast

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"net/url"
	"reflect"
	"strings"
	"testing"
	"time"
)

func TestAWrongAddressIsSaidAtOnce(t *testing.T) {
	page := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		if strings.HasSuffix(r.URL.Path, "missing") {
			w.WriteHeader(http.StatusNotFound)
		}
		_, _ = w.Write([]byte("<html>"))
	}))
	defer page.Close()
	for address, says := range map[string]string{"gateway.example": "https://", page.URL: "no Tipcast gateway"} {
		for _, feed := range []string{"show", "missing"} {
			var problem *Problem
			_, err := (&Client{URL: address}).Feed(within(t), feed)
			if !errors.As(err, &problem) || !strings.Contains(problem.Detail, says) {
				t.Fatalf("%s: %v", address, err)
			}
		}
	}
}

func TestEachMethodDoesWhatItSays(t *testing.T) {
	g, ctx := start(t), within(t)
	ok := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	is := func(got, want any) {
		t.Helper()
		if !reflect.DeepEqual(got, want) {
			t.Fatalf("%v is not %v", got, want)
		}
	}
	object, number := must[Object](t), must[int](t)
	object(g.PatchPolicy(ctx, "show", Object{"totals": []string{"session"}, "points": Object{"EUR": 1}}))
	is(object(g.Policy(ctx, "show"))["totals"], []any{"session"})
	must[Goal](t)(g.PutGoal(ctx, "show", "mic", GoalSpec{Title: "Mic", By: "EUR", Period: "session", Target: 1000}))
	is(must[Goal](t)(g.Goal(ctx, "show", "mic")).Target, int64(1000))
	is(len(must[[]Goal](t)(g.Goals(ctx, "show"))), 1)
	object(g.StartSession(ctx, "show", "friday"))
	paid := gift(1)
	paid.Value = &Value{Amount: 500, Currency: "EUR"}
	must[Posted](t)(g.Post(ctx, "show", paid))
	ok(g.Refund(ctx, "show", "g1", 200, "late"))
	leaders := object(g.Leaders(ctx, "show", url.Values{"period": {"session"}, "by": {"EUR"}}))["leaders"].([]any)
	is(leaders[0].(Object)["score"], 300.0)
	is(object(g.Totals(ctx, "show", 0))["feed"], "show")
	is(len(object(g.Story(ctx, "show", "g1"))["entries"].([]any)), 2)
	ok(g.RetractGift(ctx, "show", "g1", ""))
	must[Posted](t)(g.Post(ctx, "show", gift(2)))
	ok(g.RetractUser(ctx, "show", "u2"))
	is(object(g.Feed(ctx, "show"))["rows"], []any{})
	is(object(g.Summary(ctx, "show", time.Unix(0, 0), time.Time{}))["count"], 0.0)
	var types []string
	ok(g.EachEntry(ctx, "show", LedgerFilter{Type: "gift.retracted"}, func(entry Entry) error {
		types = append(types, entry.Type)
		return nil
	}))
	is(types, []string{"gift.retracted", "gift.retracted"})
	stop := errors.New("enough")
	is(g.EachEntry(ctx, "show", LedgerFilter{User: "u1"}, func(Entry) error { return stop }), stop)

	later := gift(3)
	later.DelayMS = 600_000
	must[Posted](t)(g.Post(ctx, "show", later))
	var waiting []string
	ok(g.EachScheduled(ctx, "show", func(it Waiting) error {
		waiting = append(waiting, it.ID)
		return nil
	}))
	is(waiting, []string{"g3"})
	ok(g.Cancel(ctx, "show", "g3"))

	spec := DropSpec{Total: 3, PerUser: 3, Gift: Kind{ID: "crown", Name: "Crown"}, Value: &Value{Amount: 900, Currency: "EUR"}}
	must[Drop](t)(g.PutDrop(ctx, "show", "crown", spec))
	mia := User{ID: "u1", Name: "Mia"}
	must[Sold](t)(g.Sell(ctx, "show", "crown", Sale{ID: "s1", User: mia, Pay: "now"}))
	held := must[Sold](t)(g.Sell(ctx, "show", "crown", Sale{ID: "s2", User: mia, Pay: "later"}))
	is(len(must[[]Object](t)(g.Holds(ctx, "show", "u1"))), 1)
	ok(g.Release(ctx, "show", held.Hold))
	ok(g.RefundSale(ctx, "show", "crown", "s1", 100, "late"))
	is(object(g.Claimed(ctx, "show", "crown", "s1"))["refunded"], 100.0)
	ok(g.RetractSale(ctx, "show", "crown", "s1", ""))
	is(must[Drop](t)(g.Drop(ctx, "show", "crown")).Total, int64(3))
	is(len(must[[]Drop](t)(g.Drops(ctx, "show"))), 1)

	object(g.PatchPolicy(ctx, "show", Object{"review": "messages"}))
	spoken := gift(4)
	spoken.Message = "hi"
	must[Posted](t)(g.Post(ctx, "show", spoken))
	is(must[[]Waiting](t)(g.Review(ctx, "show"))[0].ID, "g4")
	ok(g.Decide(ctx, "show", "g4", "approve"))
	ok(g.Block(ctx, "show", "troll", time.Time{}, true))
	is(must[[]Block](t)(g.Blocks(ctx, "show"))[0].User, "troll")
	ok(g.Unblock(ctx, "show", "troll"))
	ok(g.Control(ctx, "show", "pause", ""))
	is(object(g.Presence(ctx, "show"))["watchers"], 0.0)
	ok(g.DeleteGoal(ctx, "show", "mic"))
	object(g.PutPolicy(ctx, "show", Object{"capacity": 3}))
	ok(g.Revoke(ctx, "ann", time.Time{}))

	object(g.PutWebhook(ctx, "show", "game", WebhookSpec{URL: "http://127.0.0.1:9/", Secret: secret}))
	is(object(g.Webhook(ctx, "show", "game"))["state"], "active")
	is(len(must[[]Object](t)(g.Webhooks(ctx, "show"))), 1)
	ok(g.DeleteWebhook(ctx, "show", "game"))

	group := &Group{Client: g.Client, Feed: "show", Group: "g", Consumer: "c", Max: 2}
	entries := must[[]Entry](t)(group.Claim(ctx, time.Second))
	is(number(group.Ack(ctx, []string{entries[0].Cursor})), 1)
	is(number(group.Nack(ctx, []string{entries[1].Cursor})), 1)
	is(must[GroupState](t)(group.State(ctx)).Pending, int64(1))
	is(len(must[[]GroupState](t)(g.Groups(ctx, "show"))), 1)
	is(must[string](t)(group.Seek(ctx, SeekTo{Cursor: entries[0].Cursor})), entries[0].Cursor)
	is(len(must[[]Object](t)(group.DeadLetters(ctx))), 0)
	is(number(group.Replay(ctx, nil)), 0)
	ok(group.Delete(ctx))
	for found := ""; found != "show"; {
		ok(ctx.Err())
		ok(g.EachFeed(ctx, "sh", func(feed Object) error {
			found = feed["feed"].(string)
			return nil
		}))
	}
}
