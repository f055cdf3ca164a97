//! Messages as bytes. A view goes to every member and is long where there are many: it is encoded once.
//!
//! Must not know: connections.

use std::sync::Arc;

use shorttail_wire::control::{ControlFrameError, FromCoordinator, View, put_message};

#[derive(Debug, Default)]
pub struct Frames {
    /// The view that was encoded last.
    view: Option<Arc<View>>,
    view_bytes: Vec<u8>,
    other_bytes: Vec<u8>,
}

impl Frames {
    /// # Errors
    /// When the message is longer than any.
    pub fn of(&mut self, message: &FromCoordinator) -> Result<&[u8], ControlFrameError> {
        let FromCoordinator::View(view) = message else { return encode(&mut self.other_bytes, message) };
        if self.view.as_ref().is_some_and(|known| Arc::ptr_eq(known, view)) {
            return Ok(&self.view_bytes);
        }
        self.view = None;
        encode(&mut self.view_bytes, message)?;
        self.view = Some(Arc::clone(view));
        Ok(&self.view_bytes)
    }
}

fn encode<'a>(bytes: &'a mut Vec<u8>, message: &FromCoordinator) -> Result<&'a [u8], ControlFrameError> {
    bytes.clear();
    put_message(bytes, message)?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use shorttail_wire::control::{CONTROL_BODY_BYTES_MAX, Refusal, next_message};

    use super::*;

    #[test]
    fn a_view_is_encoded_once_for_all_and_anew_when_it_is_another_one() {
        let mut frames = Frames::default();
        let view = |number| FromCoordinator::View(Arc::new(View { number, ..View::default() }));
        let (first, second) = (view(1), view(2));
        let mut told = |message: &FromCoordinator| {
            let told = next_message(frames.of(message).expect("short")).expect("whole");
            let (message, _): (FromCoordinator, usize) = told.expect("one");
            message
        };
        for message in [&first, &FromCoordinator::Beat, &first, &second, &second, &first] {
            assert_eq!(told(message), *message);
        }
        frames.view_bytes.push(7);
        assert!(frames.of(&first).expect("known").ends_with(&[7]), "as it was");
        let long = FromCoordinator::Refused(Refusal::Malformed("x".repeat(CONTROL_BODY_BYTES_MAX)));
        assert!(matches!(frames.of(&long), Err(ControlFrameError::TooLong(_))));
    }
}
