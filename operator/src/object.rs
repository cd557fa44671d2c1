//! Keys of the objects that users write.

use std::fmt;

use tamis_crds::ObjectName;

/// The kinds that users write.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Kind {
    /// Describes a service and its tools.
    ServiceManifest,
    /// Filters the output of tools.
    ToolsFilters,
    /// Publishes tools under other names.
    CustomTools,
    /// Prompts of a service.
    Prompts,
    /// Resources of a service.
    Resources,
    /// Upstream settings that expositions share.
    ConfigurationPlan,
    /// Gateways that serve the same expositions.
    GatewayGroup,
    /// Publishes a service for an audience.
    Exposition,
}

impl Kind {
    /// All kinds. A kind comes after those that it refers to.
    pub const ALL: [Self; 8] = [
        Self::ServiceManifest,
        Self::ToolsFilters,
        Self::CustomTools,
        Self::Prompts,
        Self::Resources,
        Self::ConfigurationPlan,
        Self::GatewayGroup,
        Self::Exposition,
    ];

    /// Returns the value of the field `kind`.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::ServiceManifest => "ServiceManifest",
            Self::ToolsFilters => "ToolsFilters",
            Self::CustomTools => "CustomTools",
            Self::Prompts => "Prompts",
            Self::Resources => "Resources",
            Self::ConfigurationPlan => "ConfigurationPlan",
            Self::GatewayGroup => "GatewayGroup",
            Self::Exposition => "Exposition",
        }
    }

    /// Returns whether objects of the kind can be large: up to the 1.5 MB that the API server accepts.
    pub(crate) fn is_large(self) -> bool {
        match self {
            Self::ServiceManifest | Self::ToolsFilters | Self::CustomTools | Self::Prompts | Self::Resources => true,
            Self::ConfigurationPlan | Self::GatewayGroup | Self::Exposition => false,
        }
    }

    /// Returns the plural, as in the path of the API.
    #[must_use]
    pub fn plural(self) -> &'static str {
        match self {
            Self::ServiceManifest => "servicemanifests",
            Self::ToolsFilters => "toolsfilters",
            Self::CustomTools => "customtools",
            Self::Prompts => "prompts",
            Self::Resources => "resources",
            Self::ConfigurationPlan => "configurationplans",
            Self::GatewayGroup => "gatewaygroups",
            Self::Exposition => "expositions",
        }
    }
}

/// The key of an object.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ObjectKey {
    /// The kind.
    pub kind: Kind,
    /// The namespace and name.
    pub name: ObjectName,
}

impl fmt::Display for ObjectKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.kind.as_str(), self.name)
    }
}
