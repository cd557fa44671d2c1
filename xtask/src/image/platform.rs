//! The platforms that an image can be built for.

use anyhow::{Context, Result};
use clap::ValueEnum;
use object::elf;

/// An operating system and an architecture, as container engines name them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Platform {
    /// Intel and AMD, 64 bits.
    #[value(name = "linux/amd64")]
    Amd64,
    /// Arm, 64 bits.
    #[value(name = "linux/arm64")]
    Arm64,
}

impl Platform {
    /// Returns the platform of this machine.
    pub(crate) fn host() -> Result<Self> {
        Self::of(std::env::consts::OS, std::env::consts::ARCH)
            .context("an image holds Linux libraries: build it on Linux (amd64, arm64), or with the Dockerfile")
    }

    fn of(os: &str, architecture: &str) -> Option<Self> {
        match (os, architecture) {
            ("linux", "x86_64") => Some(Self::Amd64),
            ("linux", "aarch64") => Some(Self::Arm64),
            _ => None,
        }
    }

    /// `architecture` of an image's configuration.
    pub(crate) fn architecture(self) -> &'static str {
        match self {
            Self::Amd64 => "amd64",
            Self::Arm64 => "arm64",
        }
    }

    /// Returns rustc's name of the platform.
    pub(crate) fn triple(self) -> &'static str {
        match self {
            Self::Amd64 => "x86_64-unknown-linux-gnu",
            Self::Arm64 => "aarch64-unknown-linux-gnu",
        }
    }

    /// Returns Debian's name of the platform, as in the paths of libraries and in the names of cross-compilers.
    pub(crate) fn gnu(self) -> &'static str {
        match self {
            Self::Amd64 => "x86_64-linux-gnu",
            Self::Arm64 => "aarch64-linux-gnu",
        }
    }

    /// Returns the `e_machine` of its programs and libraries.
    pub(crate) fn machine(self) -> u16 {
        match self {
            Self::Amd64 => elf::EM_X86_64,
            Self::Arm64 => elf::EM_AARCH64,
        }
    }

    /// Returns the name of a tool of binutils or gcc for this platform.
    pub(crate) fn tool(self, host: Self, name: &str) -> String {
        if self == host { name.to_owned() } else { format!("{}-{name}", self.gnu()) }
    }

    /// Folders that may hold its libraries, and where the loader of the same system looks for them without any
    /// configuration. The last is where Debian's packages for building from another architecture put them.
    pub(crate) fn folders(self) -> Vec<(String, String)> {
        let name = self.gnu();
        let same = |folder: String| (folder.clone(), folder);
        vec![
            same(format!("/lib/{name}")),
            same(format!("/usr/lib/{name}")),
            same("/lib64".to_owned()),
            same("/usr/lib64".to_owned()),
            (format!("/usr/{name}/lib"), format!("/lib/{name}")),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::Platform;

    #[test]
    fn tools_of_another_architecture_carry_its_name() {
        assert_eq!(Platform::Amd64.tool(Platform::Amd64, "strip"), "strip");
        assert_eq!(Platform::Arm64.tool(Platform::Amd64, "strip"), "aarch64-linux-gnu-strip");
    }

    #[test]
    fn only_linux_has_a_platform() {
        assert_eq!(Platform::of("linux", "aarch64"), Some(Platform::Arm64));
        assert_eq!(Platform::of("macos", "aarch64"), None);
        assert_eq!(Platform::of("linux", "riscv64"), None);
    }
}
