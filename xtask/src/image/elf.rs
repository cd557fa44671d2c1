//! The files that a program or a library needs to be loaded, from its dynamic section. Pure.

use anyhow::{Context, Result, bail};
use memchr::memmem;
use object::Endianness;
use object::elf::{self, FileHeader64};
use object::read::elf::{ElfFile, FileHeader as _, ProgramHeader as _};

/// The part of an ELF file that describes how it is loaded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Elf {
    /// `e_machine`.
    pub(crate) machine: u16,
    /// The loader. `None` for a library.
    pub(crate) interpreter: Option<String>,
    /// The names of the libraries.
    pub(crate) needed: Vec<String>,
}

/// Parses a 64-bit ELF file.
///
/// # Errors
/// The file is not a 64-bit ELF file, or it names folders to search (`RPATH`, `RUNPATH`), which an image does not have.
pub(crate) fn read(bytes: &[u8]) -> Result<Elf> {
    let file = ElfFile::<FileHeader64<Endianness>>::parse(bytes).context("not an ELF file of 64 bits")?;
    let endian = file.endian();
    let mut interpreter = None;
    for segment in file.elf_program_headers() {
        if let Some(path) = segment.interpreter(endian, bytes)? {
            interpreter = Some(text(path)?);
        }
    }
    let table = file.elf_dynamic_table()?;
    let mut needed = Vec::new();
    for entry in &table {
        match entry.tag {
            elf::DT_NEEDED => needed.push(text(table.string(entry)?)?),
            elf::DT_RPATH | elf::DT_RUNPATH => {
                bail!("it looks for libraries in {}: link it without -rpath", text(table.string(entry)?)?)
            }
            _ => {}
        }
    }
    Ok(Elf { machine: file.elf_header().e_machine(endian), interpreter, needed })
}

/// Whether a glibc finds names of hosts and users without further libraries that it would load by name, which no
/// dynamic section tells of: since 2.34.
pub(crate) fn resolves_names_by_itself(libc: &[u8]) -> bool {
    memmem::find(libc, b"\0GLIBC_2.34\0").is_some()
}

fn text(bytes: &[u8]) -> Result<String> {
    Ok(std::str::from_utf8(bytes).context("a name that is not UTF-8")?.to_owned())
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::{read, resolves_names_by_itself};
    use crate::image::platform::Platform;

    /// The test program itself: the only ELF file that every machine with the tests has.
    #[test]
    fn a_program_names_its_loader_and_its_libraries() {
        let program = std::fs::read(std::env::current_exe().expect("a path")).expect("is read");
        let elf = read(&program).expect("is one");
        assert_eq!(elf.machine, Platform::host().expect("Linux").machine());
        assert!(elf.interpreter.as_deref().is_some_and(|path| path.starts_with("/lib")), "{elf:?}");
        assert!(elf.needed.iter().any(|name| name == "libc.so.6"), "{elf:?}");
    }

    #[test]
    fn other_files_are_not_programs() {
        for other in [&b""[..], b"#!/bin/sh\n", b"\x7fELF"] {
            assert!(format!("{:#}", read(other).expect_err("is none")).contains("not an ELF file"));
        }
    }

    #[test]
    fn an_old_glibc_is_recognized_by_its_versions() {
        assert!(resolves_names_by_itself(b"..\0GLIBC_2.33\0GLIBC_2.34\0.."));
        assert!(!resolves_names_by_itself(b"..\0GLIBC_2.33\0GLIBC_PRIVATE\0.."));
    }
}
