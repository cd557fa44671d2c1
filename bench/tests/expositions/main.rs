//! The memory of a loaded exposition, in live bytes: those that a gateway keeps, and those that `tamis serve` keeps as well to
//! read its folder again. They do not depend on the machine. The private memory of a process is higher by what the allocator
//! does not give back; `cargo xtask bench gateway --parts expositions` measures it.
//!
//! Each part has a recorded upper bound. Above it, `TAMIS_HEAP=DIR cargo test -p tamis-bench --test expositions` writes a
//! profile of the heap for each kind of filter sets, which shows the bytes at the end by call stack: open it with DHAT's viewer.

mod documents;

use std::path::Path;
use std::sync::Arc;

use tamis_config::Snapshot;
use tamis_crds::{CompileEnv, FolderState, compile, parse_document};
use tamis_gateway::upstream::LocalCredentials;
use tamis_gateway::{Gateway, Options};

use documents::Sets;

#[global_allocator]
static ALLOCATOR: dhat::Alloc = dhat::Alloc;

/// The numbers of expositions whose memory is compared. What does not grow with them, such as the service, drops out.
const FEW: usize = 20;
const MANY: usize = 84;

/// Live bytes.
#[derive(Debug, Clone, Copy)]
struct Kept {
    /// By a gateway, in a cluster too.
    gateway: usize,
    /// By the reader of a folder: the content of its files, and the documents that are served.
    folder: usize,
}

fn live() -> usize {
    dhat::HeapStats::get().curr_bytes
}

/// What a process holds.
type Loaded = (Arc<Gateway>, FolderState, Snapshot);

/// Loads a folder of `count` expositions as `tamis serve` does.
fn load(count: usize, sets: Sets) -> (Kept, Loaded) {
    let yaml = documents::expositions(count, sets);
    let gateway = Gateway::new(Options::new(Arc::new(LocalCredentials::new(None)))).expect("a gateway");
    let before = live();
    let mut folder = FolderState::default();
    let snapshot = {
        let update = folder.update(&[parse_document("folder.yaml", yaml.as_bytes())]);
        compile(&update.resources, &CompileEnv::default()).snapshot
    };
    assert_eq!(snapshot.expositions.len(), count);
    let read = live();
    let report = gateway.apply(&snapshot);
    assert_eq!((report.added.len(), report.failed.len()), (count, 0), "{report:?}");
    drop(report);
    let kept = Kept { gateway: live() - read, folder: read - before };
    (kept, (gateway, folder, snapshot))
}

/// Returns the live bytes of each further exposition, and the larger number of expositions.
fn each(sets: Sets) -> (Kept, Loaded) {
    let (few, _) = load(FEW, sets);
    let (many, loaded) = load(MANY, sets);
    let each = |few: usize, many: usize| (many - few) / (MANY - FEW);
    (Kept { gateway: each(few.gateway, many.gateway), folder: each(few.folder, many.folder) }, loaded)
}

#[test]
fn expositions_keep_no_more_than_recorded() {
    let table = [
        (Sets::Shared, Kept { gateway: 950, folder: 2_950 }),
        (Sets::Different, Kept { gateway: 40_000, folder: 17_000 }),
    ];
    for (sets, most) in table {
        let builder = dhat::Profiler::builder();
        let profiler = match std::env::var_os("TAMIS_HEAP") {
            Some(folder) => {
                let file = Path::new(&folder).join(format!("heap-{sets:?}.json"));
                builder.file_name(file).trim_backtraces(None).build()
            }
            None => builder.testing().trim_backtraces(Some(4)).build(),
        };
        // The first load also fills tables that the process keeps.
        load(1, sets);
        let (found, loaded) = each(sets);
        drop(profiler);
        drop(loaded);
        println!("{sets:?}: {found:?}");
        for (part, found, most) in [("gateway", found.gateway, most.gateway), ("folder", found.folder, most.folder)] {
            assert!(found <= most, "{sets:?}, {part}: an exposition keeps {found} bytes, at most {most} are recorded");
            assert!(found * 4 >= most * 3, "{sets:?}, {part}: record the lower bound: {found} bytes, not {most}");
        }
    }
}
