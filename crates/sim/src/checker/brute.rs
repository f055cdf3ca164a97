//! The definition of linearizability, tried literally: every subset of the unknown operations in every order. For tiny
//! histories, to compare the search with; it shares nothing with it but the model.

use crate::history::{Operation, Outcome};
use crate::model::{Action, Model};

/// Whether some order explains every answer.
pub fn is_linearizable(operations: &[Operation]) -> bool {
    place(operations, &mut vec![false; operations.len()], &Model::default())
}

fn place(operations: &[Operation], placed: &mut Vec<bool>, model: &Model) -> bool {
    let all_answered =
        operations.iter().zip(&*placed).all(|(operation, placed)| *placed || returned(operation).is_none());
    all_answered
        || (0..operations.len()).any(|index| {
            let operation = &operations[index];
            if placed[index] || operation.outcome == Outcome::Refused || !may_be_next(operations, placed, operation) {
                return false;
            }
            let (next, told) = model.step(&operation.action);
            if matches!(&operation.outcome, Outcome::Answered(answer, _) if *answer != told) {
                return false;
            }
            if next.is_stored_since(model) && is_flush_to_come(operations, placed, operation) {
                return false;
            }
            placed[index] = true;
            let found = place(operations, placed, &next);
            placed[index] = false;
            found
        })
}

/// Nothing that is not placed returned before this was invoked.
fn may_be_next(operations: &[Operation], placed: &[bool], next: &Operation) -> bool {
    let mut waiting = operations.iter().zip(placed).filter(|(_, placed)| !**placed);
    waiting.all(|(other, _)| returned(other).is_none_or(|order| order > next.invoked.order))
}

/// A flush was due before this was invoked, happened, and is not placed.
fn is_flush_to_come(operations: &[Operation], placed: &[bool], next: &Operation) -> bool {
    let mut waiting = operations.iter().zip(placed).filter(|(_, placed)| !**placed);
    waiting.any(|(other, _)| {
        other.action == Action::ClearDue && returned(other).is_some() && other.invoked.order < next.invoked.order
    })
}

fn returned(operation: &Operation) -> Option<u64> {
    match &operation.outcome {
        Outcome::Answered(_, at) => Some(at.order),
        Outcome::Pending | Outcome::Lost | Outcome::Refused => None,
    }
}

/// Whether an order of operations explains them: the proof of a positive verdict.
pub fn explains(operations: &[Operation], order: &[usize]) -> bool {
    let mut placed = vec![false; operations.len()];
    let mut model = Model::default();
    for &index in order {
        let operation = &operations[index];
        let refused = operation.outcome == Outcome::Refused;
        if placed[index] || refused || !may_be_next(operations, &placed, operation) {
            return false;
        }
        let (next, told) = model.step(&operation.action);
        if matches!(&operation.outcome, Outcome::Answered(answer, _) if *answer != told) {
            return false;
        }
        if next.is_stored_since(&model) && is_flush_to_come(operations, &placed, operation) {
            return false;
        }
        placed[index] = true;
        model = next;
    }
    operations.iter().zip(placed).all(|(operation, placed)| placed || returned(operation).is_none())
}
