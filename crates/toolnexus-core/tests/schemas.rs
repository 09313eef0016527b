//! The schemas of argument types.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, dead_code, reason = "tests")]

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use toolnexus_core::{define_typed_tool, schema_of};

/// A place.
#[derive(Serialize, Deserialize, JsonSchema)]
struct Weather {
    /// City
    city: String,
    n: i64,
    unit: Option<String>,
}

// CORE-78, CORE-82, CORE-83, case 70
#[test]
fn a_typed_tool_has_the_schema_of_its_arguments() {
    let tool =
        define_typed_tool::<Weather>("t", "", None, |_args, _context| async move { Ok::<_, String>("") });
    assert_eq!(
        tool.input_schema,
        json!({
            "type": "object",
            "properties": {
                "city": {"type": "string", "description": "City"},
                "n": {"type": "integer"},
                "unit": {"type": "string"},
            },
            "required": ["city", "n"],
            "additionalProperties": false,
        })
    );
    // CORE-87
    let own = json!({"type": "object"});
    let tool = define_typed_tool::<Weather>("t", "", Some(own.clone()), |_args, _context| async move { "" });
    assert_eq!(tool.input_schema, own);
}

#[derive(Deserialize, JsonSchema)]
struct Scalars {
    string: String,
    boxed: Box<str>,
    character: char,
    path: PathBuf,
    i8: i8,
    i16: i16,
    i32: i32,
    i64: i64,
    i128: i128,
    isize: isize,
    u8: u8,
    u16: u16,
    u32: u32,
    u64: u64,
    usize: usize,
    nonzero: std::num::NonZeroU32,
    f32: f32,
    f64: f64,
    bool: bool,
    anything: Value,
}

#[derive(Deserialize, JsonSchema)]
struct Collections {
    vector: Vec<String>,
    deque: VecDeque<u8>,
    boxed: Box<[i64]>,
    array: [f64; 3],
    set: BTreeSet<String>,
    tuple: (String, u8),
    map: HashMap<String, f64>,
    tree: BTreeMap<String, Vec<bool>>,
    nested: Vec<Vec<Weather>>,
    objects: BTreeMap<String, Weather>,
}

/// Colours.
#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
enum Colour {
    DarkRed,
    /// Of leaves
    Green,
    #[serde(rename = "azure")]
    Blue,
}

#[derive(Deserialize, JsonSchema)]
struct Options {
    colour: Option<Colour>,
    /// Where
    place: Option<Box<Weather>>,
    list: Option<Vec<Option<u8>>>,
    twice: Option<Option<bool>>,
    anything: Option<Value>,
    plain: Colour,
}

#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct Attributes {
    #[serde(default)]
    by_default: u8,
    #[serde(default = "seven")]
    by_function: u8,
    #[serde(default)]
    list: Vec<String>,
    #[serde(default)]
    maybe: Option<u8>,
    #[serde(rename = "TYPE")]
    kind: String,
    #[serde(skip)]
    hidden: String,
    /// First line.
    ///
    /// Second paragraph,
    /// in two lines.
    #[schemars(range(min = 1, max = 10))]
    bounded: u8,
    #[schemars(length(min = 2))]
    long: String,
    #[schemars(description = "Said elsewhere", regex(pattern = "^a"))]
    /// Not this
    said: String,
}

const fn seven() -> u8 {
    7
}

#[derive(Deserialize, JsonSchema)]
enum Shape {
    /// Nothing
    Empty,
    Circle(f64),
    Rectangle {
        width: f64,
        height: Option<f64>,
    },
}

#[derive(Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "lowercase")]
enum Tagged {
    Circle { radius: f64 },
    Named(Weather),
    Empty,
}

#[derive(Deserialize, JsonSchema)]
#[serde(untagged)]
enum Untagged {
    Number(f64),
    Text(String),
}

#[derive(Deserialize, JsonSchema)]
struct DataEnums {
    shape: Shape,
    tagged: Tagged,
    untagged: Untagged,
}

#[derive(Deserialize, JsonSchema)]
struct Common {
    /// Page
    page: Option<u32>,
    size: u32,
}

#[derive(Deserialize, JsonSchema)]
struct Flattened {
    query: String,
    #[serde(flatten)]
    common: Common,
}

#[derive(Deserialize, JsonSchema)]
struct FlattenedMap {
    query: String,
    #[serde(flatten)]
    rest: BTreeMap<String, String>,
}

#[derive(Deserialize, JsonSchema)]
struct FlattenedEnum {
    id: u8,
    #[serde(flatten)]
    shape: Tagged,
}

#[derive(Deserialize, JsonSchema)]
struct OnlyFlattenedEnum {
    #[serde(flatten)]
    shape: Tagged,
}

#[derive(Deserialize, JsonSchema)]
struct TwoFlattenedEnums {
    #[serde(flatten)]
    shape: Shape,
    #[serde(flatten)]
    tagged: Tagged,
}

#[derive(Deserialize, JsonSchema)]
struct Tree {
    value: u8,
    children: Vec<Tree>,
    /// Above
    parent: Option<Box<Tree>>,
}

#[derive(Deserialize, JsonSchema)]
struct Even {
    odd: Option<Box<Odd>>,
}

#[derive(Deserialize, JsonSchema)]
struct Odd {
    even: Option<Box<Even>>,
    list: BTreeMap<String, Even>,
}

#[derive(Deserialize, JsonSchema)]
struct NewType(Weather);

#[derive(Deserialize, JsonSchema)]
struct Wraps {
    wrapped: NewType,
    id: Id,
}

/// An id.
#[derive(Deserialize, JsonSchema)]
struct Id(u64);

#[derive(Deserialize, JsonSchema)]
struct Nothing {}

fn shown<T: JsonSchema>() -> String {
    serde_json::to_string_pretty(&schema_of::<T>()).unwrap()
}

macro_rules! golden {
    ($($test:ident: $type:ty,)*) => {$(
        // CORE-82, CORE-83, CORE-84, CORE-85
        #[test]
        fn $test() {
            insta::assert_snapshot!(shown::<$type>());
            let schema = schema_of::<$type>();
            check(&schema, true);
        }
    )*};
}

golden! {
    scalars: Scalars,
    collections: Collections,
    options: Options,
    attributes: Attributes,
    data_enums: DataEnums,
    flattened: Flattened,
    flattened_map: FlattenedMap,
    flattened_enum: FlattenedEnum,
    only_flattened_enum: OnlyFlattenedEnum,
    two_flattened_enums: TwoFlattenedEnums,
    tree: Tree,
    mutual: Even,
    wraps: Wraps,
    nothing: Nothing,
}

/// What holds for every schema, at every depth.
fn check(schema: &Value, root: bool) {
    match schema {
        Value::Object(map) => {
            for gone in ["$schema", "$ref", "$defs", "definitions", "format"] {
                assert!(!map.contains_key(gone), "{gone} in {schema}");
            }
            assert!(!map.get("title").is_some_and(Value::is_string), "title in {schema}");
            if root {
                assert_eq!(map["type"], "object");
            }
            for (key, value) in map {
                if key == "properties" {
                    value.as_object().unwrap().values().for_each(|property| check(property, false));
                } else if key != "default" && key != "enum" {
                    check(value, false);
                }
            }
        }
        Value::Array(list) => list.iter().for_each(|entry| check(entry, false)),
        Value::String(text) => assert_ne!(text, "null", "null as a type"),
        _ => {}
    }
}

// CORE-82: a null argument still reads as None
#[test]
fn null_reads_as_none() {
    let read: Options = serde_json::from_value(json!({"colour": null, "plain": "azure"})).unwrap();
    assert!(read.colour.is_none());
}

// CORE-82: what an option's alternatives leave behind is brought into form too
#[test]
fn an_optional_type_with_a_title_loses_it() {
    #[derive(JsonSchema)]
    #[serde(tag = "kind")]
    #[schemars(title = "Where it is")]
    enum Place {
        City { name: String },
        Home,
    }
    #[derive(JsonSchema)]
    struct Args {
        place: Place,
        other: Option<Place>,
    }
    let schema = schema_of::<Args>();
    assert_eq!(schema["properties"]["other"], schema["properties"]["place"]);
    assert_eq!(schema["properties"]["other"].get("title"), None);
}
