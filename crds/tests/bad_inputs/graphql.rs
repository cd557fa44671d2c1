//! What is wrong with GraphQL documents.

use super::{Case, yaml};

macro_rules! manifest {
    ($graphql:literal) => {
        concat!(
            "apiVersion: tamis.dev/v1alpha1\nkind: ServiceManifest\nmetadata: {name: users}\nspec:\n  version: 1.0.0\n  graphql:\n",
            "    baseUrl: https://api.example.com/graphql\n",
            $graphql
        )
    };
}

pub(super) const GRAPHQL: &[Case] = &[
    yaml("No schema", manifest!("    fields: {include: [user]}\n")),
    yaml("A schema in a ConfigMap", manifest!("    configMapRef: {name: github, key: schema.graphql}\n")),
    yaml("A schema's file that is not there", manifest!("    file: schema.graphql\n")),
    yaml("A file that is no schema", manifest!("    file: schema.txt\n")),
    yaml("SDL without Query", manifest!("    inline: |\n      type User { name: String }\n")),
    yaml(
        "A type that is not there",
        manifest!("    inline: |\n      type Query {\n        user: Usr\n      }\n      type User { name: String }\n"),
    ),
    yaml("A schema that ends too early", manifest!("    inline: |\n      type Query {\n        user: String\n")),
    yaml("A schema on one line", manifest!("    inline: \"type Query { user: Usr }\"\n")),
    yaml("JSON that is not the result of introspection", manifest!("    inline: '{\"data\": {}}'\n")),
    yaml(
        "A query that does not fit",
        manifest!(
            "    inline: |\n      type Query { user(login: String!): User }\n      type User { name: String }\n    operations:\n      inline: |\n        \
             query find($login: String) {\n          user(login: $login) { nme }\n        }\n"
        ),
    ),
    yaml(
        "An operation without a name",
        manifest!("    inline: |\n      type Query { user: String }\n    operations: {inline: \"{ user }\"}\n"),
    ),
    yaml(
        "A subscription",
        manifest!(
            "    inline: |\n      type Query { user: String }\n      type Subscription { user: String }\n    operations: {inline: \"subscription user { user }\"}\n"
        ),
    ),
    yaml(
        "A field that does not exist",
        manifest!("    inline: |\n      type Query { user: String }\n    fields: {include: [usr]}\n"),
    ),
    yaml(
        "A field with a reserved argument",
        manifest!(
            "    inline: |\n      type Query {\n        user(_id: ID!): String\n        all: [String]\n      }\n"
        ),
    ),
    yaml(
        "Pages of a GraphQL tool",
        manifest!(
            "    inline: |\n      type Query { users: [String] }\n    overrides: {users: {pagination: {type: offset}}}\n"
        ),
    ),
    yaml(
        "An endpoint on a metadata address",
        "apiVersion: tamis.dev/v1alpha1\nkind: ServiceManifest\nmetadata: {name: users}\nspec:\n  version: 1.0.0\n  graphql:\n    baseUrl: http://169.254.169.254/graphql\n    inline: |\n      type Query { user: String }\n",
    ),
];
