//! Rows of a database: its columns say what their cells are.

use serde_json::{Map, Value};

use super::fields::Fields;
use super::{Renderer, ResultView};

/// `database_query`. Writes nothing: the plain output is the view, and now its ids are known.
pub(super) struct DatabaseQuery;

impl Renderer for DatabaseQuery {
    fn render(&self, context: &Map<String, Value>, view: &mut ResultView<'_>) {
        for row in Fields(context).rows("rows") {
            for (column, cell) in row.0 {
                if let Value::String(cell) = cell {
                    view.registry().register_member(column, cell, view.evidence());
                }
            }
        }
    }
}
