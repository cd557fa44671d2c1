use proptest::prelude::*;

use super::*;

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
