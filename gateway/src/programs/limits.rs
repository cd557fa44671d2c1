//! Limits of a program, and the process that sets them: it takes limits and a command line, sets the limits for itself and
//! becomes the program. So the limits hold before the first instruction of the program, and no code runs between `fork` and
//! `exec`.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::process::CommandExt as _;
use std::process::Command;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// The first argument of the command line that [`limiter`] returns.
const WORD: &str = "run-limited";
/// Open files of a program, unless it asks for more.
const FILES: u64 = 1024;

/// What a program may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of private memory of each process.
    pub memory: u64,
    /// Processes and threads of the user that may be added to those that run.
    pub processes: u64,
    /// Seconds of processor time of each process.
    pub cpu: u64,
}

/// The command line does not say what to execute, or the program cannot be executed.
#[derive(Debug, thiserror::Error)]
#[error("tamis: cannot execute {program}: {reason}")]
pub struct LimitsError {
    program: String,
    reason: String,
}

/// Returns the words that execute a program within limits: this executable, and what [`Limits::run`] answers to. The executable is
/// the one that runs, even if another one has taken its place.
#[must_use]
pub fn limiter() -> Vec<OsString> {
    let own = if cfg!(target_os = "linux") {
        // The child resolves the link, before it executes anything else.
        "/proc/self/exe".into()
    } else {
        std::env::current_exe().unwrap_or_else(|_| "tamis".into()).into_os_string()
    };
    vec![own, WORD.into()]
}

impl Limits {
    /// Returns the words before the program. `parent`: the process that starts it.
    pub(crate) fn words(&self, parent: u32) -> [OsString; 4] {
        let Self { memory, processes, cpu } = self;
        [memory, processes, cpu, &u64::from(parent)].map(|number| number.to_string().into())
    }

    /// Executes a program within limits, if these arguments ask for it: those of this process, without its own name. Returns only if
    /// they do not, or if the program cannot be executed.
    ///
    /// # Errors
    /// [`LimitsError`].
    pub fn run(mut arguments: impl Iterator<Item = OsString>) -> Result<(), LimitsError> {
        if arguments.next().as_deref() != Some(OsStr::new(WORD)) {
            return Ok(());
        }
        let mut number = || arguments.next()?.to_str()?.parse::<u64>().ok();
        let read = (number(), number(), number(), number());
        let program = arguments.next().unwrap_or_default();
        let failed = |reason: String| LimitsError { program: program.to_string_lossy().into_owned(), reason };
        let (Some(memory), Some(processes), Some(cpu), Some(parent)) = read else {
            return Err(failed("the limits are missing".to_owned()));
        };
        let limits = Self { memory, processes, cpu };
        limits.set(parent).map_err(|error| failed(format!("the limits cannot be set: {error}")))?;
        // Returns only if it fails.
        let error = Command::new(&program).args(arguments).exec();
        Err(failed(error.to_string()))
    }

    /// Sets the limits of this process.
    fn set(&self, parent: u64) -> io::Result<()> {
        let Self { memory, processes, cpu } = *self;
        die_with(parent)?;
        close_others()?;
        // Not the address space: runtimes reserve much more of it than they use.
        lower(Resource::Data, memory)?;
        lower(Resource::Cpu, cpu)?;
        // A dump of the memory would be a file with credentials.
        lower(Resource::Core, 0)?;
        let files = getrlimit(Resource::Nofile);
        let current = files.current.map(|current| current.min(FILES)).or(Some(FILES));
        setrlimit(Resource::Nofile, Rlimit { current, maximum: files.maximum })?;
        // The limit counts all threads of the user, so those that run already are added. It does not hold for root.
        if let Some(running) = running() {
            lower(Resource::Nproc, running.saturating_add(processes))?;
        }
        Ok(())
    }
}

/// Sets a limit that the program cannot raise.
fn lower(resource: Resource, limit: u64) -> io::Result<()> {
    let before = getrlimit(resource);
    let limit = before.maximum.map_or(limit, |maximum| maximum.min(limit));
    Ok(setrlimit(resource, Rlimit { current: Some(limit), maximum: Some(limit) })?)
}

/// Closes everything but standard input, output and error: what the gateway was started with is not meant for programs.
fn close_others() -> io::Result<()> {
    let open =
        std::fs::read_dir("/dev/fd")?.flatten().filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    // The descriptor of the folder itself is among them, and closed already.
    for descriptor in open.filter(|descriptor| *descriptor > 2).collect::<Vec<_>>() {
        let _ = nix::unistd::close(descriptor);
    }
    Ok(())
}

/// Ends this process when the thread that started it ends, however that happens.
#[cfg(target_os = "linux")]
fn die_with(parent: u64) -> io::Result<()> {
    use rustix::process::{Signal, getppid, set_parent_process_death_signal};
    set_parent_process_death_signal(Some(Signal::KILL))?;
    // The parent may have ended before.
    let is_there = getppid().is_some_and(|pid| u64::from(pid.as_raw_nonzero().get().unsigned_abs()) == parent);
    if is_there { Ok(()) } else { Err(io::Error::other("the gateway has ended")) }
}

#[cfg(not(target_os = "linux"))]
fn die_with(_parent: u64) -> io::Result<()> {
    Ok(())
}

/// Returns the number of threads of this process's user; `None` if the system does not say.
#[cfg(target_os = "linux")]
fn running() -> Option<u64> {
    use std::os::unix::fs::MetadataExt as _;
    let user = rustix::process::getuid().as_raw();
    let mut threads = 0;
    for entry in std::fs::read_dir("/proc").ok()?.flatten() {
        let name = entry.file_name();
        let is_process = name.to_str().is_some_and(|name| name.bytes().all(|byte| byte.is_ascii_digit()));
        // A process may end in the meantime.
        if is_process && entry.metadata().is_ok_and(|metadata| metadata.uid() == user) {
            let status = std::fs::read_to_string(entry.path().join("status")).unwrap_or_default();
            let line = status.lines().find_map(|line| line.strip_prefix("Threads:"));
            threads += line.and_then(|count| count.trim().parse().ok()).unwrap_or(1);
        }
    }
    Some(threads)
}

#[cfg(not(target_os = "linux"))]
fn running() -> Option<u64> {
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(words: &[&str]) -> Result<(), LimitsError> {
        Limits::run(words.iter().map(OsString::from))
    }

    #[test]
    fn only_its_own_command_line_is_answered() {
        for words in [&[][..], &["serve", "run-limited"], &["--help"], &["run-limited-x", "1"]] {
            assert!(run(words).is_ok(), "{words:?}");
        }
        for words in [&["run-limited"][..], &["run-limited", "1", "2", "3", "x", "/bin/true"], &["run-limited", "-1"]] {
            let error = run(words).unwrap_err().to_string();
            assert!(error.contains("the limits are missing"), "{words:?}: {error}");
        }
        // Another process than the one that started this one: nothing is set, and nothing is executed.
        #[cfg(target_os = "linux")]
        {
            let error = run(&["run-limited", "1", "2", "3", "0", "/bin/true"]).unwrap_err().to_string();
            assert!(error.contains("the gateway has ended"), "{error}");
            rustix::process::set_parent_process_death_signal(None).unwrap();
        }
    }

    #[test]
    fn limits_are_words() {
        let limits = Limits { memory: 1 << 40, processes: 64, cpu: 61 };
        assert_eq!(limits.words(7), ["1099511627776", "64", "61", "7"].map(OsString::from));
        #[cfg(target_os = "linux")]
        assert!(running().is_some_and(|threads| threads > 0));
    }
}
