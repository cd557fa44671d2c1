// Modules that carry the CustomResourceDefinitions of others which the chart has objects of. Nothing of them is built:
// `cargo xtask tools` downloads these two and copies the definitions.
module tamis.test/cluster/definitions

go 1.25.0

require (
	github.com/prometheus-operator/prometheus-operator v0.85.0
	sigs.k8s.io/gateway-api v1.4.0
)
