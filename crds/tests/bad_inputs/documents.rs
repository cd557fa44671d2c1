//! What is wrong with documents.

use super::{Case, json, yaml};

macro_rules! document {
    ($kind:literal, $spec:literal) => {
        concat!("apiVersion: tamis.dev/v1alpha1\nkind: ", $kind, "\nmetadata: {name: a}\nspec:\n", $spec)
    };
}

/// A service with one tool, for what must bind to one.
macro_rules! with_service {
    ($kind:literal, $spec:literal) => {
        concat!(
            "apiVersion: tamis.dev/v1alpha1\nkind: ServiceManifest\nmetadata: {name: github}\n",
            "spec: {version: 1.0.0, http: {baseUrl: \"https://api.github.com\", actions: {list-issues: {path: /issues}}}}\n",
            "---\napiVersion: tamis.dev/v1alpha1\nkind: ",
            $kind,
            "\nmetadata: {name: a}\nspec:\n",
            $spec
        )
    };
}

pub(super) const ENVELOPE: &[Case] = &[
    yaml("Neither apiVersion nor kind", "filters: {}\n"),
    yaml("A file of another program", "replicaCount: 1\nimage: {tag: latest}\n"),
    yaml("No kind", "apiVersion: tamis.dev/v1alpha1\nspec: {}\n"),
    yaml("A kind that does not exist", "apiVersion: tamis.dev/v1alpha1\nkind: ToolFilters\nspec: {}\n"),
    yaml("A version that does not exist", "apiVersion: tamis.dev/v1\nkind: Exposition\nspec: {}\n"),
    yaml("A group that is misspelled", "apiVersion: reshaper.io/v1alpha1\nkind: Exposition\nspec: {}\n"),
    yaml("An object of another API", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n"),
    yaml("No metadata", "apiVersion: tamis.dev/v1alpha1\nkind: Exposition\nspec: {service: {name: a, version: '1'}}\n"),
    yaml(
        "Names that Kubernetes does not accept",
        "apiVersion: tamis.dev/v1alpha1\nkind: Exposition\nmetadata: {name: GitHub_Partner, namespace: team.a, lables: {}}\n\
         spec: {service: {name: a, version: '1'}}\n",
    ),
    yaml(
        "A field next to spec",
        "apiVersion: tamis.dev/v1alpha1\nkind: Exposition\nmetadata: {name: a}\naccess: {anonymous: true}\n\
         spec: {service: {name: a, version: '1'}}\n",
    ),
];

pub(super) const FIELDS: &[Case] = &[
    yaml(
        "Several mistakes at once",
        document!(
            "ToolsFilters",
            "  service: {name: github}\n  enforcment: Enforced\n  filters:\n    list-issues:\n      maxItem: 25\n      \
             exclude: body_html\n      patches:\n      - {op: add, path: /a, vaule: 1}\n"
        ),
    ),
    yaml(
        "A value that is not allowed",
        document!("ToolsFilters", "  service: {name: github, version: '1'}\n  enforcement: Enforce\n  filters: {}\n"),
    ),
    yaml(
        "A field without a value",
        document!(
            "ToolsFilters",
            "  service: {name: github, version: '1'}\n  filters:\n    list-issues:\n      retain:\n"
        ),
    ),
    yaml(
        "Two spellings of one field",
        document!(
            "ToolsFilters",
            "  service: {name: github, version: '1'}\n  filters:\n    list-issues:\n      max_items: 1\n      maxItems: 2\n"
        ),
    ),
    yaml(
        "Invalid limits",
        document!(
            "Exposition",
            "  service: {name: github, version: '1'}\n  limits: {timeout: 30, maxResponseBytes: 16 MB, concurrent: 0, \
             burst: 10, requestsPerSecond: -1}\n"
        ),
    ),
    yaml(
        "A gateway group's destinations",
        document!("GatewayGroup", "  egress: {allow: [10.0.0.0/33, \"https://api.internal\"]}\n"),
    ),
    yaml(
        "A kimbap manifest with unknown fields",
        "name: github\nversion: 1.0.0\nbase_uri: https://api.github.com\ntriggers: {}\nactions:\n  list:\n    path: /issues\n    \
         args:\n    - {type: string}\n    - {name: a, type: string}\n    - {name: a, type: strong}\n",
    ),
];

pub(super) const SCALARS: &[Case] = &[
    yaml(
        "A version without quotes",
        document!(
            "ServiceManifest",
            "  version: 1.0\n  http: {baseUrl: \"https://api.github.com\", actions: {list: {path: /}}}\n"
        ),
    ),
    yaml(
        "The Norway problem, in a field that expects text",
        document!(
            "ServiceManifest",
            "  name: no\n  version: 1.0.0\n  description: true\n  http:\n    baseUrl: https://api.github.com\n    actions:\n      \
             on: {path: /}\n"
        ),
    ),
    yaml(
        "The Norway problem, in a field that accepts any value",
        document!(
            "ToolsFilters",
            "  service: {name: github, version: '1'}\n  filters:\n    list:\n      patches:\n      - {op: add, path: /country, \
             value: no}\n      - {op: add, path: /mode, value: 0644}\n      - {op: add, path: /count, value: 1_000}\n      \
             - {op: add, path: /ratio, value: .nan}\n      - op: add\n        path: /nothing\n        value:\n"
        ),
    ),
    yaml(
        "Booleans and numbers as text, and text as booleans and numbers",
        document!(
            "ToolsFilters",
            "  service: {name: github, version: '1'}\n  filters:\n    list:\n      dropNulls: yes\n      dropEmpty: \"true\"\n      \
             maxItems: \"25\"\n      text: {maxLines: 2.5}\n"
        ),
    ),
    json(
        "A number that is too large",
        "{\"apiVersion\": \"tamis.dev/v1alpha1\", \"kind\": \"Exposition\", \"metadata\": {\"name\": \"a\"},\n \"spec\": \
         {\"service\": {\"name\": \"a\", \"version\": 2}, \"limits\": {\"concurrent\": 99999999999}}}\n",
    ),
    yaml(
        "Budgets that are no such numbers",
        document!(
            "ToolsFilters",
            "  service: {name: github, version: '1'}\n  filters:\n    list:\n      output: {budget: {bytes: \
             18446744073709551615, tokens: 1e+30}}\n    get:\n      output: {budget: {bytes: -1, tokens: 2.5}}\n"
        ),
    ),
];

pub(super) const LATER: &[Case] = &[
    yaml(
        "Access and plans",
        document!(
            "Exposition",
            "  service: {name: github, version: '1'}\n  configurationPlan: {name: prod}\n  access:\n    apiKeys: {secretRef: \
             {name: partners}}\n    jwt: {issuer: \"https://id.example.com\"}\n"
        ),
    ),
    yaml("Other sources", document!("ServiceManifest", "  version: 1.0.0\n  grpc: {reflection: true}\n")),
    yaml(
        "A program that gets a credential of the gateway",
        document!(
            "ServiceManifest",
            "  version: 1.0.0\n  mcp:\n    command: [mcp-server-time]\n    env: [TAMIS_SECRET_TIME_TOKEN]\n    auth: {type: bearer, \
             secretRef: {name: a, key: b}}\n    tools: {t: {inputSchema: {type: object}}}\n"
        ),
    ),
    yaml(
        "A program where programs are not enabled",
        concat!(
            document!(
                "ServiceManifest",
                "  version: 1.0.0\n  mcp:\n    command: [mcp-server-time]\n    tools: {t: {inputSchema: {type: object}}}\n"
            ),
            "---\napiVersion: tamis.dev/v1alpha1\nkind: Exposition\nmetadata: {name: a}\nspec:\n  service: {name: a, version: 1.0.0}\n  filters: []\n"
        ),
    ),
    yaml(
        "A kind without its fields",
        "apiVersion: tamis.dev/v1alpha1\nkind: CustomTools\nmetadata: {name: a}\nspec: {}\n",
    ),
    yaml(
        "Tools of a service that does not exist",
        document!(
            "CustomTools",
            "  service: {name: github, version: '1'}\n  customTools: {mine: {tool: list-issues}}\n"
        ),
    ),
    yaml(
        "A plan with a credential in it",
        document!(
            "ConfigurationPlan",
            "  endpoint: http://api.example.com\n  headers: {set: {Authorization: Bearer abc, X-Team: '{team}'}}\n  timeouts: \
             {call: 30s}\n"
        ),
    ),
    yaml("A missing selector", document!("GatewayGroup", "  allowedNamespaces: {from: Selector}\n")),
    yaml("Other adapters", "name: notes\nversion: 1.0.0\nadapter: shortcuts\nactions: {}\n"),
    yaml(
        "Other budgets and formats",
        document!(
            "ToolsFilters",
            "  service: {name: github, version: '1'}\n  filters:\n    list:\n      output: {format: xml, \
             budget: {}, strategy: {name: cascading, boost: [a]}, levels: {full: [a]}}\n"
        ),
    ),
];

pub(super) const SERVICES: &[Case] = &[
    yaml(
        "Pinned tools",
        document!(
            "ServiceManifest",
            "  version: 1.0.0\n  mcp:\n    url: https://mcp.example.com/mcp?key=1\n    auth: {type: body, name: key, secretRef: {name: a, key: b}}\n    \
             tools:\n      get issue:\n        inputSchema: {type: object}\n      list:\n        inputSchema:\n          type: object\n          \
             properties: {of: {$ref: https://example.com/of}}\n        annotations: {readOnlyHint: maybe}\n      log:\n        inputSchema: {type: array}\n"
        ),
    ),
    yaml(
        "A server that is followed and pinned",
        document!(
            "ServiceManifest",
            "  version: 1.0.0\n  mcp:\n    url: https://mcp.example.com/mcp\n    follow: true\n    tools:\n      list:\n        inputSchema: \
             {type: object}\n"
        ),
    ),
    yaml(
        "Addresses",
        document!(
            "ServiceManifest",
            "  version: 1.0.0\n  http:\n    baseUrl: http://user:pw@api.github.com/v1?key=1\n    actions: {}\n"
        ),
    ),
    yaml(
        "Templates",
        document!(
            "ServiceManifest",
            "  version: 1.0.0\n  http:\n    baseUrl: https://api.github.com\n    actions:\n      get issue:\n        method: FETCH\n        \
             path: repos/{owner}/{repos}/../{number}?full=1\n        args:\n          owner: {type: string, required: true}\n          \
             repo: {type: string, required: true}\n          number: {type: integer}\n          _mode: {type: string}\n        \
             request:\n          pathParams: {repository: \"{repo}\"}\n          query: {q: \"{quary}\"}\n          headers: {Host: \
             example.com, \"X Y\": a, Authorization: Bearer abc}\n"
        ),
    ),
    yaml(
        "Arguments",
        document!(
            "ServiceManifest",
            "  version: 1.0.0\n  http:\n    baseUrl: https://api.github.com\n    actions:\n      list:\n        path: /issues\n        \
             args:\n          state: {type: string, enum: [open, 1], default: closed}\n          page: {type: integer, default: \"1\", \
             style: comma}\n        request: {query: {state: \"{state}\", page: \"{page}\"}, body: {a: 1}}\n"
        ),
    ),
    yaml(
        "Authentication, retries, pages",
        document!(
            "ServiceManifest",
            "  version: 1.0.0\n  http:\n    baseUrl: https://api.github.com\n    auth: {type: header, prefix: \"Token \"}\n    actions:\n      \
             list:\n        path: /issues\n        method: POST\n        auth: {type: none, secretRef: {name: ../etc, key: passwd}}\n        \
             retry: {maxAttempts: 100, retryOn: [200]}\n        pagination: {type: cursor, maxPages: 1000}\n        \
             errorMapping: {200: fine, 404: no such repository}\n"
        ),
    ),
];

pub(super) const FILTERS: &[Case] = &[
    yaml(
        "Errors that compiling a filter finds",
        with_service!(
            "ToolsFilters",
            "  service: {name: github, version: 1.0.0}\n  enforcement: Enforced\n  filters:\n    list-issues:\n      retain: [items, \
             /items/~2x]\n      patches:\n      - {op: delete, path: /a}\n      - {op: move, path: /b}\n      - {op: add, path: /c}\n      \
             select: {\"\": title}\n      exclude: [user.email]\n      maxItems: -1\n      compact: {header: Issues}\n"
        ),
    ),
    yaml(
        "Branches",
        with_service!(
            "ToolsFilters",
            "  service: {name: github, version: 1.0.0}\n  filters:\n    list-issues:\n    - retain: [/a]\n    - otherwise: true\n      \
             retain: []\n    - test: {path: state, value: open}\n      retain: [/b]\n"
        ),
    ),
];

pub(super) const CONTENT: &[Case] = &[
    yaml(
        "Prompts with mistakes",
        with_service!(
            "Prompts",
            "  service: {name: github, version: 1.0.0}\n  prompts:\n    ask:\n      arguments: [{name: question}, {name: tone, enum: \
             [short], default: long}, {name: tone}]\n      result: 'Answer {qestion}'\n    talk: {result: []}\n"
        ),
    ),
    yaml(
        "Resources with mistakes",
        with_service!(
            "Resources",
            "  service: {name: github, version: 1.0.0}\n  resources:\n    readme: {name: readme, text: Read me}\n    docs://logo: \
             {name: logo, blob: '?'}\n    docs://none: {name: none}\n  resourceTemplates:\n    docs://{page}: {name: page}\n    \
             docs://pages/{+path}: {name: path}\n"
        ),
    ),
    yaml(
        "Prompts that an exposition does not find, and templates under Enforced",
        concat!(
            "apiVersion: reshapr.io/v1alpha1\nkind: Resources\nservice: {name: github, version: 1.0.0}\n\
             resourceTemplates: {'docs://pages/{page}': {name: page}}\n---\n",
            with_service!(
                "Exposition",
                "  service: {name: github, version: 1.0.0}\n  enforcement: Enforced\n  filters: []\n---\n\
                 apiVersion: tamis.dev/v1alpha1\nkind: Exposition\nmetadata: {name: b}\nspec:\n  service: {name: github, version: 1.0.0}\n  \
                 filters: []\n  prompts: {exclude: [ask]}\n"
            )
        ),
    ),
];

pub(super) const REFERENCES: &[Case] = &[
    yaml(
        "A tool and a service that do not exist",
        with_service!(
            "ToolsFilters",
            "  service: {name: github, version: 1.0.0}\n  filters:\n    list_issues: {maxItems: 25}\n---\n\
             apiVersion: tamis.dev/v1alpha1\nkind: Exposition\nmetadata: {name: b}\nspec:\n  service: {name: github, version: 2.0.0}\n"
        ),
    ),
    yaml(
        "A filter set that does not exist",
        with_service!("Exposition", "  service: {name: github, version: 1.0.0}\n  filters: [partner]\n"),
    ),
    yaml(
        "Tools and groups that do not exist",
        with_service!(
            "Exposition",
            "  service: {name: github, version: 1.0.0}\n  tools: {exclude: [list-issue]}\n---\n\
             apiVersion: tamis.dev/v1alpha1\nkind: Exposition\nmetadata: {name: b}\nspec:\n  service: {name: github, version: 1.0.0}\n  \
             gatewayGroup: {name: public}\n"
        ),
    ),
    yaml(
        "Duplicate names",
        with_service!(
            "ServiceManifest",
            "  name: github\n  version: 1.0.0\n  http: {baseUrl: \"https://api.github.com\", actions: {list: {path: /}}}\n---\n\
             apiVersion: tamis.dev/v1alpha1\nkind: Exposition\nmetadata: {name: b}\nspec: {service: {name: github, version: 1.0.0}, filters: []}\n---\n\
             apiVersion: tamis.dev/v1alpha1\nkind: Exposition\nmetadata: {name: b}\nspec: {service: {name: github, version: 1.0.0}, filters: []}\n"
        ),
    ),
    yaml(
        "Enforced, and tools that no set names",
        with_service!(
            "Exposition",
            "  service: {name: github, version: 1.0.0}\n  enforcement: Enforced\n  filters: []\n"
        ),
    ),
    yaml(
        "An exposition without any filter",
        with_service!("Exposition", "  service: {name: github, version: 1.0.0}\n"),
    ),
    yaml(
        "Below the group's floor",
        with_service!(
            "Exposition",
            "  service: {name: github, version: 1.0.0}\n---\napiVersion: tamis.dev/v1alpha1\nkind: GatewayGroup\n\
             metadata: {name: default}\nspec: {require: {enforced: true}}\n"
        ),
    ),
    yaml(
        "A filter that only removes, in a group that requires allow-lists",
        with_service!(
            "ToolsFilters",
            "  service: {name: github, version: 1.0.0}\n  filters: {list-issues: {patches: [{op: remove, path: /email}]}}\n\
             ---\napiVersion: tamis.dev/v1alpha1\nkind: Exposition\nmetadata: {name: a}\nspec:\n  service: {name: github, version: 1.0.0}\n  \
             enforcement: Enforced\n---\napiVersion: tamis.dev/v1alpha1\nkind: GatewayGroup\n\
             metadata: {name: default}\nspec: {require: {allowLists: true}}\n"
        ),
    ),
    yaml(
        "Parts of a bundle that cannot be published",
        with_service!(
            "Exposition",
            "  service: {name: github, version: 1.0.0}\n  filters: []\n---\napiVersion: tamis.dev/v1alpha1\nkind: Exposition\n\
             metadata: {name: b}\nspec: {service: {name: github, version: 1.0.0}, filters: []}\n---\n\
             apiVersion: tamis.dev/v1alpha1\nkind: Exposition\nmetadata: {name: all}\nspec:\n  expositions:\n  - {name: a, prefix: gh_}\n  \
             - {name: b, prefix: gh_}\n  - {name: c}\n  - {name: all}\n"
        ),
    ),
];

pub(super) const BUNDLES: &[Case] = &[
    yaml("Neither a service nor expositions", document!("Exposition", "  access: {anonymous: true}\n")),
    yaml(
        "Both a service and expositions",
        document!("Exposition", "  service: {name: github, version: '1'}\n  expositions: [{name: b}]\n"),
    ),
    yaml(
        "Fields that say how a service is published",
        document!(
            "Exposition",
            "  expositions: [{name: b}]\n  filters: [partner]\n  enforcement: Enforced\n  tools: {include: [a]}\n  \
             configurationPlan: {name: prod}\n  tokens: {factor: 2}\n  output: {inputs: []}\n  audit: {mode: Full}\n  \
             access: {bundleOnly: true}\n"
        ),
    ),
    yaml("No part", document!("Exposition", "  expositions: []\n")),
    yaml(
        "Parts that are not names, and prefixes that begin no name",
        document!(
            "Exposition",
            "  expositions:\n  - {name: team-b/b}\n  - {name: b, prefix: 'gh '}\n  - {name: b}\n  - {name: c, prefx: c_}\n"
        ),
    ),
];
