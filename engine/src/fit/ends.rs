//! `head_tail`: items from both ends of the list.

use super::candidates::{Selection, View};
use super::values::ORDINARY;
use crate::work::Work;

/// The shares of the front and of the end.
const FRONT: u128 = 30;
const END: u128 = 70;

/// Takes the items that are worth more than an ordinary one, the latest first, up to half of `budget`, and then items
/// from both ends, until 30 % of the rest is used from the front and 70 % from the end. Each item takes the richest
/// form that fits.
///
/// An item that exceeds `budget` alone is skipped. Any other item that does not fit ends its side, so that the items
/// left out are one piece.
pub(super) fn head_tail(view: View<'_>, budget: u64, work: &Work<'_>) -> Selection {
    let order = Order::new(view, budget, work);
    let mut selection = Selection::none(view.len());
    let mut room = budget;
    let mut open = [true; 2];
    for &Place { item, side } in &order.places {
        let _ = work.spend_unbounded(1);
        let item = item as usize;
        if side != Side::First && !open[usize::from(side == Side::End)] {
            continue;
        }
        if let Some((number, form)) = view.forms(item).find(|(_, form)| form.weight <= room) {
            room -= form.weight;
            selection.set(item, Some(number));
        } else if view.lightest(item).is_some_and(|(_, form)| form.weight <= budget) {
            open[usize::from(side == Side::End)] = false;
        }
    }
    selection
}

/// Where an item is taken from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Side {
    /// It is worth more than an ordinary item.
    First,
    Front,
    End,
}

#[derive(Debug, Clone, Copy)]
struct Place {
    item: u32,
    side: Side,
}

/// The items in the order in which they are taken.
#[derive(Debug)]
pub(super) struct Order {
    places: Vec<Place>,
}

impl Order {
    /// Orders all items. An item counts with its richest form of at most `budget`.
    pub(super) fn new(view: View<'_>, budget: u64, work: &Work<'_>) -> Self {
        let weight = |item: usize| {
            let form = view.forms(item).find(|(_, form)| form.weight <= budget);
            u128::from(form.map_or(0, |(_, form)| form.weight))
        };
        let (mut places, mut first) = (Vec::with_capacity(view.len()), vec![false; view.len()]);
        let mut room = u128::from(budget / 2);
        for item in (0..view.len()).rev() {
            let _ = work.spend_unbounded(1);
            if view.richest(item).is_some_and(|(_, form)| form.value > ORDINARY) && weight(item) <= room {
                room -= weight(item);
                first[item] = true;
                places.push(Place { item: number(item), side: Side::First });
            }
        }
        let (mut head, mut tail) = (0, view.len());
        let (mut from_front, mut from_end) = (0_u128, 0_u128);
        loop {
            while head < tail && first[head] {
                head += 1;
            }
            while head < tail && first[tail - 1] {
                tail -= 1;
            }
            if head == tail || !work.spend_unbounded(1) {
                break;
            }
            // Of the two next items, the one that keeps closer to the shares.
            let (with_head, with_tail) = (from_front + weight(head), from_end + weight(tail - 1));
            if with_head * END > with_tail * FRONT {
                tail -= 1;
                from_end = with_tail;
                places.push(Place { item: number(tail), side: Side::End });
            } else {
                from_front = with_head;
                places.push(Place { item: number(head), side: Side::Front });
                head += 1;
            }
        }
        Self { places }
    }

    /// Returns the items in their order.
    pub(super) fn items(&self) -> impl DoubleEndedIterator<Item = usize> + '_ {
        self.places.iter().map(|place| place.item as usize)
    }
}

fn number(item: usize) -> u32 {
    u32::try_from(item).unwrap_or(u32::MAX)
}
