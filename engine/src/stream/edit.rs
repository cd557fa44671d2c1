//! Stage 3: JSON Patch on spans. The operations are those of the tree ([`Editable`]), over spans instead of nodes: only
//! containers on the way to an operation are split into parts, each at most once, and everything else is copied.

use super::keys::Keys;
use super::scan::{Scan, Stop};
use super::spans::Span;
use crate::json::DEPTH_CEILING;
use crate::program::{Branch, Index, Patch, Root, Segment, Trie};
use crate::run::{Context, Editable, Miss, remove_emptied};
use crate::work::Work;
use crate::{Enforcement, Limits};

/// The segments of the longest pointer that is followed on spans: each level of a document is scanned once more.
const MAX_SEGMENTS: usize = 16;

/// The `test` operations that compare a list or an object: each parses what it compares.
const MAX_COMPARED: usize = 1;

/// Steps that the tree takes at most for each value of a document and each place in the paths of `retain`, when it
/// removes what operations have emptied: a value has at most two views for each place, and they are counted, followed to
/// a member, and followed to an element.
const CASCADE_STEPS: usize = 8;

/// The operations of a branch.
#[derive(Debug)]
pub(super) struct Edits {
    /// The names in their pointers.
    names: Keys,
    /// Their pointers.
    pub(super) paths: Trie,
    /// Whether a `test` that does not hold fails the stage; otherwise it ends the sequence.
    test_is_required: bool,
    /// Whether `remove` of an absent value fails.
    strict: bool,
    /// Whether `remove` takes an empty list for absent, see `run::patch`.
    empty_is_absent: bool,
    /// Whether a member that is set becomes the last one, see `run::patch`.
    set_is_last: bool,
    /// The number of places in the paths of `retain`, if what it kept for a part that an operation removes goes too.
    cascade: Option<usize>,
}

/// What the operations report.
#[derive(Debug, Default)]
pub(super) struct Edited {
    /// The pointers of `remove` that resolve nowhere.
    pub(super) absent: Vec<String>,
    /// The `test` that does not hold, by its position among the operations. Those after it were left out.
    pub(super) stopped_at: Option<usize>,
}

impl Edits {
    /// Prepares the operations of `branch`; `None` if they need the tree.
    pub(super) fn new(branch: &Branch, enforcement: Enforcement, limits: Limits, strict: bool) -> Option<Self> {
        let enforced = enforcement == Enforcement::Enforced;
        let mut names: Vec<&str> = Vec::new();
        let mut paths = Trie::default();
        let mut compared = 0;
        for (id, patch) in branch.patches.iter().enumerate() {
            let (path, written) = match patch {
                Patch::Add { path, value } | Patch::Replace { path, value } => (path, Some(value)),
                Patch::Remove { path } => (path, None),
                Patch::Test { path, value } => {
                    compared += usize::from(value.node().depth() > 0);
                    (path, None)
                }
                // The result may be nested deeper than the output and the constants are.
                Patch::Move { .. } | Patch::Copy { .. } => return None,
            };
            let depth = path.segments.len() + written.map_or(0, |value| value.node().depth());
            let within = path.segments.len() <= MAX_SEGMENTS && depth <= limits.max_depth.min(DEPTH_CEILING);
            // An operation on the whole document enters no container, so nothing would validate the document.
            if path.segments.is_empty() || !within {
                return None;
            }
            names.extend(path.segments.iter().map(|name| &*name.text));
            let segments: Vec<Segment> = path.segments.iter().cloned().map(Segment::Name).collect();
            paths.insert(&segments, id);
        }
        names.sort_unstable();
        names.dedup();
        paths.shrink();
        let cascade = if enforced && branch.cascades() { Some(cascade(branch)?) } else { None };
        (compared <= MAX_COMPARED).then(|| Self {
            names: Keys::new(names),
            paths,
            test_is_required: enforced || strict,
            strict,
            empty_is_absent: enforced && branch.drop_empty && !strict,
            set_is_last: enforced,
            cascade,
        })
    }

    /// Applies `patches`, the operations that were prepared, to a document of `values` members and elements. `bound` is
    /// the number of steps that a stage may take.
    pub(super) fn apply<'a>(
        &self,
        document: &mut Editable<'a, Span<'a>>,
        branch: &'a Branch,
        values: usize,
        bound: usize,
        work: &Work<'_>,
    ) -> Result<Edited, Stop> {
        let mut edited = Edited::default();
        let context = Context { names: &self.names, work };
        work.begin_stage(bound);
        for (at, patch) in branch.patches.iter().enumerate() {
            if !work.spend(1) {
                break;
            }
            if !self.one(document, patch, &mut edited.absent, context)? {
                edited.stopped_at = Some(at);
                break;
            }
        }
        // A stage that fails does so on the tree too, which reports it.
        if work.end_stage() || (edited.stopped_at.is_some() && self.test_is_required) {
            return Err(Stop::Bail);
        }
        if let (Some(places), Some(retain)) = (self.cascade, &branch.retain) {
            let values = values.saturating_add(branch.patches.len() + 1);
            if values.saturating_mul(places).saturating_mul(CASCADE_STEPS) > bound {
                return Err(Stop::Bail);
            }
            remove_emptied(document, &retain.trie, work);
        }
        if work.is_interrupted() { Err(Stop::Interrupted) } else { Ok(edited) }
    }

    /// Applies one operation. Returns `false` for a `test` that does not hold.
    fn one<'a>(
        &self,
        document: &mut Editable<'a, Span<'a>>,
        patch: &'a Patch,
        absent: &mut Vec<String>,
        context: Context<'_>,
    ) -> Scan<bool> {
        match patch {
            Patch::Add { path, value } => {
                let (last, above) = path.segments.split_last().ok_or(Stop::Bail)?;
                let parent = document.find(above, context).map_err(|_| Stop::Bail)?;
                let value = Editable::Untouched(Span::whole(value.as_str().as_bytes()));
                parent.put(last, value, self.set_is_last, context).map_err(|_| Stop::Bail)?;
            }
            Patch::Remove { path } => {
                let (last, above) = path.segments.split_last().ok_or(Stop::Bail)?;
                let removed = document.find(above, context).and_then(|parent| parent.take(last, context));
                match removed {
                    Ok(_) => {}
                    Err(Miss::Absent) if !self.strict => absent.push(path.text.to_string()),
                    Err(Miss::NameOnEmptyArray) if self.empty_is_absent => absent.push(path.text.to_string()),
                    Err(Miss::Absent | Miss::NameOnArray | Miss::NameOnEmptyArray) => return Err(Stop::Bail),
                }
            }
            Patch::Replace { path, value } => {
                let found = document.find(&path.segments, context).map_err(|_| Stop::Bail)?;
                *found = Editable::Untouched(Span::whole(value.as_str().as_bytes()));
            }
            Patch::Test { path, value } => {
                let found = document.find(&path.segments, context);
                return Ok(found.is_ok_and(|found| found.equals(&value.node(), context.work)));
            }
            Patch::Move { .. } | Patch::Copy { .. } => return Err(Stop::Bail),
        }
        Ok(true)
    }
}

/// Returns the number of places in the paths of `retain`, or `None` if the tree has to remove what operations empty.
fn cascade(branch: &Branch) -> Option<usize> {
    // Other stages may empty values too, and `select` may move them. `root` may name a value that stays empty.
    let whole = match branch.root {
        Root::Unused | Root::Document | Root::List => true,
        Root::Pointer(_) | Root::Detect => false,
    };
    let alone = branch.select.is_empty() && branch.exclude.is_empty() && !branch.drop_nulls && !branch.drop_empty;
    // Values that operations set stay whole only if they have no parts.
    let scalars = branch.patches.iter().all(|patch| match patch {
        Patch::Add { value, .. } | Patch::Replace { value, .. } => value.node().depth() == 0,
        Patch::Remove { .. } | Patch::Test { .. } => true,
        Patch::Move { .. } | Patch::Copy { .. } => false,
    });
    if whole && alone && scalars { places(&branch.retain.as_ref()?.trie) } else { None }
}

/// Returns the number of places in `trie`; `None` if an index is one that stands for all too large ones.
fn places(trie: &Trie) -> Option<usize> {
    if trie.names.iter().any(|(name, _)| name.index == Index::At(usize::MAX)) {
        return None;
    }
    trie.children().try_fold(1, |sum, below| Some(sum + places(below)?))
}
