//! Clients of a running gateway that ship with it. They see of Tipcast what any producer sees:
//! its HTTP API, and the words of [`crate::domain`].

pub mod bench;
pub mod demo;
pub mod healthcheck;
pub mod source;
