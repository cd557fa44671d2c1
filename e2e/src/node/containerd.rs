//! containerd and its configuration to run pods.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result};
use serde_json::json;
use tamis_tests::cluster::{Process, eventually};

use crate::machine::{Machine, NAME, PODS, output};

/// The image of pod sandboxes.
pub(crate) const PAUSE: &str = "localhost/tamis-e2e/pause:1";

/// A running containerd.
pub(crate) struct Containerd {
    socket: PathBuf,
    _process: Process,
}

impl Containerd {
    pub(crate) async fn start(machine: &Machine) -> Result<Self> {
        let folder = machine.folder();
        let socket = folder.join("containerd.sock");
        let config = folder.join("containerd.toml");
        fs::write(&config, configuration(folder, &socket, machine.plugins()))?;
        fs::create_dir_all(folder.join("cni"))?;
        fs::write(folder.join("cni/10-pods.conflist"), network(folder).to_string())?;
        let mut command = Machine::on_node(Path::new("containerd"));
        command.arg("--config").arg(&config);
        let process = Process::spawn("containerd", &mut command, &folder.join("containerd.log"), 0)?;
        let containerd = Self { socket, _process: process };
        eventually("containerd answers", Duration::from_secs(30), async || Ok(containerd.ctr(&["version"]).ok()))
            .await
            .with_context(|| log(folder))?;
        Ok(containerd)
    }

    /// Returns the path of its socket.
    pub(crate) fn socket(&self) -> &Path {
        &self.socket
    }

    /// Runs `ctr` in the namespace of Kubernetes.
    pub(crate) fn ctr(&self, args: &[&str]) -> Result<String> {
        output(Command::new("ctr").arg("--address").arg(&self.socket).args(["--namespace", "k8s.io"]).args(args))
    }

    /// Imports an archive of images; the kubelet finds them by name.
    pub(crate) fn import(&self, archive: &Path) -> Result<()> {
        self.ctr(&["images", "import", &archive.display().to_string()]).map(drop)
    }

    /// Adds a name to an image.
    pub(crate) fn tag(&self, from: &str, to: &str) -> Result<()> {
        self.ctr(&["images", "tag", "--force", &whole_name(from), &whole_name(to)]).map(drop)
    }
}

/// Returns containerd's name of an image for the name that Kubernetes uses.
fn whole_name(name: &str) -> String {
    if name.contains('/') { name.to_owned() } else { format!("docker.io/library/{name}") }
}

fn log(folder: &Path) -> String {
    let log = fs::read_to_string(folder.join("containerd.log")).unwrap_or_default();
    let lines: Vec<_> = log.lines().collect();
    lines[lines.len().saturating_sub(20)..].join("\n")
}

fn configuration(folder: &Path, socket: &Path, plugins: &Path) -> String {
    let (folder, socket, plugins) = (folder.display(), socket.display(), plugins.display());
    format!(
        r#"version = 2
root = "{folder}/containerd/root"
state = "{folder}/containerd/state"
[grpc]
  address = "{socket}"
[plugins."io.containerd.internal.v1.opt"]
  path = "{folder}/containerd/opt"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "{PAUSE}"
  # Without CAP_SYS_RESOURCE nobody's score can be lowered.
  restrict_oom_score_adj = true
  netns_mounts_under_state_dir = true
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "{plugins}"
    conf_dir = "{folder}/cni"
  [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
    runtime_type = "io.containerd.runc.v2"
    [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
      Root = "{folder}/containerd/runc"
"#
    )
}

/// A veth pair for each pod and routes between them, without a bridge, so that packets between pods pass the node's
/// rules without a kernel module.
fn network(folder: &Path) -> serde_json::Value {
    json!({
        "cniVersion": "0.4.0",
        "name": NAME,
        "plugins": [{
            "type": "ptp",
            "ipMasq": false,
            "ipam": {
                "type": "host-local",
                "dataDir": folder.join("addresses"),
                "ranges": [[{"subnet": PODS}]],
                "routes": [{"dst": "0.0.0.0/0"}],
            },
        }],
    })
}

#[cfg(test)]
mod tests {
    use super::whole_name;

    #[test]
    fn short_names_get_the_default_registry() {
        assert_eq!(whole_name("tamis:0.1.0"), "docker.io/library/tamis:0.1.0");
        assert_eq!(whole_name("localhost/tamis-e2e/pause:1"), "localhost/tamis-e2e/pause:1");
    }
}
