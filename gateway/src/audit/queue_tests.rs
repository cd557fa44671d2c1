use std::sync::Arc;
use std::sync::mpsc::channel;
use std::thread;

use super::*;

fn taken<T>(queue: &Queue<T>) -> Vec<T> {
    let mut batch = Vec::new();
    queue.take(&mut batch);
    batch
}

#[test]
fn entries_are_taken_in_order_and_once() {
    let queue = Queue::new();
    assert_eq!(queue.len(), 0);
    for entry in 0..3 {
        assert_eq!(queue.push(entry, 0), Pushed::Queued);
    }
    assert!(queue.wait());
    let mut batch = vec![-1];
    queue.take(&mut batch);
    assert_eq!(batch, [-1, 0, 1, 2]);
    assert_eq!((queue.len(), taken(&queue)), (0, vec![]));
}

#[test]
fn a_full_queue_gives_the_entry_back() {
    let queue = Queue::new();
    (0..CAPACITY).for_each(|entry| assert_eq!(queue.push(entry, 0), Pushed::Queued));
    assert_eq!(queue.push(CAPACITY, 0), Pushed::Full(CAPACITY));
    assert_eq!(taken(&queue), (0..CAPACITY).collect::<Vec<_>>());
    assert_eq!(queue.push(CAPACITY, 0), Pushed::Queued);
}

#[test]
fn the_thread_is_woken_for_the_first_entry_and_when_the_queue_is_half_full() {
    let queue = Queue::new();
    let reader = || queue.state().reader;
    queue.state().reader = Reader::Idle;
    queue.push(0, 0);
    assert_eq!(reader(), Reader::Awake);
    (1..URGENT - 1).for_each(|entry| assert_eq!(queue.push(entry, 0), Pushed::Queued));
    assert_eq!(reader(), Reader::Awake, "it lingers, and needs no second call");
    queue.push(URGENT, 0);
    assert_eq!(reader(), Reader::Called);
    assert!(queue.wait());
    assert_eq!(reader(), Reader::Awake);
}

#[test]
fn the_thread_is_woken_when_the_entries_hold_many_bytes() {
    let queue = Queue::new();
    let reader = || queue.state().reader;
    for round in 0..2 {
        queue.push(round, URGENT_BYTES - 1);
        assert_eq!(reader(), Reader::Awake);
        queue.push(round, 1);
        assert_eq!(reader(), Reader::Called);
        assert!(queue.wait());
        assert_eq!(taken(&queue), [round; 2]);
    }
}

#[test]
fn an_idle_thread_takes_what_comes_and_ends_with_the_queue() {
    let queue = Arc::new(Queue::new());
    let (out, taken_by_thread) = channel();
    let thread = thread::spawn({
        let queue = Arc::clone(&queue);
        move || {
            while queue.wait() {
                taken(&queue).into_iter().for_each(|entry| out.send(entry).unwrap());
            }
        }
    });
    for entry in 0..10 {
        queue.push(entry, 0);
        assert_eq!(taken_by_thread.recv(), Ok(entry), "nothing else wakes the thread");
    }
    queue.push(10, 0);
    queue.close();
    assert_eq!(taken_by_thread.recv(), Ok(10), "what is queued is taken before the end");
    thread.join().unwrap();
}

#[test]
fn after_write_through_those_who_push_take() {
    let queue = Queue::new();
    queue.push(0, 0);
    queue.write_through();
    assert_eq!(queue.push(1, 0), Pushed::Take);
    assert_eq!(taken(&queue), [0, 1]);
    queue.close();
    assert_eq!(queue.push(2, 0), Pushed::Take);
    assert!(queue.wait(), "the thread takes what remains");
    assert_eq!(taken(&queue), [2]);
    assert!(!queue.wait());
}
