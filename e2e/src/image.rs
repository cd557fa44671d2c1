//! Images of programs on this machine, written as Docker archives for containerd.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};
use serde_json::json;
use sha2::{Digest, Sha256};

use crate::machine::{output, run};

/// An image of one program and the shared libraries that it loads.
pub(crate) struct Image<'a> {
    /// The name with tag.
    pub(crate) name: &'a str,
    /// The program; its path in the image is `/` and its own name.
    pub(crate) program: &'a Path,
}

impl Image<'_> {
    /// Writes the image as a Docker archive into its own folder.
    pub(crate) fn write(&self, folder: &Path) -> Result<PathBuf> {
        let files = folder.join("files");
        fs::create_dir_all(&files)?;
        let file = self.program.file_name().context("a program has a name")?.to_string_lossy().into_owned();
        let stripped = files.join(&file);
        // A debug build consists mostly of symbols, which every import would write to disk.
        run("strip", &["-o", text(&stripped)?, text(self.program)?])?;
        for library in libraries(self.program)? {
            let target = files.join(library.strip_prefix("/")?);
            fs::create_dir_all(target.parent().context("in a folder")?)?;
            fs::copy(&library, target).with_context(|| library.display().to_string())?;
        }
        let archive = |name: &str, of: &Path| {
            let mut tar = Command::new("tar");
            tar.args(["--create", "--owner=0", "--group=0", "--numeric-owner", "--sort=name", "--file"]);
            output(tar.arg(folder.join(name)).arg("--directory").arg(of).arg("."))
        };
        archive("layer.tar", &files)?;
        fs::remove_dir_all(&files)?;
        let layer = format!("sha256:{}", digest(&fs::read(folder.join("layer.tar"))?));
        let config = json!({
            "architecture": architecture(),
            "os": "linux",
            "config": {"User": "65532:65532", "Entrypoint": [format!("/{file}")], "WorkingDir": "/"},
            "rootfs": {"type": "layers", "diff_ids": [layer]},
        });
        fs::write(folder.join("config.json"), config.to_string())?;
        let manifest = json!([{"Config": "config.json", "RepoTags": [self.name], "Layers": ["layer.tar"]}]);
        fs::write(folder.join("manifest.json"), manifest.to_string())?;
        let whole = folder.with_extension("tar");
        output(Command::new("tar").arg("--create").arg("--file").arg(&whole).arg("--directory").arg(folder).args([
            "manifest.json",
            "config.json",
            "layer.tar",
        ]))?;
        fs::remove_dir_all(folder)?;
        Ok(whole)
    }
}

/// Returns the SHA-256 in hexadecimal.
pub(crate) fn digest(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Returns the architecture as images name it.
fn architecture() -> &'static str {
    match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    }
}

fn text(path: &Path) -> Result<&str> {
    path.to_str().with_context(|| format!("{} is no text", path.display()))
}

/// Returns the shared libraries of a program and their loader; none for a static program.
fn libraries(program: &Path) -> Result<Vec<PathBuf>> {
    let listed = Command::new("ldd").arg(program).output().context("ldd")?;
    Ok(loaded(&String::from_utf8_lossy(&listed.stdout)))
}

/// Returns the files in the output of `ldd`.
fn loaded(printed: &str) -> Vec<PathBuf> {
    let paths = printed.lines().filter_map(|line| {
        let line = line.trim();
        let path = line.split_once(" => ").map_or(line, |(_, path)| path);
        path.starts_with('/').then(|| path.split(" (").next().unwrap_or(path).into())
    });
    paths.collect()
}

#[cfg(test)]
mod tests {
    use super::loaded;

    #[test]
    fn libraries_are_read_as_ldd_prints_them() {
        let printed = "\tlinux-vdso.so.1 (0x1)\n\tlibc.so.6 => /lib/libc.so.6 (0x2)\n\t/lib64/ld-linux.so.2 (0x3)\n";
        let found: Vec<_> = loaded(printed).iter().map(|path| path.display().to_string()).collect();
        assert_eq!(found, ["/lib/libc.so.6", "/lib64/ld-linux.so.2"]);
        assert!(loaded("\tnot a dynamic executable\n").is_empty());
    }
}
