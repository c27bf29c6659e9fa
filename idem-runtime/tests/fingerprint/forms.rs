//! Everything that is not JSON: targets, headers, encodings, forms.

use idem_runtime::fingerprint::{Fingerprint, FingerprintInput, FingerprintOptions};

use crate::requests::Request;

fn multipart(boundary: &str, parts: &[&str]) -> (String, Vec<u8>) {
    let parts: String = parts
        .iter()
        .map(|part| format!("--{boundary}\r\n{part}\r\n"))
        .collect();
    (
        format!("multipart/form-data; boundary={boundary}"),
        format!("{parts}--{boundary}--\r\n").into_bytes(),
    )
}

fn of_parts(boundary: &str, parts: &[&str]) -> Fingerprint {
    let (content_type, body) = multipart(boundary, parts);
    Request::upload(&content_type, &body).fingerprint()
}

const TEXT: &str = "Content-Disposition: form-data; name=\"note\"\r\n\r\nhello";
const FILE: &str = "content-disposition: form-data; filename=\"a.png\"; name=file\r\nContent-Type: Image/PNG\r\n\r\n\r\n--x";

#[test]
fn the_boundary_of_multipart_does_not_count_and_its_parts_do() {
    let both = of_parts("x-1", &[TEXT, FILE]);
    assert_eq!(both, of_parts("another_BOUNDARY", &[TEXT, FILE]));
    let reworded = "Content-Type:image/png\r\nContent-Disposition: Form-Data;name=\"file\";FileName=a.png\r\n\r\n\r\n--x";
    assert_eq!(
        both,
        of_parts("y", &[TEXT, reworded]),
        "order and case of a part's fields say nothing"
    );
    assert_ne!(both, of_parts("y", &[FILE, TEXT]));
    assert_ne!(both, of_parts("y", &[TEXT]));
    for other in [
        FILE.replace("a.png", "b.png"),
        FILE.replace("name=file", "name=files"),
        FILE.replace("Image/PNG", "image/gif"),
        FILE.replace("--x", "--y"),
        FILE.replace("Content-Type: Image/PNG\r\n", ""),
        FILE.replace("Content-Type", "X-Content-Type"),
        FILE.replace("filename=\"a.png\"; ", ""),
    ] {
        assert_ne!(both, of_parts("y", &[TEXT, &other]), "{other}");
    }
    assert_eq!(of_parts("a", &[]), of_parts("b", &[]));
}

#[test]
fn what_is_not_clean_multipart_compares_as_bytes() {
    let (content_type, clean) = multipart("b", &[TEXT]);
    let clean = String::from_utf8(clean).expect("it is text");
    for broken in [
        String::new(),
        "preamble\r\n".to_owned() + &clean,
        clean.clone() + "epilogue",
        clean.replace("--b--", "--b"),
        clean.replace("\r\n", "\n"),
        clean.replace("name=\"note\"", "nickname=\"note\""),
        clean.replace("name=\"note\"", "name=\"note"),
        clean.replace("name=\"note\"", "name=\"note\"; name=\"n\""),
        clean.replace("form-data", "attachment"),
        clean.replace("Content-Disposition", "Content Disposition"),
        clean.replace("hello", "hello\r\n--boundary"),
    ] {
        let renamed = broken.replace("--b", "--c");
        let a = Request::upload(&content_type, broken.as_bytes()).fingerprint();
        let b =
            Request::upload("multipart/form-data; boundary=c", renamed.as_bytes()).fingerprint();
        assert_eq!(a == b, broken == renamed, "{broken}");
    }
    for content_type in [
        "multipart/form-data",
        "multipart/form-data; boundary=\"\"",
        "multipart/form-data; boundary=b; boundary=b",
        "multipart/form-data; boundary=\"b\\\"\"",
        "multipart/form-data; boundary",
        "multipart/mixed; boundary=b",
    ] {
        let spaced = clean.replace("Disposition: ", "Disposition:  ");
        let of = |body: &str| Request::upload(content_type, body.as_bytes()).fingerprint();
        assert_ne!(of(&clean), of(&spaced), "{content_type}");
    }
}

#[test]
fn bytes_of_a_form_that_are_not_text_are_told_apart() {
    let of = |body: &'static str| {
        Request::upload("application/x-www-form-urlencoded", body.as_bytes()).fingerprint()
    };
    assert_ne!(of("a=%FF"), of("a=%FE"));
    assert_ne!(of("a=%FF"), of("a=%EF%BF%BD"));
    assert_eq!(of("a=%c3%a9&"), of("a=%C3%A9"));
    assert_ne!(of("a=b&c=d"), of("a=b%26c=d"));
    assert_ne!(of("a=b%3Dc"), of("a%3Db=c"));
}

#[test]
fn target_and_method_count_but_not_where_the_server_is() {
    let plain = Request::upload("text/plain", b"x");
    let of = |uri: &'static str| {
        Request {
            uri,
            ..plain.clone()
        }
        .fingerprint()
    };
    assert_eq!(
        of("/a/b?x=1&y=2"),
        of("https://example.org:8443/a/b?y=2&x=1")
    );
    assert_eq!(of("/a?x=%31"), of("/a?x=1"));
    assert_eq!(of("/a?"), of("/a"));
    assert_ne!(of("/a?x=1&x=2"), of("/a?x=2&x=1"));
    assert_ne!(of("/a/b"), of("/a%2Fb"));
    assert_ne!(of("/a"), of("/a/"));
    assert_ne!(
        of("/a"),
        Request {
            uri: "/a",
            method: "PUT",
            ..plain.clone()
        }
        .fingerprint()
    );
    assert_ne!(of("/a?b"), of("/a/b"));
}

#[test]
fn an_ignored_query_parameter_does_not_count() {
    let plain = Request {
        ignored: &["?utm_source"],
        ..Request::json("{}")
    };
    let of = |uri: &'static str| {
        Request {
            uri,
            ..plain.clone()
        }
        .fingerprint()
    };
    assert_eq!(of("/a?x=1&utm_source=mail&utm%5Fsource=web"), of("/a?x=1"));
    assert_ne!(of("/a?x=1"), of("/a"));
    assert_ne!(
        of("/a"),
        Request {
            uri: "/a",
            ..Request::json("{}")
        }
        .fingerprint()
    );
    let reordered: [&[&str]; 2] = [&["?a", "/b", "?a"], &["/b", "?a"]];
    let [one, other] = reordered.map(|ignored| {
        Request {
            ignored,
            ..Request::json("{}")
        }
        .fingerprint()
    });
    assert_eq!(one, other, "the list is a set");
}

#[test]
fn declared_headers_count_and_others_do_not() {
    let with = |counted: &'static [&'static str], headers: &[(&'static str, &'static [u8])]| {
        let mut request = Request {
            counted,
            ..Request::json("{}")
        };
        request.headers.extend_from_slice(headers);
        request.fingerprint()
    };
    let tenant: (&str, &[u8]) = ("x-tenant", b"1");
    assert_eq!(
        with(&[], &[tenant, ("user-agent", b"curl")]),
        with(&[], &[("traceparent", b"00-1")])
    );
    assert_eq!(
        with(&["X-Tenant"], &[tenant]),
        with(&["x-tenant", "x-tenant"], &[tenant])
    );
    assert_ne!(
        with(&["x-tenant"], &[tenant]),
        with(&["x-tenant"], &[("x-tenant", b"2")])
    );
    assert_ne!(
        with(&["x-tenant"], &[tenant]),
        with(&["x-tenant"], &[tenant, tenant])
    );
    assert_ne!(
        with(&["x-tenant"], &[("x-tenant", b"")]),
        with(&["x-tenant"], &[])
    );
    assert_ne!(with(&["x-tenant"], &[]), with(&[], &[]));
    let two: [(&str, &[u8]); 2] = [tenant, ("x-tenant", b"\xff")];
    assert_ne!(
        with(&["x-tenant"], &two),
        with(&["x-tenant"], &[two[1], two[0]])
    );
    assert_eq!(with(&["not a name"], &[]), with(&["not a name"], &[tenant]));
}

#[test]
fn an_encoded_body_compares_as_bytes_with_its_encoding() {
    let with = |encoding: &'static [u8], body: &'static str| {
        let mut request = Request::json(body);
        request.headers.push(("content-encoding", encoding));
        request.fingerprint()
    };
    assert_ne!(with(b"gzip", "{}"), with(b"gzip", "{ }"));
    assert_ne!(with(b"gzip", "{}"), with(b"br", "{}"));
    assert_ne!(with(b"gzip", "{}"), Request::json("{}").fingerprint());
}

#[test]
fn the_media_type_counts_and_of_its_parameters_only_another_charset() {
    let of = |content_type: &'static str| Request::upload(content_type, b"{ }").fingerprint();
    assert_eq!(
        of("application/json"),
        of("Application/JSON ; charset=\"UTF-8\"")
    );
    assert_ne!(
        of("application/json"),
        of("application/json; charset=utf-16")
    );
    assert_ne!(
        of("application/json; charset=latin1"),
        of("application/json; charset=utf-16")
    );
    assert_ne!(of("application/json"), of("application/json; charset=\""));
    assert_ne!(of("application/json"), of("application/vnd.api+json"));
    assert_eq!(of("text/plain"), of("text/plain; charset=utf-8"));
    let none = Request {
        headers: vec![],
        ..Request::json("{}")
    };
    let empty = Request {
        headers: vec![("content-type", b"")],
        ..Request::json("{}")
    };
    let two: (&str, &[u8]) = ("content-type", b"application/json");
    let twice = Request {
        headers: vec![two, two],
        ..Request::json("{}")
    };
    assert_ne!(none.fingerprint(), empty.fingerprint());
    assert_ne!(twice.fingerprint(), Request::json("{}").fingerprint());
}

#[test]
fn an_unknown_version_has_no_fingerprint() {
    let (method, uri, headers) = Default::default();
    let input = FingerprintInput {
        method: &method,
        uri: &uri,
        headers: &headers,
        body: b"x",
        options: &FingerprintOptions::default(),
    };
    let current = Fingerprint::compute(&input);
    assert_eq!(current.version(), Fingerprint::CURRENT);
    assert_eq!(Fingerprint::compute_version(1, &input), Some(current));
    assert_eq!(Fingerprint::compute_version(0, &input), None);
    assert_eq!(Fingerprint::compute_version(2, &input), None);
    assert_eq!(
        Fingerprint::from_stored(current.version(), *current.digest()),
        current
    );
    assert!(format!("{current:?}").starts_with("v1:"));
}
