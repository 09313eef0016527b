//! `#[tool]` and `#[tools]`: Rust functions as tools of toolnexus.
//!
//! Use them through the `toolnexus` crate, which re-exports them:
//!
//! ```ignore
//! use toolnexus::{ToolContext, Toolkit, collect_tools, tool};
//!
//! /// Weather of a city.
//! #[tool(read_only)]
//! async fn weather(
//!     /// City to look up
//!     city: String,
//!     #[tool(default = 3)] days: u8,
//!     context: ToolContext,
//! ) -> Result<String, std::io::Error> {
//!     context.progress(0.0, None, Some("asking the sky"));
//!     Ok(format!("sunny in {city} for {days} days"))
//! }
//!
//! let toolkit = Toolkit::from_tools(collect_tools![weather]);
//! let one = weather::tool();
//! ```
//!
//! # How it works
//!
//! The function stays what it was and can be called as before. Beside it comes a type of the same
//! name (types and functions have names of their own, so the two do not meet) with one function,
//! `tool()`, which makes the [`Tool`]. A `use` of the function brings both. What does meet is a crate or
//! module of that name: in a file with `#[tool] fn uuid()`, write `::uuid::Uuid`, or name the function
//! otherwise and give it `name = "uuid"`.
//!
//! The parameters become the fields of an argument struct with serde's `Deserialize` and schemars'
//! `JsonSchema`, so everything that these two say of a type holds for a parameter too.
//!
//! [`Tool`]: https://docs.rs/toolnexus

mod arguments;
mod function;
mod methods;
mod options;

use proc_macro::TokenStream;
use quote::quote;
use syn::{ItemFn, ItemImpl, parse_macro_input};

/// Makes a tool of a function.
///
/// For a function `name`, sync or async, `name::tool()` is the tool; `collect_tools![name, other]`
/// gathers several. The function itself can be called as before.
///
/// **On the function**: `#[tool(…)]` takes, all optional,
///
/// * `name = "…"`: the name the model calls. Default: the function's.
/// * `title = "…"`: a name for people.
/// * `description = "…"`: what the model reads. Default: the first line of the doc comment.
/// * `schema = EXPR`: a `serde_json::Value` in place of the derived schema.
/// * `read_only`, `destructive`, `open_world`, `idempotent`: hints for permission gates.
/// * `crate = "path"`: where `toolnexus` is, if it was renamed.
///
/// **On a parameter**: a doc comment is its description, and `#[tool(…)]` takes `name = "…"`,
/// `description = "…"`, and `default` or `default = EXPR` for a parameter that may be left out, as one
/// of type `Option` may. `#[serde(…)]` and `#[schemars(…)]` are handed on. A default is an expression of the
/// parameter's type, but for a text literal, which is converted into it; `Self` is not known there.
///
/// A parameter of type `ToolContext`, written with that name and not under an alias, is given the call's
/// context and is no argument. Arguments own
/// their data: `String`, not `&str`.
///
/// The function may return what any tool may: text, numbers, JSON, `()`, a `ToolResult`, or a `Result`
/// of those. What else implements serde's `Serialize` is returned as `toolnexus::Json(value)`.
#[proc_macro_attribute]
pub fn tool(attribute: TokenStream, item: TokenStream) -> TokenStream {
    let mut function = parse_macro_input!(item as ItemFn);
    let expanded = function::expand(attribute.into(), &mut function);
    finish(expanded, &quote!(#function))
}

/// Makes tools of the methods of an `impl` block that are marked `#[tool]`.
///
/// Adds `fn tools(self: &Arc<Self>) -> Vec<Tool>`, in the order of the methods. A marked method takes
/// `&self`, `self: &Arc<Self>`, `self: Arc<Self>` or no `self`; for the rest see `#[tool]`. Methods that are not
/// marked are left alone.
///
/// ```ignore
/// struct Counter(std::sync::atomic::AtomicU64);
///
/// #[toolnexus::tools]
/// impl Counter {
///     /// Counts up.
///     #[tool]
///     fn count(&self, by: u64) -> u64 {
///         self.0.fetch_add(by, std::sync::atomic::Ordering::Relaxed) + by
///     }
/// }
///
/// let tools = std::sync::Arc::new(Counter(0.into())).tools();
/// ```
///
/// `crate = "path"` says where `toolnexus` is, if it was renamed.
#[proc_macro_attribute]
pub fn tools(attribute: TokenStream, item: TokenStream) -> TokenStream {
    let mut block = parse_macro_input!(item as ItemImpl);
    let expanded = methods::expand(attribute.into(), &mut block);
    finish(expanded, &quote!(#block))
}

/// The item, free of what is this crate's, and what was made beside it; where that failed, the item
/// is there all the same, so that nothing but the fault itself is reported.
fn finish(expanded: syn::Result<proc_macro2::TokenStream>, item: &proc_macro2::TokenStream) -> TokenStream {
    let beside = expanded.unwrap_or_else(syn::Error::into_compile_error);
    quote!(#item #beside).into()
}
