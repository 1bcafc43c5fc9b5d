//! What a script may do, asked before it does anything.
//!
//! Redis refuses a command only when a script comes to it, and takes back nothing that the script did before. A user whose rights
//! were cut would be left with half of a gift: its money in the ledger, no receipt, and more money with each retry. So every script
//! begins with a check of the commands that its text names, of its keys and of its channels. Rights may change at any time, so each
//! call asks. Keys are checked together. All of it is 5 % of the instructions of Redis 7.0 for a lone gift, and 3 % for a gift in a
//! batch of 64 (`benches/redis_instructions.py`).

use std::fmt::Write;

use super::header::Header;

/// Every command that a script names, or that is sent alone about a key. The ACL lines in docs/OPERATING.md have all of them.
pub const COMMANDS: &str = "DEL EXISTS GET HDEL HEXISTS HGET HGETALL HINCRBY HKEYS HLEN HMGET HSCAN HSET HVALS LINDEX LLEN LPUSH LRANGE \
                            LSET LTRIM MGET PERSIST PEXPIRE RPUSH SCAN SET SPUBLISH TIME UNLINK ZADD ZCARD ZCOUNT ZLEXCOUNT \
                            ZMSCORE ZRANGE ZRANGEBYLEX ZRANGEBYSCORE ZRANK ZREM ZREMRANGEBYRANK ZSCAN ZSCORE";

/// Those of them that change nothing, and that no script calls once it has written.
const READING: &str = "GET HEXISTS HGET HGETALL HKEYS HLEN HMGET HSCAN HVALS LINDEX LLEN LRANGE MGET SCAN TIME ZCARD ZCOUNT \
                       ZLEXCOUNT ZMSCORE ZRANGEBYLEX ZRANGEBYSCORE ZRANK ZSCAN ZSCORE";

/// What is asked for a text.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum ScriptNeeds {
    /// Every command that it names.
    All,
    /// Those that write: all reads come before the first write, and one that is refused ends the script there.
    Writes,
    /// Those of a module that write, where it is made; nothing is written before. Keys were asked about.
    WritesOfModule,
}

/// The script of readiness, which is to fail where any other would.
const PROBE: &str = "probe";

/// Keys that one check takes: Lua cannot unpack much more.
const KEYS_AT_ONCE: usize = 4_000;

/// The Lua text that ends a script, with an error that names what is missing, where `body` could not run to its end.
pub(super) fn check(name: &str, header: &Header, body: &str, asked: ScriptNeeds) -> String {
    let mut missing = String::new();
    let named = |it: &&str| name == PROBE || body.contains(&format!("'{it}'"));
    let is_asked = |it: &&str| asked == ScriptNeeds::All || !READING.split(' ').any(|reading| reading == *it);
    for command in COMMANDS.split(' ').filter(named).filter(is_asked) {
        let channels = header.args.iter().enumerate().filter(|(_, arg)| arg.ends_with("channel"));
        let asked: Vec<String> = match command {
            "SPUBLISH" => channels.map(|(at, _)| format!("'SPUBLISH', ARGV[{}], ''", at + 1)).collect(),
            "SCAN" | "TIME" => vec![format!("'{command}'")],
            // Of these two all keys are checked below. The others never go without a key: to find the keys of a SET, Redis reads the
            // argument behind the command's name without looking whether there is one.
            "DEL" | "MGET" => continue,
            _ => vec![format!("'{command}', key")],
        };
        for asked in asked {
            let _ = write!(missing, "not can({asked}) and '{command}' or ");
        }
    }
    let reading = match asked {
        ScriptNeeds::All => "or not can('MGET', unpack(KEYS, first, last)) and 'MGET of its keys' ",
        _ => "",
    };
    let keys = format!(
        "for first = 1, #KEYS, {KEYS_AT_ONCE} do\n\
         local last = math.min(first + {KEYS_AT_ONCE} - 1, #KEYS)\n\
         missing = missing {reading}or not can('DEL', unpack(KEYS, first, last)) and 'DEL of its keys' or nil\n\
         end\n"
    );
    let (keys, ends) = match asked {
        ScriptNeeds::WritesOfModule if missing.is_empty() => return missing,
        ScriptNeeds::WritesOfModule => ("", "error("),
        _ => (keys.as_str(), "return ("),
    };
    format!(
        "do\n\
         local can, key = redis.acl_check_cmd, KEYS[1]\n\
         local missing = {missing}nil\n\
         {keys}\
         if missing then {ends}redis.error_reply('NOPERM {name} needs ' .. missing)) end\n\
         end\n"
    )
}
