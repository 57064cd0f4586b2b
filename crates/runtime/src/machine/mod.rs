//! Resource usage and limits of this process: open files, memory, CPU time.
//!
//! Metrics and the default limits of `serve` use them. They are known on Linux only; elsewhere callers use defaults.

#[cfg(target_os = "linux")]
mod linux;
#[cfg(not(target_os = "linux"))]
mod unsupported;

#[cfg(target_os = "linux")]
pub use linux::{max_open_files, memory_limit, usage};
#[cfg(not(target_os = "linux"))]
pub use unsupported::{max_open_files, memory_limit, usage};

/// Resource usage in the units of the metrics: seconds, bytes, Unix time, and number of files.
#[derive(Debug, Clone, Copy)]
pub struct Usage {
    pub cpu: f64,
    pub resident: f64,
    pub virtual_memory: f64,
    pub started: f64,
    pub open_files: f64,
    /// Infinite without a limit.
    pub max_files: f64,
}
