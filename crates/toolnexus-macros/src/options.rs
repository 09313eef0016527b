//! What `#[tool(…)]` may say, on a function and on a parameter.

use proc_macro2::TokenStream;
use quote::quote;
use syn::meta::ParseNestedMeta;
use syn::parse::Parser as _;
use syn::{Attribute, Expr, ExprLit, Lit, LitBool, LitStr, Meta, Path};

/// `#[tool(…)]` on a function.
pub(crate) struct ToolOptions {
    pub(crate) name: Option<String>,
    title: Option<String>,
    description: Option<String>,
    pub(crate) schema: Option<Expr>,
    hints: Vec<(syn::Ident, bool)>,
    pub(crate) krate: Path,
}

impl Default for ToolOptions {
    fn default() -> Self {
        ToolOptions {
            name: None,
            title: None,
            description: None,
            schema: None,
            hints: Vec::new(),
            krate: default_crate(),
        }
    }
}

fn default_crate() -> Path {
    syn::parse_quote!(::toolnexus)
}

const TOOL_KEYS: &str = "`name`, `title`, `description`, `schema`, `read_only`, `destructive`, `open_world`, `idempotent` or `crate`";

impl ToolOptions {
    pub(crate) fn parse(tokens: TokenStream) -> syn::Result<Self> {
        let mut options = ToolOptions::default();
        let parser = syn::meta::parser(|meta| options.take(&meta));
        parser.parse2(tokens)?;
        Ok(options)
    }

    fn take(&mut self, meta: &ParseNestedMeta<'_>) -> syn::Result<()> {
        let key = meta.path.get_ident().map(ToString::to_string).unwrap_or_default();
        match key.as_str() {
            "name" => self.name = Some(text(meta)?),
            "title" => self.title = Some(text(meta)?),
            "description" => self.description = Some(text(meta)?),
            "schema" => self.schema = Some(meta.value()?.parse()?),
            "crate" => self.krate = meta.value()?.parse::<LitStr>()?.parse()?,
            "read_only" | "destructive" | "open_world" | "idempotent" => {
                let on = if meta.input.peek(syn::Token![=]) {
                    meta.value()?.parse::<LitBool>()?.value
                } else {
                    true
                };
                self.hints.push((meta.path.require_ident()?.clone(), on));
            }
            _ => return Err(meta.error(format!("unknown key for #[tool]: use {TOOL_KEYS}"))),
        }
        Ok(())
    }

    /// What the model reads: as said, else the first line of the doc comment.
    pub(crate) fn description(&self, attributes: &[Attribute]) -> String {
        self.description.clone().unwrap_or_else(|| {
            let doc = doc_lines(attributes);
            let first = doc.iter().flat_map(|text| text.lines()).map(str::trim).find(|line| !line.is_empty());
            first.unwrap_or_default().to_owned()
        })
    }

    /// What is said about the tool after it was made.
    pub(crate) fn finishing(&self) -> TokenStream {
        let krate = &self.krate;
        let hints = (!self.hints.is_empty()).then(|| {
            let set = self.hints.iter().map(|(hint, on)| quote!(#hint: #on,));
            quote!(.with_hints(#krate::ToolHints { #(#set)* ..::core::default::Default::default() }))
        });
        let title = self
            .title
            .as_ref()
            .map(|title| quote!(tool.title = ::core::option::Option::Some(#title.into());));
        let mutable = title.is_some().then(|| quote!(mut));
        quote! {
            let #mutable tool = tool #hints;
            #title
            tool
        }
    }
}

/// `#[tools(…)]` on an `impl` block: where `toolnexus` is.
pub(crate) fn block_crate(tokens: TokenStream) -> syn::Result<Path> {
    let mut krate = default_crate();
    let parser = syn::meta::parser(|meta| {
        if !meta.path.is_ident("crate") {
            return Err(
                meta.error("unknown key for #[tools]: use `crate`; a tool's own options go on its method")
            );
        }
        krate = meta.value()?.parse::<LitStr>()?.parse()?;
        Ok(())
    });
    parser.parse2(tokens)?;
    Ok(krate)
}

/// `#[tool(…)]` on a parameter.
#[derive(Default)]
pub(crate) struct ParameterOptions {
    pub(crate) name: Option<String>,
    pub(crate) description: Option<String>,
    pub(crate) default: Option<DefaultValue>,
}

pub(crate) enum DefaultValue {
    /// The type's own.
    OfType,
    Value(Expr),
}

impl ParameterOptions {
    /// Takes the options out of a parameter's attributes.
    pub(crate) fn take_from(attributes: &mut Vec<Attribute>) -> syn::Result<Self> {
        let mut options = ParameterOptions::default();
        for attribute in attributes.extract_if(.., |attribute| is_tool(attribute)) {
            attribute.parse_nested_meta(|meta| options.take(&meta))?;
        }
        Ok(options)
    }

    fn take(&mut self, meta: &ParseNestedMeta<'_>) -> syn::Result<()> {
        let key = meta.path.get_ident().map(ToString::to_string).unwrap_or_default();
        match key.as_str() {
            "name" => self.name = Some(text(meta)?),
            "description" => self.description = Some(text(meta)?),
            "default" if meta.input.peek(syn::Token![=]) => {
                self.default = Some(DefaultValue::Value(meta.value()?.parse()?));
            }
            "default" => self.default = Some(DefaultValue::OfType),
            _ => {
                return Err(meta.error(
                    "unknown key for #[tool] on a parameter: use `name`, `description`, `default` or `default = …`",
                ));
            }
        }
        Ok(())
    }
}

/// Whether an attribute is `#[tool]`, however it is reached.
pub(crate) fn is_tool(attribute: &Attribute) -> bool {
    attribute.path().segments.last().is_some_and(|last| last.ident == "tool")
}

/// The texts of a doc comment, one for each line or block.
fn doc_lines(attributes: &[Attribute]) -> Vec<String> {
    let docs = attributes.iter().filter(|attribute| attribute.path().is_ident("doc"));
    docs.filter_map(|attribute| match &attribute.meta {
        Meta::NameValue(doc) => match &doc.value {
            Expr::Lit(ExprLit { lit: Lit::Str(text), .. }) => Some(text.value()),
            _ => None,
        },
        _ => None,
    })
    .collect()
}

fn text(meta: &ParseNestedMeta<'_>) -> syn::Result<String> {
    Ok(meta.value()?.parse::<LitStr>()?.value())
}
