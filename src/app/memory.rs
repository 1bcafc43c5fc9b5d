//! How much memory the embedded store's data may take, where nobody says.

use std::path::Path;

/// Where Linux says what the machine and the container have.
const MACHINE: &str = "/proc/meminfo";
const OURS: &str = "/proc/self/cgroup";
const GROUPS: &str = "/sys/fs/cgroup";

/// What Linux says of this process.
const PROCESS: &str = "/proc/self/status";

/// The least bound: a container that has less than the process takes has room for a feed all the same.
const MIN_BOUND_BYTES: u64 = 16 << 20;

/// Half of what the machine or the container has, less what this process takes already; no bound where neither says. Half, because
/// a byte of data takes up to two of the process: changes that wait for the disk, answers, and what the allocator keeps.
pub(super) fn bound() -> u64 {
    let read = |path| std::fs::read_to_string(path).ok();
    let machine = read(MACHINE).and_then(|text| field_of(&text, "MemTotal:"));
    let container = read(OURS).and_then(|text| least_of(&text, Path::new(GROUPS)));
    let taken = read(PROCESS).and_then(|text| field_of(&text, "VmRSS:")).unwrap_or(0);
    let all = machine.into_iter().chain(container).min();
    all.map_or(u64::MAX, |bytes| (bytes / 2).saturating_sub(taken).max(MIN_BOUND_BYTES))
}

/// Bytes in a line like `MemTotal: 24576 kB`.
fn field_of(text: &str, name: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
}

/// The least that any of the groups allows in which this process is: of version 2 (`0::/a/b`), else of version 1 the memory's.
fn least_of(ours: &str, root: &Path) -> Option<u64> {
    let read = |file: &Path| std::fs::read_to_string(file).ok()?.trim().parse::<u64>().ok();
    let of = |controller: &str, path: &str, folder: &Path, name: &str| {
        let own = ours.lines().find_map(|line| {
            let (_, rest) = line.split_once(':')?;
            let (controllers, path) = rest.split_once(':')?;
            controllers.split(',').any(|it| it == controller).then_some(path)
        });
        let own = folder.join(own.unwrap_or(path).trim_start_matches('/'));
        own.ancestors().take_while(|it| it.starts_with(folder)).filter_map(|it| read(&it.join(name))).min()
    };
    of("", "/", root, "memory.max")
        .into_iter()
        .chain(of("memory", "/", &root.join("memory"), "memory.limit_in_bytes"))
        .min()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_of_all_groups_counts() {
        let dir = tempfile::tempdir().unwrap();
        let put = |path: &str, text: &str| {
            let path = dir.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        assert_eq!(least_of("0::/a/b\n", dir.path()), None);
        put("a/b/memory.max", "max\n");
        assert_eq!(least_of("0::/a/b\n", dir.path()), None);
        put("a/memory.max", "4096\n");
        assert_eq!(least_of("0::/a/b\n", dir.path()), Some(4096));
        put("memory/x/memory.limit_in_bytes", "1024\n");
        assert_eq!(least_of("9:cpu,memory:/x\n0::/a/b\n", dir.path()), Some(1024));
        assert_eq!(field_of("MemTotal:       24576 kB\nMemFree: 1 kB\n", "MemTotal:"), Some(24_576 << 10));
        assert!(bound() >= MIN_BOUND_BYTES);
    }
}
