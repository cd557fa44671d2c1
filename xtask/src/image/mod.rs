//! `cargo xtask image`: a container image of the program, its libraries and certificates, and nothing else. The same
//! inputs give the same bytes.

mod binary;
mod elf;
mod layer;
mod libraries;
mod name;
mod oci;
mod platform;
mod revision;
mod root;

use std::fs;
use std::path::PathBuf;

use anyhow::{Context, Result};
use serde_json::json;

use self::layer::Tree;
use self::name::Name;
use self::oci::{Compression, Description, Image};
use self::platform::Platform;
use self::revision::Revision;

/// What to build, and where to put it.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct Args {
    /// The folder for the image
    #[arg(long, value_name = "DIR", default_value = "target/image")]
    output: PathBuf,
    /// The image's name and tag [default: tamis:VERSION]
    #[arg(long, value_name = "NAME:TAG")]
    tag: Option<Name>,
    /// What the image is for [default: this machine]
    #[arg(long, value_enum)]
    platform: Option<Platform>,
    /// Take this program instead of building one
    #[arg(long, value_name = "PATH")]
    binary: Option<PathBuf>,
    /// The profile of Cargo.toml that it is built with
    #[arg(long, value_name = "NAME", default_value = "dist", conflicts_with = "binary")]
    profile: String,
    /// How the image's layer is kept
    #[arg(long, value_enum, default_value = "gzip")]
    compression: Compression,
    /// Also put the image's files into this folder, which is created
    #[arg(long, value_name = "DIR")]
    root: Option<PathBuf>,
    /// Say as JSON what was written
    #[arg(long)]
    json: bool,
}

const VERSION: &str = env!("CARGO_PKG_VERSION");

/// What was made.
#[derive(Debug)]
struct Built {
    name: Name,
    platform: Platform,
    image: Image,
    /// The layer, as it is unpacked.
    layer: Vec<u8>,
}

/// Runs the command.
pub(crate) fn run(args: &Args) -> Result<()> {
    let built = build(args)?;
    let architecture = built.platform.architecture();
    fs::create_dir_all(&args.output).with_context(|| args.output.display().to_string())?;
    let archive = args.output.join(format!("tamis-{VERSION}-linux-{architecture}.tar"));
    fs::write(&archive, &built.image.archive).with_context(|| archive.display().to_string())?;
    if let Some(root) = &args.root {
        fs::create_dir(root).with_context(|| format!("{}: --root wants a folder that is not there", root.display()))?;
        tar::Archive::new(&built.layer[..]).unpack(root)?;
    }
    let (name, digest) = (built.name.full(), &built.image.digest);
    let (compressed, unpacked) = (built.image.compressed, built.layer.len());
    if args.json {
        let written = json!({
            "archive": archive,
            "name": name,
            "platform": format!("linux/{architecture}"),
            "digest": digest,
            "size": built.image.archive.len(),
            "layer": {"size": compressed, "unpacked": unpacked},
        });
        println!("{written:#}");
    } else {
        println!("{name} {digest}");
        println!("{}: {}, unpacked {}", archive.display(), megabytes(built.image.archive.len()), megabytes(unpacked));
    }
    Ok(())
}

#[expect(clippy::cast_precision_loss, reason = "it is shown with one digit")]
fn megabytes(bytes: usize) -> String {
    format!("{:.1} MB", bytes as f64 / 1e6)
}

fn build(args: &Args) -> Result<Built> {
    let platform = args.platform.map_or_else(Platform::host, Ok)?;
    let name = args.tag.clone().unwrap_or_else(|| Name::new("tamis", VERSION));
    let revision = Revision::read()?;
    let created = revision.created()?;
    let program = match &args.binary {
        Some(path) => binary::stripped(path, platform)?,
        None => binary::build(platform, &args.profile, &revision, &crate::run::root().join("target"))?,
    };

    let mut tree = Tree::default();
    root::fill(&mut tree)?;
    for library in libraries::collect(&program, platform)? {
        tree.file(&library.to, 0o755, library.bytes)?;
    }
    tree.file(root::ENTRYPOINT, 0o755, program)?;
    let layer = tree.archive(revision.time)?;

    let mut labels = vec![
        ("org.opencontainers.image.title", "tamis"),
        ("org.opencontainers.image.description", "Kubernetes operator and MCP gateway that filters what tools answer"),
        ("org.opencontainers.image.version", VERSION),
        ("org.opencontainers.image.created", &created),
        ("org.opencontainers.image.licenses", env!("CARGO_PKG_LICENSE")),
    ];
    // A program that was there may be of any commit; it says so itself where it knows.
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
    Ok(Built { name, platform, image, layer })
}
