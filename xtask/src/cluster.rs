//! Programs built from Go modules in this repository: the API server for the tests of the operator, Helm and an
//! OpenTelemetry Collector from `tests/cluster/`, an MCP server from `tests/servers/go/`, and the other programs of a node for
//! the end-to-end run from `e2e/cluster/`.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use crate::run::{quietly, root};
use crate::tools::{is_stamped, once, read};

/// Programs that are searched for and built together.
pub(crate) struct Set {
    /// The folder in `.tools/`.
    pub(crate) folder: &'static str,
    /// The folder of the modules.
    pub(crate) sources: &'static str,
    /// The title of the build step.
    pub(crate) what: &'static str,
    pub(crate) modules: &'static [Module],
}

pub(crate) struct Module {
    pub(crate) folder: &'static str,
    /// The modules to build.
    pub(crate) files: &'static [&'static str],
    /// Main packages and the names of their programs.
    pub(crate) programs: &'static [(&'static str, &'static str)],
    /// Build tags.
    pub(crate) tags: &'static str,
    /// The module whose version the programs report to clients.
    pub(crate) versioned: Option<&'static str>,
}

pub(crate) const LOCKED: &[&str] = &["go.mod", "go.sum", "tools.go"];
const KUBERNETES: Option<&str> = Some("k8s.io/kubernetes");

/// etcd, kube-apiserver and kubectl, the three programs that the tests search for.
pub(crate) const API_SERVER: Set = Set {
    folder: "cluster",
    sources: "tests/cluster",
    what: "etcd, kube-apiserver and kubectl",
    modules: &[
        Module {
            folder: "etcd",
            files: LOCKED,
            programs: &[("go.etcd.io/etcd/server/v3", "etcd")],
            tags: "",
            versioned: None,
        },
        Module {
            folder: "kubernetes",
            files: LOCKED,
            programs: &[
                ("k8s.io/kubernetes/cmd/kube-apiserver", "kube-apiserver"),
                ("k8s.io/kubernetes/cmd/kubectl", "kubectl"),
            ],
            tags: "",
            versioned: KUBERNETES,
        },
    ],
};

/// Helm, for the tests of the charts.
pub(crate) const HELM: Set = Set {
    folder: "helm",
    sources: "tests/cluster",
    what: "Helm",
    modules: &[Module {
        folder: "helm",
        files: LOCKED,
        programs: &[("helm.sh/helm/v4/cmd/helm", "helm")],
        tags: "",
        versioned: None,
    }],
};

/// An OpenTelemetry Collector, for the tests of traces.
pub(crate) const COLLECTOR: Set = Set {
    folder: "otelcol",
    sources: "tests/cluster",
    what: "the OpenTelemetry Collector",
    modules: &[Module {
        folder: "otelcol",
        files: &["go.mod", "go.sum", "main.go"],
        programs: &[(".", "otelcol")],
        tags: "",
        versioned: None,
    }],
};

/// An MCP server on the official Go SDK, for the tests of MCP servers.
pub(crate) const GO_SERVER: Set = Set {
    folder: "go-server",
    sources: "tests/servers",
    what: "an MCP server on the Go SDK",
    modules: &[Module {
        folder: "go",
        files: &["go.mod", "go.sum", "main.go"],
        programs: &[(".", "mcp-server-orders")],
        tags: "",
        versioned: None,
    }],
};

/// The programs of a node other than the API server; `tamis-e2e` searches for the same.
pub(crate) const NODE: Set = Set {
    folder: "e2e",
    sources: "e2e/cluster",
    what: "kubelet and the rest of a node, CoreDNS and metrics-server",
    modules: &[
        Module {
            folder: "kubernetes",
            files: LOCKED,
            programs: &[
                ("k8s.io/kubernetes/cmd/kubelet", "kubelet"),
                ("k8s.io/kubernetes/cmd/kube-controller-manager", "kube-controller-manager"),
                ("k8s.io/kubernetes/cmd/kube-scheduler", "kube-scheduler"),
                ("k8s.io/kubernetes/cmd/kube-proxy", "kube-proxy"),
            ],
            tags: "",
            versioned: KUBERNETES,
        },
        Module {
            folder: "coredns",
            files: &["go.mod", "go.sum", "main.go"],
            programs: &[(".", "coredns")],
            tags: "",
            versioned: None,
        },
        Module {
            folder: "metrics-server",
            files: LOCKED,
            programs: &[("sigs.k8s.io/metrics-server/cmd/metrics-server", "metrics-server")],
            tags: "",
            versioned: None,
        },
        Module {
            folder: "pause",
            files: &["go.mod", "main.go"],
            programs: &[(".", "pause")],
            tags: "",
            versioned: None,
        },
    ],
};

impl Set {
    /// Returns whether the programs have to be built: they are neither in `KUBEBUILDER_ASSETS` or a folder of `PATH`,
    /// nor built already.
    pub(crate) fn is_needed(&self, tools: &Path) -> Result<bool> {
        let assets = env::var_os("KUBEBUILDER_ASSETS").map(PathBuf::from);
        let path = env::var_os("PATH").unwrap_or_default();
        let found = assets.into_iter().chain(env::split_paths(&path)).any(|folder| self.is_complete(&folder));
        Ok(!found && !self.is_built(tools)?)
    }

    /// Returns whether the programs are already built from the current modules.
    pub(crate) fn is_built(&self, tools: &Path) -> Result<bool> {
        Ok(is_stamped(&tools.join(self.folder), &self.stamp()?))
    }

    /// Builds the programs into their folder, unless they are already built.
    pub(crate) fn install(&self, tools: &Path) -> Result<()> {
        once(&tools.join(self.folder), &self.stamp()?, |folder| {
            eprintln!("    building {}: some minutes, the first time", self.what);
            self.modules.iter().try_for_each(|module| self.build(module, folder))
        })
    }

    pub(crate) fn programs(&self) -> impl Iterator<Item = &'static str> {
        self.modules.iter().flat_map(|module| module.programs.iter().map(|&(_, name)| name))
    }

    pub(crate) fn is_complete(&self, folder: &Path) -> bool {
        self.programs().all(|program| folder.join(program).is_file())
    }

    pub(crate) fn sources(&self, module: &Module) -> PathBuf {
        root().join(self.sources).join(module.folder)
    }

    /// Returns the stamp of a build: the text of all its inputs.
    pub(crate) fn stamp(&self) -> Result<String> {
        let files = self.modules.iter().flat_map(|module| {
            let sources = self.sources(module);
            module.files.iter().map(move |file| sources.join(file))
        });
        let tags = self.modules.iter().map(|module| Ok(module.tags.to_owned()));
        files.map(|file| read(&file)).chain(tags).collect()
    }

    /// Builds the programs of one module into a folder.
    pub(crate) fn build(&self, module: &Module, folder: &Path) -> Result<()> {
        let sources = self.sources(module);
        let mut flags = "-s -w".to_owned();
        if let Some(name) = module.versioned {
            let version = required(&read(&sources.join("go.mod"))?, name)
                .with_context(|| format!("{} does not require {name}", sources.display()))?;
            flags += &version_flags(&version);
        }
        for (package, program) in module.programs {
            let mut go = Command::new("go");
            // Ignores any Go workspace or repository around this one.
            go.env("CGO_ENABLED", "0").env("GOWORK", "off").current_dir(&sources);
            go.args(["build", "-mod=readonly", "-buildvcs=false", "-trimpath", "-ldflags", &flags]);
            go.args(["-tags", module.tags, "-o"]).arg(folder.join(program));
            quietly(go.arg(package))?;
        }
        Ok(())
    }
}

/// Returns the version at which a `go.mod` requires a module on a separate line.
fn required(text: &str, module: &str) -> Option<String> {
    let lines = text.lines().map(|line| line.trim().trim_start_matches("require ").trim());
    let mut versions = lines.filter_map(|line| line.strip_prefix(module)?.strip_prefix(' '));
    versions.next()?.split_whitespace().next().map(str::to_owned)
}

/// Returns the linker flags that Kubernetes' own build sets. Without them the server reports version 0 to clients.
fn version_flags(version: &str) -> String {
    let mut numbers = version.trim_start_matches('v').split('.');
    let (major, minor) = (numbers.next().unwrap_or_default(), numbers.next().unwrap_or_default());
    [("gitVersion", version), ("gitMajor", major), ("gitMinor", minor), ("gitTreeState", "clean")]
        .map(|(name, value)| format!(" -X k8s.io/component-base/version.{name}={value}"))
        .concat()
}

#[cfg(test)]
mod tests {
    use super::{API_SERVER, COLLECTOR, GO_SERVER, HELM, KUBERNETES, NODE, required, version_flags};
    use crate::tools::read;

    #[test]
    fn each_program_is_built_once_from_a_module_that_is_there() {
        let mut built: Vec<_> =
            [API_SERVER, HELM, COLLECTOR, GO_SERVER, NODE].iter().flat_map(super::Set::programs).collect();
        let count = built.len();
        built.sort_unstable();
        built.dedup();
        assert_eq!(built.len(), count, "{built:?}");
        for set in [API_SERVER, HELM, COLLECTOR, GO_SERVER, NODE] {
            assert!(set.stamp().expect("all files are there").contains("go 1."));
        }
    }

    #[test]
    fn the_node_has_the_api_servers_version() {
        let name = KUBERNETES.expect("has a name");
        let versions = [API_SERVER, NODE].map(|set| {
            let module = set.modules.iter().find(|module| module.versioned.is_some()).expect("there is one");
            required(&read(&set.sources(module).join("go.mod")).expect("is there"), name).expect("is required")
        });
        assert!(versions[0].starts_with("v1.") && versions[0] == versions[1], "{versions:?}");
    }

    #[test]
    fn the_required_version_is_read() {
        let text = "module m\n\nrequire a.b/c v1.2.3\n\nrequire (\n\ta.b/cd v4.5.6 // indirect\n)\n";
        assert_eq!(required(text, "a.b/c").as_deref(), Some("v1.2.3"));
        assert_eq!(required(text, "a.b/cd").as_deref(), Some("v4.5.6"));
        assert_eq!(required(text, "a.b/x"), None);
        let flags = version_flags("v1.35.4");
        assert!(flags.contains(".gitVersion=v1.35.4 ") && flags.contains(".gitMajor=1 "), "{flags}");
        assert!(flags.contains(".gitMinor=35 "), "{flags}");
    }

    #[test]
    fn a_folder_without_all_programs_is_not_used() {
        let dir = tempfile::tempdir().expect("a folder");
        for program in API_SERVER.programs() {
            assert!(!API_SERVER.is_complete(dir.path()));
            std::fs::write(dir.path().join(program), "").expect("is written");
        }
        assert!(API_SERVER.is_complete(dir.path()));
    }
}
