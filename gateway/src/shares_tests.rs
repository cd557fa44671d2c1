use proptest::prelude::*;

use super::*;

fn id(namespace: &str, name: &str) -> ExpositionId {
    ExpositionId { namespace: namespace.to_owned(), name: name.to_owned() }
}

fn shares(bytes: u64) -> Shares {
    Shares::new(Limits { bytes, floor: 1, calls: 8, streams: 8 })
}

#[test]
fn a_standing_follows_from_what_is_held() {
    let view = View { limit: 1_200, floor: 10, namespaces: 1, namespace_used: 0, members: 1, member_used: 0 };
    // An equal share of one namespace is 600, of its one exposition 300.
    let cases = [
        (View { member_used: 300, namespace_used: 300, ..view }, Standing::Below),
        (View { member_used: 301, namespace_used: 301, ..view }, Standing::Above),
        (View { member_used: 300, namespace_used: 601, ..view }, Standing::Crowded),
        // Two namespaces: 400, and 200.
        (View { namespaces: 2, member_used: 200, namespace_used: 400, ..view }, Standing::Below),
        (View { namespaces: 2, member_used: 201, namespace_used: 400, ..view }, Standing::Above),
        (View { namespaces: 2, member_used: 200, namespace_used: 401, ..view }, Standing::Crowded),
        // Three expositions: 150 each.
        (View { members: 3, member_used: 150, namespace_used: 450, ..view }, Standing::Below),
        (View { members: 3, member_used: 151, namespace_used: 450, ..view }, Standing::Above),
        // However many there are, each may hold the floor.
        (View { members: 1_000, member_used: 10, namespace_used: 600, ..view }, Standing::Below),
        (View { members: 1_000, member_used: 11, namespace_used: 600, ..view }, Standing::Above),
    ];
    for (view, expected) in cases {
        assert_eq!(standing(view), expected, "{view:?}");
    }
    let ceilings = [Standing::Below, Standing::Crowded, Standing::Above].map(|s| s.ceiling(800));
    assert_eq!(ceilings, [800, 700, 600]);
    assert_eq!(Standing::Above.ceiling(1), 1, "a pool of one place has one");
}

#[test]
fn the_last_eighths_are_for_those_that_hold_little() {
    let shares = shares(800);
    let (greedy, sibling) = (shares.of(&id("a", "greedy")), shares.of(&id("a", "sibling")));
    let victim = shares.of(&id("b", "victim"));
    let mut held = greedy.take(Resource::Bytes, 600).unwrap();
    assert_eq!(held.grow(1), Err(Standing::Above));
    let beside = sibling.take(Resource::Bytes, 100).unwrap();
    assert_eq!(sibling.take(Resource::Bytes, 1).unwrap_err(), Standing::Crowded);
    let other = victim.take(Resource::Bytes, 100).unwrap();
    assert_eq!(shares.used(Resource::Bytes), 800);
    assert_eq!(victim.take(Resource::Bytes, 1).unwrap_err(), Standing::Below, "the pool is full");
    drop((held, beside, other));
    assert_eq!(shares.used(Resource::Bytes), 0);
    assert!(greedy.take(Resource::Calls, 6).is_ok() && greedy.take(Resource::Calls, 7).is_err());
}

#[test]
fn grants_grow_shrink_split_and_join() {
    let shares = shares(1_000);
    let share = shares.of(&id("a", "x"));
    let used = || shares.used(Resource::Bytes);
    let mut grant = share.take(Resource::Bytes, 100).unwrap();
    grant.grow(50).unwrap();
    let part = grant.split(70);
    assert_eq!((grant.amount(), part.amount(), used()), (80, 70, 150));
    assert_eq!(grant.split(1_000).amount(), 80, "no more than there is");
    assert_eq!((grant.amount(), used()), (0, 70));
    grant.absorb(part);
    grant.shrink_to(20);
    grant.shrink_to(30);
    assert_eq!((grant.amount(), used()), (20, 20));
    drop(grant);
    assert_eq!(used(), 0);
    assert_eq!(share.take(Resource::Bytes, u64::MAX).unwrap_err(), Standing::Above, "no overflow");
}

#[test]
fn an_exposition_has_one_share_for_as_long_as_it_is_held() {
    let shares = shares(1_000);
    let share = shares.of(&id("a", "x"));
    let grant = share.take(Resource::Bytes, 10).unwrap();
    assert!(Arc::ptr_eq(&share, &shares.of(&id("a", "x"))));
    drop(share);
    // A call outlives its exposition, which comes back.
    let again = shares.of(&id("a", "x"));
    assert_eq!(again.used[0].load(Ordering::Relaxed), 10);
    drop((grant, again));
    for i in 0..1_000 {
        drop(shares.of(&id("a", &i.to_string())));
    }
    assert!(shares.known.lock().unwrap().expositions.len() < 200);
}

/// What an exposition does: takes, grows, shrinks or gives back.
#[derive(Debug, Clone)]
enum Step {
    Take(usize, u64),
    Grow(usize, u64),
    Shrink(usize, u64),
    Drop(usize),
}

fn step(members: usize) -> impl Strategy<Value = Step> {
    let amount = || prop_oneof![0..4_u64, 0..400_u64, 0..2_000_u64];
    prop_oneof![
        (0..members, amount()).prop_map(|(who, amount)| Step::Take(who, amount)),
        (any::<usize>(), amount()).prop_map(|(which, amount)| Step::Grow(which, amount)),
        (any::<usize>(), amount()).prop_map(|(which, amount)| Step::Shrink(which, amount)),
        any::<usize>().prop_map(Step::Drop),
    ]
}

proptest! {
    /// Never above the limit, always given back, and an exposition that holds no more than an eighth is never refused
    /// for what another namespace takes, or what one other exposition of its own namespace takes.
    #[test]
    fn whatever_others_take(steps in proptest::collection::vec(step(4), 1..120), same_namespace: bool) {
        const LIMIT: u64 = 1_600;
        let shares = shares(LIMIT);
        let victim = shares.of(&id("victim", "x"));
        // One attacker in the victim's own namespace, or four in another.
        let attackers: Vec<_> = (0..4)
            .map(|i| shares.of(&if same_namespace { id("victim", "attacker") } else { id("other", &i.to_string()) }))
            .collect();
        let mut grants: Vec<Grant> = Vec::new();
        let mut sum = 0;
        for step in steps {
            let at = |which: usize, len: usize| which.checked_rem(len);
            match step {
                Step::Take(who, amount) => if let Ok(grant) = attackers[who].take(Resource::Bytes, amount) {
                    sum += amount;
                    grants.push(grant);
                },
                Step::Grow(which, amount) => if let Some(at) = at(which, grants.len()) {
                    sum += if grants[at].grow(amount).is_ok() { amount } else { 0 };
                },
                Step::Shrink(which, amount) => if let Some(at) = at(which, grants.len()) {
                    sum -= grants[at].amount().saturating_sub(amount);
                    grants[at].shrink_to(amount);
                },
                Step::Drop(which) => if let Some(at) = at(which, grants.len()) {
                    sum -= grants.swap_remove(at).amount();
                },
            }
            prop_assert_eq!(shares.used(Resource::Bytes), sum);
            prop_assert!(sum <= LIMIT);
            let mut small = victim.take(Resource::Bytes, 1);
            prop_assert!(small.is_ok());
            prop_assert!(small.as_mut().unwrap().grow(LIMIT / 8 - 1).is_ok());
            prop_assert!(shares.used(Resource::Bytes) <= LIMIT);
        }
        drop(grants);
        prop_assert_eq!(shares.used(Resource::Bytes), 0);
        for (pool, at) in shares.pools.iter().zip(0..) {
            prop_assert_eq!(pool.active.load(Ordering::Relaxed), 0);
            prop_assert_eq!(victim.namespace.0[at].active.load(Ordering::Relaxed), 0);
        }
    }
}

#[test]
fn threads_never_exceed_the_limit() {
    let shares = shares(1_000);
    std::thread::scope(|scope| {
        for i in 0..4 {
            let share = shares.of(&id(&i.to_string(), "x"));
            let shares = &shares;
            scope.spawn(move || {
                for amount in 0..20_000_u64 {
                    let grant = share.take(Resource::Bytes, amount % 400);
                    assert!(shares.used(Resource::Bytes) <= 1_000);
                    drop(grant);
                }
            });
        }
    });
    assert_eq!(shares.used(Resource::Bytes), 0);
    assert_eq!(shares.pools[0].active.load(Ordering::Relaxed), 0);
}
