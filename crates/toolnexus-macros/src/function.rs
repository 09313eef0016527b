//! `#[tool]` on a function.

use proc_macro2::TokenStream;
use quote::quote;
use syn::ext::IdentExt as _;
use syn::spanned::Spanned as _;
use syn::{Error, FnArg, Ident, ItemFn, Signature};

use crate::arguments::{self, Arguments};
use crate::options::ToolOptions;

/// Makes the type that has the tool, and frees the function of what is this crate's.
pub(crate) fn expand(attribute: TokenStream, function: &mut ItemFn) -> syn::Result<TokenStream> {
    let options = ToolOptions::parse(attribute);
    let described = options.as_ref().is_ok_and(|options| options.schema.is_none());
    let arguments = Arguments::take_from(&mut function.sig.inputs, described);
    let options = options?;
    arguments::check(&function.sig)?;
    if let Some(receiver @ FnArg::Receiver(_)) = function.sig.inputs.first() {
        return Err(Error::new(
            receiver.span(),
            "a method becomes a tool inside an `impl` block that is marked #[tools]: put that on the block",
        ));
    }
    let (visibility, name) = (&function.vis, &function.sig.ident);
    let krate = &options.krate;
    let maker = maker(&options, &function.attrs, &function.sig, &arguments?, &quote!(#name), None);
    let doc = format!("The tool that [`{name}()`]({name}()) makes; see [`tool`](Self::tool).");
    Ok(quote! {
        #[doc = #doc]
        #[allow(non_camel_case_types, dead_code, deprecated)]
        #visibility struct #name {}

        impl #name {
            /// The function as a tool.
            #[allow(dead_code, deprecated)]
            pub fn tool() -> #krate::Tool {
                #maker
            }
        }
    })
}

/// A block that makes the tool. `called` is the function; `this`, if there is one, says how it gets
/// its `self`.
pub(crate) fn maker(
    options: &ToolOptions,
    attributes: &[syn::Attribute],
    signature: &Signature,
    arguments: &Arguments,
    called: &TokenStream,
    this: Option<&TokenStream>,
) -> TokenStream {
    let krate = &options.krate;
    let name = options.name.clone().unwrap_or_else(|| plain(&signature.ident));
    let description = options.description(attributes);
    // A type that need not describe itself need not be able to.
    let (define, schema) = match &options.schema {
        Some(schema) => (quote!(__private::define_parsed_tool), quote!(#schema)),
        None => (quote!(define_typed_tool), quote!(::core::option::Option::None)),
    };
    let wait = signature.asyncness.map(|_| quote!(.await));
    let (definition, pattern, passed) = (arguments.definition(krate), arguments.pattern(), &arguments.passed);
    let (shared, receiver) = match this {
        Some(receiver) => {
            (Some(quote!(let this = ::std::sync::Arc::clone(&this);)), Some(quote!(#receiver,)))
        }
        None => (None, None),
    };
    let finishing = options.finishing();
    quote! {
        #definition
        let tool = #krate::#define::<__Arguments>(
            #name,
            #description,
            #schema,
            move |arguments: __Arguments, context: #krate::ToolContext| {
                #shared
                async move {
                    let _ = &context;
                    let #pattern = arguments;
                    #krate::IntoToolOutcome::into_outcome(#called(#receiver #(#passed),*) #wait)
                }
            },
        );
        #finishing
    }
}

/// The name without the mark of a raw identifier.
fn plain(name: &Ident) -> String {
    name.unraw().to_string()
}
