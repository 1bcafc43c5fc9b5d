import java.util.HashSet;
import java.util.List;
import java.util.Set;
import java.util.Map;
import java.util.stream.Collectors;
import tipcast.ApiClient;
import tipcast.ApiException;
import tipcast.api.DropsApi;
import tipcast.api.ProducerApi;
import tipcast.api.ReportsApi;
import tipcast.api.WatchingApi;
import tipcast.model.*;

/** The calls of README.md with the client that openapi-generator makes for Java. */
public class Main {
    static final String FEED = "java";

    static void check(String what, boolean... facts) {
        for (boolean fact : facts) if (!fact) throw new AssertionError(what);
    }

    static Gift rose(String user, String id) {
        return new Gift().user(new User().id(user).name(user)).gift(new GiftKind().id("rose").name("Rose")).id(id);
    }

    public static void main(String[] args) throws Exception {
        ApiClient client = new ApiClient();
        client.updateBaseUri(System.getenv("TIPCAST_URL"));
        ProducerApi producer = new ProducerApi(client);
        DropsApi drops = new DropsApi(client);
        ReportsApi reports = new ReportsApi(client);

        Gift gift = rose("ann", "g-1").value(new Money().amount(150L).currency("EUR")).meta(Map.of("a", 1));
        GiftResult first = producer.publishGift(FEED, gift, null);
        check("post", first.getStatus() == GiftStatus.GIFT_STATUS_ACCEPTED, first.getSeq() == 1, first.getDuplicate() == null);
        GiftResult again = producer.publishGift(FEED, gift, null);
        check("post again", again.getDuplicate(), again.getRow().equals(first.getRow()));

        List<Gift> gifts = List.of(rose("bob", "g-2"), rose("ann", "g-1").test(true));
        GiftBatchResult batch = producer.publishGiftBatch(FEED, new GiftBatch().gifts(gifts));
        check("batch", batch.getAccepted() == 1, batch.getRejected() == 1, batch.getResults().get(1).getError().getStatus() == 422);

        try {
            producer.publishGift("not a feed", gift, null);
            throw new AssertionError("a feed of that name");
        } catch (ApiException refused) {
            Problem problem = client.getObjectMapper().readValue(refused.getResponseBody(), Problem.class);
            check("4xx", refused.getCode() == 422, problem.getType().startsWith("/problems/"), problem.getStatus() == 422);
        }

        Policy policy = producer.updatePolicy(FEED, new PolicyPatch().capacity(5L).rowTtlMs(60_000L));
        check("policy", policy.getCapacity() == 5, producer.getPolicy(FEED).getRowTtlMs() == 60_000);

        GiftResult later = producer.publishGift(FEED, rose("cyd", "g-3").delayMs(600_000L), null);
        List<ScheduledGift> scheduled = producer.listScheduledGifts(FEED, null, null).getScheduled();
        check("scheduled", later.getStatus() == GiftStatus.GIFT_STATUS_SCHEDULED, scheduled.get(0).getId().equals("g-3"));
        check("cancelled", producer.cancelScheduledGift(FEED, "g-3").getStatus() == CancelledStatus.CANCELLED_STATUS_CANCELLED);

        DropSpec spec = new DropSpec().gift(new GiftKind().id("r").name("R")).total(3L).perUser(2L);
        check("drop", drops.defineDrop(FEED, "rocket", spec).getFree() == 3);
        DropClaim now = new DropClaim().id("c-1").user(new User().id("ann").name("Ann")).pay(PaymentTime.PAYMENT_TIME_NOW);
        DropClaim hold = new DropClaim().id("c-2").user(new User().id("bob").name("Bob")).pay(PaymentTime.PAYMENT_TIME_LATER);
        ClaimResult sold = drops.claimDrop(FEED, "rocket", now, null);
        ClaimResult held = drops.claimDrop(FEED, "rocket", hold, null);
        check("claims", sold.getStatus() == ClaimStatus.CLAIM_STATUS_SOLD, held.getStatus() == ClaimStatus.CLAIM_STATUS_HELD);
        check("confirmed", drops.confirmHold(FEED, held.getHold()).getStatus() == ClaimStatus.CLAIM_STATUS_SOLD);

        List<LedgerEntry> entries = reports.claimEntries(FEED, "game", new GroupClaim().consumer("c")).getEntries();
        check("entries", entries.size() == 4, entries.get(0).getGift().getId().equals("g-1"));
        List<String> cursors = entries.stream().map(LedgerEntry::getCursor).collect(Collectors.toList());
        AckResult acked = reports.ackEntries(FEED, "game", new EntryCursors().cursors(cursors));
        check("ack", acked.getAcked() == 4, acked.getUnknown() == 0);

        List<Row> rows = new WatchingApi(client).getFeed(FEED, null).getRows();
        check("read", rows.get(rows.size() - 1).getUser().getName().equals("ann"));

        // Every type of entry that there is, and one that there is not yet.
        ApiClient other = new ApiClient();
        other.updateBaseUri(System.getenv("SAMPLES_URL"));
        ReportsApi samples = new ReportsApi(other);
        Set<String> types = new HashSet<>();
        long count = 0, amount = 0;
        while (true) {
            List<LedgerEntry> some = samples.claimEntries(FEED, "game", new GroupClaim().consumer("c")).getEntries();
            if (some.isEmpty()) break;
            for (LedgerEntry entry : some) {
                types.add(entry.getType());
                if (entry.getDelta() == null) continue;
                count += entry.getDelta().getCount();
                if (entry.getDelta().getValue() != null) amount += entry.getDelta().getValue().getAmount();
            }
            List<String> done = some.stream().map(LedgerEntry::getCursor).collect(Collectors.toList());
            check("ack samples", samples.ackEntries(FEED, "game", new EntryCursors().cursors(done)).getAcked() == done.size());
        }
        check("samples", types.size() == 10, types.contains("gift.polished"), count == 7, amount == 5740);
        System.out.println("ok");
    }
}
