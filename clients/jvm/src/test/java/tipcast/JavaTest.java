package tipcast;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;

/** The client as Java sees it. */
class JavaTest {
    @Test
    void watchesAndPosts() throws Exception {
        try (Gateway gateway = Gateway.Companion.start()) {
            CompletableFuture<Row> first = new CompletableFuture<>();
            FeedListener listener = new FeedListener() {
                @Override
                public void onChange(FeedList list, Change change) {
                    if (!list.getRows().isEmpty()) first.complete(list.getRows().get(0));
                }
            };
            try (Watcher watcher = new Watcher.Builder(gateway.getUrl(), "show").token(feed -> null).start(listener)) {
                watcher.pause();
            }
            try (Watcher watcher = new Watcher.Builder(gateway.getUrl(), "show").start(listener)) {
                Producer producer = new Producer(gateway.getUrl());
                Gift gift = new Gift(new User("u1", "Mia"), new GiftKind("rose", "Rose"));
                assertEquals("accepted", producer.post("show", gift).getStatus());
                assertEquals("Mia", first.get(90, TimeUnit.SECONDS).getUser().getName());
            }
            new Group(new Producer(gateway.getUrl()), "show", "game").step(0, entry -> {});
        }
    }
}
