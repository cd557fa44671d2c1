use std::sync::Condvar;
use std::time::Duration;

use super::*;

fn id(name: &str) -> ExpositionId {
    ExpositionId { namespace: "team".into(), name: name.into() }
}

/// Long enough for anything that ends at all.
fn far() -> Instant {
    Instant::now() + Duration::from_secs(600)
}

fn queued(compute: &Compute) -> usize {
    compute.lock().waiting.waiting.values().map(VecDeque::len).sum()
}

/// What threads wait at until it is opened.
#[derive(Default)]
struct Gate(Mutex<bool>, Condvar);

impl Gate {
    fn open(&self) {
        *self.0.lock().unwrap() = true;
        self.1.notify_all();
    }

    fn pass(&self) {
        drop(self.1.wait_while(self.0.lock().unwrap(), |open| !*open).unwrap());
    }
}

#[test]
fn each_key_in_turn_and_of_one_the_oldest_first() {
    let table: [(&[&str], &str); 5] = [
        (&[], ""),
        (&["a1", "a2", "a3"], "a1 a2 a3"),
        (&["a1", "a2", "a3", "b1"], "a1 b1 a2 a3"),
        (&["a1", "a2", "b1", "c1", "b2", "a3"], "a1 b1 c1 a2 b2 a3"),
        (&["b1", "a1", "a2", "b2"], "b1 a1 b2 a2"),
    ];
    for (pushed, popped) in table {
        let mut queue = Fair::default();
        for item in pushed {
            queue.push(&item[..1].to_owned(), *item);
        }
        let order: Vec<_> = std::iter::from_fn(|| queue.pop()).collect();
        assert_eq!(order.join(" "), popped);
        assert!(queue.order.is_empty() && queue.waiting.is_empty());
    }
}

#[tokio::test]
async fn a_crowd_of_one_exposition_delays_another_by_one_piece_of_work() {
    let compute = Arc::new(Compute::new(1));
    let (gate, done) = (Arc::new(Gate::default()), Arc::new(Mutex::new(Vec::new())));
    let mut tasks = Vec::new();
    for (i, name) in ["crowd"; 20].into_iter().chain(["other"]).enumerate() {
        let (own, gate, done) = (Arc::clone(&compute), Arc::clone(&gate), Arc::clone(&done));
        tasks.push(tokio::spawn(async move {
            own.run(&id(name), far(), None, move |_| {
                gate.pass();
                done.lock().unwrap().push((name, i));
            })
            .await
        }));
        // The first has the slot and the others queue, in this order.
        while compute.lock().busy == 0 || queued(&compute) < i {
            tokio::task::yield_now().await;
        }
    }
    gate.open();
    for task in tasks {
        task.await.unwrap().unwrap();
    }
    let done = done.lock().unwrap();
    let place = done.iter().position(|(name, _)| *name == "other").unwrap();
    assert!(place <= 2, "{done:?}");
    assert_eq!(compute.lock().busy, 0);
}

#[tokio::test]
async fn a_deadline_holds_in_the_queue_and_at_work() {
    let compute = Arc::new(Compute::new(1));
    let gate = Arc::new(Gate::default());
    let (own, held) = (Arc::clone(&compute), Arc::clone(&gate));
    let first = tokio::spawn(async move { own.run(&id("a"), far(), None, move |_| held.pass()).await });
    while compute.lock().busy == 0 {
        tokio::task::yield_now().await;
    }
    let soon = Instant::now() + Duration::from_millis(10);
    assert_eq!(compute.run(&id("a"), soon, None, |_| ()).await, Err(NotRun::Overdue), "in the queue");
    gate.open();
    first.await.unwrap().unwrap();
    let soon = Instant::now() + Duration::from_millis(10);
    let polls = compute.run(&id("a"), soon, None, |due| (0_u64..).take_while(|_| !due()).count()).await;
    assert!(polls.is_ok(), "at work");
    assert_eq!(compute.lock().busy, 0);
}

#[tokio::test]
async fn work_whose_caller_has_left_ends_and_gives_its_slot_back() {
    let compute = Arc::new(Compute::new(1));
    let (sender, ended) = oneshot::channel();
    let own = Arc::clone(&compute);
    let task = tokio::spawn(async move {
        own.run(&id("a"), far(), None, move |due| {
            while !due() {
                std::thread::yield_now();
            }
            let _ = sender.send(());
        })
        .await
    });
    while compute.lock().busy == 0 {
        tokio::task::yield_now().await;
    }
    // One waits, and leaves too.
    let own = Arc::clone(&compute);
    let queued = tokio::spawn(async move { own.run(&id("b"), far(), None, |_| ()).await });
    while compute.lock().waiting.order.is_empty() {
        tokio::task::yield_now().await;
    }
    queued.abort();
    assert!(queued.await.unwrap_err().is_cancelled());
    task.abort();
    assert!(task.await.unwrap_err().is_cancelled());
    ended.await.unwrap();
    // The next one finds a slot.
    assert_eq!(compute.run(&id("a"), far(), None, |_| 7).await, Ok(7));
    while compute.lock().busy > 0 {
        tokio::task::yield_now().await;
    }
}
