// The calls of README.md with the client that openapi-generator makes for Go.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"

	tipcast "tipcast.example/generated/tipcast"
)

const feed = "go"

func check(what string, err error, facts ...bool) {
	if err != nil {
		fmt.Fprintln(os.Stderr, what, err)
		os.Exit(1)
	}
	for _, fact := range facts {
		if !fact {
			fmt.Fprintln(os.Stderr, what, facts)
			os.Exit(1)
		}
	}
}

func rose(user, id string) tipcast.Gift {
	gift := *tipcast.NewGift(*tipcast.NewGiftKind("rose", "Rose"), *tipcast.NewUser(user, user))
	gift.SetId(id)
	return gift
}

func main() {
	config := tipcast.NewConfiguration()
	config.Servers = tipcast.ServerConfigurations{{URL: os.Getenv("TIPCAST_URL")}}
	client, ctx := tipcast.NewAPIClient(config), context.Background()
	producer, drops, reports := client.ProducerAPI, client.DropsAPI, client.ReportsAPI

	gift := rose("ann", "g-1")
	gift.SetValue(*tipcast.NewMoney(150, "EUR"))
	gift.SetMeta(map[string]any{"a": 1})
	first, _, err := producer.PublishGift(ctx, feed).Gift(gift).Execute()
	check("post", err, first.GetStatus() == tipcast.GIFT_STATUS_ACCEPTED, first.GetSeq() == 1, !first.HasDuplicate())
	again, _, err := producer.PublishGift(ctx, feed).Gift(gift).Execute()
	check("post again", err, again.GetDuplicate(), again.GetRow() == first.GetRow())

	test := rose("ann", "g-1")
	test.SetTest(true)
	gifts := *tipcast.NewGiftBatch([]tipcast.Gift{rose("bob", "g-2"), test})
	batch, _, err := producer.PublishGiftBatch(ctx, feed).GiftBatch(gifts).Execute()
	check("batch", err, batch.GetAccepted() == 1, batch.GetRejected() == 1)
	wrong := batch.GetResults()[1].GetError()
	check("batch", nil, wrong.GetStatus() == 422)

	_, _, err = producer.PublishGift(ctx, "not a feed").Gift(gift).Execute()
	var refused *tipcast.GenericOpenAPIError
	var problem tipcast.Problem
	check("4xx", nil, errors.As(err, &refused))
	check("4xx", json.Unmarshal(refused.Body(), &problem), problem.GetStatus() == 422, strings.HasPrefix(problem.GetType(), "/problems/"))

	patch := *tipcast.NewPolicyPatch()
	patch.SetCapacity(5)
	patch.SetRowTtlMs(60_000)
	policy, _, err := producer.UpdatePolicy(ctx, feed).PolicyPatch(patch).Execute()
	check("policy", err, policy.GetCapacity() == 5)
	policy, _, err = producer.GetPolicy(ctx, feed).Execute()
	check("policy", err, policy.GetRowTtlMs() == 60_000)

	later := rose("cyd", "g-3")
	later.SetDelayMs(600_000)
	posted, _, err := producer.PublishGift(ctx, feed).Gift(later).Execute()
	check("scheduled", err, posted.GetStatus() == tipcast.GIFT_STATUS_SCHEDULED)
	page, _, err := producer.ListScheduledGifts(ctx, feed).Execute()
	check("scheduled", err, len(page.GetScheduled()) == 1, page.GetScheduled()[0].GetId() == "g-3")
	cancelled, _, err := producer.CancelScheduledGift(ctx, feed, "g-3").Execute()
	check("cancelled", err, string(cancelled.GetStatus()) == "cancelled")

	spec := *tipcast.NewDropSpec(*tipcast.NewGiftKind("r", "R"), 3)
	spec.SetPerUser(2)
	drop, _, err := drops.DefineDrop(ctx, feed, "rocket").DropSpec(spec).Execute()
	check("drop", err, drop.GetFree() == 3)
	claim := func(id, user string, pay tipcast.PaymentTime) *tipcast.ClaimResult {
		asked := *tipcast.NewDropClaim(pay, *tipcast.NewUser(user, user))
		asked.SetId(id)
		claimed, _, err := drops.ClaimDrop(ctx, feed, "rocket").DropClaim(asked).Execute()
		check("claim", err)
		return claimed
	}
	sold, held := claim("c-1", "ann", tipcast.PAYMENT_TIME_NOW), claim("c-2", "bob", tipcast.PAYMENT_TIME_LATER)
	check("claims", nil, sold.GetStatus() == tipcast.CLAIM_STATUS_SOLD, held.GetStatus() == tipcast.CLAIM_STATUS_HELD)
	confirmed, _, err := drops.ConfirmHold(ctx, feed, held.GetHold()).Execute()
	check("confirmed", err, confirmed.GetStatus() == tipcast.CLAIM_STATUS_SOLD)

	claimed, _, err := reports.ClaimEntries(ctx, feed, "game").GroupClaim(*tipcast.NewGroupClaim("c")).Execute()
	check("entries", err, len(claimed.GetEntries()) == 4)
	event := claimed.GetEntries()[0].GetGift()
	check("entries", nil, event.GetId() == "g-1")
	var cursors []string
	for _, entry := range claimed.GetEntries() {
		cursors = append(cursors, entry.GetCursor())
	}
	acked, _, err := reports.AckEntries(ctx, feed, "game").EntryCursors(*tipcast.NewEntryCursors(cursors)).Execute()
	check("ack", err, acked.GetAcked() == 4, acked.GetUnknown() == 0)

	list, _, err := client.WatchingAPI.GetFeed(ctx, feed).Execute()
	check("read", err, len(list.GetRows()) == 4)
	user := list.GetRows()[3].GetUser()
	check("read", nil, user.GetName() == "ann")
	// Every type of entry that there is, and one that there is not yet.
	config = tipcast.NewConfiguration()
	config.Servers = tipcast.ServerConfigurations{{URL: os.Getenv("SAMPLES_URL")}}
	samples := tipcast.NewAPIClient(config).ReportsAPI
	types, count, amount := map[string]bool{}, int64(0), int64(0)
	for {
		claimed, _, err := samples.ClaimEntries(ctx, feed, "game").GroupClaim(*tipcast.NewGroupClaim("c")).Execute()
		check("samples", err)
		if len(claimed.GetEntries()) == 0 {
			break
		}
		var cursors []string
		for _, entry := range claimed.GetEntries() {
			types[entry.GetType()] = true
			delta := entry.GetDelta()
			value := delta.GetValue()
			count += delta.GetCount()
			amount += value.GetAmount()
			cursors = append(cursors, entry.GetCursor())
		}
		acked, _, err := samples.AckEntries(ctx, feed, "game").EntryCursors(*tipcast.NewEntryCursors(cursors)).Execute()
		check("ack samples", err, acked.GetAcked() == int64(len(cursors)))
	}
	check("samples", nil, len(types) == 10, types["gift.polished"], count == 7, amount == 5740)
	fmt.Println("ok")
}
