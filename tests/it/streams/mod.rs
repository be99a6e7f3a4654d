//! How streams live and die: proxies that cut them, clients that misbehave, races, limits, and the end of the broker.

mod burst;
mod foreign;
mod lifecycle;
mod pitfalls;
mod proxies;
mod races;
mod refusals;
mod terminate;
