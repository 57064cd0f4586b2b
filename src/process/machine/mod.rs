//! What the system says of this process: what it takes, and what it may have. Linux alone says it; elsewhere nothing
//! is known, and what rests on it goes by what it does without.

#[cfg(not(target_os = "linux"))]
mod elsewhere;
#[cfg(target_os = "linux")]
mod linux;

#[cfg(not(target_os = "linux"))]
pub use elsewhere::{memory, open_files, usage};
#[cfg(target_os = "linux")]
pub use linux::{memory, open_files, usage};

/// What a process takes, in the units of its metrics: seconds, bytes, seconds of Unix time, and files.
#[derive(Debug, Clone, Copy)]
#[expect(missing_docs, reason = "the names say it")]
pub struct Usage {
    pub cpu: f64,
    pub resident: f64,
    pub virtual_memory: f64,
    pub started: f64,
    pub open_files: f64,
    /// Infinite where there is no bound.
    pub most_files: f64,
}
