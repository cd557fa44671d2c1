//! Follows the pages that need no cluster, word by word.

use anyhow::Result;
use tamis_tests::page::{Page, Walk};

#[tokio::test]
async fn pages_without_a_cluster_do_what_they_say() -> Result<()> {
    let pages = [Page::read("docs/quickstart.md")?, Page::read("docs/editors.md")?];
    assert!(pages[0].len() > 2, "{pages:?}");
    // Ports are those of the machine that runs the test, and others may use them.
    let walk = Walk::new(&["8080", "9090"])?.replace(
        "tamis serve examples/quickstart",
        "tamis serve examples/quickstart --listen 127.0.0.1:8080 --admin 127.0.0.1:9090",
    );
    walk.copy("examples/quickstart")?;
    walk.copy("examples/payloads")?;
    let wrong = walk.follow(&pages).await?;
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
    Ok(())
}
