//! `#[tools]` on an `impl` block.

use proc_macro2::TokenStream;
use quote::quote;
use syn::spanned::Spanned as _;
use syn::{Error, FnArg, ImplItem, ImplItemFn, ItemImpl, Meta, Path, Type};

use crate::arguments::{self, Arguments};
use crate::function::maker;
use crate::options::{ToolOptions, block_crate, is_tool};

/// Adds `fn tools`, and frees the marked methods of what is this crate's.
pub(crate) fn expand(attribute: TokenStream, block: &mut ItemImpl) -> syn::Result<TokenStream> {
    let mut errors: Option<Error> = None;
    let mut pushed = Vec::new();
    let krate = block_crate(attribute)?;
    if let Some((_, of, _)) = &block.trait_ {
        return Err(Error::new(
            of.span(),
            "#[tools] goes on an `impl` block of the type itself, not of a trait",
        ));
    }
    for item in &mut block.items {
        let ImplItem::Fn(method) = item else { continue };
        match pushed_tool(method, &krate) {
            Ok(tool) => pushed.extend(tool),
            Err(error) => match &mut errors {
                Some(errors) => errors.combine(error),
                None => errors = Some(error),
            },
        }
    }
    if let Some(errors) = errors {
        return Err(errors);
    }
    let (generics, of, condition) = (&block.generics, &block.self_ty, &block.generics.where_clause);
    Ok(quote! {
        impl #generics #of #condition {
            /// The marked methods as tools, in their order.
            #[must_use]
            #[allow(deprecated)]
            pub fn tools(self: &::std::sync::Arc<Self>) -> ::std::vec::Vec<#krate::Tool> {
                let mut tools = ::std::vec::Vec::new();
                #(#pushed)*
                tools
            }
        }
    })
}

/// The statement that adds the method's tool, if it is marked.
fn pushed_tool(method: &mut ImplItemFn, krate: &Path) -> syn::Result<Option<TokenStream>> {
    let marks: Vec<_> = method.attrs.extract_if(.., |attribute| is_tool(attribute)).collect();
    let Some(mark) = marks.first() else { return Ok(None) };
    let options = match &mark.meta {
        Meta::Path(_) => Ok(ToolOptions::default()),
        Meta::List(list) => ToolOptions::parse(list.tokens.clone()),
        Meta::NameValue(_) => Err(Error::new(mark.span(), "write `#[tool]` or `#[tool(key = …)]`")),
    };
    let described = options.as_ref().is_ok_and(|options| options.schema.is_none());
    let arguments = Arguments::take_from(&mut method.sig.inputs, described);
    let (mut options, arguments) = (options?, arguments?);
    options.krate = krate.clone();
    arguments::check(&method.sig)?;
    let receiver = receiver(method)?;
    let name = &method.sig.ident;
    let maker =
        maker(&options, &method.attrs, &method.sig, &arguments, &quote!(Self::#name), receiver.as_ref());
    let conditions = method.attrs.iter().filter(|attribute| attribute.path().is_ident("cfg"));
    Ok(Some(quote! {
        #(#conditions)*
        {
            let this = ::std::sync::Arc::clone(self);
            tools.push({ #maker });
        }
    }))
}

/// How the method gets its `self` out of `this`, an `Arc`; `None` if it takes none.
fn receiver(method: &ImplItemFn) -> syn::Result<Option<TokenStream>> {
    let Some(FnArg::Receiver(receiver)) = method.sig.inputs.first() else { return Ok(None) };
    let is_arc = |of: &Type| matches!(of, Type::Path(path) if path.path.segments.last().is_some_and(|last| last.ident == "Arc"));
    match &*receiver.ty {
        Type::Reference(reference) if reference.mutability.is_none() => Ok(Some(quote!(&this))),
        of if is_arc(of) => Ok(Some(quote!(::std::sync::Arc::clone(&this)))),
        Type::Reference(_) => Err(Error::new(
            receiver.span(),
            "a tool cannot take `&mut self`, since calls run side by side: take `&self` and keep what changes in a `Mutex`",
        )),
        _ => Err(Error::new(
            receiver.span(),
            "a tool cannot take `self`, since it is called many times: take `&self` or `self: Arc<Self>`",
        )),
    }
}
