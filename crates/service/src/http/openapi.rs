//! Parts of the OpenAPI document that operations share.

use crate::http::hex_prefix::HexPrefix;
use crate::http::problem::{BodyErrorResponses, ErrorResponses};
use crate::http::snapshot_interval::{EventsLimit, Interval};
use utoipa::openapi::path::{Operation, Parameter, ParameterBuilder, ParameterIn};
use utoipa::openapi::schema::{AdditionalProperties, SchemaType, Type};
use utoipa::openapi::security::SecurityRequirement;
use utoipa::openapi::{Object, ObjectBuilder, OpenApi, RefOr, Required, Schema};
use utoipa::{IntoResponses, PartialSchema};

use model::openapi::{EVENTS_LIMIT, INTERVAL, VISIBLE, short, text};
use model::{EnvironmentName, Fingerprint, FlowName, TrailName, described};

/// Adds to all operations what they have in common: their error responses, the token, and the parameters of their paths
/// that they do not describe themselves.
pub(crate) fn complete(document: &mut OpenApi) {
    for (path, item) in &mut document.paths.paths {
        let methods = [&mut item.get, &mut item.put, &mut item.post, &mut item.delete, &mut item.patch];
        for operation in methods.into_iter().flatten() {
            add_path_parameters(operation, path);
            let responses = &mut operation.responses.responses;
            responses.append(&mut ErrorResponses::responses());
            if operation.request_body.is_some() {
                responses.append(&mut BodyErrorResponses::responses());
            }
            operation.security = Some(vec![SecurityRequirement::new("token", [""; 0])]);
        }
    }
}

/// Puts the parameters of the path first, in its order.
fn add_path_parameters(operation: &mut Operation, path: &str) {
    let mut described = operation.parameters.take().unwrap_or_default();
    let names = path.split('/').filter_map(|part| part.strip_prefix('{')?.strip_suffix('}'));
    let mut parameters: Vec<_> = names
        .filter_map(|name| {
            let is_it = |known: &RefOr<Parameter>| matches!(known, RefOr::T(known) if known.name == name);
            match described.iter().position(is_it) {
                Some(place) => Some(described.remove(place)),
                None => path_parameter(name).map(RefOr::T),
            }
        })
        .collect();
    parameters.append(&mut described);
    operation.parameters = Some(parameters).filter(|parameters| !parameters.is_empty());
}

fn path_parameter(name: &str) -> Option<Parameter> {
    let (schema, description) = match name {
        "org" => (String::schema(), "Organization"),
        "env_name" => (EnvironmentName::schema(), "Environment"),
        "flow_name" => (FlowName::schema(), "Flow"),
        "trail_name" => (TrailName::schema(), "Trail"),
        "fingerprint" => (Fingerprint::schema(), "Artifact"),
        _ => return None,
    };
    let parameter =
        ParameterBuilder::new().name(name).parameter_in(ParameterIn::Path).required(Required::True);
    Some(parameter.description(Some(description)).schema(Some(schema)).build())
}

/// Values of tags by key, or null.
pub(crate) fn nullable_tags() -> Object {
    let text = short(VISIBLE, 255);
    let value = AdditionalProperties::RefOr(RefOr::T(Schema::Object(text.clone())));
    ObjectBuilder::new()
        .schema_type(SchemaType::from_iter([Type::Object, Type::Null]))
        .property_names(Some(text))
        .additional_properties(Some(value))
        .build()
}

described! {
    Interval => text(INTERVAL).build(),
    EventsLimit => text(EVENTS_LIMIT).build(),
    HexPrefix => text("^[a-fA-F0-9]{5,64}$").build(),
}
