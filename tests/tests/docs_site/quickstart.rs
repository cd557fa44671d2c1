//! Follows the pages that need no cluster, word by word.

use std::path::Path;

use anyhow::Result;
use tamis_tests::walk::{self, Walk};

#[tokio::test]
async fn pages_without_a_cluster_do_what_they_say() -> Result<()> {
    let mut page = walk::page("docs/quickstart.md")?.then(walk::page("docs/editors.md")?);
    assert!(page.blocks.len() > 3, "{page:?}");
    for block in page.blocks.iter_mut().filter(|block| block.serves) {
        // The page's ports are those of whoever reads it. Here others may use them.
        block.commands = format!("{} --listen 127.0.0.1:8080 --admin 127.0.0.1:9090", block.commands.trim_end());
    }
    let walk = Walk::new(&["8080", "9090"], &["examples/quickstart", "examples/payloads"])?;
    let wrong = walk.follow(page, &[], Path::new("no-cluster")).await?;
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
    Ok(())
}
