//! The messages of gRPC's server reflection, and the files that come of them. The server may be anyone's: every answer is checked.

use std::collections::{BTreeSet, HashMap, HashSet};

use anyhow::{Context as _, bail};

use super::line;

/// Bytes of all answers.
pub(super) const MAX_BYTES: usize = 16 << 20;
/// Files, and services.
const MAX_FILES: usize = 1_000;
/// Bytes of the name of a file or of a service.
const MAX_NAME: usize = 1_024;

/// A request of reflection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Question {
    /// The names of all services.
    Services,
    /// The file that declares a service.
    Service(String),
    /// A file that another one imports.
    File(String),
}

impl Question {
    /// Returns a `ServerReflectionRequest`.
    pub(super) fn message(&self) -> Vec<u8> {
        let mut out = Vec::new();
        match self {
            Self::Services => record(&mut out, 7, b"*"),
            Self::Service(name) => record(&mut out, 4, name.as_bytes()),
            Self::File(name) => record(&mut out, 3, name.as_bytes()),
        }
        out
    }
}

/// A file, as the server has written it, without the services that it does not list.
#[derive(Debug)]
struct File {
    bytes: Vec<u8>,
    imports: Vec<String>,
}

/// What a server has said so far.
#[derive(Debug, Default)]
pub(super) struct Reflected {
    /// The services that it lists; none before it was asked.
    services: Option<BTreeSet<String>>,
    /// The services whose files have come.
    found: HashSet<String>,
    files: HashMap<String, File>,
    /// Their names, in the order in which they came.
    order: Vec<String>,
}

impl Reflected {
    /// Returns what to ask next; nothing if all files are there.
    pub(super) fn questions(&self) -> Vec<Question> {
        let Some(services) = &self.services else { return vec![Question::Services] };
        let missing: Vec<Question> =
            services.iter().filter(|name| !self.found.contains(*name)).cloned().map(Question::Service).collect();
        if !missing.is_empty() {
            return missing;
        }
        let imports = self.order.iter().filter_map(|name| self.files.get(name)).flat_map(|file| &file.imports);
        let missing: BTreeSet<&String> = imports.filter(|import| !self.files.contains_key(*import)).collect();
        missing.into_iter().cloned().map(Question::File).collect()
    }

    /// Takes the answers to some questions.
    ///
    /// # Errors
    /// One is an error, does not hold what was asked for, or exceeds a bound.
    pub(super) fn take(&mut self, questions: &[Question], answers: &[Vec<u8>]) -> anyhow::Result<()> {
        for (question, answer) in questions.iter().zip(answers) {
            match question {
                Question::Services => self.services = Some(services(answer)?),
                Question::Service(name) => {
                    self.add(answer, question)?;
                    let is_found = self.found.contains(name);
                    anyhow::ensure!(is_found, "the server lists the service {}, and has no file of it", line(name));
                }
                Question::File(name) => {
                    self.add(answer, question)?;
                    let is_found = self.files.contains_key(name);
                    anyhow::ensure!(is_found, "the server has another file in place of {}", line(name));
                }
            }
        }
        let files = self.order.len() + self.questions().len();
        anyhow::ensure!(files <= MAX_FILES, "the descriptors have more than {MAX_FILES} files");
        Ok(())
    }

    /// Adds the files of an answer.
    fn add(&mut self, answer: &[u8], question: &Question) -> anyhow::Result<()> {
        let (Question::Service(asked) | Question::File(asked)) = question else { return Ok(()) };
        let response = response(answer, 4).with_context(|| format!("the file of {}", line(asked)))?;
        let listed = self.services.iter().flatten().collect::<HashSet<_>>();
        let mut files = Vec::new();
        for record in Records(response) {
            if let (1, Some(file), _) = record? {
                files.push(File::read(file, &listed)?);
            }
        }
        for (name, found, file) in files {
            self.found.extend(found);
            // Servers send a file again that others import.
            if self.files.contains_key(&name) {
                continue;
            }
            anyhow::ensure!(self.order.len() < MAX_FILES, "the descriptors have more than {MAX_FILES} files");
            self.order.push(name.clone());
            self.files.insert(name, file);
        }
        Ok(())
    }

    /// Returns all files as a `FileDescriptorSet`, each after those that it imports.
    ///
    /// # Errors
    /// Files import each other.
    pub(super) fn descriptor_set(&self) -> anyhow::Result<Vec<u8>> {
        let mut out = Vec::new();
        let (mut written, mut within): (HashSet<&str>, HashSet<&str>) = (HashSet::new(), HashSet::new());
        // A file is put back below what it imports, so that no depth of imports is a depth of calls.
        let mut next: Vec<&str> = self.order.iter().rev().map(String::as_str).collect();
        while let Some(name) = next.pop() {
            let Some(file) = self.files.get(name).filter(|_| !written.contains(name)) else { continue };
            let missing = file.imports.iter().map(String::as_str).filter(|import| !written.contains(import));
            let missing: Vec<&str> = missing.filter(|import| self.files.contains_key(*import)).collect();
            if missing.is_empty() {
                record(&mut out, 1, &file.bytes);
                within.remove(name);
                written.insert(name);
                continue;
            }
            within.insert(name);
            if let Some(import) = missing.iter().find(|import| within.contains(*import)) {
                bail!("the files of the server import each other: {} leads back to {}", line(name), line(import));
            }
            next.push(name);
            next.extend(missing);
        }
        Ok(out)
    }
}

impl File {
    /// Reads a `FileDescriptorProto`. Returns its name, and the services of `listed` that it declares.
    fn read(bytes: &[u8], listed: &HashSet<&String>) -> anyhow::Result<(String, Vec<String>, Self)> {
        let (mut name, mut package, mut imports, mut services) = (None, String::new(), Vec::new(), Vec::new());
        for record in Records(bytes) {
            match record? {
                (1, Some(value), _) => name = Some(text(value)?),
                (2, Some(value), _) => package = text(value)?,
                (3, Some(value), _) => imports.push(text(value)?),
                (6, Some(value), raw) => {
                    let mut own = String::new();
                    for record in Records(value) {
                        if let (1, Some(value), _) = record? {
                            own = text(value)?;
                        }
                    }
                    services.push((own, raw));
                }
                _ => {}
            }
        }
        let full = |own: &str| if package.is_empty() { own.to_owned() } else { format!("{package}.{own}") };
        let (served, unserved): (Vec<_>, Vec<_>) =
            services.into_iter().map(|(own, raw)| (full(&own), raw)).partition(|(name, _)| listed.contains(name));
        let mut kept = Vec::with_capacity(bytes.len());
        for record in Records(bytes) {
            let (number, _, raw) = record?;
            if number != 6 || !unserved.iter().any(|(_, other)| std::ptr::eq(*other, raw)) {
                kept.extend_from_slice(raw);
            }
        }
        let name = name.context("the server sent a file without a name")?;
        Ok((name, served.into_iter().map(|(name, _)| name).collect(), Self { bytes: kept, imports }))
    }
}

/// Reads the names of services, without those of reflection itself.
fn services(answer: &[u8]) -> anyhow::Result<BTreeSet<String>> {
    let mut names = BTreeSet::new();
    for record in Records(response(answer, 6).context("the list of services")?) {
        let (1, Some(service), _) = record? else { continue };
        for record in Records(service) {
            let (1, Some(name), _) = record? else { continue };
            let name = text(name)?;
            if !name.starts_with("grpc.reflection.") {
                names.insert(name);
            }
        }
        anyhow::ensure!(names.len() <= MAX_FILES, "the server lists more than {MAX_FILES} services");
    }
    anyhow::ensure!(!names.is_empty(), "the server lists no services");
    Ok(names)
}

/// Returns the field `number` of a `ServerReflectionResponse`.
fn response(answer: &[u8], number: u32) -> anyhow::Result<&[u8]> {
    for record in Records(answer) {
        match record? {
            (7, Some(error), _) => {
                let mut said = String::new();
                for record in Records(error) {
                    if let (2, Some(message), _) = record? {
                        said = String::from_utf8_lossy(message).chars().take(200).collect();
                    }
                }
                bail!("the server answered with an error: {}", line(&said));
            }
            (found, Some(value), _) if found == number => return Ok(value),
            _ => {}
        }
    }
    bail!("the server answered something else than was asked for")
}

/// Returns a name.
fn text(bytes: &[u8]) -> anyhow::Result<String> {
    anyhow::ensure!(bytes.len() <= MAX_NAME, "the server sent a name of more than {MAX_NAME} bytes");
    std::str::from_utf8(bytes).map(str::to_owned).context("the server sent a name that is not UTF-8")
}

/// Writes a field of bytes.
fn record(out: &mut Vec<u8>, number: u8, value: &[u8]) {
    out.push(number << 3 | 2);
    let mut length = value.len();
    while length > 0x7f {
        out.push(u8::try_from(length & 0x7f).unwrap_or_default() | 0x80);
        length >>= 7;
    }
    out.push(u8::try_from(length).unwrap_or_default());
    out.extend_from_slice(value);
}

/// The fields of a message: the number, the bytes if it has some, and the field as it was sent.
struct Records<'a>(&'a [u8]);

impl<'a> Iterator for Records<'a> {
    type Item = anyhow::Result<(u32, Option<&'a [u8]>, &'a [u8])>;

    fn next(&mut self) -> Option<Self::Item> {
        let whole = self.0;
        if whole.is_empty() {
            return None;
        }
        let read = self.read();
        if read.is_none() {
            self.0 = &[];
        }
        let found = read.map(|(number, value)| (number, value, &whole[..whole.len() - self.0.len()]));
        Some(found.context("the server sent descriptors that cannot be read"))
    }
}

impl<'a> Records<'a> {
    fn read(&mut self) -> Option<(u32, Option<&'a [u8]>)> {
        let key = self.varint()?;
        let number = u32::try_from(key >> 3).ok().filter(|number| *number > 0)?;
        let value = match key & 7 {
            0 => {
                self.varint()?;
                None
            }
            1 => {
                self.bytes(8)?;
                None
            }
            2 => {
                let length = usize::try_from(self.varint()?).ok()?;
                Some(self.bytes(length)?)
            }
            5 => {
                self.bytes(4)?;
                None
            }
            // Groups, which descriptors have none of.
            _ => return None,
        };
        Some((number, value))
    }

    fn varint(&mut self) -> Option<u64> {
        let mut value = 0;
        for shift in (0..64).step_by(7) {
            let (&byte, rest) = self.0.split_first()?;
            self.0 = rest;
            value |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Some(value);
            }
        }
        None
    }

    fn bytes(&mut self, length: usize) -> Option<&'a [u8]> {
        let (value, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(value)
    }
}

#[cfg(test)]
#[path = "descriptors_tests.rs"]
mod tests;
