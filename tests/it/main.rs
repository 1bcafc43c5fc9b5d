//! x

mod engines_agree;
mod lua_headers;
mod redis_chaos;
mod redis_engine;
mod support;
