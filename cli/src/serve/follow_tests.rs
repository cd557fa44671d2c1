//! Against real folders: what editors and Kubernetes do to files, and how long it takes until it is noticed.

use std::fs::File;
use std::io::Write as _;
use std::sync::mpsc::{Receiver, channel};

use super::*;

/// Long enough for a machine that is busy with something else. How long a look waits is a table of `debounce.rs`.
const SOON: Duration = Duration::from_secs(5);
const NEVER: Duration = Duration::from_millis(200);

fn list(root: &Path) -> Vec<PathBuf> {
    let mut files: Vec<_> = fs::read_dir(root)
        .into_iter()
        .flatten()
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| is_document(path))
        .collect();
    files.sort();
    files
}

/// A followed folder; what its documents said comes in at each change.
fn followed(root: &Path) -> (Follower, Receiver<String>) {
    let (say, heard) = channel();
    let folder = root.to_owned();
    let read = move || {
        let all: Vec<_> = list(&folder).iter().filter_map(|path| fs::read_to_string(path).ok()).collect();
        let _ = say.send(all.join("|"));
        None
    };
    let follower = Follower::start(root, list, Fingerprint::of(&list(root)), read).expect("starts");
    // Files are fresh: the first rescan reads them once more.
    while heard.recv_timeout(NEVER).is_ok() {}
    (follower, heard)
}

#[track_caller]
fn expect(heard: &Receiver<String>, content: &str) {
    let until = Instant::now() + SOON;
    let mut last = None;
    while let Ok(said) = heard.recv_timeout(until.saturating_duration_since(Instant::now())) {
        if said == content {
            return;
        }
        last = Some(said);
    }
    panic!("`{content}` was not noticed; last was {last:?}");
}

#[test]
fn saves_of_every_kind_are_noticed() {
    let dir = tempfile::tempdir().expect("a folder");
    let file = dir.path().join("a.yaml");
    fs::write(&file, "0").expect("writes");
    let (_follower, heard) = followed(dir.path());

    fs::write(&file, "1").expect("in place");
    expect(&heard, "1");
    fs::write(dir.path().join(".a.tmp"), "2").expect("beside it");
    fs::rename(dir.path().join(".a.tmp"), &file).expect("over it");
    expect(&heard, "2");
    fs::rename(&file, dir.path().join("a.yaml~")).expect("backup, as vim does");
    fs::write(&file, "3").expect("anew");
    expect(&heard, "3");
    fs::write(dir.path().join("b.yml"), "4").expect("a new one");
    expect(&heard, "3|4");
    fs::remove_file(&file).expect("removes");
    expect(&heard, "4");
}

#[test]
fn files_that_are_no_documents_do_not_matter() {
    let dir = tempfile::tempdir().expect("a folder");
    fs::write(dir.path().join("a.yaml"), "0").expect("writes");
    let (_follower, heard) = followed(dir.path());
    let mut swap = File::create(dir.path().join(".a.yaml.swp")).expect("opens");
    swap.write_all(b"x").expect("writes");
    fs::write(dir.path().join("notes.txt"), "x").expect("writes");
    assert_eq!(heard.recv_timeout(NEVER).ok(), None);
    fs::write(dir.path().join("a.yaml"), "1").expect("writes");
    expect(&heard, "1");
}

#[cfg(target_os = "linux")]
#[test]
fn a_file_that_is_still_being_written_is_not_read() {
    let dir = tempfile::tempdir().expect("a folder");
    let path = dir.path().join("a.yaml");
    fs::write(&path, "0").expect("writes");
    let (_follower, heard) = followed(dir.path());
    let mut file = File::create(&path).expect("opens");
    file.write_all(b"first half, ").expect("writes");
    assert_eq!(heard.recv_timeout(NEVER).ok(), None);
    file.write_all(b"second half").expect("writes");
    drop(file);
    expect(&heard, "first half, second half");
}

#[cfg(unix)]
#[test]
fn a_mounted_config_map_is_swapped_by_its_link() {
    use std::os::unix::fs::symlink;
    let dir = tempfile::tempdir().expect("a folder");
    for (version, content) in [("..1", "one"), ("..2", "two")] {
        fs::create_dir(dir.path().join(version)).expect("creates");
        fs::write(dir.path().join(version).join("a.yaml"), content).expect("writes");
    }
    symlink("..1", dir.path().join("..data")).expect("links");
    symlink("..data/a.yaml", dir.path().join("a.yaml")).expect("links");
    let (_follower, heard) = followed(dir.path());
    symlink("..2", dir.path().join("..data_tmp")).expect("links");
    fs::rename(dir.path().join("..data_tmp"), dir.path().join("..data")).expect("swaps");
    expect(&heard, "two");
}

#[cfg(unix)]
#[test]
fn a_change_without_a_notification_is_found_by_the_rescan() {
    let dir = tempfile::tempdir().expect("a folder");
    let elsewhere = tempfile::tempdir().expect("another");
    fs::write(elsewhere.path().join("target"), "0").expect("writes");
    std::os::unix::fs::symlink(elsewhere.path().join("target"), dir.path().join("a.yaml")).expect("links");
    let (_follower, heard) = followed(dir.path());
    fs::write(elsewhere.path().join("target"), "from elsewhere").expect("writes");
    expect(&heard, "from elsewhere");
}

#[test]
fn a_folder_that_is_removed_and_comes_back_is_followed_on() {
    let parent = tempfile::tempdir().expect("a folder");
    let dir = parent.path().join("config");
    fs::create_dir(&dir).expect("creates");
    fs::write(dir.join("a.yaml"), "0").expect("writes");
    let (_follower, heard) = followed(&dir);
    for round in ["1", "2"] {
        fs::remove_dir_all(&dir).expect("removes");
        expect(&heard, "");
        fs::create_dir(&dir).expect("creates");
        fs::write(dir.join("a.yaml"), round).expect("writes");
        expect(&heard, round);
        let again = format!("{round} again");
        fs::write(dir.join("a.yaml"), &again).expect("writes");
        expect(&heard, &again);
    }
}

#[test]
fn without_notifications_the_folder_is_polled() {
    let dir = tempfile::tempdir().expect("a folder");
    let file = dir.path().join("a.yaml");
    fs::write(&file, "0").expect("writes");
    let (say, heard) = channel();
    let (stop, inbox) = channel();
    let root = dir.path().to_owned();
    let none = Notifications { root: root.clone(), watcher: None, watched: None };
    let path = file.clone();
    let thread = thread::spawn(move || {
        let look = move || Fingerprint::of(&list(&root));
        follow(&inbox, none, Fingerprint::default(), look, &mut || {
            let _ = say.send(fs::read_to_string(&path).unwrap_or_default());
            None
        });
    });
    expect(&heard, "0");
    fs::write(&file, "1").expect("writes");
    expect(&heard, "1");
    stop.send(Message::Stop).expect("listens");
    thread.join().expect("stops");
}

#[test]
fn a_look_that_was_asked_for_comes_without_a_change() {
    let dir = tempfile::tempdir().expect("a folder");
    let (say, heard) = channel();
    let mut due = None;
    let look = move || {
        let now = Instant::now();
        let _ = say.send(now);
        // Saving may be seen as two changes: the second look asks for the same instant.
        let due = *due.get_or_insert(now + Duration::from_millis(300));
        (now < due).then_some(due)
    };
    let _follower = Follower::start(dir.path(), list, Fingerprint::of(&[]), look).expect("starts");
    fs::write(dir.path().join("a.yaml"), "a").expect("saves");
    let first = heard.recv_timeout(SOON).expect("the change");
    let mut last = first;
    while last.duration_since(first) < Duration::from_millis(300) {
        last = heard.recv_timeout(SOON).expect("the look that was asked for");
    }
}
