use proptest::prelude::*;
use tamis_config::ExpositionId;

use super::*;
use crate::memory::STEP;
use crate::shares::{Limits, Resource, Shares};

/// A step of building a chain.
#[derive(Debug, Clone)]
enum Step {
    Put(Vec<u8>),
    Push(Vec<u8>),
    Append(Vec<Vec<u8>>),
}

fn step() -> impl Strategy<Value = Step> {
    let bytes = || proptest::collection::vec(any::<u8>(), 0..20);
    prop_oneof![
        bytes().prop_map(Step::Put),
        bytes().prop_map(Step::Push),
        proptest::collection::vec(bytes(), 0..4).prop_map(Step::Append),
    ]
}

/// Builds a chain, and returns it with the bytes that it should have.
fn built(steps: Vec<Step>) -> (Chain, Vec<u8>) {
    let (mut chain, mut expected) = (Chain::default(), Vec::new());
    for step in steps {
        match step {
            Step::Put(bytes) => {
                expected.extend_from_slice(&bytes);
                chain.put(&bytes);
            }
            Step::Push(bytes) => {
                expected.extend_from_slice(&bytes);
                chain.push(bytes);
            }
            Step::Append(buffers) => {
                let mut other = Chain::default();
                for bytes in buffers {
                    expected.extend_from_slice(&bytes);
                    other.push(bytes);
                }
                chain.append(other);
            }
        }
    }
    (chain, expected)
}

#[test]
fn buffers_are_handed_on_where_they_lie() {
    let [first, second] = [vec![b'a'; 100], vec![b'b'; 200]];
    let places = [first.as_ptr(), second.as_ptr()];
    let mut chain = Chain::from(first);
    chain.push(second);
    let mut other = Chain::default();
    other.append(chain);
    assert_eq!(other.memory(), 300);
    let mut slices = [IoSlice::new(&[]); 4];
    assert_eq!(other.chunks_vectored(&mut slices), 2);
    assert_eq!([slices[0].as_ptr(), slices[1].as_ptr()], places);
    assert_eq!(other.chunks_vectored(&mut slices[..1]), 1, "no more than there is room for");
}

#[test]
fn text_is_appended_in_place_only_where_there_is_room() {
    let mut last = Vec::with_capacity(8);
    last.extend_from_slice(b"1234");
    let mut chain = Chain::from(last);
    chain.put(b"5678");
    assert_eq!(chain.buffers().count(), 1);
    chain.put(b"9");
    assert_eq!(chain.buffers().collect::<Vec<_>>(), [&b"12345678"[..], b"9"]);
    assert_eq!(chain.memory(), 9);
}

#[test]
fn a_shared_chain_is_read_twice_and_counted_once_until_both_readers_are_done() {
    for count in 0..4 {
        for first_done in [true, false] {
            let shares = Shares::new(Limits { bytes: 1 << 20, floor: 1 << 20, calls: 1, streams: 1 });
            let share = shares.of(&ExpositionId { namespace: String::new(), name: String::new() });
            let reserved = || shares.used(Resource::Bytes);
            let mut held = Reservation::try_open(&share).unwrap();
            let buffers: Vec<Vec<u8>> = (0..count).map(|n| vec![n; 1_000]).collect();
            let places: Vec<_> = buffers.iter().map(Vec::as_ptr).collect();
            assert!(held.try_take(1_000 * u64::from(count)));
            let mut chain = Chain::default();
            buffers.into_iter().for_each(|buffer| chain.push(buffer));
            let shared = chain.share(&mut held);
            assert_eq!(shared.len(), 1_000 * usize::from(count));
            assert_eq!(shared.buffers().map(<[u8]>::as_ptr).collect::<Vec<_>>(), places, "nothing is copied");
            assert_eq!((chain.memory(), held.used()), (0, 0), "the buffers have the memory");
            assert!(!format!("{shared:?}").contains("[0"), "no payload in a Debug");
            let (bytes, expected) = (shared.buffers().collect::<Vec<_>>().concat(), 1_000 * u64::from(count));
            assert_eq!(reserved(), STEP);
            drop(held);
            assert_eq!(reserved(), expected);
            if first_done {
                drop(shared);
                assert_eq!(reserved(), expected);
                assert_eq!(chain.copy_to_bytes(chain.remaining()), bytes);
                drop(chain);
            } else {
                assert_eq!(chain.copy_to_bytes(chain.remaining()), bytes);
                drop(chain);
                assert_eq!(reserved(), expected);
                drop(shared);
            }
            assert_eq!(reserved(), 0, "{count}");
        }
    }
}

#[test]
#[should_panic(expected = "the chain has fewer bytes")]
fn no_more_is_read_than_there_is() {
    let mut chain = Chain::from(vec![1]);
    chain.push(vec![2]);
    chain.advance(3);
}

proptest! {
    #[test]
    fn a_chain_reads_as_one_buffer(
        steps in proptest::collection::vec(step(), 0..8), reads in proptest::collection::vec(1..40_usize, 0..8)
    ) {
        let (mut chain, expected) = built(steps);
        prop_assert_eq!(chain.buffers().collect::<Vec<_>>().concat(), &expected[..]);
        let mut left = &expected[..];
        for read in reads {
            prop_assert_eq!((chain.remaining(), chain.is_empty()), (left.len(), left.is_empty()));
            let mut slices = [IoSlice::new(&[]); 64];
            let filled = chain.chunks_vectored(&mut slices);
            prop_assert!(slices[..filled].iter().all(|slice| !slice.is_empty()));
            let handed: Vec<&[u8]> = slices[..filled].iter().map(|slice| &slice[..]).collect();
            prop_assert_eq!(handed.concat(), left);
            prop_assert!(left.starts_with(chain.chunk()) && chain.chunk().is_empty() == left.is_empty());
            let read = read.min(left.len());
            chain.advance(read);
            left = &left[read..];
        }
        let mut rest = Chain::from(b"before".to_vec());
        rest.append(chain);
        prop_assert_eq!(rest.copy_to_bytes(rest.remaining()), [b"before", left].concat());
    }
}
