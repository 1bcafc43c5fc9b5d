//! x

mod support;
mod lua_headers;
mod redis_engine;
