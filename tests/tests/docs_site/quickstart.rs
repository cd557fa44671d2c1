//! Follows the pages that need no cluster, word by word.

use std::path::Path;

use anyhow::Result;
use tamis_tests::page::WITHOUT_CLUSTER;
use tamis_tests::root;
use tamis_tests::walkthrough::{self, Walkthrough};

#[tokio::test]
async fn pages_without_a_cluster_do_what_they_say() -> Result<()> {
    let mut wrong = Vec::new();
    let servers = root().join("tests/servers/bin");
    for path in WITHOUT_CLUSTER {
        let mut page = walkthrough::page(path)?;
        assert!(!page.blocks.is_empty(), "{path} has nothing to run");
        for block in page.blocks.iter_mut().filter(|block| block.serves) {
            // The page's ports are the reader's. On this machine they may be in use.
            block.commands = format!("{} --listen 127.0.0.1:8080 --admin 127.0.0.1:9090", block.commands.trim_end());
        }
        let walkthrough = Walkthrough::new(
            &["8080", "9090", "3001", "7070", "7081"],
            &[
                "examples/quickstart",
                "examples/payloads",
                "examples/bundle",
                "examples/prompts",
                "examples/openapi",
                "examples/graphql",
                "examples/programs",
                "examples/grpc",
            ],
        )?;
        wrong.extend(walkthrough.follow(page, &[&servers], Path::new("no-cluster")).await?);
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
    Ok(())
}
