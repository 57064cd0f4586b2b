//! The form with a template file, which creates flows and begins trails.

use crate::http::form::{File, Parts};
use crate::http::problem::Problem;
use model::escape::{Escaped, shortened};
use model::yaml::{self, YamlError};
use model::{TemplateBody, TemplateFile};
use runtime::error_causes;

/// The name of the JSON part.
pub(crate) const DATA: &str = "data_json";

const FILE: &str = "template_file";

/// Maximum length of an error of the parser, in characters.
const MAX_ERROR_CHARS: usize = 300;

/// The parts of the form. Each response about a trail repeats its template.
pub(crate) const PARTS: Parts = Parts { data: DATA, file: FILE, max_file: 64 * 1024 };

pub(crate) fn read(file: &File) -> Result<TemplateBody, Problem> {
    if yaml::is_empty(&file.content) {
        return Err(Problem::field(FILE, "the file is empty: expected YAML with version: 1"));
    }
    let template: TemplateFile = yaml::read(&file.content).map_err(|YamlError { path, source }| {
        let why = format!("{path}: {}", error_causes::describe(&*source));
        Problem::field(FILE, &Escaped(&shortened(&why, MAX_ERROR_CHARS)))
    })?;
    template.into_body().map_err(|error| Problem::field(FILE, &error))
}
