//! The integration tests: one binary, files by behaviour. Each is written from the contract.

#![allow(clippy::unwrap_used, clippy::expect_used)]

#[macro_use]
mod support;

mod against_the_model;
mod asyncapi;
mod bench;
mod browser;
mod chaos;
mod command_line;
mod contract_suite;
mod demo;
mod door;
mod drops;
mod due;
mod embedded;
mod engines_agree;
mod eviction;
mod growth;
mod healthcheck;
mod inbound;
mod interleavings;
mod jwks;
mod layers;
mod leaving;
mod limits;
mod lua_headers;
mod metrics;
mod moderation;
mod openapi;
mod parts;
mod presence;
mod private_feeds;
mod producer_api;
mod promises;
mod redis_chaos;
mod redis_cluster;
mod redis_engine;
mod rehearse;
mod reload;
mod reports;
mod review;
mod review_killed;
mod revocation;
mod sources;
mod strangers;
mod survival;
mod tls;
mod tokens_elsewhere;
mod totals;
mod two_nodes;
mod vectors;
mod visibility;
mod watching;
mod webhooks;
