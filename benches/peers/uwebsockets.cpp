// uWebSockets beside us: `POST /pub/FEED` goes to everybody who watches `/sub/FEED`, by its own topics.
#include <cstdlib>
#include <string>

#include "App.h"

struct Watcher {
    std::string feed;
};

int main(int, char **arguments) {
    uWS::App app;
    app.ws<Watcher>("/sub/:feed", {
        .compression = uWS::DISABLED,
        // Above what 256 messages take: at its default of 64 KiB a watcher that is behind loses messages.
        .maxBackpressure = 16 * 1024 * 1024,
        .upgrade = [](auto *answer, auto *request, auto *context) {
            answer->template upgrade<Watcher>({std::string(request->getParameter(0))},
                request->getHeader("sec-websocket-key"), request->getHeader("sec-websocket-protocol"),
                request->getHeader("sec-websocket-extensions"), context);
        },
        .open = [](auto *watcher) { watcher->subscribe(watcher->getUserData()->feed); },
    });
    app.post("/pub/:feed", [&app](auto *answer, auto *request) {
        answer->onAborted([] {});
        std::string feed(request->getParameter(0));
        answer->onData([&app, answer, feed, text = std::string()](std::string_view part, bool last) mutable {
            text.append(part);
            if (last) {
                app.publish(feed, text, uWS::OpCode::TEXT, false);
                answer->writeStatus("202 Accepted")->end();
            }
        });
    });
    app.listen("127.0.0.1", std::atoi(arguments[1]), [](auto *socket) {
        if (!socket) std::exit(1);
    });
    app.run();
}
