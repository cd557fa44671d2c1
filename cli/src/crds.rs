//! `tamis crds`: the CustomResourceDefinitions and the admission policies.

use std::process::ExitCode;

use tamis_crds::definitions::{self, PodKey, ServiceAccount};

use crate::output::{self, Form};

/// Print the CustomResourceDefinitions, for kubectl.
///
/// They are those of this version of Tamis: apply them before its operator is started.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "\
Examples:
  tamis crds | kubectl apply --server-side -f -
  tamis crds --policies | kubectl apply --server-side -f -
  # where the operator does not run as tamis-system/tamis-operator:
  tamis crds --policies --operator platform/tamis | kubectl apply --server-side -f -")]
pub(crate) struct Args {
    /// Print the admission policies too
    #[arg(long)]
    policies: bool,
    /// The ServiceAccount of an operator: such alone write GatewayConfigs, and nothing but what an operator writes; may be
    /// repeated [default: tamis-system/tamis-operator]
    #[arg(long = "operator", value_name = "NAMESPACE/NAME", requires = "policies")]
    operators: Vec<ServiceAccount>,
    /// A label or annotation that GatewayGroups may put on pods, or a domain of such that ends in `/`, besides the
    /// built-in ones; may be repeated
    #[arg(long = "pod-metadata", value_name = "KEY", requires = "policies")]
    pod_metadata: Vec<PodKey>,
    /// How to print them
    #[arg(long, default_value = "yaml")]
    output: Form,
}

/// Writes them to standard output.
pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let mut documents = definitions::custom_resource_definitions();
    if args.policies {
        let usual = [ServiceAccount::default()];
        let operators = if args.operators.is_empty() { &usual } else { args.operators.as_slice() };
        documents.extend(definitions::policies(operators, &args.pod_metadata));
    }
    output::objects(&documents, args.output)?;
    Ok(ExitCode::SUCCESS)
}
