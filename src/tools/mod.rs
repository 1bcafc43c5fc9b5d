//! Clients of a running gateway that ship with it. They see of Tipcast what any producer sees:
//! its HTTP API, and the words of [`crate::domain`]. [`rehearse`] is the other way round: a gateway for clients to try.

pub mod bench;
pub mod demo;
pub mod healthcheck;
pub mod rehearse;
pub mod source;
