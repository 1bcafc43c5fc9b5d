//! Commands about sorted sets.

use std::cmp::Ordering;

use super::changes::Undo;
use super::command::{Answer, CommandSession, cursor_of, fits, scan_options};
use super::effect::{Effect, Name};
use super::lists::{index_range, range_of};
use super::numbers::{float, integer, write_float};
use super::ranked::Ranked;
use super::reply::{NO_FLOAT, NO_INTEGER, Reply, SYNTAX};
use super::stored::{Collection, ZSet};

/// One end of a range of scores.
#[derive(Clone, Copy)]
struct ScoreBound {
    score: f64,
    excluded: bool,
}

fn score_bound(word: &[u8]) -> Result<ScoreBound, &'static str> {
    let (word, excluded) = word.strip_prefix(b"(").map_or((word, false), |rest| (rest, true));
    // No digits at all are a zero to C, and so to Redis.
    let score = if word.is_empty() { Some(0.0) } else { float(word) };
    Ok(ScoreBound { score: score.ok_or("ERR min or max is not a float")?, excluded })
}

/// One end of a range of members of one score.
enum LexBound<'a> {
    Lowest,
    Highest,
    Included(&'a [u8]),
    Excluded(&'a [u8]),
}

fn lex_bound(word: &[u8]) -> Result<LexBound<'_>, &'static str> {
    match word {
        b"-" => Ok(LexBound::Lowest),
        b"+" => Ok(LexBound::Highest),
        [b'[', member @ ..] => Ok(LexBound::Included(member)),
        [b'(', member @ ..] => Ok(LexBound::Excluded(member)),
        _ => Err("ERR min or max not valid string range item"),
    }
}

impl ZSet {
    /// The ranks whose scores are within.
    fn by_score(&self, least: ScoreBound, most: ScoreBound) -> (usize, usize) {
        let from =
            self.order.partition(|it| it.score < least.score || least.excluded && it.score == least.score);
        let to = self.order.partition(|it| it.score < most.score || !most.excluded && it.score == most.score);
        (from, to.max(from))
    }

    /// The ranks whose members are within; all members must have one score.
    fn by_lex(&self, least: &LexBound<'_>, most: &LexBound<'_>) -> (usize, usize) {
        let from = self.order.partition(|it| match least {
            LexBound::Lowest => false,
            LexBound::Highest => true,
            LexBound::Included(member) => *it.member < **member,
            LexBound::Excluded(member) => *it.member <= **member,
        });
        let to = self.order.partition(|it| match most {
            LexBound::Lowest => false,
            LexBound::Highest => true,
            LexBound::Included(member) => *it.member <= **member,
            LexBound::Excluded(member) => *it.member < **member,
        });
        (from, to.max(from))
    }
}

/// What follows a range in a command.
#[derive(Default)]
struct RangeOptions {
    by_score: bool,
    by_lex: bool,
    reversed: bool,
    with_scores: bool,
    limit: Option<(i64, i64)>,
}

fn range_options(words: &[&[u8]], allowed: &[&str]) -> Result<RangeOptions, &'static str> {
    let mut options = RangeOptions::default();
    let mut words = words.iter();
    while let Some(word) = words.next() {
        let name = String::from_utf8_lossy(word).to_ascii_lowercase();
        if !allowed.contains(&name.as_str()) {
            return Err(SYNTAX);
        }
        match name.as_str() {
            "byscore" => options.by_score = true,
            "bylex" => options.by_lex = true,
            "rev" => options.reversed = true,
            "withscores" => options.with_scores = true,
            _ => {
                let (Some(skip), Some(most)) = (words.next(), words.next()) else { return Err(SYNTAX) };
                options.limit = Some((integer(skip).ok_or(NO_INTEGER)?, integer(most).ok_or(NO_INTEGER)?));
            }
        }
    }
    Ok(options)
}

impl CommandSession<'_> {
    /// The members of these ranks as the options want them.
    fn members(&self, key: &[u8], (from, to): (usize, usize), options: &RangeOptions) -> Answer {
        let Some(set) = self.zset(key)? else { return Ok(Reply::Array(Vec::new())) };
        let (skip, most) = options.limit.unwrap_or((0, -1));
        let (Ok(skip), most) = (usize::try_from(skip), usize::try_from(most).unwrap_or(usize::MAX)) else {
            return Ok(Reply::Array(Vec::new()));
        };
        let count = (to - from).saturating_sub(skip).min(most);
        let first =
            if options.reversed { to.saturating_sub(skip).saturating_sub(count) } else { from + skip };
        let mut found: Vec<&Ranked> = set.order.ranks(first, first + count).collect();
        if options.reversed {
            found.reverse();
        }
        Ok(Reply::texts(found.into_iter().flat_map(|it| {
            let score = options.with_scores.then(|| write_float(it.score));
            std::iter::once(it.member.to_vec()).chain(score)
        })))
    }

    fn set_score(&mut self, key: &[u8], member: &[u8], score: Option<f64>) -> Option<f64> {
        let made = || Collection::Set(ZSet::default());
        let held = self.space.collection_for(key, made, self.changes);
        let (key, Collection::Set(set)) = (held.name.clone(), &mut held.value) else { return None };
        let before = set.set(member, score);
        if before.is_some() || score.is_some() {
            let member: Name = member.into();
            self.changes.undo.push(Undo::Score { key: key.clone(), member: member.clone(), before });
            self.changes.effects.push(Effect::Score { key, member, score });
        }
        before
    }

    pub(super) fn zadd(&mut self, words: &[&[u8]]) -> Answer {
        let lowers_only = words[1].eq_ignore_ascii_case(b"lt");
        let pairs = &words[if lowers_only { 2 } else { 1 }..];
        if pairs.is_empty() || !pairs.len().is_multiple_of(2) {
            return Err(SYNTAX);
        }
        let scores: Vec<f64> =
            pairs.chunks_exact(2).map(|pair| float(pair[0]).ok_or(NO_FLOAT)).collect::<Result<_, _>>()?;
        self.zset(words[0])?;
        self.space.forget_expired(words[0], self.now, self.changes);
        let mut new = 0;
        for (pair, score) in pairs.chunks_exact(2).zip(scores) {
            let known = self.zset(words[0])?.and_then(|set| set.scores.get(pair[1]).copied());
            if known.is_some_and(|known| known == score || lowers_only && known < score) {
                continue;
            }
            self.set_score(words[0], pair[1], Some(score));
            new += i64::from(known.is_none());
        }
        Ok(Reply::Int(new))
    }

    pub(super) fn zrem(&mut self, words: &[&[u8]]) -> Answer {
        if self.zset(words[0])?.is_none() {
            return Ok(Reply::Int(0));
        }
        let mut gone = 0;
        for member in &words[1..] {
            gone += i64::from(self.set_score(words[0], member, None).is_some());
        }
        self.space.drop_empty(words[0], self.changes);
        Ok(Reply::Int(gone))
    }

    pub(super) fn zcard(&mut self, words: &[&[u8]]) -> Answer {
        Ok(Reply::Int(self.zset(words[0])?.map_or(0, |set| set.scores.len() as i64)))
    }

    pub(super) fn zscore(&mut self, words: &[&[u8]]) -> Answer {
        let score = self.zset(words[0])?.and_then(|set| set.scores.get(words[1]));
        Ok(Reply::optional(score.map(|score| write_float(*score))))
    }

    pub(super) fn zrank(&mut self, words: &[&[u8]]) -> Answer {
        let rank = self.zset(words[0])?.and_then(|set| {
            let score = *set.scores.get(words[1])?;
            Some(set.order.partition(|it| it.compare(score, words[1]) == Ordering::Less))
        });
        Ok(rank.map_or(Reply::Nil, |rank| Reply::Int(rank as i64)))
    }

    pub(super) fn zmscore(&mut self, words: &[&[u8]]) -> Answer {
        let set = self.zset(words[0])?;
        let one = |member: &&[u8]| {
            Reply::optional(set.and_then(|set| set.scores.get(member)).map(|score| write_float(*score)))
        };
        Ok(Reply::Array(words[1..].iter().map(one).collect()))
    }

    pub(super) fn zcount(&mut self, words: &[&[u8]]) -> Answer {
        let (least, most) = (score_bound(words[1])?, score_bound(words[2])?);
        let (from, to) = self.zset(words[0])?.map_or((0, 0), |set| set.by_score(least, most));
        Ok(Reply::Int((to - from) as i64))
    }

    pub(super) fn zlexcount(&mut self, words: &[&[u8]]) -> Answer {
        let (least, most) = (lex_bound(words[1])?, lex_bound(words[2])?);
        let (from, to) = self.zset(words[0])?.map_or((0, 0), |set| set.by_lex(&least, &most));
        Ok(Reply::Int((to - from) as i64))
    }

    pub(super) fn zrange(&mut self, words: &[&[u8]]) -> Answer {
        let options = range_options(&words[3..], &["byscore", "bylex", "rev", "withscores", "limit"])?;
        if options.by_score && options.by_lex {
            return Err(SYNTAX);
        }
        if options.limit.is_some() && !options.by_score && !options.by_lex {
            return Err(
                "ERR syntax error, LIMIT is only supported in combination with either BYSCORE or BYLEX",
            );
        }
        if options.with_scores && options.by_lex {
            return Err("ERR syntax error, WITHSCORES not supported in combination with BYLEX");
        }
        // A reversed range is given from its end.
        let (least, most) = if options.reversed { (words[2], words[1]) } else { (words[1], words[2]) };
        if options.by_score {
            let (least, most) = (score_bound(least)?, score_bound(most)?);
            let ranks = self.zset(words[0])?.map_or((0, 0), |set| set.by_score(least, most));
            return self.members(words[0], ranks, &options);
        }
        if options.by_lex {
            let (least, most) = (lex_bound(least)?, lex_bound(most)?);
            let ranks = self.zset(words[0])?.map_or((0, 0), |set| set.by_lex(&least, &most));
            return self.members(words[0], ranks, &options);
        }
        let range = index_range(words[1], words[2])?;
        let length = self.zset(words[0])?.map_or(0, |set| set.scores.len());
        let (from, to) = range_of(range, length);
        let ranks = if options.reversed { (length - to, length - from) } else { (from, to) };
        self.members(words[0], if from == to { (0, 0) } else { ranks }, &options)
    }

    pub(super) fn zrangebyscore(&mut self, words: &[&[u8]]) -> Answer {
        let options = range_options(&words[3..], &["withscores", "limit"])?;
        let (least, most) = (score_bound(words[1])?, score_bound(words[2])?);
        let ranks = self.zset(words[0])?.map_or((0, 0), |set| set.by_score(least, most));
        self.members(words[0], ranks, &options)
    }

    pub(super) fn zrangebylex(&mut self, words: &[&[u8]]) -> Answer {
        let options = range_options(&words[3..], &["limit"])?;
        let (least, most) = (lex_bound(words[1])?, lex_bound(words[2])?);
        let ranks = self.zset(words[0])?.map_or((0, 0), |set| set.by_lex(&least, &most));
        self.members(words[0], ranks, &options)
    }

    pub(super) fn zremrangebyrank(&mut self, words: &[&[u8]]) -> Answer {
        let range = index_range(words[1], words[2])?;
        let length = self.zset(words[0])?.map_or(0, |set| set.scores.len());
        let (from, to) = range_of(range, length);
        let members: Vec<_> = self
            .zset(words[0])?
            .into_iter()
            .flat_map(|set| set.order.ranks(from, to))
            .map(|it| it.member.clone())
            .collect();
        for member in &members {
            self.set_score(words[0], member, None);
        }
        self.space.drop_empty(words[0], self.changes);
        Ok(Reply::Int(members.len() as i64))
    }

    pub(super) fn zscan(&mut self, words: &[&[u8]]) -> Answer {
        let (cursor, options) = (cursor_of(words[1])?, scan_options(&words[2..])?);
        let (next, found) = match self.zset(words[0])? {
            Some(set) => set.scores.scan(cursor, options.count),
            None => (0, Vec::new()),
        };
        let found = found
            .into_iter()
            .filter(|(member, _)| options.pattern.is_none_or(|pattern| fits(pattern, member)));
        let found = Reply::texts(found.flat_map(|(member, score)| [member.to_vec(), write_float(*score)]));
        Ok(Reply::Array(vec![Reply::Bulk(next.to_string().into_bytes()), found]))
    }
}
