//! The seam through which a toolkit is served.

use crate::{BoxFuture, Toolkit};

/// Options that know how to serve a toolkit: what [`Toolkit::serve`] takes.
///
/// A trait, because this crate opens nothing: whoever has a listener implements it, as
/// `toolnexus::serve::ServeOptions` does.
pub trait ServeToolkit: Send {
    /// What ends the server again.
    type Handle: Send;
    /// Why there is none.
    type Error: Send;

    /// Serves `toolkit` at `addr`.
    fn serve_toolkit<'a>(
        self,
        toolkit: &'a Toolkit,
        addr: &'a str,
    ) -> BoxFuture<'a, Result<Self::Handle, Self::Error>>;
}

impl Toolkit {
    /// Serves this toolkit at `addr`, as the options say: `toolnexus::serve::ServeOptions` opens a
    /// listener.
    ///
    /// # Errors
    /// Those of the options.
    pub async fn serve<O: ServeToolkit>(&self, addr: &str, options: O) -> Result<O::Handle, O::Error> {
        options.serve_toolkit(self, addr).await
    }
}
