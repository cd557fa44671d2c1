//! `tamis crds`: the CustomResourceDefinitions and the admission policies.

use std::process::ExitCode;

use tamis_crds::definitions::{self, PodKey, ServiceAccount};

use crate::output::{self, Form};

/// Print the CustomResourceDefinitions, for kubectl.
///
/// Apply the definitions of a version before you start its operator.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "\
Examples:
  tamis crds | kubectl apply --server-side -f -
  tamis crds --policies | kubectl apply --server-side -f -
  # if the operator does not run as tamis-system/tamis-operator:
  tamis crds --policies --operator platform/tamis | kubectl apply --server-side -f -")]
pub(crate) struct Args {
    /// Also print the admission policies
    #[arg(long)]
    policies: bool,
    /// The ServiceAccount of an operator. The policies allow only operators to write GatewayConfigs, and restrict operators
    /// to the writes that they need; may be repeated [default: tamis-system/tamis-operator]
    #[arg(long = "operator", value_name = "NAMESPACE/NAME", requires = "policies")]
    operators: Vec<ServiceAccount>,
    /// A label or annotation that GatewayGroups may set on pods, or a domain that ends in `/`, in addition to the built-in
    /// ones; may be repeated
    #[arg(long = "pod-metadata", value_name = "KEY", requires = "policies")]
    pod_metadata: Vec<PodKey>,
    /// The output format
    #[arg(long, default_value = "yaml")]
    output: Form,
}

/// Prints the definitions, and the policies if requested.
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
