/** What the ticker and the overlay say, by language. Functions get numbers already formatted. */

const EN = {
  title: "Gifts",
  empty: "No gifts yet",
  sent: "sent",
  test: "Test",
  now: "now",
  pause: "Pause",
  resume: "Resume",
  waiting: (n) => `${n} new`,
  connecting: "Connecting …",
  live: "Live",
  retrying: (s) => `Reconnecting in ${s} s`,
  closed: "Closed",
  summary: (n, latest) => (n === "1" ? latest : `${n} new gifts. Latest: ${latest}`),
  line: (who, count, gift) => `${who} sent ${gift} ×${count}`,
  // By the code with which the connection was closed: no token, or one for another feed.
  refused: { 4001: "Private: its link needs a token", 4003: "This link is for another feed" },
};

const ZH = {
  title: "礼物",
  empty: "还没有礼物",
  sent: "送出",
  test: "测试",
  now: "刚刚",
  pause: "暂停",
  resume: "继续",
  waiting: (n) => `${n} 条新礼物`,
  connecting: "正在连接…",
  live: "直播中",
  retrying: (s) => `${s} 秒后重新连接`,
  closed: "已断开",
  summary: (n, latest) => (n === "1" ? latest : `${n} 个新礼物。最新：${latest}`),
  line: (who, count, gift) => `${who} 送出 ${gift} ×${count}`,
  refused: { 4001: "链接需要令牌", 4003: "链接不适用" },
};

/** A language tag that Intl knows, or none. */
function canonical(tag) {
  try {
    return Intl.getCanonicalLocales(tag ?? [])[0];
  } catch {
    return undefined;
  }
}

/**
 * The language to speak: the one asked for, else the browser's. `locale` is for Intl and keeps
 * regions ("de-CH" has its own numbers, also beside English words).
 */
export function speak(asked) {
  const locale = canonical(asked || undefined) ?? canonical(globalThis.navigator?.language) ?? "en";
  return { locale, words: /^zh\b/i.test(locale) ? ZH : EN };
}
