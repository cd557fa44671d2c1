//! The shared libraries of a program, and the loader, found on this machine.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use super::elf::{self, Elf};
use super::platform::Platform;

/// A file without which the program does not start.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Library {
    /// The path on this machine.
    pub(crate) from: PathBuf,
    /// The path in the image.
    pub(crate) to: String,
    pub(crate) bytes: Vec<u8>,
}

/// Returns the loader, followed by all libraries that the program needs, directly or not, ordered by name.
pub(crate) fn collect(program: &[u8], platform: Platform) -> Result<Vec<Library>> {
    let folders = platform.folders();
    closure(program, platform.machine(), |name| find(name, &folders, platform.machine()))
}

fn closure(program: &[u8], machine: u16, find: impl Fn(&str) -> Result<Library>) -> Result<Vec<Library>> {
    let program = elf::read(program)?;
    if program.machine != machine {
        bail!("it is of another architecture (e_machine {}, not {machine})", program.machine);
    }
    let Some(interpreter) = program.interpreter else {
        // A static program loads nothing.
        return Ok(Vec::new());
    };
    let loader = interpreter.rsplit('/').next().unwrap_or_default().to_owned();
    let mut libraries = vec![Library { to: interpreter, ..find(&loader)? }];
    // The loader is loaded already when a library asks for it by name.
    let mut known: BTreeSet<String> = BTreeSet::from([loader]);
    let mut open: BTreeSet<String> = program.needed.into_iter().collect();
    while let Some(name) = open.pop_first() {
        if !known.insert(name.clone()) {
            continue;
        }
        let library = find(&name)?;
        let Elf { needed, .. } = elf::read(&library.bytes).with_context(|| library.from.display().to_string())?;
        if name == "libc.so.6" && !elf::resolves_names_by_itself(&library.bytes) {
            bail!(
                "{} is older than glibc 2.34: build on a newer system, or with the Dockerfile",
                library.from.display()
            );
        }
        open.extend(needed);
        libraries.push(library);
    }
    libraries[1..].sort_by(|one, other| one.to.cmp(&other.to));
    Ok(libraries)
}

/// Returns the first file with a name and an architecture.
fn find(name: &str, folders: &[(String, String)], machine: u16) -> Result<Library> {
    for (folder, destination) in folders {
        let from = Path::new(folder).join(name);
        let Ok(bytes) = fs::read(&from) else { continue };
        if elf::read(&bytes).is_ok_and(|elf| elf.machine == machine) {
            return Ok(Library { from, to: format!("{destination}/{name}"), bytes });
        }
    }
    let looked: Vec<&str> = folders.iter().map(|(folder, _)| folder.as_str()).collect();
    bail!("the library {name} is in none of {}", looked.join(", "))
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use anyhow::bail;

    use super::{closure, collect, find};
    use crate::image::platform::Platform;

    fn this_program() -> Vec<u8> {
        std::fs::read(std::env::current_exe().expect("a path")).expect("is read")
    }

    #[test]
    fn libraries_are_found_once_and_the_loader_first() {
        let libraries = collect(&this_program(), Platform::host().expect("Linux")).expect("are found");
        let paths: Vec<&str> = libraries.iter().map(|library| library.to.as_str()).collect();
        assert!(paths[0].contains("/ld-linux"), "{paths:?}");
        assert!(paths[1..].iter().any(|path| path.ends_with("/libc.so.6")), "{paths:?}");
        assert!(paths[1..].is_sorted() && paths[1..].iter().all(|path| !path.contains("/ld-linux")), "{paths:?}");
    }

    #[test]
    fn a_library_that_is_not_there_is_named() {
        let platform = Platform::host().expect("Linux");
        let folders = platform.folders();
        let error = closure(&this_program(), platform.machine(), |name| match name {
            "libc.so.6" => bail!("{}", find("libnone.so.7", &folders, platform.machine()).expect_err("is missing")),
            _ => find(name, &folders, platform.machine()),
        });
        let error = error.expect_err("misses one").to_string();
        assert!(error.contains("libnone.so.7") && error.contains("/lib64"), "{error}");
    }

    #[test]
    fn a_program_of_another_architecture_is_refused() {
        let other = match Platform::host().expect("Linux") {
            Platform::Amd64 => Platform::Arm64,
            Platform::Arm64 => Platform::Amd64,
        };
        let error = collect(&this_program(), other).expect_err("is another").to_string();
        assert!(error.contains("another architecture"), "{error}");
    }
}
