//! `cargo xtask image`: a container image of the program, its libraries and certificates, with licences and an SBOM,
//! and nothing else. The same inputs give the same bytes.

mod binary;
mod crates;
mod elf;
mod layer;
mod libraries;
mod licences;
mod name;
mod oci;
mod packages;
mod platform;
mod revision;
mod root;
mod sbom;
#[cfg(all(test, target_os = "linux"))]
mod tests;
mod toolchain;

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use self::layer::Tree;
use self::name::Name;
use self::oci::{Compression, Description, Image};
use self::platform::Platform;
use self::revision::Revision;
pub(crate) use self::revision::commit;
use self::toolchain::Toolchain;

/// What to build, and where to write it.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct Args {
    /// The folder for the image
    #[arg(long, value_name = "DIR", default_value = "target/image")]
    output: PathBuf,
    /// The image's name and tag [default: tamis:VERSION]
    #[arg(long, value_name = "NAME:TAG")]
    tag: Option<Name>,
    /// The platform of the image [default: this machine]
    #[arg(long, value_enum)]
    platform: Option<Platform>,
    /// Use this program instead of building one
    #[arg(long, value_name = "PATH")]
    binary: Option<PathBuf>,
    /// The Cargo profile of the build
    #[arg(long, value_name = "NAME", default_value = SHIPPED, conflicts_with = "binary")]
    profile: String,
    /// The compression of the image's layer
    #[arg(long, value_enum, default_value = "gzip")]
    compression: Compression,
    /// Also write the image's files to this folder, which is created
    #[arg(long, value_name = "DIR")]
    root: Option<PathBuf>,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
}

/// The profile of the program that is shipped.
const SHIPPED: &str = "dist";
/// The size that the shipped image must stay below, in bytes, compressed or not.
const LIMIT: usize = 40_000_000;
const VERSION: &str = env!("CARGO_PKG_VERSION");
const LICENSE: &str = env!("CARGO_PKG_LICENSE");

/// A finished image, with what it was made of.
#[derive(Debug)]
struct Built {
    name: Name,
    platform: Platform,
    image: Image,
    /// The layer, uncompressed.
    layer: Vec<u8>,
    sbom: String,
}

/// Runs the command.
pub(crate) fn run(args: &Args) -> Result<()> {
    let built = build(args, &Revision::read()?)?;
    if args.is_shipped() {
        check_size(built.image.archive.len())?;
    }
    let stem = format!("tamis-{VERSION}-linux-{}", built.platform.architecture());
    let archive = args.output.join(format!("{stem}.tar"));
    let sbom = args.output.join(format!("{stem}.cdx.json"));
    fs::create_dir_all(&args.output).with_context(|| args.output.display().to_string())?;
    fs::write(&archive, &built.image.archive).with_context(|| archive.display().to_string())?;
    fs::write(&sbom, &built.sbom).with_context(|| sbom.display().to_string())?;
    if let Some(root) = &args.root {
        fs::create_dir(root)
            .with_context(|| format!("{}: --root creates this folder, so it must not exist yet", root.display()))?;
        unpack(&built.layer, root)?;
    }
    if args.json {
        println!("{:#}", summary(&built, &archive, &sbom));
    } else {
        println!("{} {}", built.name.full(), built.image.digest);
        let (size, unpacked) = (megabytes(built.image.archive.len()), megabytes(built.layer.len()));
        println!("{}: {size}, unpacked {unpacked}", archive.display());
    }
    Ok(())
}

impl Args {
    /// Returns whether the image contains the program that is shipped: built here, with the profile `dist`.
    fn is_shipped(&self) -> bool {
        self.binary.is_none() && self.profile == SHIPPED
    }
}

/// Fails if the archive of the shipped image is too large.
fn check_size(bytes: usize) -> Result<()> {
    ensure!(
        bytes < LIMIT,
        "the image has {}, and the limit is {}: find what has grown, for example with `cargo bloat --profile dist --bin \
         tamis --crates`, or raise LIMIT in xtask/src/image/mod.rs with the reason in docs/image.md",
        megabytes(bytes),
        megabytes(LIMIT)
    );
    Ok(())
}

fn summary(built: &Built, archive: &Path, sbom: &Path) -> Value {
    json!({
        "archive": archive,
        "sbom": sbom,
        "name": built.name.full(),
        "platform": format!("linux/{}", built.platform.architecture()),
        "digest": built.image.digest,
        "size": built.image.archive.len(),
        "layer": {"size": built.image.compressed, "unpacked": built.layer.len()},
    })
}

fn unpack(layer: &[u8], folder: &Path) -> Result<()> {
    let mut archive = tar::Archive::new(layer);
    archive.set_preserve_permissions(true);
    archive.unpack(folder).with_context(|| folder.display().to_string())
}

#[expect(clippy::cast_precision_loss, reason = "it is shown with one digit")]
fn megabytes(bytes: usize) -> String {
    format!("{:.1} MB", bytes as f64 / 1e6)
}

fn build(args: &Args, revision: &Revision) -> Result<Built> {
    let platform = args.platform.map_or_else(Platform::host, Ok)?;
    let name = args.tag.clone().unwrap_or_else(|| Name::new("tamis", VERSION));
    let created = revision.created()?;
    let program = match &args.binary {
        Some(path) => binary::stripped(path, platform)?,
        None => binary::build(platform, &args.profile, revision)?,
    };
    let (tree, sbom) = contents(program, platform, &created)?;
    let layer = tree.archive(revision.time)?;

    let mut labels = vec![
        ("org.opencontainers.image.title", "tamis"),
        ("org.opencontainers.image.description", "Kubernetes operator and MCP gateway that filters what tools answer"),
        ("org.opencontainers.image.version", VERSION),
        ("org.opencontainers.image.created", &created),
        ("org.opencontainers.image.licenses", LICENSE),
    ];
    // An existing program may be from any commit; `--version` names the commit if the program knows it.
    if let (Some(commit), None) = (&revision.commit, &args.binary) {
        labels.push(("org.opencontainers.image.revision", commit));
    }
    let about = Description {
        platform,
        name: &name,
        created: &created,
        time: revision.time,
        entrypoint: root::ENTRYPOINT,
        user: root::USER,
        ports: &["8080", "9090"],
        labels: &labels,
    };
    let image = oci::assemble(layer.clone(), args.compression, &about)?;
    Ok(Built { name, platform, image, layer, sbom })
}

/// Returns the files of the image, and its SBOM.
fn contents(program: Vec<u8>, platform: Platform, created: &str) -> Result<(Tree, String)> {
    let mut tree = Tree::default();
    root::fill(&mut tree)?;
    let libraries = libraries::collect(&program, platform)?;
    let packages = packages::of(&libraries)?;
    packages::licences(&packages, &mut tree)?;
    for library in libraries {
        tree.file(&library.to, 0o755, library.bytes)?;
    }

    let crates = crates::of(platform, &[root::CERTIFICATES_CRATE])?;
    let rust = Toolchain::read()?;
    let sbom = sbom::document(&sbom::Contents {
        version: VERSION,
        license: LICENSE,
        created,
        program: &program,
        rust: &rust.release,
        crates: &crates,
        packages: &packages,
    });
    tree.file(root::ENTRYPOINT, 0o755, program)?;
    // Scanners find SBOMs by the end of the name.
    tree.file("/usr/share/sbom/tamis.cdx.json", 0o644, sbom.as_str())?;
    for name in ["LICENSE", "NOTICE"] {
        tree.file(&format!("/usr/share/doc/tamis/{name}"), 0o644, fs::read(crate::run::root().join(name))?)?;
    }
    tree.file("/usr/share/doc/tamis/CRATES", 0o644, licences::report(&crates)?)?;
    let file = "COPYRIGHT-library.html";
    let text = rust.sysroot.join("share/doc/rust").join(file);
    let text = fs::read(&text).with_context(|| format!("the licences of Rust's library: {}", text.display()))?;
    tree.file(&format!("/usr/share/doc/rust/{file}"), 0o644, text)?;
    Ok((tree, sbom))
}
