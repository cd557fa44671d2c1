//! Which object something is said of.

use std::fmt;

use tamis_crds::ObjectName;

/// The kinds that people write.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Kind {
    /// What can be called.
    ServiceManifest,
    /// What may pass.
    ToolsFilters,
    /// Tools under other names.
    CustomTools,
    /// What expositions share towards an upstream.
    ConfigurationPlan,
    /// Gateways that serve together.
    GatewayGroup,
    /// Who sees which service, how.
    Exposition,
}

impl Kind {
    /// All of them; an object is listed after those that it refers to.
    pub const ALL: [Self; 6] = [
        Self::ServiceManifest,
        Self::ToolsFilters,
        Self::CustomTools,
        Self::ConfigurationPlan,
        Self::GatewayGroup,
        Self::Exposition,
    ];

    /// As `kind` says it.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::ServiceManifest => "ServiceManifest",
            Self::ToolsFilters => "ToolsFilters",
            Self::CustomTools => "CustomTools",
            Self::ConfigurationPlan => "ConfigurationPlan",
            Self::GatewayGroup => "GatewayGroup",
            Self::Exposition => "Exposition",
        }
    }

    /// Whether objects of the kind can be large: up to the 1.5 MB that the API server takes.
    pub(crate) fn is_large(self) -> bool {
        match self {
            Self::ServiceManifest | Self::ToolsFilters | Self::CustomTools => true,
            Self::ConfigurationPlan | Self::GatewayGroup | Self::Exposition => false,
        }
    }

    /// As the address of its API says it.
    #[must_use]
    pub fn plural(self) -> &'static str {
        match self {
            Self::ServiceManifest => "servicemanifests",
            Self::ToolsFilters => "toolsfilters",
            Self::CustomTools => "customtools",
            Self::ConfigurationPlan => "configurationplans",
            Self::GatewayGroup => "gatewaygroups",
            Self::Exposition => "expositions",
        }
    }
}

/// An object of the API.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ObjectKey {
    /// Its kind.
    pub kind: Kind,
    /// Its namespace and name.
    pub name: ObjectName,
}

impl fmt::Display for ObjectKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.kind.as_str(), self.name)
    }
}
