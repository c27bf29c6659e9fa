//! Version 1, frozen: SHA-256 over tagged parts, each behind its length; the body comes last and runs to the end.

use http::header;

use super::{
    FingerprintInput, form,
    json::{self, Pointers},
    media::MediaType,
    multipart,
    sink::Sink,
};

/// What a part is; no two kinds share a tag.
mod tag {
    pub(super) const VERSION: u8 = 1;
    pub(super) const METHOD: u8 = 2;
    pub(super) const PATH: u8 = 3;
    pub(super) const QUERY: u8 = 4;
    pub(super) const MEDIA_TYPE: u8 = 5;
    pub(super) const MEDIA_TYPE_LINE: u8 = 6;
    pub(super) const HEADER: u8 = 7;
    pub(super) const IGNORED: u8 = 8;
    pub(super) const CONTENT_ENCODING: u8 = 9;
    pub(super) const BODY: u8 = 10;
    pub(super) const JSON: u8 = 11;
    pub(super) const NOT_PLAIN_JSON: u8 = 12;
    pub(super) const JSON_IN_OTHER_CHARSET: u8 = 13;
    pub(super) const FORM: u8 = 14;
    pub(super) const MULTIPART: u8 = 15;
}

pub(super) fn digest(input: &FingerprintInput<'_>) -> [u8; 32] {
    let mut sink = Sink::new();
    sink.part(tag::VERSION, &[1]);
    sink.part(tag::METHOD, input.method.as_str().as_bytes());
    sink.part(tag::PATH, input.uri.path().as_bytes());
    query(&mut sink, input);
    let media = MediaType::of(input.headers);
    match &media {
        Some(media) => sink.part(tag::MEDIA_TYPE, &media.essence),
        None => {
            for line in input.headers.get_all(header::CONTENT_TYPE) {
                sink.part(tag::MEDIA_TYPE_LINE, line.as_bytes());
            }
        }
    }
    declared_headers(&mut sink, input);
    ignore_list(&mut sink, input.options.ignore);
    let mut encoded = false;
    for encoding in input.headers.get_all(header::CONTENT_ENCODING) {
        sink.part(tag::CONTENT_ENCODING, encoding.as_bytes());
        encoded = true;
    }
    match &media {
        Some(media) if !encoded => body(&mut sink, media, input),
        _ => raw(&mut sink, tag::BODY, input.body),
    }
    sink.finish()
}

fn query(sink: &mut Sink, input: &FingerprintInput<'_>) {
    let mut pairs = form::sorted_pairs(input.uri.query().unwrap_or_default().as_bytes());
    let ignore = input.options.ignore;
    pairs.retain(|(name, _)| {
        !ignore
            .iter()
            .filter_map(|entry| entry.strip_prefix('?'))
            .any(|ignored| ignored.as_bytes() == &**name)
    });
    sink.byte(tag::QUERY);
    form::write_pairs(sink, &pairs);
}

/// A header that is declared and absent counts as that: adding it later differs.
fn declared_headers(sink: &mut Sink, input: &FingerprintInput<'_>) {
    let mut names: Vec<String> = input
        .options
        .headers
        .iter()
        .map(|name| name.to_ascii_lowercase())
        .collect();
    names.sort_unstable();
    names.dedup();
    for name in &names {
        let values = input.headers.get_all(name.as_str());
        sink.part(tag::HEADER, name.as_bytes());
        sink.number(values.iter().count() as u64);
        for value in values {
            sink.prefixed(value.as_bytes());
        }
    }
}

fn ignore_list(sink: &mut Sink, ignore: &[&str]) {
    let mut entries = ignore.to_vec();
    entries.sort_unstable();
    entries.dedup();
    for entry in entries {
        sink.part(tag::IGNORED, entry.as_bytes());
    }
}

fn body(sink: &mut Sink, media: &MediaType<'_>, input: &FingerprintInput<'_>) {
    if media.is_json() {
        json_body(sink, media, input);
    } else if media.essence == b"application/x-www-form-urlencoded" {
        sink.byte(tag::FORM);
        form::write_pairs(sink, &form::sorted_pairs(input.body));
    } else if media.essence == b"multipart/form-data"
        && let Some(parts) = multipart::parts(media, input.body)
    {
        sink.byte(tag::MULTIPART);
        multipart::write_parts(sink, &parts);
    } else {
        raw(sink, tag::BODY, input.body);
    }
}

fn json_body(sink: &mut Sink, media: &MediaType<'_>, input: &FingerprintInput<'_>) {
    let charsets = media.other_charsets();
    if !charsets.is_empty() {
        // The same bytes in two character sets are two texts, so here the parameter counts.
        sink.byte(tag::JSON_IN_OTHER_CHARSET);
        sink.number(charsets.len() as u64);
        charsets.iter().for_each(|charset| sink.prefixed(charset));
        return sink.bytes(input.body);
    }
    let pointers = Pointers::new(input.options.ignore);
    match json::scan(input.body, &pointers) {
        Some(canonical) => {
            sink.byte(tag::JSON);
            canonical.write(sink);
            canonical.leave_room();
        }
        None => raw(sink, tag::NOT_PLAIN_JSON, input.body),
    }
}

fn raw(sink: &mut Sink, tag: u8, bytes: &[u8]) {
    sink.byte(tag);
    sink.bytes(bytes);
}
