//! Calls as parameters in tags: each value by its type.

use serde_json::Value;

use super::calls::{Calls, one_of, repeated};
use super::lark::Lark;
use crate::shapes::Params;
use crate::tool::{Kind, Tool, kind_of, resolve};

pub(super) fn calls(lark: &mut Lark, params: &Params, tools: &[&Tool], parallel: bool) -> Calls {
    let written = &params.written;
    let call = one_of(lark, tools, |lark, tool| call(lark, params, tool));
    let Some(opener) = params.open.first() else {
        return Calls::each_opened(lark, params.call, &call, written.separator, parallel);
    };
    let (open, after_call) = (lark.literal(&format!("{}{}", written.after_open, params.call)), written.after_call);
    let close = lark.literal(&format!("{after_call}{}", params.close));
    if written.one_call {
        return Calls::each_opened(lark, opener, &format!("{open} {call} {close}"), written.separator, parallel);
    }
    let more = format!("{after_call}{}", params.call);
    Calls { opener, rest: format!("{open} {} {close}", repeated(lark, &call, &more, parallel)), begins: Vec::new() }
}

/// A call after its opening tag.
fn call(lark: &mut Lark, params: &Params, tool: &Tool) -> String {
    let written = &params.written;
    // A line break after a name is part of the white space.
    let name_end = if params.name_end == "\n" { "" } else { params.name_end };
    let name = lark.literal(&tool.name);
    let attributes = lark.bits(written.name_attributes);
    let open = lark.literal(&format!("{name_end}{}", written.after_name));
    let values: Vec<_> = members(tool)
        .into_iter()
        .map(|member| {
            let value = parameter(lark, params, tool, &member);
            if member.required { value } else { format!("({value})?") }
        })
        .collect();
    let end = format!("{}{}", written.before_call_end, params.call_end);
    format!("{name} {attributes} {open} {} {}", values.join(" "), lark.literal(&end))
}

fn parameter(lark: &mut Lark, params: &Params, tool: &Tool, member: &Member) -> String {
    let (written, kind) = (&params.written, kind_of(member.schema, &tool.parameters));
    let as_text = kind != Kind::NoText;
    let attributes = lark.bits(if as_text { written.text_attributes } else { written.other_attributes });
    let key = lark.literal(&format!("{}{}", params.key, member.key));
    let pad = if params.padded { "\n" } else { "" };
    let open = lark.literal(&format!("{}{}{}{pad}", params.key_end, written.after_key, params.value));
    let end = format!("{pad}{}", params.value_end);
    let value = match texts(member.schema, &tool.parameters) {
        Some(texts) => {
            let texts: Vec<_> = texts.into_iter().map(|text| lark.literal(text)).collect();
            format!("({}) {}", texts.join(" | "), lark.literal(&end))
        }
        None if as_text => lark.until(&end),
        // As templates in Python print them, too.
        None if resolve(member.schema, &tool.parameters).get("type").is_some_and(|name| name == "boolean") => {
            format!("(\"true\" | \"false\" | \"True\" | \"False\") {}", lark.literal(&end))
        }
        None => format!("{} {}", lark.json(&part(member.schema, &tool.parameters)), lark.literal(&end)),
    };
    lark.rule(&format!("{key} {attributes} {open} {value} {}", lark.literal(written.after_value)))
}

/// A parameter of a tool.
pub(super) struct Member<'a> {
    pub key: &'a str,
    pub schema: &'a Value,
    pub required: bool,
}

/// The parameters, in the order of the schema.
pub(super) fn members(tool: &Tool) -> Vec<Member<'_>> {
    let required = tool.parameters.get("required").and_then(Value::as_array);
    let is_required = |key: &str| required.is_some_and(|required| required.iter().any(|name| name == key));
    let properties = tool.parameters.get("properties").and_then(Value::as_object);
    let member = |(key, schema)| Member { key, schema, required: is_required(key) };
    properties.into_iter().flatten().map(|(key, schema)| member((key.as_str(), schema))).collect()
}

/// The texts that are allowed, where a schema names them all.
pub(super) fn texts<'a>(schema: &'a Value, root: &'a Value) -> Option<Vec<&'a str>> {
    let values = resolve(schema, root).get("enum")?.as_array()?;
    let texts: Option<Vec<_>> = values.iter().map(Value::as_str).collect();
    texts.filter(|texts| !texts.is_empty() && texts.iter().all(|text| !text.is_empty()))
}

/// A part of a schema that stands alone: with the definitions that it may refer to.
fn part(schema: &Value, root: &Value) -> Value {
    let mut part = schema.clone();
    for definitions in ["$defs", "definitions"] {
        if let (Some(part), Some(found)) = (part.as_object_mut(), root.get(definitions)) {
            part.entry(definitions).or_insert_with(|| found.clone());
        }
    }
    part
}
