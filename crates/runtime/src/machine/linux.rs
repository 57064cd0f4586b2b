//! Reads `/proc` and the control group.

use std::fs;
use std::path::Path;

use procfs::process::{LimitValue, Process};

use super::Usage;

/// Maximum number of open files, if limited.
#[must_use]
pub fn max_open_files() -> Option<u64> {
    match Process::myself().ok()?.limits().ok()?.max_open_files.soft_limit {
        LimitValue::Value(most) => Some(most),
        LimitValue::Unlimited => None,
    }
}

/// Memory limit of the control group in bytes, if limited.
#[must_use]
pub fn memory_limit() -> Option<u64> {
    let groups = Process::myself().ok()?.cgroups().ok()?;
    let bounds = groups.into_iter().filter_map(|group| {
        // Version 2 has one unnamed hierarchy (cgroups(7)).
        let (root, file) = match group.controllers.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
            [] | [""] => ("/sys/fs/cgroup", "memory.max"),
            names if names.contains(&"memory") => ("/sys/fs/cgroup/memory", "memory.limit_in_bytes"),
            _ => return None,
        };
        // In a container, the visible root may be its own group, while the path is the one on the node.
        let own = Path::new(root).join(group.pathname.trim_start_matches('/')).join(file);
        let bound = fs::read_to_string(own).or_else(|_| fs::read_to_string(Path::new(root).join(file)));
        // `max` means no limit.
        bound.ok()?.trim().parse().ok()
    });
    bounds.min()
}

/// Current usage, if `/proc` is readable.
#[must_use]
#[expect(clippy::cast_precision_loss, reason = "a metric is a double")]
pub fn usage() -> Option<Usage> {
    let process = Process::myself().ok()?;
    let stat = process.stat().ok()?;
    let ticks = procfs::ticks_per_second() as f64;
    Some(Usage {
        cpu: (stat.utime + stat.stime) as f64 / ticks,
        resident: stat.rss as f64 * procfs::page_size() as f64,
        virtual_memory: stat.vsize as f64,
        started: procfs::boot_time_secs().ok()? as f64 + stat.starttime as f64 / ticks,
        open_files: process.fd_count().ok()? as f64,
        max_files: max_open_files().map_or(f64::INFINITY, |most| most as f64),
    })
}
