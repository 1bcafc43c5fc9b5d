// Runs in a page of the gateway, with a clock of its own; what it ends with goes to arguments[0]:
// "ok", or what is wrong. See client.rs.

const done = arguments[0];

const equal = (got, wanted, what) => {
  const [a, b] = [JSON.stringify(got), JSON.stringify(wanted)];
  if (a !== b) throw new Error(`${what}: ${a}, not ${b}`);
};

const SECOND = 1000;
/** The page's clock is five minutes behind the gateway's. */
const BEHIND = 300 * SECOND;
const BEGUN = Date.parse("2026-01-31T20:00:00Z");

/** A row added at `seq`, `s` seconds after the page began. */
const row = (seq, s, rev = 1) => ({
  row: `r${seq}`, seq, rev, at: new Date(BEGUN + s * SECOND).toISOString(), updated_at: new Date(BEGUN + s * SECOND).toISOString(),
});

function overlay(kind, options) {
  const shown = new kind({ max: 3, maxAge: 60 * SECOND, hideAfter: 8 * SECOND, begun: BEGUN, ...options });
  const clock = (s) => BEGUN + s * SECOND - BEHIND;
  return {
    list(s, rows, { ops, control, epoch = "e", seq = rows[0]?.seq ?? 0, capacity = 3 } = {}) {
      const change = ops ? { kind: "delta", ops } : { kind: "snapshot", skipped: 0 };
      shown.take({ epoch, seq, capacity, rows, control }, change, clock(s), BEGUN + s * SECOND);
    },
    sees: (s, wanted, what) => equal(shown.shown(clock(s)).map((r) => `${r.row}.${r.rev}`).join(" "), wanted, what),
    next: (s) => shown.next(clock(s)) - clock(s),
  };
}

function alerts({ Alerts }) {
  const o = overlay(Alerts);
  o.list(1, [row(5, -30), row(4, -400)]);
  o.sees(1, "", "older than the page is no alert");
  o.list(2, [row(6, 2), row(5, -30)], { ops: [] });
  o.sees(2, "r6.1", "newer is one");
  equal(o.next(2), 8 * SECOND, "it asks to be looked at again when it is over");
  o.list(6, [row(6, 2, 2), row(5, -30)], { ops: [] });
  o.sees(13.9, "r6.2", "a combo stays for as long again");
  o.sees(14, "", "and then is over");
  o.list(15, [row(6, 2, 3), row(5, -30)], { ops: [] });
  o.sees(15, "", "over is over");
  o.list(16, [row(6, 2, 3), row(5, -30)]);
  o.sees(16, "", "a snapshot repeats nothing");

  o.list(20, [row(9, 20), row(8, 20), row(7, 20)], { ops: [] });
  o.list(21, [row(12, 21), row(11, 21), row(10, 21)], { ops: [] });
  o.sees(21, "r12.1 r11.1 r10.1", "no more than max, the newest");
  o.list(21, [row(12, 21), row(10, 21)], { seq: 13, ops: [{ op: "remove", row: "r11" }] });
  o.sees(21, "r12.1 r10.1", "taken back is gone at once");
  o.list(22, [row(16, 22), row(15, 22), row(14, 22)]);
  o.sees(22, "r16.1 r15.1 r14.1", "missed meanwhile and young: alerts, once");
  o.list(23, [row(18, 23), row(16, 22), row(14, 22)]);
  o.sees(23, "r18.1 r16.1 r14.1", "not in a whole list any more: taken back");
  o.list(24, [row(21, 24), row(20, 24), row(19, 24)], { ops: [] });
  // Hidden or frozen for an hour: what is past is past, nothing is played back.
  o.sees(3600, "", "an hour later");
  o.list(3600, [row(90, 3599), row(89, 3000), row(88, 2000)]);
  o.sees(3600, "r90.1", "too old is no alert");

  const pushed = overlay(Alerts);
  pushed.list(1, [row(1, 0.5)], { capacity: 1 });
  pushed.sees(1, "r1.1", "newer than the page, though in its first list");
  pushed.list(2, [row(2, 2)], { capacity: 1, ops: [] });
  pushed.sees(2, "r2.1 r1.1", "pushed out by a newer row is no reason to leave early");

  const fresh = overlay(Alerts, { begun: Infinity });
  fresh.list(1, [], { epoch: "0" });
  fresh.list(2, [row(1, 2)], { epoch: "e" });
  fresh.sees(2, "r1.1", "the first gift of a feed is an alert");
  fresh.list(3, [row(5, 3), row(4, -9)], { epoch: "f" });
  fresh.sees(3, "", "after a new numbering the time would tell, and is not known");

  const reborn = overlay(Alerts, { hideAfter: 0 });
  reborn.list(1, [row(9, -9)]);
  reborn.list(2, [row(3, 2), row(2, -5)], { epoch: "f" });
  reborn.sees(1e6, "r3.1", "a new numbering: the time tells; hide_after=0 stays");
  equal(reborn.next(3), Infinity, "and never asks");
}

/** What a host says while a show runs. */
function controlled({ Alerts }) {
  const o = overlay(Alerts);
  const say = (action, row) => ({ ops: [{ op: "control", action, row }] });
  const paused = { paused: true, muted: false };
  o.list(1, [row(1, 1)], { ops: [] });
  o.list(2, [row(1, 1)], { ...say("pause"), control: paused });
  o.sees(2, "r1.1", "what is shown runs out as it would");
  o.list(3, [row(2, 3), row(1, 1)], { ops: [], control: paused });
  o.list(4, [row(3, 4), row(2, 3, 2), row(1, 1)], { ops: [], control: paused });
  o.sees(4, "r1.1", "new ones wait");
  o.sees(10, "", "and nothing is shown meanwhile");
  o.list(60, [row(3, 4), row(1, 1)], { ops: [{ op: "remove", row: "r2" }], control: paused });
  o.list(70, [row(5, 70), row(4, 69), row(3, 4, 7)], { control: paused });
  o.sees(70, "", "a reconnect shows nothing either");
  o.list(80, [row(5, 70), row(4, 69), row(3, 4, 7)], say("resume"));
  o.sees(80, "r5.1 r4.1 r3.7", "then each once, as it is by now, but what was taken back");
  o.sees(88, "", "for as long as others");

  o.list(90, [row(7, 90), row(6, 90)], { ops: [] });
  o.list(91, [row(7, 90), row(6, 90)], { ...say("skip"), seq: 8 });
  o.sees(91, "r6.1", "the newest is skipped");
  o.list(92, [row(7, 90), row(6, 90)], { ...say("skip", "r7"), seq: 9 });
  o.sees(92, "r6.1", "one that is gone is not skipped twice");
  o.list(93, [row(7, 90), row(6, 90)], { ...say("skip", "r6"), seq: 10 });
  o.list(94, [row(7, 90), row(6, 90)], { ...say("skip"), seq: 11 });
  o.sees(94, "", "nothing is left to be skipped");
  o.list(100, [row(7, 90), row(6, 90)], { ...say("replay", "r6"), seq: 12 });
  o.sees(100, "r6.1", "shown again");
  o.sees(108, "", "once, for as long as others");
  o.list(109, [row(7, 90), row(6, 90)], { ...say("replay", "r1"), seq: 13 });
  o.sees(109, "", "not in the list: nothing to show");
  o.list(110, [row(7, 90), row(6, 90)], { ops: [{ op: "control", action: "dance" }], seq: 14 });
  o.sees(110, "", "a word of a later version");
}

function standing({ Standing }) {
  const o = overlay(Standing);
  o.list(1, [row(3, 0), row(2, -5), row(1, -60)]);
  o.sees(1, "r3.1 r2.1", "what changed lately");
  equal(o.next(1), 2 * SECOND, "what is over already is not waited for");
  o.sees(3, "r3.1", "by the clock");
  const all = overlay(Standing, { hideAfter: 0, max: 2 });
  all.list(1, [row(3, 0), row(2, -5), row(1, -60)]);
  all.sees(1e6, "r3.1 r2.1", "the list as it stands, cut");
}

import("/static/alerts.js")
  .then((rules) => {
    alerts(rules);
    controlled(rules);
    standing(rules);
    done("ok");
  })
  .catch((error) => done(String(error.stack ?? error)));
