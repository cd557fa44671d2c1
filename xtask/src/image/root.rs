//! The files of an image that a program expects of a system, other than libraries. Pure.

use anyhow::Result;

use super::layer::Tree;
use super::oci::pem;

/// The path of the program.
pub(crate) const ENTRYPOINT: &str = "/usr/bin/tamis";
/// The user and the group of the program, by number, so that Kubernetes can see that it is not root.
pub(crate) const USER: &str = "65532:65532";
/// The first path at which rustls looks for certificates on Linux.
pub(crate) const CERTIFICATES: &str = "/etc/ssl/certs/ca-certificates.crt";
/// The crate with the certificates that Mozilla trusts.
pub(crate) const CERTIFICATES_CRATE: &str = "webpki-root-certs";

const PASSWD: &str = "\
root:x:0:0:root:/:/sbin/nologin
nobody:x:65534:65534:nobody:/:/sbin/nologin
nonroot:x:65532:65532:nonroot:/home/nonroot:/sbin/nologin
";
const GROUP: &str = "root:x:0:\nnobody:x:65534:\nnonroot:x:65532:\n";
/// Host names: `/etc/hosts`, which the container engine writes, then DNS.
const NSSWITCH: &str = "passwd: files\ngroup: files\nhosts: files dns\nservices: files\nprotocols: files\n";

/// Adds users, name resolution, certificates, and a `/tmp` for containers that mount nothing there.
pub(crate) fn fill(tree: &mut Tree) -> Result<()> {
    tree.file("/etc/passwd", 0o644, PASSWD)?;
    tree.file("/etc/group", 0o644, GROUP)?;
    tree.file("/etc/nsswitch.conf", 0o644, NSSWITCH)?;
    tree.file(CERTIFICATES, 0o644, pem(webpki_root_certs::TLS_SERVER_ROOT_CERTS.iter().map(AsRef::as_ref)))?;
    tree.folder("/home/nonroot", 0o755)?;
    tree.folder("/tmp", 0o1777)
}
