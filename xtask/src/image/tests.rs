//! Unpacks an image as an engine does, verifies every digest, and runs the program.

use std::collections::BTreeMap;
use std::fs;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;

use super::layer::Tree;
use super::name::Name;
use super::oci::{Compression, Description, Image, assemble, hex, pem};
use super::platform::Platform;
use super::revision::Revision;
use super::{Args, LIMIT, build, check_size, root};

/// Returns the files of an archive, by path.
fn files(archive: &[u8]) -> BTreeMap<String, Vec<u8>> {
    let mut archive = tar::Archive::new(archive);
    let entries = archive.entries().expect("an archive").map(|entry| {
        let mut entry = entry.expect("an entry");
        let path = String::from_utf8(entry.path_bytes().into_owned()).expect("text");
        let mut bytes = Vec::new();
        entry.read_to_end(&mut bytes).expect("is read");
        (path, bytes)
    });
    entries.filter(|(path, _)| !path.ends_with('/')).collect()
}

/// Returns the bytes of a descriptor, after comparing digest and size.
fn blob<'a>(files: &'a BTreeMap<String, Vec<u8>>, descriptor: &Value) -> &'a [u8] {
    let digest = descriptor["digest"].as_str().expect("a digest");
    let name = digest.strip_prefix("sha256:").expect("of SHA-256");
    let bytes = &files[&format!("blobs/sha256/{name}")];
    assert_eq!(hex(bytes), name);
    assert_eq!(descriptor["size"], bytes.len());
    bytes
}

fn parsed(bytes: &[u8]) -> Value {
    serde_json::from_slice(bytes).expect("is JSON")
}

/// Reads an image through its index, compares the other format with it, and returns configuration and layer.
fn read(image: &Image) -> (Value, Vec<u8>) {
    let files = files(&image.archive);
    assert_eq!(parsed(&files["oci-layout"])["imageLayoutVersion"], "1.0.0");
    let index = parsed(&files["index.json"]);
    let entry = &index["manifests"][0];
    assert_eq!(entry["digest"], image.digest.as_str());
    let manifest = parsed(blob(&files, entry));
    let config = parsed(blob(&files, &manifest["config"]));
    let layer = blob(&files, &manifest["layers"][0]);
    let docker = &parsed(&files["manifest.json"])[0];
    for (path, descriptor) in [(&docker["Config"], &manifest["config"]), (&docker["Layers"][0], &manifest["layers"][0])]
    {
        let path = path.as_str().expect("a path");
        assert_eq!(format!("sha256:{}", hex(&files[path])), descriptor["digest"].as_str().expect("a digest"));
    }
    assert_eq!(files.len(), 6, "three blobs and three files that name them");

    let layer = if manifest["layers"][0]["mediaType"].as_str().is_some_and(|kind| kind.ends_with("+gzip")) {
        let mut unpacked = Vec::new();
        flate2::read::GzDecoder::new(layer).read_to_end(&mut unpacked).expect("is gzip");
        unpacked
    } else {
        layer.to_vec()
    };
    assert_eq!(config["rootfs"]["diff_ids"][0], format!("sha256:{}", hex(&layer)));
    (config, layer)
}

fn small(compression: Compression, name: &str) -> Image {
    let mut tree = Tree::default();
    tree.file("/usr/bin/tamis", 0o755, "program ".repeat(1000)).expect("fits");
    let about = Description {
        platform: Platform::Arm64,
        name: &name.parse::<Name>().expect("is a name"),
        created: "2023-11-14T22:13:20Z",
        time: 1_700_000_000,
        entrypoint: root::ENTRYPOINT,
        user: root::USER,
        ports: &["8080"],
        labels: &[("org.opencontainers.image.title", "tamis")],
    };
    assemble(tree.archive(1_700_000_000).expect("is written"), compression, &about).expect("is assembled")
}

#[test]
fn digests_are_those_of_sha256() {
    // FIPS 180-2, appendix B.1.
    assert_eq!(hex(b"abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}

#[test]
fn an_image_is_read_through_its_index_and_through_its_docker_manifest() {
    for compression in [Compression::Gzip, Compression::None] {
        let image = small(compression, "registry.example/tamis:1");
        let (config, layer) = read(&image);
        assert_eq!(config["architecture"], "arm64");
        assert_eq!(config["config"]["User"], "65532:65532");
        assert_eq!(config["config"]["Entrypoint"][0], "/usr/bin/tamis");
        assert_eq!(config["config"]["Labels"]["org.opencontainers.image.title"], "tamis");
        assert_eq!(files(&layer)["usr/bin/tamis"].len(), 8000);
        let files = files(&image.archive);
        assert_eq!(parsed(&files["manifest.json"])[0]["RepoTags"][0], "registry.example/tamis:1");
        let annotations = &parsed(&files["index.json"])["manifests"][0]["annotations"];
        assert_eq!(annotations["io.containerd.image.name"], "registry.example/tamis:1");
    }
}

#[test]
fn the_name_of_an_image_is_not_part_of_its_digest() {
    let [one, other] = ["tamis:1", "tamis:2"].map(|name| small(Compression::Gzip, name));
    assert_eq!(one.digest, other.digest);
    assert_ne!(one.archive, other.archive);
}

#[test]
fn certificates_are_written_as_text() {
    let text = pem([&[0_u8; 60][..], b"x"]);
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines.len(), 7);
    assert_eq!(lines[0], "-----BEGIN CERTIFICATE-----");
    assert_eq!((lines[1].len(), lines[2].len()), (64, 16));
    assert_eq!(lines[5], "eA==");
    assert!(text.ends_with("-----END CERTIFICATE-----\n"));
}

/// Returns the program that was built with the tests.
fn program() -> PathBuf {
    let test = std::env::current_exe().expect("a path");
    let found = test.ancestors().skip(1).take(2).map(|folder| folder.join("tamis")).find(|file| file.is_file());
    found.expect("tamis is not built: run `cargo build --workspace --bins`")
}

/// Runs the entry point in an image's files: as root of the machine or of a user namespace, or, if neither is
/// permitted, with the image's loader and libraries.
fn run(root: &Path, arguments: &[&str]) -> Output {
    let start = |program: &str, before: &[&str]| {
        let mut command = Command::new(program);
        command.args(before).env_clear().env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin");
        command
    };
    let folder = root.to_str().expect("text");
    let user = format!("--userspec={}", root::USER);
    let mut chroot = start("chroot", &[&user, folder, root::ENTRYPOINT]);
    if let Ok(output) = chroot.args(arguments).output()
        // 125 is chroot's own failure; 127 is a missing program or loader.
        && output.status.code() != Some(125)
    {
        return output;
    }
    let namespace = ["--user", "--map-root-user"];
    if start("unshare", &namespace).arg("true").status().is_ok_and(|status| status.success()) {
        let mut unshare = start("unshare", &namespace);
        return unshare.args(["chroot", folder, root::ENTRYPOINT]).args(arguments).output().expect("unshare runs");
    }
    let name = Platform::host().expect("Linux").gnu();
    let loaders = ["lib64/ld-linux-x86-64.so.2", "lib/ld-linux-aarch64.so.1"].map(|path| root.join(path));
    let loader = loaders.iter().find(|path| path.is_file()).expect("has a loader");
    let mut loader = start(loader.to_str().expect("text"), &["--inhibit-cache", "--library-path"]);
    loader.arg(root.join("lib").join(name)).arg(root.join(&root::ENTRYPOINT[1..]));
    loader.args(arguments).output().expect("the loader runs")
}

fn printed(output: Output) -> String {
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).expect("text")
}

#[test]
fn an_image_is_the_same_twice_and_its_program_runs_with_nothing_but_the_image() {
    let args = Args {
        output: PathBuf::new(),
        tag: None,
        platform: None,
        binary: Some(program()),
        profile: String::new(),
        compression: Compression::None,
        root: None,
        json: false,
    };
    let revision = Revision { commit: None, time: 1_700_000_000 };
    let [one, other] = [(); 2].map(|()| build(&args, &revision).expect("is built, on Debian or Ubuntu"));
    assert_eq!(one.image.digest, other.image.digest);
    assert!(one.image.archive == other.image.archive, "the same image in archives that differ");
    drop(other);

    let (config, layer) = read(&one.image);
    assert_eq!(config["config"]["User"], "65532:65532");
    let folder = tempfile::tempdir().expect("a folder");
    let root = folder.path().join("root");
    fs::create_dir(&root).expect("is made");
    super::unpack(&layer, &root).expect("is unpacked");
    // The program runs as another user than the test.
    let readable = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    fs::set_permissions(folder.path(), readable).expect("is permitted");

    assert!(printed(run(&root, &["--version"])).starts_with(concat!("tamis ", env!("CARGO_PKG_VERSION"))));
    assert!(printed(run(&root, &["crds"])).contains("name: expositions.tamis.dev"));

    for shell in ["bin/sh", "usr/bin/sh", "bin/busybox", "usr/bin/env"] {
        assert!(!root.join(shell).exists(), "{shell}");
    }
    let certificates = fs::read_to_string(root.join(&root::CERTIFICATES[1..])).expect("are there");
    assert!(certificates.matches("BEGIN CERTIFICATE").count() > 100);
    let sbom = fs::read_to_string(root.join("usr/share/sbom/tamis.cdx.json")).expect("is there");
    let licences = fs::read_to_string(root.join("usr/share/doc/tamis/CRATES")).expect("are there");
    let mut known = 0;
    for component in parsed(sbom.as_bytes())["components"].as_array().expect("a list") {
        let text = |field: &str| component[field].as_str().expect("text").to_owned();
        let purl = component["purl"].as_str().unwrap_or_default();
        if purl.starts_with("pkg:cargo/") {
            assert!(licences.contains(&format!("\n{} {} (", text("name"), text("version"))), "{component}");
            known += 1;
        } else if purl.starts_with("pkg:deb/") {
            assert!(root.join("usr/share/doc").join(text("name")).join("copyright").is_file(), "{component}");
            for file in component["components"].as_array().expect("its files") {
                let path = file["name"].as_str().expect("a path");
                let bytes = fs::read(root.join(path.trim_start_matches('/'))).expect(path);
                assert_eq!(file["hashes"][0]["content"], hex(&bytes), "{path}");
            }
            known += 1;
        }
    }
    assert!(known > 100, "{known} components with a licence");
}

#[test]
fn the_shipped_image_stays_below_its_limit() {
    assert!(check_size(LIMIT - 1).is_ok());
    let error = check_size(LIMIT).expect_err("is too large").to_string();
    assert!(error.starts_with("the image has 40.0 MB, and the limit is 40.0 MB: find what has grown"), "{error}");

    let arguments = |words: &[&str]| {
        #[derive(clap::Parser)]
        struct Command {
            #[command(flatten)]
            args: Args,
        }
        <Command as clap::Parser>::parse_from([&["image"], words].concat()).args
    };
    for (words, shipped) in [
        (&[][..], true),
        (&["--compression", "none"], true),
        (&["--profile", "release"], false),
        (&["--binary", "target/debug/tamis"], false),
    ] {
        assert_eq!(arguments(words).is_shipped(), shipped, "{words:?}");
    }
}
