//! Why a sign-in came to nothing.

use crate::failure::{Fault, McpFailureKind};

/// What stopped a sign-in. Its text is all that is ever shown: it quotes nobody.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Problem {
    #[error("sign-in needed, and nobody to ask")]
    NobodyToAsk,
    #[error("sign-in refused")]
    Refused,
    #[error("sign-in answered with a state that is not ours")]
    WrongState,
    #[error("sign-in gave no code")]
    NoCode,
    #[error("sign-in took too long")]
    TooLong,
    #[error("sign-in could not be shown")]
    NotShown,
    #[error("the sign-in redirect could not be received")]
    NoListener,
    #[error("sign-in needs https")]
    Insecure,
    #[error("no authorization server found")]
    NoServer,
    #[error("the authorization server is not one to sign in at")]
    Unusable,
    #[error("no client id, and no way to register")]
    NoClient,
    #[error("client registration failed")]
    Registration,
    #[error("token request failed")]
    Token,
    #[error("the signing key cannot be used")]
    Key,
    #[error("signed in, and still refused")]
    StillRefused,
}

impl Problem {
    /// The refusal that could not be answered.
    pub(super) fn fault(self, status: http::StatusCode) -> Fault {
        let mut fault = Fault::with_detail(McpFailureKind::HttpStatus, self.to_string());
        fault.http_status = Some(status.as_u16());
        fault
    }
}
