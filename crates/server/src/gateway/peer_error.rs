//! Why what another gateway says is not understood: as an asker or as an owner.

use shorttail_wire::gateway::FrameError;
use thiserror::Error;

#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
pub enum PeerError {
    #[error("no frame: {0}")]
    Frame(#[from] FrameError),
    /// The body of this kind of message.
    #[error("{0} that does not parse")]
    Body(&'static str),
    #[error("a message before the greeting")]
    BeforeGreeting,
    #[error("a message out of order")]
    OutOfOrder,
    #[error("a reply to something else")]
    OtherReply,
    /// A gateway of another cluster or version.
    #[error("a stranger")]
    Stranger,
}

impl PeerError {
    /// Was it hurt on its way, and not sent like that?
    pub fn is_damage(self) -> bool {
        matches!(self, PeerError::Frame(FrameError::Checksum))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_wrong_with_a_frame_is_told() {
        let told = PeerError::from(FrameError::Kind(9)).to_string();
        assert_eq!(told, "no frame: unknown message kind 9");
        assert_eq!(PeerError::Body("a greeting").to_string(), "a greeting that does not parse");
    }
}
