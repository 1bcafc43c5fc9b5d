//! What the demo page says, by language.

use actix_web::HttpRequest;
use actix_web::http::header::ACCEPT_LANGUAGE;

macro_rules! words {
    ($($name:ident: $en:literal, $zh:literal;)*) => {
        /// The words of the page, in one language.
        pub(super) struct Words {
            $(pub(super) $name: &'static str,)*
        }

        static EN: Words = Words { $($name: $en,)* };
        static ZH: Words = Words { $($name: $zh,)* };
    };
}

words! {
    lang: "en", "zh";
    other_lang: "zh", "en";
    other_name: "中文", "English";
    claim: "Every gift, on every screen, at once", "每一份礼物，同时出现在每一块屏幕";
    feed: "Feed", "频道";
    feed_rule: "1 to 64 letters, digits, _ - .", "1 到 64 个字母、数字或 _ - .";
    watch: "Watch", "观看";
    theme: "Light or dark", "浅色或深色";
    on_air: "On air", "直播礼物";
    send_title: "Send a gift", "送礼物";
    viewer: "Viewer", "观众";
    viewer_hint: "Your name", "你的名字";
    gift: "Gift", "礼物";
    count: "Count", "数量";
    message: "Message", "留言";
    optional: "optional", "可选";
    later: "Send in 10 s", "10 秒后送出";
    drops_title: "Limited", "限量";
    drops_none: "A few of a kind: first come, first served.", "数量有限，先到先得。";
    drops_start: "Start a drop", "开始限量发售";
    as_test: "Test gift", "测试礼物";
    show_title: "Tonight", "今晚";
    show_none: "A goal that everybody fills, and who gives most.", "大家一起完成的目标，以及贡献榜。";
    show_start: "Start a goal", "设定目标";
    show_points: "Points", "积分";
    show_leaders: "Leaders", "贡献榜";
    show_review: "Messages wait for the host", "留言先由主播审核";
    show_refund: "Refund my last gift", "退回我的上一份礼物";
    key: "Producer key", "生产者密钥";
    key_hint: "This gateway takes gifts only with a key.", "此网关只接受带密钥的礼物。";
    no_keys: "There are no keys: everybody who reaches this port may write.", "没有设置密钥：任何能访问此端口的人都可以写入。";
    no_keys_more: "So do proxies and tunnels on this machine, for everybody they let in. Before you open it to others, make a key:", "本机上的代理和隧道也会替它们放行的所有人写入。对外开放之前，请先创建密钥：";
    send: "Send", "送出";
    burst: "Burst", "礼物雨";
    state: "Connection", "连接";
    position: "Position", "位置";
    latency: "POST → seen", "发送到显示";
    watchers: "Viewers", "观看人数";
    take_title: "Take it with you", "用在你自己的地方";
    by_curl: "Send from your backend", "从后端发送";
    by_embed: "Show on your page", "嵌入你的网页";
    by_obs: "Show in OBS, as a browser source", "在 OBS 中作为浏览器源";
    open: "Open", "打开";
    loader: "Loader", "加载页";
    loader_hint: "A file that waits until the gateway is up", "等待网关启动的本地文件";
    copy: "Copy", "复制";
    console: "Console", "控制台";
    console_key: "Admin key, or a key with the right to observe", "管理密钥，或有 observe 权限的密钥";
    health: "Health", "健康";
    nodes: "Nodes", "节点";
    begins_with: "Begins with", "开头";
    first_gift: "No feed yet. Send a gift, and put the feed on a page:", "还没有频道。送出一份礼物，并把频道放到网页上：";
    gift_search: "Where is my gift?", "我的礼物在哪里？";
    gift_id: "Gift id, or claim id of a sale", "礼物 ID 或售出的认领 ID";
    giver: "Or part of a giver's name or id", "或送礼人名称或 ID 的一部分";
    gift_hint: "Without a feed, the id is looked up in every feed. Givers are searched among today's gifts of one feed.", "不填频道时在所有频道中查找 ID；按送礼人只查找一个频道今天的礼物。";
    overview: "Overview", "概览";
    ledger: "Ledger", "账本";
    readers: "Webhooks and groups", "Webhook 与消费组";
    access: "Keys and audit", "密钥与审计";
    keys: "Keys", "密钥";
    audit: "Audit log", "审计日志";
    entry_type: "Type", "类型";
    user_id: "User id", "用户 ID";
    from: "From", "从";
    to: "To", "到";
    show: "Show", "显示";
    search: "Search", "搜索";
    find: "Find", "查找";
    forget: "Forget the key", "清除密钥";
    feeds: "Feeds", "频道";
    groups: "Groups", "消费组";
    webhooks: "Webhooks", "Webhook";
    dead: "Dead letters", "死信";
    demo: "Demo", "演示";
    pages: "Pages", "页面";
    api_docs: "API", "API 文档";
    protocol_docs: "Live protocol", "实时协议";
    host_desk: "Host's desk", "主播台";
    host_key: "Key with the right to moderate", "有管理权限的密钥";
    overlays: "Overlays", "直播画面";
    waits: "Waiting for you", "等待处理";
    waits_none: "Nothing waits. Which gifts do is in the feed's policy, as review.", "没有等待的礼物。哪些礼物需要审核由频道策略 review 决定。";
    desk_keys: "A approve · M mask · D deny · Z undo · ↑ ↓ choose · P pause · S skip · U mute", "A 通过 · M 隐藏文字 · D 拒绝 · Z 撤销 · ↑ ↓ 选择 · P 暂停 · S 跳过 · U 静音";
    least: "Amount from", "金额从";
    live_none: "No gift yet.", "还没有礼物。";
    numbers: "Totals and goals", "统计与目标";
    blocked: "Blocked users", "已屏蔽的用户";
    sources: "Sources", "来源";
    no_script: "This page needs JavaScript. Without it, read", "此页面需要 JavaScript。没有它时，请读取";
}

impl Words {
    /// As `?lang=` asks, else as the browser does, else English.
    pub(super) fn of(req: &HttpRequest, asked: Option<&str>) -> &'static Words {
        let header = req.headers().get(ACCEPT_LANGUAGE).and_then(|value| value.to_str().ok());
        asked.and_then(spoken).or_else(|| header.and_then(preferred)).unwrap_or(&EN)
    }
}

fn spoken(tag: &str) -> Option<&'static Words> {
    let language = tag.split(['-', '_']).next().unwrap_or_default();
    match language.to_ascii_lowercase().as_str() {
        "en" => Some(&EN),
        "zh" => Some(&ZH),
        _ => None,
    }
}

/// The best of what is spoken here, by the weights of RFC 9110 section 12.5.4.
fn preferred(header: &str) -> Option<&'static Words> {
    let mut best: Option<(f32, &'static Words)> = None;
    for entry in header.split(',') {
        let mut parts = entry.split(';');
        let words = spoken(parts.next().unwrap_or_default().trim());
        let weight = parts.find_map(|part| part.trim().strip_prefix("q="));
        let weight = weight.map_or(1.0, |q| q.parse().unwrap_or(0.0));
        if let Some(words) = words
            && weight > best.map_or(0.0, |(most, _)| most)
        {
            best = Some((weight, words));
        }
    }
    best.map(|(_, words)| words)
}

#[cfg(test)]
mod tests {
    use actix_web::test::TestRequest;

    use super::*;

    fn lang(asked: Option<&str>, header: &'static str) -> &'static str {
        let req = TestRequest::default().insert_header((ACCEPT_LANGUAGE, header)).to_http_request();
        Words::of(&req, asked).lang
    }

    #[test]
    fn the_page_speaks_what_is_asked_for_and_else_what_the_browser_prefers() {
        assert_eq!(lang(None, ""), "en");
        assert_eq!(lang(None, "zh-CN,zh;q=0.9,en;q=0.8"), "zh");
        assert_eq!(lang(None, "en;q=0.4, zh-TW;q=0.5"), "zh");
        assert_eq!(lang(None, "de-DE, fr;q=0.9, *;q=0.1"), "en");
        assert_eq!(lang(None, "zh;q=0, en;q=zero"), "en");
        assert_eq!(lang(Some("zh"), "en"), "zh");
        assert_eq!(lang(Some("EN_us"), "zh"), "en");
        assert_eq!(lang(Some("tlh"), "zh"), "zh");
    }
}
