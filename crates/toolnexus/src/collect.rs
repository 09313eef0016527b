//! Gathering the tools that `#[tool]` has made.

/// The tools of functions that are marked [`#[tool]`](crate::tool), in the order given.
///
/// ```
/// use toolnexus::{collect_tools, tool};
///
/// /// Adds two numbers.
/// #[tool]
/// fn add(a: f64, b: f64) -> f64 {
///     a + b
/// }
///
/// mod clock {
///     /// The hour.
///     #[toolnexus::tool]
///     pub async fn hour() -> u8 {
///         12
///     }
/// }
///
/// let tools = collect_tools![add, clock::hour];
/// assert_eq!([&*tools[0].name, &*tools[1].name], ["add", "hour"]);
/// assert!(collect_tools![].is_empty());
/// ```
#[macro_export]
macro_rules! collect_tools {
    ($($function:ty),* $(,)?) => {{
        let tools: ::std::vec::Vec<$crate::Tool> = ::std::vec![$(<$function>::tool()),*];
        tools
    }};
}
