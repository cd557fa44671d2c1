//! What is wrong with services of programs.

use super::{Case, yaml};

macro_rules! manifest {
    ($command:literal) => {
        concat!(
            "apiVersion: tamis.dev/v1alpha1\nkind: ServiceManifest\nmetadata: {name: git}\nspec:\n  version: 1.0.0\n  command:\n",
            $command
        )
    };
}

pub(super) const PROGRAMS: &[Case] = &[
    yaml(
        "A program that depends on the current folder",
        manifest!("    executable: ./bin/hub\n    actions: {list: {}}\n"),
    ),
    yaml("A command line as one text", manifest!("    executable: git log\n    actions: {log: {}}\n")),
    yaml(
        "A positional argument after a list",
        manifest!(
            "    executable: git\n    actions:\n      add:\n        args:\n          files: {type: array, style: positional}\n          \
             message: {type: string, style: positional}\n"
        ),
    ),
    yaml(
        "An option that is none",
        manifest!(
            "    executable: git\n    actions:\n      log:\n        args:\n          count: {type: integer, flag: n}\n          \
             since: {type: string, flag: -s, style: joined}\n"
        ),
    ),
    yaml(
        "A field of HTTP",
        manifest!("    executable: git\n    auth: {type: none}\n    actions:\n      log: {path: /log}\n"),
    ),
    yaml(
        "Limits of a program",
        manifest!(
            "    executable: git\n    limits: {timeout: 1d, output: 9Gi, processes: 0, memory: 1Ki}\n    actions: {log: {}}\n"
        ),
    ),
    yaml(
        "Every variable for a program",
        manifest!("    executable: git\n    env: ['*', TAMIS_SECRET_GIT_TOKEN]\n    actions: {log: {}}\n"),
    ),
    yaml(
        "A manifest of kimbap's for a program",
        "name: hub\nversion: 1.0.0\nadapter: command\nbase_url: https://api.example.com\ncommand_spec: {executable: hub, merge_stderr: true}\n\
         actions:\n  list:\n    command: issue list\n    pagination: {type: offset}\n",
    ),
    yaml(
        "A script inside kimbap's program",
        "name: notes\nversion: 1.0.0\nadapter: applescript\ntarget_app: Notes\nactions:\n  list: {command: list-notes}\n",
    ),
];
