//! Encodes the JSON of a pod as protobuf, by the field numbers of Kubernetes (`k8s.io/api/core/v1/generated.proto`).
//!
//! Knows only the fields that `pods` writes and panics at others. Shares no code with the program's decoder.

use serde_json::Value;

use super::replica_set::CREATED;
use crate::fake::pods::Message;

/// Type of a field.
pub enum Kind {
    Text,
    /// A number or a boolean.
    Number,
    /// `metav1.Time`.
    Time,
    Message(Fields),
    /// A message wrapped in another one, which JSON omits.
    Inside(u8, Fields),
    /// A map of strings.
    Texts,
    /// A map of quantities.
    Quantities,
    /// JSON text (`FieldsV1`).
    Raw,
    /// `intstr.IntOrString` with a number.
    Port,
    /// A `LocalObjectReference`, which JSON omits.
    Name,
}

/// Keys with their field numbers and types. A list is encoded as a repeated field.
pub type Fields = &'static [(&'static str, u8, Kind)];

use Kind::{Inside, Message as Of, Name, Number, Port, Quantities, Raw, Text, Texts, Time};

const OWNER: Fields = &[
    ("kind", 1, Text),
    ("name", 3, Text),
    ("uid", 4, Text),
    ("apiVersion", 5, Text),
    ("controller", 6, Number),
    ("blockOwnerDeletion", 7, Number),
];
const MANAGED: Fields = &[
    ("manager", 1, Text),
    ("operation", 2, Text),
    ("apiVersion", 3, Text),
    ("time", 4, Time),
    ("fieldsType", 6, Text),
    ("fieldsV1", 7, Raw),
];
const METADATA: Fields = &[
    ("name", 1, Text),
    ("generateName", 2, Text),
    ("namespace", 3, Text),
    ("uid", 5, Text),
    ("resourceVersion", 6, Text),
    ("generation", 7, Number),
    ("creationTimestamp", 8, Time),
    ("labels", 11, Texts),
    ("annotations", 12, Texts),
    ("ownerReferences", 13, Of(OWNER)),
    ("managedFields", 17, Of(MANAGED)),
];
const GET: Fields = &[("path", 1, Text), ("port", 2, Port), ("scheme", 4, Text)];
const PROBE: Fields = &[
    ("httpGet", 1, Inside(2, GET)),
    ("initialDelaySeconds", 2, Number),
    ("timeoutSeconds", 3, Number),
    ("periodSeconds", 4, Number),
    ("successThreshold", 5, Number),
    ("failureThreshold", 6, Number),
];
const CONTAINER: Fields = &[
    ("name", 1, Text),
    ("image", 2, Text),
    ("args", 4, Text),
    ("ports", 6, Of(&[("name", 1, Text), ("containerPort", 3, Number), ("protocol", 4, Text)])),
    ("env", 7, Of(&[("name", 1, Text), ("value", 2, Text)])),
    ("resources", 8, Of(&[("limits", 1, Quantities), ("requests", 2, Quantities)])),
    ("volumeMounts", 9, Of(&[("name", 1, Text), ("readOnly", 2, Number), ("mountPath", 3, Text)])),
    ("livenessProbe", 10, Of(PROBE)),
    ("readinessProbe", 11, Of(PROBE)),
    ("terminationMessagePath", 13, Text),
    ("imagePullPolicy", 14, Text),
    ("terminationMessagePolicy", 20, Text),
];
const VOLUME: Fields = &[
    ("name", 1, Text),
    ("emptyDir", 2, Inside(2, &[])),
    ("secret", 2, Inside(6, &[("secretName", 1, Text), ("defaultMode", 3, Number)])),
    ("configMap", 2, Inside(19, &[("name", 1, Name), ("defaultMode", 3, Number)])),
];
const TOLERATION: Fields =
    &[("key", 1, Text), ("operator", 2, Text), ("effect", 4, Text), ("tolerationSeconds", 5, Number)];
const SPEC: Fields = &[
    ("volumes", 1, Of(VOLUME)),
    ("containers", 2, Of(CONTAINER)),
    ("restartPolicy", 3, Text),
    ("terminationGracePeriodSeconds", 4, Number),
    ("dnsPolicy", 6, Text),
    ("nodeSelector", 7, Texts),
    ("serviceAccountName", 8, Text),
    ("serviceAccount", 9, Text),
    ("nodeName", 10, Text),
    ("securityContext", 14, Of(&[])),
    ("schedulerName", 19, Text),
    ("tolerations", 22, Of(TOLERATION)),
    ("priority", 25, Number),
    ("enableServiceLinks", 30, Number),
    ("preemptionPolicy", 31, Text),
];
const CONDITION: Fields =
    &[("type", 1, Text), ("status", 2, Text), ("lastProbeTime", 3, Time), ("lastTransitionTime", 4, Time)];
const STATE: Fields = &[("running", 2, Of(&[("startedAt", 1, Time)]))];
const CONTAINER_STATUS: Fields = &[
    ("name", 1, Text),
    ("state", 2, Of(STATE)),
    ("lastState", 3, Of(STATE)),
    ("ready", 4, Number),
    ("restartCount", 5, Number),
    ("image", 6, Text),
    ("imageID", 7, Text),
    ("containerID", 8, Text),
    ("started", 9, Number),
];
const STATUS: Fields = &[
    ("phase", 1, Text),
    ("conditions", 2, Of(CONDITION)),
    ("hostIP", 5, Text),
    ("podIP", 6, Text),
    ("startTime", 7, Time),
    ("containerStatuses", 8, Of(CONTAINER_STATUS)),
    ("qosClass", 9, Text),
    ("podIPs", 12, Of(&[("ip", 1, Text)])),
];
const POD: Fields = &[("metadata", 1, Of(METADATA)), ("spec", 2, Of(SPEC)), ("status", 3, Of(STATUS))];

/// Encodes a pod, without its envelope.
pub fn pod(json: &Value) -> Vec<u8> {
    message(json, POD).encoded().to_vec()
}

fn message(json: &Value, fields: Fields) -> Message {
    let object = json.as_object().unwrap();
    for key in object.keys() {
        assert!(fields.iter().any(|(name, _, _)| name == key), "{key} is not in the schema");
    }
    let mut to = Message::default();
    for (name, number, kind) in fields {
        match object.get(*name) {
            None => {}
            Some(Value::Array(items)) => {
                to = items.iter().fold(to, |to, item| field(to, *number, kind, item));
            }
            Some(value) => to = field(to, *number, kind, value),
        }
    }
    to
}

fn field(to: Message, number: u8, kind: &Kind, value: &Value) -> Message {
    match kind {
        Text => to.text(number, value.as_str().unwrap()),
        Number => {
            let as_bool = value.as_bool().map(u64::from);
            to.number(number, as_bool.or_else(|| value.as_u64()).unwrap())
        }
        // Only the length of the encoded time matters.
        Time if value.is_null() => to.message(number, &Message::default()),
        Time => to.message(number, &Message::default().number(1, CREATED.unsigned_abs()).number(2, 0)),
        Of(fields) => to.message(number, &message(value, fields)),
        Inside(inner, fields) => {
            to.message(number, &Message::default().message(*inner, &message(value, fields)))
        }
        Texts => value.as_object().unwrap().iter().fold(to, |to, (key, value)| {
            to.message(number, &Message::default().text(1, key).text(2, value.as_str().unwrap()))
        }),
        Quantities => value.as_object().unwrap().iter().fold(to, |to, (key, value)| {
            let quantity = Message::default().text(1, value.as_str().unwrap());
            to.message(number, &Message::default().text(1, key).message(2, &quantity))
        }),
        Raw => to.message(number, &Message::default().text(1, &value.to_string())),
        Name => to.message(number, &Message::default().text(1, value.as_str().unwrap())),
        Port => to.message(number, &Message::default().number(1, 0).number(2, value.as_u64().unwrap())),
    }
}
