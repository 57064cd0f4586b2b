//! A control group (version 2 or 1) with a memory limit and without swap.

use std::fs;
use std::path::{Path, PathBuf};

/// A control group, removed on drop.
pub struct ControlGroup {
    folder: PathBuf,
    files: &'static Files,
}

/// File names of a control group version.
struct Files {
    limit: &'static str,
    events: &'static str,
}

const V2: Files = Files { limit: "memory.max", events: "memory.events" };
const V1: Files = Files { limit: "memory.limit_in_bytes", events: "memory.oom_control" };

impl ControlGroup {
    /// Needs root and the memory controller.
    pub fn new(mebibytes: u64) -> std::io::Result<Self> {
        let root = Path::new("/sys/fs/cgroup");
        let controllers = fs::read_to_string(root.join("cgroup.controllers")).unwrap_or_default();
        let is_v2 = controllers.split_whitespace().any(|name| name == "memory");
        let (root, files) = if is_v2 {
            fs::write(root.join("cgroup.subtree_control"), "+memory")?;
            (root.to_owned(), &V2)
        } else {
            (root.join("memory"), &V1)
        };
        let folder = root.join(format!("supercargo-test-{}", std::process::id()));
        fs::create_dir(&folder)?;
        let group = Self { folder, files };
        fs::write(group.file(files.limit), (mebibytes << 20).to_string())?;
        let _ = fs::write(group.file("memory.swap.max"), "0");
        let _ = fs::write(group.file("memory.swappiness"), "0");
        Ok(group)
    }

    /// Path of a file of the group.
    pub fn file(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// Number of processes that the kernel killed in the group.
    pub fn kills(&self) -> u64 {
        let events = fs::read_to_string(self.file(self.files.events)).unwrap();
        let kills = events.lines().find_map(|line| line.strip_prefix("oom_kill ")).unwrap();
        kills.trim().parse().unwrap()
    }
}

impl Drop for ControlGroup {
    fn drop(&mut self) {
        let _ = fs::remove_dir(&self.folder);
    }
}
