//! Passes the committed seeds through every target.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use tamis_fuzz::TARGETS;

#[test]
fn every_target_takes_its_seeds() {
    let seeds = Path::new(env!("CARGO_MANIFEST_DIR")).join("seeds");
    let folders = fs::read_dir(&seeds).expect("seeds/ is there").map(|entry| entry.expect("an entry").file_name());
    let folders: BTreeSet<String> = folders.map(|name| name.into_string().expect("text")).collect();
    let targets: BTreeSet<String> = TARGETS.iter().map(|(name, _)| (*name).to_owned()).collect();
    assert_eq!(folders, targets, "seeds/ has a folder for each target");
    for (name, run) in TARGETS {
        let files = fs::read_dir(seeds.join(name)).expect("is there").map(|entry| entry.expect("an entry").path());
        let mut count = 0;
        for file in files {
            // The output is shown if the test fails.
            println!("{}", file.display());
            run(&fs::read(&file).expect("is read"));
            count += 1;
        }
        assert!(count >= 5, "{name} has {count} seeds");
    }
}
