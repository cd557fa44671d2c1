//! Removes everything of a run, however it ended.

use std::fs;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use super::cgroups::Cgroups;
use super::{FOLDER, NAME, run};

/// Removes as much as possible and reports what could not be removed.
pub(super) fn sweep(cgroups: &Cgroups) {
    // In this order: processes keep mounts busy, and mounts keep folders busy.
    let steps: [(&str, Result<()>); 4] = [
        ("processes", cgroups.remove()),
        ("mounts", unmount(Path::new(FOLDER))),
        ("network", network()),
        ("files", files()),
    ];
    for (what, result) in steps {
        if let Err(error) = result {
            eprintln!("warning: {what} of {NAME} are left: {error:#}");
        }
    }
}

/// Unmounts everything below a folder, the last mount first.
fn unmount(folder: &Path) -> Result<()> {
    let mounts = fs::read_to_string("/proc/self/mountinfo").context("/proc/self/mountinfo")?;
    let mut points: Vec<PathBuf> =
        mounts.lines().filter_map(mount_point).filter(|point| point.starts_with(folder)).collect();
    points.reverse();
    for point in points {
        let point = point.to_string_lossy();
        // Lazy: a mount that is in use disappears once it is no longer used.
        run("umount", &[&point]).or_else(|_| run("umount", &["--lazy", &point]))?;
    }
    Ok(())
}

/// Returns the fifth word of a line, in which spaces and similar characters are octal escapes.
fn mount_point(line: &str) -> Option<PathBuf> {
    let word = line.split(' ').nth(4)?;
    Some(word.replace("\\040", " ").replace("\\011", "\t").replace("\\134", "\\").into())
}

fn network() -> Result<()> {
    if Path::new("/run/netns").join(NAME).exists() {
        run("ip", &["netns", "delete", NAME])?;
    }
    // The other end disappears with the namespace, a moment later.
    if Path::new("/sys/class/net").join(NAME).exists() {
        let _ = run("ip", &["link", "delete", NAME]);
    }
    Ok(())
}

fn files() -> Result<()> {
    if Path::new(FOLDER).exists() {
        fs::remove_dir_all(FOLDER).context(FOLDER)?;
    }
    // Three paths that cannot be configured: logs of containers, results of network plugins, sockets of shims.
    each("/var/log/containers", |path| path.read_link().is_ok_and(|target| target.starts_with(FOLDER)))?;
    each("/var/lib/cni/results", |path| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(NAME)))?;
    each("/run/containerd/s", |path| UnixStream::connect(path).is_err())
}

/// Removes the files of a folder that satisfy a predicate.
fn each(folder: &str, is_ours: impl Fn(&Path) -> bool) -> Result<()> {
    let Ok(entries) = fs::read_dir(folder) else { return Ok(()) };
    for entry in entries {
        let path = entry?.path();
        if is_ours(&path) {
            fs::remove_file(&path).with_context(|| path.display().to_string())?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::mount_point;

    #[test]
    fn mount_points_are_read() {
        let line = "36 35 98:0 /mnt1 /var/a\\040b rw,noatime master:1 - ext3 /dev/root rw";
        assert_eq!(mount_point(line), Some("/var/a b".into()));
        assert_eq!(mount_point("36 35"), None);
    }
}
