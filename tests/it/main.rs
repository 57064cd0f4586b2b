//! The program against fakes, recorded bytes and files: what a user or a peer sees.

#![expect(unreachable_pub, reason = "nothing here has an outside")]

mod fake;
mod program;

mod cluster;
mod command_line;
mod endpoint;
mod house;
mod pods_from;
mod recorded;
mod secrets;
