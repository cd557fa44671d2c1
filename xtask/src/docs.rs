//! `docs/` as a site, with mdBook.
//!
//! The first run builds mdBook from its crate into `.tools/mdbook/`, without search and server and without
//! optimization, in a minute. A site contains only files of its book, so the pages are copied first, together with the
//! files outside `docs/` that they link to, as text.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs;
use std::path::{Component, Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant, SystemTime};

use anyhow::{Context, Result, ensure};

use crate::run::{cargo, quietly, root};
use crate::tools::{once, read};

const VERSION: &str = "0.5.4";
/// The folder of the site for linked files of the repository.
const FILES: &str = "files";

/// Builds the site into `target/site/`. With `serve`, serves it and rebuilds it on changes.
pub(crate) fn docs(serve: bool) -> Result<()> {
    eprintln!("==> site");
    let mdbook = mdbook()?;
    let site = build(&mdbook)?;
    if !serve {
        return Ok(());
    }
    // mdBook's own server would need another sixty crates, and the tests need Python anyway.
    let mut server = Command::new("python3")
        .args(["-m", "http.server", "3000", "--bind", "127.0.0.1", "--directory"])
        .arg(&site)
        .spawn()
        .context("python3 serves the site")?;
    eprintln!("    http://127.0.0.1:3000/");
    let mut built = changed()?;
    while server.try_wait()?.is_none() {
        std::thread::sleep(Duration::from_millis(500));
        let now = changed()?;
        if now > built {
            built = now;
            if let Err(error) = build(&mdbook) {
                eprintln!("    {error:#}");
            }
        }
    }
    Ok(())
}

/// Returns mdBook, and builds it if necessary.
fn mdbook() -> Result<PathBuf> {
    let folder = root().join(".tools/mdbook");
    once(&folder, VERSION, |folder| {
        eprintln!("    building mdBook: a minute or two, the first time");
        let built = folder.join("target");
        let mut install = cargo(["install", "mdbook", "--version", VERSION, "--locked", "--debug", "--quiet"]);
        install.arg("--no-default-features").arg("--root").arg(folder).arg("--target-dir").arg(&built);
        // Settings for the workspace do not apply to mdBook.
        quietly(install.env_remove("RUSTFLAGS").env_remove("CARGO_TARGET_DIR"))?;
        fs::remove_dir_all(built).context("removing what mdBook was built from")
    })?;
    Ok(folder.join("bin/mdbook"))
}

fn build(mdbook: &Path) -> Result<PathBuf> {
    let began = Instant::now();
    let (docs, target) = (root().join("docs"), root().join("target"));
    let (source, site) = (target.join("site-source"), target.join("site"));
    if source.exists() {
        fs::remove_dir_all(&source)?;
    }
    let mut pages = 0;
    for file in files(&docs)? {
        let path = file.strip_prefix(&docs)?;
        let copy = source.join("src").join(path);
        fs::create_dir_all(copy.parent().context("a page is in a folder")?)?;
        if file.extension().is_some_and(|extension| extension == "md") {
            let (text, linked) = rewritten(Path::new("docs").join(path).as_path(), &read(&file)?);
            fs::write(copy, text)?;
            linked.iter().try_for_each(|file| copy_linked(file, &source.join("src").join(FILES)))?;
            pages += 1;
        } else {
            fs::copy(&file, copy)?;
        }
    }
    fs::copy(docs.join("book.toml"), source.join("book.toml"))?;
    let said = quietly(Command::new(mdbook).arg("build").arg(&source).arg("--dest-dir").arg(&site))?;
    let complaints: Vec<&str> = said.lines().filter(|line| line.contains("WARN") || line.contains("ERROR")).collect();
    ensure!(complaints.is_empty(), "mdBook complains:\n{}", complaints.join("\n"));
    let dead = dead_links(&site)?;
    ensure!(dead.is_empty(), "links of the site that lead nowhere:\n{}", dead.join("\n"));
    eprintln!("    {pages} pages, {:.1} s: {}", began.elapsed().as_secs_f64(), site.join("index.html").display());
    Ok(site)
}

/// Returns all files below a folder except hidden ones.
fn files(folder: &Path) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).with_context(|| folder.display().to_string())? {
        let entry = entry?;
        if entry.file_name().to_string_lossy().starts_with('.') {
            continue;
        }
        if entry.file_type()?.is_dir() {
            found.extend(files(&entry.path())?);
        } else {
            found.push(entry.path());
        }
    }
    found.sort();
    Ok(found)
}

/// Returns the time of the last change below `docs/`.
fn changed() -> Result<SystemTime> {
    let times = files(&root().join("docs"))?.into_iter().map(|file| Ok(fs::metadata(file)?.modified()?));
    Ok(times.collect::<Result<Vec<_>>>()?.into_iter().max().unwrap_or(SystemTime::UNIX_EPOCH))
}

/// Rewrites links that leave `docs/` to the copies. Returns the page and the files to copy.
fn rewritten(page: &Path, text: &str) -> (String, BTreeSet<PathBuf>) {
    let (mut out, mut linked) = (String::new(), BTreeSet::new());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("](") {
        let (target, end) = after.split_at(after.find(')').unwrap_or(0));
        out.push_str(before);
        out.push_str("](");
        rest = end;
        let file = target.split('#').next().unwrap_or_default();
        match resolve(page, file).filter(|path| root().join(path).is_file()) {
            // mdBook renames a folder's README to its index page and does not rewrite links to it.
            Some(path) if path.starts_with("docs") => out.push_str(&target.replace("README.md", "index.md")),
            Some(path) => {
                let up = "../".repeat(page.components().count().saturating_sub(2));
                let _ = write!(out, "{up}{FILES}/{}", copy_of(&path).display());
                linked.insert(path);
            }
            None => out.push_str(target),
        }
    }
    (out + rest, linked)
}

/// Resolves a relative link in a page to a path from the root of the repository.
fn resolve(page: &Path, link: &str) -> Option<PathBuf> {
    if link.is_empty() || link.contains("://") {
        return None;
    }
    let mut path = page.parent()?.to_owned();
    for part in Path::new(link).components() {
        match part {
            Component::Normal(name) => path.push(name),
            Component::ParentDir => path = path.parent()?.to_owned(),
            Component::CurDir => {}
            _ => return None,
        }
    }
    Some(path)
}

/// Returns the name of a file's copy, with an extension that browsers show as text. mdBook would treat `.md` anywhere
/// in the name as a page.
fn copy_of(file: &Path) -> PathBuf {
    format!("{}.txt", file.display().to_string().trim_end_matches(".md")).into()
}

fn copy_linked(file: &Path, folder: &Path) -> Result<()> {
    let copy = folder.join(copy_of(file));
    fs::create_dir_all(copy.parent().context("a file is in a folder")?)?;
    fs::copy(root().join(file), copy).with_context(|| file.display().to_string())?;
    Ok(())
}

/// Returns relative links of the site's pages to missing files or anchors.
fn dead_links(site: &Path) -> Result<Vec<String>> {
    let mut dead = Vec::new();
    for page in files(site)? {
        if page.extension().is_none_or(|extension| extension != "html") {
            continue;
        }
        // Its links start at an address that the book does not know.
        if page.file_name().is_some_and(|name| name == "404.html") {
            continue;
        }
        let shown = page.strip_prefix(site)?.display().to_string();
        for target in attributes(&read(&page)?, "href").chain(attributes(&read(&page)?, "src")) {
            let (file, anchor) = target.split_once('#').unwrap_or((&target, ""));
            if file.contains(':') {
                continue;
            }
            let folder = page.parent().unwrap_or(site);
            let to = if file.is_empty() { page.clone() } else { folder.join(file) };
            let to = if to.is_dir() { to.join("index.html") } else { to };
            let there = to.is_file() && (anchor.is_empty() || attributes(&read(&to)?, "id").any(|id| id == anchor));
            if !there {
                dead.push(format!("{shown}: {target}"));
            }
        }
    }
    Ok(dead)
}

/// Returns the values of an attribute in generated HTML.
fn attributes(html: &str, name: &str) -> impl Iterator<Item = String> {
    let before = format!(" {name}=\"");
    let parts = html.split(&before).skip(1).filter_map(|rest| rest.split('"').next());
    parts.map(|value| value.replace("&amp;", "&")).collect::<Vec<_>>().into_iter()
}

#[cfg(test)]
mod tests {
    use std::path::{Path, PathBuf};

    use super::{attributes, rewritten};

    #[test]
    fn links_out_of_the_pages_lead_to_copies() {
        let page = Path::new("docs/filters/README.md");
        let (text, linked) =
            rewritten(page, "[a](../access.md#x) [b](../../README.md#y) [c](https://example.com) [d](README.md#z)");
        assert_eq!(text, "[a](../access.md#x) [b](../files/README.txt) [c](https://example.com) [d](index.md#z)");
        assert_eq!(linked.into_iter().collect::<Vec<_>>(), [PathBuf::from("README.md")]);
        let (text, linked) = rewritten(Path::new("docs/a.md"), "](no end, [b](../README.md)");
        assert_eq!((text.as_str(), linked.len()), ("](no end, [b](../README.md)", 0));
    }

    #[test]
    fn attributes_are_found() {
        let html = r#"<a class="x" href="a.html?b=1&amp;c">a</a><h1 id="one">1</h1>"#;
        assert_eq!(attributes(html, "href").collect::<Vec<_>>(), ["a.html?b=1&c"]);
        assert_eq!(attributes(html, "id").collect::<Vec<_>>(), ["one"]);
    }
}
