//! x

mod lua_headers;
mod redis_engine;
mod support;
