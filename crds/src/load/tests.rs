//! Folders as Kubernetes, editors and mischief make them.

use std::fmt::Write as _;
use std::fs;
use std::time::{Duration, Instant};

use super::*;

const SET: &str = "apiVersion: tamis.dev/v1alpha1
kind: ToolsFilters
metadata: {name: NAME}
spec: {service: {name: s, version: '1'}, filters: {a: {retain: [/a]}}}
";

fn folder() -> tempfile::TempDir {
    tempfile::tempdir().expect("a folder")
}

fn said(loaded: &Loaded) -> Vec<String> {
    loaded.diagnostics.iter().map(ToString::to_string).collect()
}

#[test]
fn ten_thousand_documents_are_a_matter_of_seconds() {
    let dir = folder();
    for file in 0..100 {
        let mut text = String::new();
        for document in 0..100 {
            let _ = write!(text, "---\n{}", SET.replace("NAME", &format!("s{file}-{document}")));
        }
        fs::write(dir.path().join(format!("{file}.yaml")), text).expect("writes");
    }
    let began = Instant::now();
    let loaded = load(&[dir.path().to_owned()]);
    println!("10,000 documents: {:?}", began.elapsed());
    assert_eq!((loaded.resources.len(), said(&loaded).len()), (10_000, 0));
    assert!(began.elapsed() < Duration::from_secs(120), "{:?}", began.elapsed());
}

#[test]
fn a_file_that_is_named_twice_is_read_once() {
    let dir = folder();
    let file = dir.path().join("a.yaml");
    fs::write(&file, SET.replace("NAME", "a")).expect("writes");
    fs::create_dir(dir.path().join("sub")).expect("creates");
    fs::write(dir.path().join("sub/b.yaml"), SET.replace("NAME", "b")).expect("writes");
    let root = dir.path().to_owned();
    for paths in [
        vec![root.clone(), file.clone()],
        vec![file.clone(), root.clone(), file.clone()],
        vec![root.join("sub/.."), root.clone(), root.join("sub/../a.yaml")],
    ] {
        let loaded = load(&paths);
        assert_eq!((loaded.files.len(), loaded.resources.len()), (2, 2), "{paths:?}");
        assert!(crate::diagnose_part(&loaded).is_empty(), "{:?}", crate::diagnose_part(&loaded));
    }
}

#[test]
fn a_huge_file_is_refused_by_its_size() {
    let dir = folder();
    let file = fs::File::create(dir.path().join("a.yaml")).expect("creates");
    // Sparse: nothing could read so much in this time.
    file.set_len(1 << 40).expect("grows");
    let began = Instant::now();
    let loaded = load(&[dir.path().to_owned()]);
    assert!(began.elapsed() < Duration::from_secs(1));
    assert!(said(&loaded)[0].contains("more than the 16777216 that are read"), "{:?}", said(&loaded));
}

#[cfg(unix)]
mod unix {
    use std::os::unix::fs::{PermissionsExt as _, symlink};
    use std::os::unix::net::UnixListener;

    use super::*;

    #[test]
    fn a_mounted_config_map_is_read_once() {
        let dir = folder();
        let real = dir.path().join("..2026_11_22");
        fs::create_dir(&real).expect("creates");
        fs::write(real.join("a.yaml"), SET.replace("NAME", "a")).expect("writes");
        symlink("..2026_11_22", dir.path().join("..data")).expect("links");
        symlink("..data/a.yaml", dir.path().join("a.yaml")).expect("links");
        let loaded = load(&[dir.path().to_owned()]);
        assert_eq!((loaded.resources.len(), said(&loaded).len()), (1, 0));
    }

    #[test]
    fn links_that_lead_back_are_said_and_not_followed() {
        let dir = folder();
        fs::write(dir.path().join("a.yaml"), SET.replace("NAME", "a")).expect("writes");
        fs::create_dir(dir.path().join("sub")).expect("creates");
        // Two of them would be two to the power of the depth.
        for name in ["back", "sub/back", "sub/again"] {
            symlink(dir.path(), dir.path().join(name)).expect("links");
        }
        symlink("self.yaml", dir.path().join("self.yaml")).expect("links");
        symlink("nowhere.yaml", dir.path().join("dangling.yaml")).expect("links");
        let loaded = load(&[dir.path().to_owned()]);
        assert_eq!(loaded.resources.len(), 1);
        let said = said(&loaded);
        assert_eq!(said.iter().filter(|line| line.contains("leads back")).count(), 3, "{said:#?}");
        assert_eq!(said.iter().filter(|line| line.contains("self.yaml:1:1: error: cannot be read")).count(), 1);
        assert_eq!(said.len(), 4, "{said:#?}");
        assert_eq!(documents(dir.path()), [dir.path().join("a.yaml")]);
    }

    #[test]
    fn what_is_no_file_is_refused_and_never_waited_for() {
        let dir = folder();
        let pipe = dir.path().join("pipe.yaml");
        let made = std::process::Command::new("mkfifo").arg(&pipe).status().expect("runs");
        assert!(made.success());
        let socket = dir.path().join("socket.yaml");
        let _listener = UnixListener::bind(&socket).expect("binds");
        symlink("/dev/zero", dir.path().join("zero.yaml")).expect("links");
        let loaded = load(&[dir.path().to_owned()]);
        assert_eq!(said(&loaded).len(), 3, "{:#?}", said(&loaded));
        assert!(said(&loaded).iter().all(|line| line.contains("is a pipe, a socket or a device")));
        for path in [pipe, socket, "/dev/zero".into(), "/dev/tty".into()] {
            let loaded = load(&[path]);
            assert_eq!(loaded.diagnostics.len(), 1);
            assert!(loaded.diagnostics[0].is_error());
        }
    }

    #[test]
    fn what_may_not_be_read_is_said() {
        let dir = folder();
        fs::create_dir(dir.path().join("sub")).expect("creates");
        fs::write(dir.path().join("a.yaml"), SET.replace("NAME", "a")).expect("writes");
        let locked = [dir.path().join("a.yaml"), dir.path().join("sub")];
        let lock = |mode| {
            for path in &locked {
                fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("changes");
            }
        };
        lock(0);
        // Nothing is forbidden to root.
        if fs::File::open(&locked[0]).is_err() {
            let said = said(&load(&[dir.path().to_owned()]));
            assert_eq!(said.iter().filter(|line| line.contains("check its permissions")).count(), 2, "{said:#?}");
        }
        lock(0o700);
    }
}

#[test]
fn a_large_document_that_has_not_changed_is_not_parsed_again() {
    let dir = tempfile::tempdir().expect("a folder");
    let write = |name: &str, text: &str| fs::write(dir.path().join(name), text).expect("writes");
    let api = |operation: &str, filler: usize| {
        format!(
            "openapi: 3.1.0\nservers: [{{url: https://api.example.com}}]\ninfo: {{description: {}}}\n\
             paths: {{/a: {{get: {{operationId: {operation}}}}}}}\n",
            "x".repeat(filler)
        )
    };
    let manifest = |file: &str| {
        format!(
            "apiVersion: tamis.dev/v1alpha1\nkind: ServiceManifest\nmetadata: {{name: {}}}\nspec: {{version: '1', openapi: {{file: {file}}}}}\n---\n\
             apiVersion: tamis.dev/v1alpha1\nkind: Exposition\nmetadata: {{name: {}}}\nspec: {{service: {{name: {}, version: '1'}}, filters: []}}\n",
            &file[..1],
            &file[..1],
            &file[..1]
        )
    };
    write("large.yaml", &api("one", LARGE));
    write("small.yaml", &api("two", 10));
    for file in ["large.yaml", "small.yaml"] {
        write(&format!("manifest-{file}"), &manifest(file));
    }
    let mut reader = FolderReader::default();
    let mut look = || {
        let loaded = reader.load(&[dir.path().to_owned()]);
        let known = |api: &&Arc<ApiDocument>| matches!(api.tree, ApiTree::Known(_));
        let known: Vec<String> = loaded
            .resources
            .apis
            .iter()
            .filter(known)
            .map(|api| api.file.rsplit('/').next().unwrap_or("").to_owned())
            .collect();
        let compiled = crate::compile(&loaded.resources, &crate::CompileEnv::default());
        let services = compiled.snapshot.services.values();
        let tools = services.flat_map(|service| service.tools.keys().cloned());
        let mut tools: Vec<String> = tools.collect();
        tools.sort();
        (known, tools, crate::diagnose(&loaded).iter().filter(|finding| finding.is_error()).count())
    };
    let tools = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect::<Vec<_>>();
    assert_eq!(look(), (Vec::new(), tools(&["one", "two"]), 0));
    // It is converted as before, although it is parsed only when it is needed.
    assert_eq!(look(), (vec!["large.yaml".to_owned()], tools(&["one", "two"]), 0));
    write("large.yaml", &api("three", LARGE));
    assert_eq!(look(), (Vec::new(), tools(&["three", "two"]), 0));
    assert_eq!(look(), (vec!["large.yaml".to_owned()], tools(&["three", "two"]), 0));
    write("large.yaml", &format!("{}[", api("three", LARGE)));
    let (known, _, errors) = look();
    assert!(known.is_empty() && errors > 0);
    write("large.yaml", &api("three", LARGE));
    assert_eq!(look(), (Vec::new(), tools(&["three", "two"]), 0));
}
