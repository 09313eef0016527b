//! The parameters of a function as a struct that serde and schemars know.

use proc_macro2::TokenStream;
use quote::{format_ident, quote};
use syn::punctuated::Punctuated;
use syn::spanned::Spanned as _;
use syn::{Attribute, Error, Expr, ExprLit, FnArg, Ident, Lit, Pat, Path, Signature, Token, Type};

use crate::options::{DefaultValue, ParameterOptions};

/// What a function takes, `self` aside.
#[derive(Default)]
pub(crate) struct Arguments {
    /// Fields of the argument struct.
    fields: Vec<TokenStream>,
    names: Vec<Ident>,
    /// Functions that give default values.
    defaults: Vec<TokenStream>,
    has_context: bool,
    /// Whether the struct describes itself, which takes attributes that exist only then.
    described: bool,
    /// What the function is called with, in its order.
    pub(crate) passed: Vec<TokenStream>,
}

/// Refuses a function that no model could call.
pub(crate) fn check(signature: &Signature) -> syn::Result<()> {
    let refuse = |span, why: &str| Err(Error::new(span, why));
    if !signature.generics.params.is_empty() || signature.generics.where_clause.is_some() {
        return refuse(
            signature.generics.span(),
            "a tool cannot be generic, since a model calls it with JSON: use concrete types",
        );
    }
    if signature.unsafety.is_some() {
        return refuse(signature.unsafety.span(), "a tool cannot be `unsafe`: anybody may call it");
    }
    if signature.variadic.is_some() {
        return refuse(signature.variadic.span(), "a tool cannot be variadic: take a `Vec`");
    }
    Ok(())
}

impl Arguments {
    /// Reads the parameters, and takes out of them what is meant for this crate.
    pub(crate) fn take_from(inputs: &mut Punctuated<FnArg, Token![,]>, described: bool) -> syn::Result<Self> {
        let mut arguments = Arguments { described, ..Arguments::default() };
        let mut errors: Option<Error> = None;
        for input in inputs {
            let FnArg::Typed(parameter) = input else { continue };
            let mut attributes = std::mem::take(&mut parameter.attrs);
            let options = ParameterOptions::take_from(&mut attributes);
            // What a function's parameter may not carry goes to the field.
            let (field, kept) = attributes.into_iter().partition(belongs_to_field);
            parameter.attrs = kept;
            let taken =
                options.and_then(|options| arguments.add(&parameter.pat, &parameter.ty, field, options));
            if let Err(error) = taken {
                match &mut errors {
                    Some(errors) => errors.combine(error),
                    None => errors = Some(error),
                }
            }
        }
        errors.map_or(Ok(arguments), Err)
    }

    fn add(
        &mut self,
        pattern: &Pat,
        of: &Type,
        attributes: Vec<Attribute>,
        options: ParameterOptions,
    ) -> syn::Result<()> {
        if is_context(of) {
            if std::mem::replace(&mut self.has_context, true) {
                return Err(Error::new(of.span(), "a call has one context: take one `ToolContext`"));
            }
            self.passed.push(quote!(context));
            return Ok(());
        }
        check_type(of)?;
        let Pat::Ident(named) = pattern else {
            return Err(Error::new(
                pattern.span(),
                "a tool's parameter needs a name, which the model uses: write `name: Type` and take it apart in the body",
            ));
        };
        let name = &named.ident;
        let rename = options.name.map(|name| quote!(#[serde(rename = #name)]));
        let description = options
            .description
            .filter(|_| self.described)
            .map(|text| quote!(#[schemars(description = #text)]));
        let default = options.default.map(|default| match default {
            DefaultValue::OfType => quote!(#[serde(default)]),
            DefaultValue::Value(value) => {
                let function = format_ident!("__default_{}", self.names.len());
                // Text is a `&str`, which an argument never is.
                let value = match value {
                    Expr::Lit(ExprLit { lit: Lit::Str(text), .. }) => {
                        quote!(::core::convert::Into::into(#text))
                    }
                    other => quote!(#other),
                };
                self.defaults.push(quote!(fn #function() -> #of { #value }));
                let path = function.to_string();
                quote!(#[serde(default = #path)])
            }
        });
        let attributes =
            attributes.iter().filter(|attribute| self.described || !attribute.path().is_ident("schemars"));
        self.fields.push(quote!(#(#attributes)* #rename #description #default #name: #of,));
        self.names.push(name.clone());
        self.passed.push(quote!(#name));
        Ok(())
    }

    /// The struct, and the functions that its defaults come from.
    pub(crate) fn definition(&self, krate: &Path) -> TokenStream {
        let (fields, defaults) = (&self.fields, &self.defaults);
        let private = quote!(#krate::__private).to_string().replace(' ', "");
        let (serde, schemars) = (format!("{private}::serde"), format!("{private}::schemars"));
        let (schema, schema_crate) = if self.described {
            (
                Some(quote!(, #krate::__private::schemars::JsonSchema)),
                Some(quote!(#[schemars(crate = #schemars)])),
            )
        } else {
            (None, None)
        };
        quote! {
            #(#defaults)*
            #[derive(#krate::__private::serde::Deserialize #schema)]
            #[serde(crate = #serde)]
            #schema_crate
            struct __Arguments { #(#fields)* }
        }
    }

    /// The pattern that takes the struct apart.
    pub(crate) fn pattern(&self) -> TokenStream {
        let names = &self.names;
        quote!(__Arguments { #(#names),* })
    }
}

fn belongs_to_field(attribute: &Attribute) -> bool {
    ["doc", "serde", "schemars"].iter().any(|name| attribute.path().is_ident(name))
}

/// Whether a parameter is the call's context, however its type is reached.
fn is_context(of: &Type) -> bool {
    matches!(of, Type::Path(path) if path.path.segments.last().is_some_and(|last| last.ident == "ToolContext"))
}

fn check_type(of: &Type) -> syn::Result<()> {
    let why = match of {
        Type::Reference(reference) if is_context(&reference.elem) => {
            "take the context by value: `ToolContext`".to_owned()
        }
        Type::Reference(reference) => {
            let owned = match &*reference.elem {
                Type::Path(path) if path.path.is_ident("str") => "`String`",
                Type::Path(path) if path.path.is_ident("Path") => "`PathBuf`",
                Type::Slice(_) => "a `Vec`",
                _ => "the type itself",
            };
            format!("a tool's argument must own its data, since it is read from JSON: use {owned}")
        }
        Type::ImplTrait(_) => {
            "a tool's argument needs a concrete type, since it is read from JSON".to_owned()
        }
        _ => return Ok(()),
    };
    Err(Error::new(of.span(), why))
}
