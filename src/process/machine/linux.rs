//! `/proc`, and the control group.
//!
//! Bounds are asked for once, at the start of what has to keep within them.

use std::fs;
use std::path::Path;

use procfs::process::{LimitValue, Process};

use super::Usage;

/// How many files may be open, where the system bounds that and says so.
#[must_use]
pub fn open_files() -> Option<u64> {
    match Process::myself().ok()?.limits().ok()?.max_open_files.soft_limit {
        LimitValue::Value(most) => Some(most),
        LimitValue::Unlimited => None,
    }
}

/// How much memory its control group may take, in bytes, where there is a bound.
#[must_use]
pub fn memory() -> Option<u64> {
    let groups = Process::myself().ok()?.cgroups().ok()?;
    let bounds = groups.into_iter().filter_map(|group| {
        // Of version 2 there is one, without a name (cgroups(7)).
        let (root, file) = match group.controllers.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
            [] | [""] => ("/sys/fs/cgroup", "memory.max"),
            names if names.contains(&"memory") => ("/sys/fs/cgroup/memory", "memory.limit_in_bytes"),
            _ => return None,
        };
        // In a container, the root of what is seen may be its own group, and its path that on the node.
        let own = Path::new(root).join(group.pathname.trim_start_matches('/')).join(file);
        let bound = fs::read_to_string(own).or_else(|_| fs::read_to_string(Path::new(root).join(file)));
        // `max` is none.
        bound.ok()?.trim().parse().ok()
    });
    bounds.min()
}

/// What this process takes now, where `/proc` can be read.
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
        most_files: open_files().map_or(f64::INFINITY, |most| most as f64),
    })
}
