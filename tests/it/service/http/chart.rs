//! Checks the arguments of `serve` in the rendered chart.

use std::collections::BTreeSet;
use std::path::Path;

use serde_json::Value;

use crate::program::supercargo;

#[test]
fn arguments_of_the_chart_are_accepted_by_serve() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/chart");
    let files = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let mut kinds = BTreeSet::new();
    for render in files.filter(|file| file.extension().is_some_and(|end| end == "yaml")) {
        let objects: Vec<Value> =
            serde_saphyr::from_multiple(&std::fs::read_to_string(&render).unwrap()).unwrap();
        for object in &objects {
            let containers =
                object["spec"]["template"]["spec"]["containers"].as_array().into_iter().flatten();
            for container in containers.filter(|container| container["args"][0] == "serve") {
                kinds.insert(object["kind"].as_str().unwrap().to_owned());
                let arguments = container["args"].as_array().unwrap().iter().map(|arg| arg.as_str().unwrap());
                // `--help` exits after the other arguments were parsed.
                let parsed = supercargo().args(arguments).args(["--help"]).run();
                assert_eq!(parsed.code, 0, "{}: {}", render.display(), parsed.stderr);
            }
        }
    }
    assert_eq!(kinds, ["Deployment".to_owned(), "StatefulSet".to_owned()].into());
}
