use super::*;

fn table(connections: usize) -> Arc<Connections> {
    let hour = Duration::from_secs(3_600);
    Connections::new(Bounds { connections, idle: hour, answer: Duration::from_secs(30), rate: 64 << 10 })
}

fn peer(last: u8) -> IpAddr {
    [192, 0, 2, last].into()
}

impl Place {
    /// Pretends that its last request ended so long ago.
    fn idle_for(&self, order: u64) {
        self.connection.idle_since.store(1_000 - order, Ordering::Relaxed);
    }

    fn is_closed(&self) -> bool {
        self.connection.signal.get() == Some(End::Now)
    }
}

#[test]
fn without_room_the_oldest_idle_connection_goes() {
    let connections = table(4);
    let places: Vec<_> = (0..4).map(|i| connections.admit(peer(i), &Arc::default()).1.unwrap()).collect();
    for (place, age) in places.iter().zip([1, 30, 4, 20]) {
        place.idle_for(age);
    }
    let working = places[1].connection.begin();
    let (evicted, admitted) = connections.admit(peer(9), &Arc::default());
    assert_eq!((evicted, admitted.is_ok()), (1, true));
    let closed: Vec<_> = places.iter().map(Place::is_closed).collect();
    // The second has been idle for longer, but answers a request now.
    assert_eq!(closed, [false, false, false, true]);
    drop(places);
    assert_eq!(connections.len(), 1, "an evicted connection gives its place back once");
    drop((working, admitted));
    assert_eq!(connections.len(), 0);
    assert!(connections.table().peers.is_empty());
}

#[test]
fn the_address_with_most_connections_gives_way_first() {
    let connections = table(8);
    let many: Vec<_> = (0..6).map(|_| connections.admit(peer(1), &Arc::default()).1.unwrap()).collect();
    let few: Vec<_> = (2..4).map(|i| connections.admit(peer(i), &Arc::default()).1.unwrap()).collect();
    few.iter().for_each(|place| place.idle_for(500));
    let admitted = connections.admit(peer(9), &Arc::default()).1;
    assert!(admitted.is_ok());
    assert_eq!(many.iter().filter(|place| place.is_closed()).count(), 1);
    assert!(few.iter().all(|place| !place.is_closed()));
}

#[test]
fn no_address_has_all_places() {
    let connections = table(8);
    let places: Vec<_> = (0..6).map(|_| connections.admit(peer(1), &Arc::default()).1.unwrap()).collect();
    let working: Vec<_> = places.iter().map(|place| place.connection.begin()).collect();
    assert_eq!(connections.admit(peer(1), &Arc::default()).1.unwrap_err(), Refused::Peer);
    let others: Vec<_> = (2..4).map(|i| connections.admit(peer(i), &Arc::default()).1.unwrap()).collect();
    let answering: Vec<_> = others.iter().map(|place| place.connection.begin()).collect();
    assert_eq!(connections.admit(peer(4), &Arc::default()).1.unwrap_err(), Refused::Full, "nothing is idle");
    // One that ends a request is idle, and gives way to another of its address.
    drop(working);
    let (evicted, admitted) = connections.admit(peer(1), &Arc::default());
    assert_eq!((evicted, admitted.is_ok()), (1, true));
    drop(answering);
}

#[test]
fn an_ipv6_customer_is_one_peer() {
    let of = |text: &str| Peer::of(text.parse().unwrap());
    assert_eq!(of("2001:db8:1:2::1"), of("2001:db8:1:2:ffff::9"));
    assert_ne!(of("2001:db8:1:2::1"), of("2001:db8:1:3::1"));
    assert_eq!(of("::ffff:192.0.2.1"), of("192.0.2.1"));
    assert_ne!(of("192.0.2.1"), of("192.0.2.2"));
}

#[test]
fn a_sweep_closes_what_is_slow_or_idle_for_too_long() {
    let connections = Connections::new(Bounds {
        connections: 10,
        idle: Duration::ZERO,
        answer: Duration::from_secs(30),
        rate: 64 << 10,
    });
    let closed = || {
        let counts = std::cell::RefCell::new(Vec::new());
        connections.sweep(|why| counts.borrow_mut().push(why));
        counts.into_inner()
    };
    let idle = connections.admit(peer(1), &Arc::default()).1.unwrap();
    let reading = connections.admit(peer(2), &Arc::default()).1.unwrap();
    let mut exchange = reading.connection.begin();
    std::thread::sleep(Duration::from_millis(2));
    assert_eq!(closed(), [Closed::Idle]);
    assert_eq!(idle.connection.signal.get(), Some(End::Gracefully));
    assert_eq!(closed(), []);
    assert!(idle.is_closed(), "it did not go when it was asked to");
    assert_eq!(reading.connection.signal.get(), None);
    exchange.answered(10);
    exchange.answered(1 << 30);
    let late = (1..70).find(|_| closed() == [Closed::Slow]);
    // Thirty seconds are 32 ticks where one is as short as can be, and the next tick may be near.
    assert_eq!(late, Some(33));
    assert!(reading.is_closed());
    drop(exchange);
    drop((idle, reading));
    assert_eq!(closed(), []);
}
