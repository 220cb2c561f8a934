//! Reads server-sent events as the standard says (<https://html.spec.whatwg.org/multipage/server-sent-events.html>).

/// The data of every whole event in `stream`; comments and other fields are left out, as browsers do.
pub fn data(stream: &str) -> Vec<String> {
    let mut events = Vec::new();
    let mut data: Option<String> = None;
    let mut rest = stream.strip_prefix('\u{feff}').unwrap_or(stream);
    while let Some(end) = rest.find(['\r', '\n']) {
        let line = &rest[..end];
        let after = &rest[end..];
        rest = after.strip_prefix("\r\n").unwrap_or(&after[1..]);
        if line.is_empty() {
            events.extend(data.take());
            continue;
        }
        let (field, value) = line.split_once(':').unwrap_or((line, ""));
        if field == "data" {
            let value = value.strip_prefix(' ').unwrap_or(value);
            data = Some(match data {
                Some(lines) => format!("{lines}\n{value}"),
                None => value.to_owned(),
            });
        }
    }
    events
}
