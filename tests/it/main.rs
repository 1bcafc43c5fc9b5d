//! The integration tests: one binary, files by behaviour. Each is written from the contract.

#![allow(clippy::unwrap_used, clippy::expect_used)]

#[macro_use]
mod support;

mod browser;
mod contract_suite;
mod engines_agree;
mod layers;
mod lua_headers;
mod producer_api;
mod redis_engine;
mod watching;
