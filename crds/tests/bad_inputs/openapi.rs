//! What is wrong with OpenAPI documents.

use super::{Case, yaml};

macro_rules! manifest {
    ($openapi:literal) => {
        concat!(
            "apiVersion: tamis.dev/v1alpha1\nkind: ServiceManifest\nmetadata: {name: pets}\nspec:\n  version: 1.0.0\n  openapi:\n",
            $openapi
        )
    };
}

macro_rules! config_map {
    ($data:literal) => {
        concat!(
            "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: petstore, labels: {tamis.dev/document: \"true\"}}\n",
            $data
        )
    };
}

macro_rules! stored {
    ($reference:literal, $data:literal) => {
        concat!(manifest!("    configMapRef: "), $reference, "\n---\n", config_map!($data))
    };
}

pub(super) const OPENAPI: &[Case] = &[
    yaml("A document that no manifest names", "openapi: 3.1.0\npaths: {}\n"),
    yaml("No document", manifest!("    baseUrl: https://api.example.com\n")),
    yaml("A ConfigMap that is not there", manifest!("    configMapRef: {name: petstore, key: openapi.yaml}\n")),
    yaml(
        "A key that is not there",
        stored!("{name: petstore, key: openapi.yml}", "data:\n  openapi.yaml: |\n    openapi: 3.1.0\n"),
    ),
    yaml("A ConfigMap that no manifest names", config_map!("data:\n  openapi.yaml: |\n    openapi: 3.1.0\n")),
    yaml(
        "A mistake in a ConfigMap",
        stored!(
            "{name: petstore, key: openapi.yaml}",
            "data:\n  openapi.yaml: |\n    openapi: 3.1.0\n    servers: [{url: \"https://api.example.com\"}]\n    paths:\n      \
             /pets:\n        get: {parameters: [{name: id, in: nowhere}]}\n"
        ),
    ),
    yaml(
        "A key that is not compressed as it says",
        stored!("{name: petstore, key: openapi.yaml.gz}", "binaryData: {openapi.yaml.gz: b3BlbmFwaTogMy4xLjAK}\n"),
    ),
    yaml("A value that is no base64", stored!("{name: petstore, key: a.gz}", "binaryData: {a.gz: \"?\"}\n")),
    yaml(
        "A document that is given twice",
        manifest!("    configMapRef: {name: petstore, key: openapi.yaml}\n    file: petstore.yaml\n"),
    ),
    yaml("A file outside the manifest's folder", manifest!("    file: ../petstore.yaml\n")),
    yaml("A file that is not there", manifest!("    file: petstore.yaml\n")),
    yaml("Swagger 2.0", manifest!("    inline: {swagger: \"2.0\", paths: {}}\n")),
    yaml("A version that is not supported", manifest!("    inline: {openapi: 4.0.0, paths: {}}\n")),
    yaml("No server", manifest!("    inline: {openapi: 3.1.0, servers: [{url: /v1}], paths: {/pets: {get: {}}}}\n")),
    yaml(
        "A server on a metadata address",
        manifest!(
            "    inline: {openapi: 3.1.0, servers: [{url: \"http://169.254.169.254/latest\"}], paths: {/pets: {get: {}}}}\n"
        ),
    ),
    yaml(
        "A server's variable without a default",
        manifest!(
            "    inline: {openapi: 3.1.0, servers: [{url: \"https://{host}/v1\", variables: {host: {}}}], paths: {/pets: {get: {}}}}\n"
        ),
    ),
    yaml(
        "An operationId that occurs twice",
        manifest!(
            "    inline:\n      openapi: 3.1.0\n      servers: [{url: \"https://api.example.com\"}]\n      paths:\n        \
             /a: {get: {operationId: list}}\n        /b: {get: {operationId: list}}\n"
        ),
    ),
    yaml(
        "An operation, and an override, that do not exist",
        manifest!(
            "    inline:\n      openapi: 3.1.0\n      servers: [{url: \"https://api.example.com\"}]\n      paths:\n        \
             /a: {get: {operationId: listPets}}\n    operations: {include: [listPet, \"get*\", list*]}\n    overrides: {listPet: {title: Pets}}\n"
        ),
    ),
    yaml(
        "A parameter of the path that is not declared",
        manifest!(
            "    inline:\n      openapi: 3.1.0\n      servers: [{url: \"https://api.example.com\"}]\n      paths:\n        \
             \"/pets/{petId}\": {get: {parameters: [{name: id, in: path, required: true}]}}\n"
        ),
    ),
    yaml(
        "Schemas with mistakes",
        manifest!(
            "    inline:\n      openapi: 3.1.0\n      servers: [{url: \"https://api.example.com\"}]\n      paths:\n        \
             /a: {get: {parameters: [{name: a, in: query, schema: {type: strin}}]}}\n        \
             /b: {get: {parameters: [{name: a, in: query, schema: {maximum: Infinity}}]}}\n        \
             /c: {get: {parameters: [{name: a, in: query, schema: {required: true}}]}}\n        \
             /d: {get: {parameters: [{$ref: \"#/components/parameters/none\"}]}}\n"
        ),
    ),
    yaml(
        "Schemas that consist of each other",
        manifest!(
            "    inline:\n      openapi: 3.1.0\n      servers: [{url: \"https://api.example.com\"}]\n      paths:\n        \
             /a: {get: {parameters: [{name: a, in: query, schema: {$ref: \"#/components/schemas/A\"}}]}}\n        \
             /b: {get: {parameters: [{$ref: \"#/components/parameters/A\"}]}}\n      components:\n        \
             schemas: {A: {allOf: [{$ref: \"#/components/schemas/B\"}]}, B: {$ref: \"#/components/schemas/A\"}}\n        \
             parameters: {A: {$ref: \"#/components/parameters/A\"}}\n"
        ),
    ),
    yaml(
        "Operations that are left out",
        manifest!(
            "    inline:\n      openapi: 3.1.0\n      servers: [{url: \"https://api.example.com\"}]\n      paths:\n        \
             /a: {post: {requestBody: {required: true, content: {multipart/form-data: {}}}}}\n        \
             /b: {get: {parameters: [{name: session, in: cookie, required: true}]}}\n        \
             /c: {get: {responses: {\"200\": {content: {image/png: {}}}}}}\n        \
             /d: {get: {parameters: [{$ref: \"common.yaml#/parameters/a\"}]}}\n        \
             /e: {trace: {}}\n        /f: {get: {servers: [{url: \"https://other.example.com\"}]}}\n"
        ),
    ),
];
